"""The doctor's and setup's answers, for a person and for a script."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from rich.text import Text

from vllm_forensics.model.machine import CaptureProof, Checkup, Verdict
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.rows import Rows, advice, paragraph, path
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
    supervised: ProofWire


def render_checkup(checkup: Checkup, style: TerminalStyle) -> str:
    """One line a check, the remedy below it; the proof last."""
    table = Rows(gap=1)
    for check in checkup.checks:
        mark, color = _MARKS[check.verdict]
        table.add_row(Text(mark, style=color), check.name, check.found)
        if check.remedy:
            table.add_row("", "", advice(f"→ {check.remedy}", style="quiet"))
    endings = (
        _verdict(checkup.proof, "Cores are written here: ", "No core here: "),
        _verdict(checkup.supervised, "forensics run works here: ", "forensics run fails here: "),
    )
    return render_parts([table, Text(), *map(paragraph, endings)], style)


def _verdict(proof: CaptureProof, good: str, bad: str) -> Text:
    verdict = Text(good, style="good") if proof.captured else Text(bad, style="mark")
    verdict.append(proof.how, style="none")
    if proof.core:
        verdict.append(" (").append_text(path(proof.core))
        verdict.append(f", {(proof.core_bytes or 0) / 1e6:.1f} MB)", style="none")
    return verdict


def _proof(proof: CaptureProof) -> ProofWire:
    return ProofWire(
        captured=proof.captured, how=proof.how, core=proof.core, core_bytes=proof.core_bytes
    )


def render_checkup_json(checkup: Checkup) -> str:
    """The checkup as JSON, ending in a newline."""
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
        proof=_proof(checkup.proof),
        supervised=_proof(checkup.supervised),
    )
    return json_text(wire)


def schema() -> dict[str, Any]:
    """The JSON schema of the checkup."""
    return msgspec.json.schema(CheckupWire)
