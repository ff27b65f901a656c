"""Leak records for a person: direct ones first, the largest first, equal ones once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sanitizer import ExplainedReport, Role, StackEvent
from vllm_forensics.render.sanitizer_words import counted, name_in_line, place_in_line
from vllm_forensics.render.terminal import TerminalStyle

_MAX_LEAKS: Final = 8


@dataclass(kw_only=True)
class _Row:
    """Equal leak records together."""

    direct: bool
    stack: StackEvent | None
    own: tuple[int, ...]
    size: int = 0
    objects: int = 0
    records: int = 0


def leak_lines(
    report: ExplainedReport, style: TerminalStyle, *, every: bool
) -> Iterator[RenderableType]:
    """One line a leak and what calls it; CPython's own together; then the totals."""
    if not report.printed.leaks:
        return
    rows, folded, folded_bytes = _rows(report)
    shown = rows if every else rows[:_MAX_LEAKS]
    for row in shown:
        yield from _lines(row, style)
    rest = rows[len(shown) :]
    if rest:
        records, size = sum(row.records for row in rest), sum(row.size for row in rest)
        yield Text(
            f"  {counted(records, 'more leak record')} ({counted(size, 'byte')}): --all",
            style="quiet",
        )
    if folded:
        yield Text(
            f"  {counted(folded, 'leak')} ({counted(folded_bytes, 'byte')}) only in CPython: "
            "not yours",
            style="quiet",
        )


def _rows(report: ExplainedReport) -> tuple[list[_Row], int, int]:
    """Rows in order; how many leaks are the interpreter's, and their bytes."""
    places = [at for at, event in enumerate(report.printed.chain) if event.role is Role.LEAK]
    own: dict[int, list[int]] = {}
    for at, index in report.own:
        own.setdefault(at, []).append(index)
    rows: dict[tuple[str, bool], _Row] = {}
    folded = folded_bytes = 0
    for number, (leak, judged) in enumerate(zip(report.printed.leaks, report.leaks, strict=True)):
        if judged.interpreter_only:
            folded, folded_bytes = folded + 1, folded_bytes + leak.size
            continue
        place = places[number] if number < len(places) else None
        row = rows.setdefault(
            (judged.signature, leak.direct),
            _Row(
                direct=leak.direct,
                stack=report.printed.chain[place] if place is not None else None,
                own=tuple(own.get(place, ())) if place is not None else (),
            ),
        )
        row.size += leak.size
        row.objects += leak.objects
        row.records += 1
    ordered = sorted(rows.values(), key=lambda row: (not row.direct, -row.size))
    return ordered, folded, folded_bytes


def _lines(row: _Row, style: TerminalStyle) -> Iterator[RenderableType]:
    line = Text(f"  {'direct' if row.direct else 'indirect':<9}", style="head")
    line.append("●  ", style="mark" if row.direct else "good")
    times = f" ×{row.records:,}" if row.records > 1 else ""
    line.append(f"{counted(row.size, 'byte')} in {counted(row.objects, 'object')}{times}   ")
    frames = row.stack.frames if row.stack else ()
    if not frames:
        line.append("no stack was printed", style="quiet")
    else:
        first = frames[row.own[0] if row.own else 0]
        line.append(name_in_line(first), style="culprit" if row.own else "head")
        if place := place_in_line(first):
            line.append(f"   {place}")
        callers = (name_in_line(frames[index]) for index in row.own)
        caller = next((name for name in callers if name != name_in_line(first)), None)
        if caller and not style.all_frames:
            line.append(f"   ◂ {caller}", style="quiet")
    yield line
    if style.all_frames:
        for position, frame in enumerate(frames):
            text = Text(f"{' ' * 16}#{frame.index:<3}", style="quiet")
            text.append(name_in_line(frame), style="head" if position in row.own else "quiet")
            text.append(f"   {place_in_line(frame) or ''}", style="quiet")
            yield text
