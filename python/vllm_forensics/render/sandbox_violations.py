"""What was found broken, for a person: each kind once, with the life of its block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.event import Chain, Event, EventKind
from vllm_forensics.model.sandbox import Violation, ViolationKind
from vllm_forensics.render.rows import Rows, paragraph
from vllm_forensics.render.terminal import TerminalStyle

_GRAVITY: Final = (
    ViolationKind.USE_AFTER_FREE,
    ViolationKind.TWO_WRITERS,
    ViolationKind.WRONG_CONTENT,
    ViolationKind.DOUBLE_FREE,
    ViolationKind.OUT_OF_RANGE,
    ViolationKind.SHORT_TABLE,
    ViolationKind.TABLE_MISMATCH,
    ViolationKind.LEAK,
    ViolationKind.ALIASED_BLOCK,
    ViolationKind.FREE_LIST,
    ViolationKind.OCCUPANCY,
    ViolationKind.HASH,
    ViolationKind.CONSERVATION,
    ViolationKind.REFERENCE_COUNT,
)
"""What destroys data first, what only prepares it last."""
_LINKS: Final = 8
"""Events of one chain: its first and its last."""


def violation_parts(
    violations: tuple[Violation, ...], style: TerminalStyle
) -> Iterator[RenderableType]:
    """The first of each kind, the gravest first; a block's life is told once."""
    told: set[int] = set()
    for violation, more in _by_kind(violations):
        yield Text()
        yield wrapped(_violation_line(violation, more), style)
        if violation.chain is not None and violation.chain.block not in told:
            told.add(violation.chain.block)
            yield chain_table(violation.chain, style, end=None)


def _by_kind(violations: tuple[Violation, ...]) -> list[tuple[Violation, int]]:
    """The first of each kind, the gravest kind first, and how many more of it there are."""
    kinds: dict[ViolationKind, list[Violation]] = {}
    for violation in violations:
        if violation.kind is ViolationKind.STALL:
            continue  # the first lines are about it
        kinds.setdefault(violation.kind, []).append(violation)
    ordered = sorted(kinds.values(), key=lambda found: _GRAVITY.index(found[0].kind))
    return [(found[0], len(found) - 1) for found in ordered]


def _violation_line(violation: Violation, more: int) -> Text:
    when = f"step {violation.step}"
    if violation.times > 1:
        when += f", and in {violation.times - 1} later ones until {violation.last_step}"
    others = f"; {more} more of this kind" if more else ""
    return Text.assemble(
        ("  ✖ ", "mark"), (violation.kind.value, "mark"), f"   {violation.message} ({when}){others}"
    )


def _folded(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The same thing at the same place for the same request in one step, told once."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if last is not None and replace(last, times=event.times) == event:
            found[-1] = replace(last, times=last.times + 1)
        else:
            found.append(event)
    return tuple(found)


def chain_table(chain: Chain, style: TerminalStyle, *, end: str | None) -> Rows:
    """One block's life, an event a row; `end`: when the engine died."""
    table = Rows(gap=2, widest=style.width)
    events = _folded(chain.events)
    half = _LINKS // 2
    cut = events if len(events) <= _LINKS else (*events[:half], *events[-half:])
    for place, event in enumerate(cut):
        if place == half and len(cut) < len(events):
            between = count(len(events) - len(cut), "event")
            table.add_row(Text("      ⋮", style="quiet"), Text(f"{between} between"), Text())
        mark = "●" if event.kind is EventKind.ALLOCATE else "│"
        changes = event.request is not None and (
            place == 0 or event.request != cut[place - 1].request
        )
        who = f"request {event.request}  " if changes else ""
        table.add_row(
            Text(f"    {mark} {_what(event)}"), Text(_when(event), style="quiet"), _at(event, who)
        )
    if end is not None:
        table.add_row(Text("    ✖ dies", style="mark"), Text(end, style="quiet"), Text())
    return table


def _what(event: Event) -> str:
    source = f" from {event.source}" if event.source is not None else ""
    times = f" ×{event.times}" if event.times > 1 else ""
    return f"{event.kind.value}{source}{times}"


def _when(event: Event) -> str:
    if event.last_step is not None and event.last_step != event.step:
        return f"steps {event.step} to {event.last_step}"
    return f"step {event.step}"


def _at(event: Event, who: str) -> Text:
    call = f"{event.function}:{event.line}" if event.function else ""
    return Text.assemble(who, (call, "quiet"))


def wrapped(text: Text, style: TerminalStyle) -> Rows:
    """A paragraph as wide as the terminal."""
    return paragraph(text, style.width)


def count(number: int, name: str) -> str:
    """`1 step`, `2 steps`."""
    return f"1 {name}" if number == 1 else f"{number:,} {name}s"
