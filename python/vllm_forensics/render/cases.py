"""The store of cases for a person, and as JSON (forensics.cases/1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.cases import Case, CaseListing
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.moments import day, utc
from vllm_forensics.render.rows import Cell, Rows, command, labelled, path
from vllm_forensics.render.terminal import TerminalStyle, render_parts
from vllm_forensics.render.wire import PartWire

_MAX_CORES: Final = 10
_LABEL_WIDTH: Final = 9


class BuildWire(msgspec.Struct, frozen=True, kw_only=True):
    """One build of a module of the user's own."""

    module: str
    build_id: str


class CaseCoreWire(msgspec.Struct, frozen=True, kw_only=True):
    """A core that was counted."""

    path: str
    host: str
    seen: str


class CaseWire(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of one signature; `cores` and `example` are null in a listing."""

    signature: str
    count: int
    first: str | None
    """In UTC: 2026-11-29T08:00:00Z; when a core was written."""
    last: str | None
    note: str | None
    parts: list[PartWire]
    hosts: list[str]
    builds: list[BuildWire]
    cores: list[CaseCoreWire] | None
    example: dict[str, Any] | None
    """One crash as `forensics core --format json` shows it, its crashing thread alone."""


class CasesWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics cases list|show|export --format json`."""

    schema: Literal["forensics.cases/1"]
    store: str
    cases: list[CaseWire]


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.cases.1.json holds."""
    return msgspec.json.schema(CasesWire)


def render_cases_json(listing: CaseListing, *, whole: bool) -> str:
    """The cases as JSON, ending in a newline. Strings must have been cleaned, but the examples."""
    return json_text(
        CasesWire(
            schema="forensics.cases/1",
            store=listing.store,
            cases=[_to_wire(case, whole=whole) for case in listing.cases],
        )
    )


def _to_wire(case: Case, *, whole: bool) -> CaseWire:
    return CaseWire(
        signature=case.signature,
        count=case.count,
        first=utc(case.first_s),
        last=utc(case.last_s),
        note=case.note or None,
        parts=[PartWire(part=part.name, value=part.value) for part in case.parts],
        hosts=list(case.hosts),
        builds=[BuildWire(module=build.module, build_id=build.build_id) for build in case.builds],
        cores=[
            CaseCoreWire(path=core.path, host=core.host, seen=utc(core.seen_s))
            for core in case.cores
        ]
        if whole
        else None,
        example=_example(case),
    )


def _example(case: Case) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(case.example)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def render_cases(listing: CaseListing, style: TerminalStyle) -> str:
    """One line a case. Strings must have been cleaned."""
    if not listing.cases:
        return f"no case is known yet ({listing.store})\n"
    table = Rows(gap=2)
    times = [f"×{case.count}" for case in listing.cases]
    widest = max(map(len, times))
    for case, count in zip(listing.cases, times, strict=True):
        table.add_row(f"{count:>{widest}}", _since(case), command(case.signature, style="culprit"))
        if case.note:
            table.add_row("", "", case.note)
    return render_parts([table], style)


def render_case(case: Case, style: TerminalStyle) -> str:
    """All that is kept of a case. Strings must have been cleaned, but the example's JSON."""
    return render_parts(_parts(case), style)


def _parts(case: Case) -> Iterator[RenderableType]:
    yield command(case.signature, style="culprit")
    example = _example(case) or {}
    cores = [path(core.path) + Text(f"  {core.host}  {utc(core.seen_s)}") for core in case.cores]
    more = [f"and {len(cores) - _MAX_CORES:,} more"] if len(cores) > _MAX_CORES else []
    rows: list[tuple[str, list[Cell]]] = [
        ("Note", [case.note] if case.note else []),
        ("Seen", [f"×{case.count}  {_since(case)}"]),
        ("Counts", [f"{part.name}: {part.value}" for part in case.parts]),
        ("What", [str(example["explanation"])] if example.get("explanation") else []),
        ("Hosts", [", ".join(case.hosts)] if case.hosts else []),
        ("Builds", [path(build.module) + Text(f"  {build.build_id}") for build in case.builds]),
        ("Cores", [*cores[:_MAX_CORES], *more]),
    ]
    for label, texts in rows:
        yield labelled(label, texts, _LABEL_WIDTH)


def _since(case: Case) -> str:
    if case.first_s is None or case.last_s is None:
        return "-"
    first, last = day(case.first_s), day(case.last_s)
    return first if first == last else f"{first} to {last}"
