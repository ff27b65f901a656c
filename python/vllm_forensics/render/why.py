"""Two reports or crashes held against each other, for a person and as JSON (forensics.why/1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.sanitizer_why import Compared, Why, WhySide
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.rows import Rows, command, paragraph
from vllm_forensics.render.terminal import TerminalStyle, render_parts


class SideWire(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two; what does not apply is null: `core` of a report, `log` of a crash."""

    asked: str
    signature: str
    core: str | None
    log: str | None
    number: int | None
    line: int | None


class ComparedWire(msgspec.Struct, frozen=True, kw_only=True):
    """One part in both; null: that side has none."""

    part: str
    a: str | None
    b: str | None
    agrees: bool


class WhyWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics asan|core --why A B --format json`."""

    schema: Literal["forensics.why/1"]
    same: bool
    a: SideWire
    b: SideWire
    parts: list[ComparedWire]
    dropped: list[ComparedWire]
    explanation: str


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.why.1.json holds."""
    return msgspec.json.schema(WhyWire)


def render_why_json(why: Why) -> str:
    """The answer as JSON, ending in a newline. Strings must have been cleaned."""
    return json_text(
        WhyWire(
            schema="forensics.why/1",
            same=why.same,
            a=_side(why.one),
            b=_side(why.other),
            parts=[_compared(part) for part in why.parts],
            dropped=[_compared(part) for part in why.dropped],
            explanation=why.explanation,
        )
    )


def _side(side: WhySide) -> SideWire:
    return SideWire(
        asked=side.asked,
        signature=side.signature,
        core=side.core,
        log=side.log,
        number=side.number,
        line=side.line,
    )


def _compared(part: Compared) -> ComparedWire:
    return ComparedWire(part=part.name, a=part.one, b=part.other, agrees=part.agrees)


def render_why(why: Why, style: TerminalStyle) -> str:
    """The comparison as text. Strings must have been cleaned."""
    return render_parts(_parts(why), style)


def _parts(why: Why) -> Iterator[RenderableType]:
    yield Text("one bug" if why.same else "two bugs", style="good" if why.same else "title")
    yield _sides(why)
    yield Text()
    yield Text("What counts", style="head")
    yield _table(why.parts)
    if why.dropped:
        yield Text()
        yield Text("What differs and does not count", style="head")
        yield _table(why.dropped)
    yield Text()
    yield paragraph(why.explanation)


def _sides(why: Why) -> Rows:
    table = Rows(gap=2)
    for label, side in (("A", why.one), ("B", why.other)):
        place = side.core or side.asked
        if side.log is not None:
            of = f" of {side.reports}" if side.reports and side.reports > 1 else ""
            place = f"{side.log}, report {side.number}{of}, from line {side.line}"
        said = place if place == side.signature else f"{place}\n{side.signature}"
        table.add_row(Text(label, style="head"), command(said))
    return table


def _table(pairs: tuple[Compared, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=30)
    table.add_column(overflow="fold", ratio=1)
    table.add_column(overflow="fold", ratio=1)
    for pair in pairs:
        mark = Text("=", style="good") if pair.agrees else Text("≠", style="mark")
        first = Text(pair.one or "none", style="none" if pair.one else "quiet")
        second = Text("" if pair.agrees else (pair.other or "none"))
        table.add_row(mark, pair.name, first, second)
    return table
