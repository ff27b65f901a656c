"""What a search among versions found, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sandbox_bisect import Bisection, LookAt
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.rows import Rows, paragraph, path, steps
from vllm_forensics.render.sandbox_diff import WHAT
from vllm_forensics.render.sandbox_diff_wire import DifferenceWire, difference_wire
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_LABEL_WIDTH: Final = 7


def render_bisection(found: Bisection, style: TerminalStyle) -> str:
    """The search as text. Every string must have been cleaned."""
    return render_parts(_parts(found, style), style)


def _parts(found: Bisection, style: TerminalStyle) -> Iterator[RenderableType]:
    yield paragraph(_headline(found), style.width)
    yield Text()
    rows = Rows(gap=2, widest=style.width)
    for place, trial in enumerate(found.trials):
        text = trial.behaviour or f"skipped: {trial.skipped}"
        mark = "mark" if trial.changed else "quiet" if trial.behaviour is None else ""
        # A run that only decides otherwise may end in the same way.
        otherwise = trial.changed and found.look_at is not LookAt.OUTCOME
        rows.add_row(
            Text("  tried" if place == 0 else "", style="quiet"),
            Text(trial.version),
            Text(f"{text} · decides otherwise" if otherwise else text, style=mark),
        )
    yield rows
    yield Text()
    yield from _what_changed(found, style)


def _headline(found: Bisection) -> Text:
    if found.changed_in is None:
        return Text.assemble(
            ("no change", "good"),
            f"   from {found.versions[0]} to {found.versions[-1]}: the versions at both ends that "
            "can be driven behave alike",
        )
    if found.between:
        return Text.assemble(
            (f"changed after {found.before}", "mark"),
            f"   and in {found.changed_in} at the latest: {', '.join(found.between)} cannot be "
            "driven",
        )
    first = next(trial.version for trial in found.trials if trial.behaviour is not None)
    still = "behaves otherwise" if found.before == first else f"still behaves as {first}"
    return Text.assemble((f"changed in {found.changed_in}", "mark"), f"   {found.before} {still}")


def _what_changed(found: Bisection, style: TerminalStyle) -> Iterator[RenderableType]:
    table = Rows(gap=2, widest=style.width)
    apart = found.difference
    if apart is not None:
        whose = "" if apart.request is None else f": request {apart.request}"
        rows = [
            ("they part", f"at step {apart.step}: {WHAT[apart.kind]}{whose}"),
            (str(found.before), apart.left),
            (str(found.changed_in), apart.right),
        ]
        if apart.why is not None:
            rows.append(("why", apart.why))
        for name, text in rows:
            table.add_row(Text(f"  {name}", style="quiet"), Text(text))
    tried = sum(trial.behaviour is not None for trial in found.trials)
    files = [trial.file for trial in found.trials if trial.file is not None]
    table.add_row(
        Text("  in all", style="quiet"),
        Text(f"{tried} of {len(found.versions)} versions driven, such as ") + path(files[-1]),
    )
    yield table
    if found.changed_in is None and found.look_at is not LookAt.ORDER:
        finer = "decisions" if found.look_at is LookAt.OUTCOME else "order"
        yield Text()
        yield steps([f"look closer: --look-at {finer}"], _LABEL_WIDTH)
    elif found.changed_in is not None:
        yield Text()
        pair = f"vllm={found.before} vllm={found.changed_in}"
        yield steps([f"both side by side: forensics sandbox diff … {pair}"], _LABEL_WIDTH)


class TrialWire(msgspec.Struct, frozen=True, kw_only=True):
    """One version that was tried; `behaviour` null: it could not be driven."""

    version: str
    behaviour: str | None
    changed: bool
    file: str | None
    skipped: str | None


class BisectWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics sandbox bisect --format json`."""

    schema: Literal["forensics.sandbox_bisect/1"]
    look_at: Literal["outcome", "decisions", "order"]
    versions: list[str]
    trials: list[TrialWire]
    before: str | None
    changed_in: str | None
    between: list[str]
    difference: DifferenceWire | None


def render_bisection_json(found: Bisection) -> str:
    """The search as JSON, ending in a newline. Strings must have been cleaned."""
    return json_text(
        BisectWire(
            schema="forensics.sandbox_bisect/1",
            look_at=found.look_at.value,
            versions=list(found.versions),
            trials=[
                TrialWire(
                    version=trial.version,
                    behaviour=trial.behaviour,
                    changed=trial.changed,
                    file=trial.file,
                    skipped=trial.skipped,
                )
                for trial in found.trials
            ],
            before=found.before,
            changed_in=found.changed_in,
            between=list(found.between),
            difference=difference_wire(found.difference) if found.difference else None,
        )
    )


def schema() -> dict[str, Any]:
    """The JSON schema of the answer."""
    return msgspec.json.schema(BisectWire)
