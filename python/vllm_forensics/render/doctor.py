"""The doctor's and setup's answers, for a person and for a script."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.machine import Checkup, Verdict
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_MARKS: Final = {
    Verdict.GOOD: ("✔", "good"),
    Verdict.WARNING: ("!", "caution"),
    Verdict.BAD: ("✖", "mark"),
}


class CheckWire(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, judged."""

    name: str
    verdict: Literal["good", "warning", "bad"]
    found: str
    remedy: str


class ProofWire(msgspec.Struct, frozen=True, kw_only=True):
    """What a child that crashed on purpose left."""

    captured: bool
    how: str
    core: str | None
    core_bytes: int | None


class CheckupWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics doctor --format json`."""

    schema: Literal["forensics.doctor/1"]
    ready: bool
    checks: list[CheckWire]
    proof: ProofWire


def render_checkup(checkup: Checkup, style: TerminalStyle) -> str:
    """One line a check, the remedy below it; the proof last."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=90)
    for check in checkup.checks:
        mark, color = _MARKS[check.verdict]
        text = Text(check.found)
        if check.remedy:
            text.append(f"\n→ {check.remedy}", style="quiet")
        table.add_row(Text(mark, style=color), check.name, text)
    proof = checkup.proof
    verdict = (
        Text("Cores are written here: ", style="good")
        if proof.captured
        else Text("No core here: ", style="mark")
    )
    verdict.append(proof.how, style="none")
    if proof.core:
        verdict.append(f" ({proof.core}, {(proof.core_bytes or 0) / 1e6:.1f} MB)", style="none")
    ending = Table.grid()
    ending.add_column(overflow="fold", max_width=110)
    ending.add_row(verdict)
    return render_parts([table, Text(), ending], style)


def render_checkup_json(checkup: Checkup) -> str:
    """The checkup as JSON, ending in a newline."""
    proof = checkup.proof
    wire = CheckupWire(
        schema="forensics.doctor/1",
        ready=checkup.is_ready,
        checks=[
            CheckWire(
                name=check.name,
                verdict=check.verdict.value,
                found=check.found,
                remedy=check.remedy,
            )
            for check in checkup.checks
        ],
        proof=ProofWire(
            captured=proof.captured, how=proof.how, core=proof.core, core_bytes=proof.core_bytes
        ),
    )
    return msgspec.json.format(msgspec.json.encode(wire), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema of the checkup."""
    return msgspec.json.schema(CheckupWire)
