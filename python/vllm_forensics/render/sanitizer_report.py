"""One sanitizer report for a person: what, how dangerous, the chain as a timeline, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.report import SourceExcerpt
from vllm_forensics.model.sanitizer import (
    ExplainedReport,
    Relation,
    Role,
    StackEvent,
)
from vllm_forensics.render.rows import WIDEST, command, paragraph
from vllm_forensics.render.sanitizer_leaks import leak_lines
from vllm_forensics.render.sanitizer_words import (
    counted,
    labelled,
    name_in_line,
    next_steps,
    place_in_line,
)
from vllm_forensics.render.terminal import Detail, TerminalStyle

_CALLERS: Final = 3
_OWN_LINES: Final = {Role.THREAD_CREATE}
"""Stacks that stand beside the story: one line each."""
_WORDS: Final = {
    Role.ALLOCATE: "allocate",
    Role.FREE: "free",
    Role.USE: "use",
    Role.PREVIOUS_ACCESS: "other",
    Role.ORIGIN: "origin",
    Role.THREAD_CREATE: "created",
    Role.LOCK_ACQUIRE: "lock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """How one report is told."""

    label: str = ""
    """What stands before its title: its number."""
    count: int = 1
    every_leak: bool = False
    with_signature: bool = False


def one_report(
    report: ExplainedReport, telling: Telling, style: TerminalStyle
) -> Iterator[RenderableType]:
    """Title, timeline, explanation, reasons, place in the log, next steps."""
    printed = report.printed
    cwe = f" · {report.cwe}" if report.cwe else ""
    times = f" ×{telling.count:,}" if telling.count > 1 else ""
    right = f"{report.severity.value}{cwe}{times}"
    left = f"{telling.label}{_title(report)}"
    width = min(style.width, WIDEST)
    gap = max(2, width - len(left) - len(right))
    title = Text(left, style="title")
    if len(left) + len(right) + 2 <= width:
        title.append(" " * gap)
    else:  # a narrow terminal
        title.append("\n")
    title.append(right, style="caution")
    yield paragraph(title)
    if style.detail is Detail.SENTENCE:
        yield paragraph(Text(report.explanation))
        return
    yield Text()
    yield from _timeline(report, style)
    yield from leak_lines(report, style, every=telling.every_leak)
    if style.detail is Detail.BRIEF:
        return
    yield Text()
    yield paragraph(Text(report.explanation))
    yield labelled("Why", [f"{report.severity.value}: {reason}" for reason in report.why])
    lines = f"lines {printed.lines[0]:,}–{printed.lines[1]:,}"  # noqa: RUF001 - a range
    pid = f" · process {printed.pid}" if printed.pid is not None else ""
    yield labelled("Log", [Text(f"{lines}{pid} · {printed.sanitizer}")])
    if telling.with_signature:
        yield labelled("Name", [command(report.signature)])
    if report.next_steps:
        yield next_steps(report.next_steps)


def _title(report: ExplainedReport) -> str:
    printed = report.printed
    parts = [printed.kind]
    access = printed.access
    if access is not None and access.type is not None:
        size = f" of {counted(access.size, 'byte')}" if access.size is not None else ""
        parts.append(f"{access.type}{size}{_position(report)}")
    elif printed.leaks:
        parts.append(counted(sum(leak.size for leak in printed.leaks), "byte"))
    return " · ".join(parts)


def _position(report: ExplainedReport) -> str:
    region = report.printed.region
    if region is None or region.offset is None or region.size is None:
        return f" at {report.printed.address}" if report.printed.address else ""
    freed = "freed " if report.printed.first(Role.FREE) else ""
    what = f"a {freed}{region.size}-byte {region.kind} region"
    if region.relation is Relation.INSIDE:
        where = "at the start" if region.offset == 0 else f"{region.offset} bytes into"
        return f", {where}{' of' if region.offset == 0 else ''} {what}"
    side = "past the end of" if region.relation is Relation.AFTER else "before"
    return f", {region.offset} bytes {side} {what}"


def _timeline(report: ExplainedReport, style: TerminalStyle) -> Iterator[RenderableType]:
    own = frozenset(report.own)
    events = [
        (at, event) for at, event in enumerate(report.printed.chain) if event.role is not Role.LEAK
    ]
    for number, (at, event) in enumerate(events):
        yield from _event(report, at, event, own, style)
        if number + 1 < len(events):
            following = events[number + 1][1].role
            if following not in _OWN_LINES:
                yield Text("           │", style="quiet")
            elif event.role is not following:
                yield Text()


def _event(
    report: ExplainedReport,
    at: int,
    event: StackEvent,
    own: frozenset[tuple[int, int]],
    style: TerminalStyle,
) -> Iterator[RenderableType]:
    fatal = event.role is Role.USE
    mine = [index for index in range(len(event.frames)) if (at, index) in own]
    first = mine[0] if mine else 0
    thread = (event.thread or "").removesuffix(" thread")
    line = Text(f"  {_WORDS[event.role]:<9}", style="head")
    line.append("✖" if fatal else "●", style="mark" if fatal else "good")
    line.append(f"  {thread:<5}" if thread else "  ", style="caution")
    if not event.frames:
        line.append("no stack was printed", style="quiet")
        yield line
        return
    frame = event.frames[first]
    is_culprit = report.culprit is not None and report.culprit.role is event.role
    line.append(name_in_line(frame), style="culprit" if is_culprit else "head")
    place = place_in_line(frame)
    if place:
        line.append(f"   {place}")
    yield line
    if event.role in _OWN_LINES and not style.all_frames:
        return
    bar = " " * 11 + ("│" if not fatal else " ")
    yield from _callers(event, mine, style)
    if at < len(report.excerpts) and (excerpt := report.excerpts[at]) is not None:
        yield from _source(excerpt, bar)


def _callers(event: StackEvent, mine: list[int], style: TerminalStyle) -> Iterator[RenderableType]:
    """The own frames above the first one, and how many were folded; or every frame."""
    bar = " " * 11 + ("│" if event.role is not Role.USE else " ")
    if style.all_frames:
        for position, frame in enumerate(event.frames):
            row = Text(f"{bar}     #{frame.index:<3}", style="quiet")
            row.append(name_in_line(frame), style="head" if position in mine else "quiet")
            row.append(f"   {place_in_line(frame) or ''}", style="quiet")
            yield row
        return
    for position in mine[1 : _CALLERS + 1]:
        caller = event.frames[position]
        yield Text(
            f"{bar}       ◂ {name_in_line(caller)}   {place_in_line(caller) or ''}", style="quiet"
        )
    folded = _folded(len(event.frames), len(mine))
    if folded:
        yield Text(f"{bar}       {folded}", style="quiet")


def _folded(frames: int, mine: int) -> str:
    parts = []
    if mine > _CALLERS + 1:
        parts.append(f"{counted(mine - _CALLERS - 1, 'more caller')}")
    if mine and frames > mine:
        parts.append(counted(frames - mine, "runtime frame"))
    return f"{', '.join(parts)} folded" if parts else ""


def _source(excerpt: SourceExcerpt, bar: str) -> Iterator[RenderableType]:
    digits = len(str(excerpt.first_line + len(excerpt.lines)))
    for number, text in enumerate(excerpt.lines, start=excerpt.first_line):
        marked = number == excerpt.marked_line
        line = Text(f"{bar}      ", style="quiet")
        line.append("▶" if marked else " ", style="mark")
        line.append(
            f" {number:>{digits}} │ {text.expandtabs(4)}", style="none" if marked else "quiet"
        )
        yield line
