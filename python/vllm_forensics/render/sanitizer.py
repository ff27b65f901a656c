"""Sanitizer reports for a person: what, how dangerous, the chain as a timeline, what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.report import Failure, SourceExcerpt
from vllm_forensics.model.sanitizer import (
    ExplainedReport,
    PrintedFrame,
    Relation,
    Role,
    SanitizerAnswer,
    Severity,
    StackEvent,
)
from vllm_forensics.render.terminal import Detail, TerminalStyle, render_parts

_WIDEST: Final = 110
_MAX_SHOWN: Final = 20
_MAX_LEAKS: Final = 8
_CALLERS: Final = 3
_STYLES: Final = {Severity.HIGH: "mark", Severity.MEDIUM: "caution", Severity.LOW: "none"}
_OWN_LINES: Final = {Role.THREAD_CREATE, Role.LEAK}
"""Stacks that stand beside the story: one line each."""
_WORDS: Final = {
    Role.ALLOCATE: "allocate",
    Role.FREE: "free",
    Role.USE: "use",
    Role.PREVIOUS_ACCESS: "other",
    Role.ORIGIN: "origin",
    Role.THREAD_CREATE: "created",
    Role.LOCK_ACQUIRE: "lock",
    Role.LEAK: "leak",
}


def render_sanitizer(answer: SanitizerAnswer, style: TerminalStyle) -> str:
    """The whole answer as text. Every string must have been cleaned."""
    return render_parts(_parts(answer, style), style)


def _parts(answer: SanitizerAnswer, style: TerminalStyle) -> Iterator[RenderableType]:
    reports = [report for log in answer.logs for report in log.reports]
    representative: dict[str, ExplainedReport] = {}
    for report in reports:
        representative.setdefault(report.signature, report)
    counts = {group.signature: group.count for group in answer.groups}
    ordered = [representative[group.signature] for group in answer.groups]
    if reports:
        yield Text(_headline(answer, reports, len(ordered)), style="head")
    if len(ordered) > 1:
        yield _overview(ordered, counts)
    for number, report in enumerate(ordered[:_MAX_SHOWN], start=1):
        yield Text()
        label = f"━━ {number} " if len(ordered) > 1 else ""
        yield from _report(report, label, counts[report.signature], style)
    if len(ordered) > _MAX_SHOWN:
        yield Text()
        yield Text(f"{len(ordered) - _MAX_SHOWN} more are in --format json", style="caution")
    if answer.failures:
        if reports:
            yield Text()
        for failure in answer.failures:
            yield _failure(failure)


def _headline(answer: SanitizerAnswer, reports: list[ExplainedReport], different: int) -> str:
    seen = sum(report.printed.occurrences for report in reports)
    lines = sum(log.lines for log in answer.logs)
    text = _count(len(reports), "report")
    if different != len(reports):
        text += f" · {different} different"
    if seen != len(reports):
        text += f" (seen {seen} times)"
    text += f" in {_count(lines, 'line')}"
    return text + (f" of {len(answer.logs)} logs" if len(answer.logs) > 1 else "")


def _overview(ordered: list[ExplainedReport], counts: dict[str, int]) -> Table:
    table = Table.grid(padding=(0, 2))
    for least in (2, 3, 6, 12, 0, 0):
        table.add_column(no_wrap=True, overflow="ellipsis", min_width=least or None)
    for number, report in enumerate(ordered, start=1):
        culprit = report.culprit
        place = f"{culprit.file}:{culprit.line}" if culprit and culprit.file else ""
        table.add_row(
            str(number),
            f"×{counts[report.signature]}",
            Text(report.severity.value, style=_STYLES[report.severity]),
            report.printed.kind,
            Text((culprit.function if culprit else None) or "", style="culprit"),
            place,
        )
    return table


def _report(
    report: ExplainedReport, label: str, count: int, style: TerminalStyle
) -> Iterator[RenderableType]:
    printed = report.printed
    cwe = f" · {report.cwe}" if report.cwe else ""
    times = f" ×{count}" if count > 1 else ""
    right = f"{report.severity.value}{cwe}{times}"
    left = f"{label}{_title(report)}"
    width = min(style.width, _WIDEST)
    gap = max(2, width - len(left) - len(right))
    title = Text(left, style="title")
    if len(left) + len(right) + 2 <= width:
        title.append(" " * gap)
    else:  # a narrow terminal
        title.append("\n")
    title.append(right, style="caution")
    yield _wrapped(title)
    if style.detail is Detail.SENTENCE:
        yield _wrapped(Text(report.explanation))
        return
    yield Text()
    yield from _timeline(report, style)
    if style.detail is Detail.BRIEF:
        return
    yield Text()
    yield _wrapped(Text(report.explanation))
    yield _labelled("Why", [Text(f"{report.severity.value}: {reason}") for reason in report.why])
    lines = f"lines {printed.lines[0]:,}–{printed.lines[1]:,}"  # noqa: RUF001 - a range
    pid = f" · process {printed.pid}" if printed.pid is not None else ""
    yield _labelled("Log", [Text(f"{lines}{pid} · {printed.sanitizer}")])
    if report.next_steps:
        yield _labelled("Next", [Text(step) for step in report.next_steps])


def _title(report: ExplainedReport) -> str:
    printed = report.printed
    parts = [printed.kind]
    access = printed.access
    if access is not None and access.type is not None:
        size = f" of {_count(access.size, 'byte')}" if access.size is not None else ""
        parts.append(f"{access.type}{size}{_position(report)}")
    elif printed.leaks:
        parts.append(_count(sum(leak.size for leak in printed.leaks), "byte"))
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
    chain = report.printed.chain
    shown = 0
    for at, event in enumerate(chain):
        if event.role is Role.LEAK:
            shown += 1
            if shown > _MAX_LEAKS:
                rest = sum(1 for later in chain[at:] if later.role is Role.LEAK)
                yield Text(f"  {rest} more leak records (--format json)", style="quiet")
                return
        yield from _event(report, at, event, own, style)
        if at + 1 < len(chain):
            following = chain[at + 1].role
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
    line.append(_name(frame), style="culprit" if is_culprit else "head")
    place = _place(frame)
    if place:
        line.append(f"   {place}")
    if event.role is Role.LEAK and len(mine) > 1 and not style.all_frames:
        line.append(f"   ◂ {_name(event.frames[mine[1]])}", style="quiet")
    leak = _leak_of(report, at)
    if leak is not None:
        line.append(f"   {leak}", style="quiet")
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
            row.append(_name(frame), style="head" if position in mine else "quiet")
            row.append(f"   {_place(frame) or ''}", style="quiet")
            yield row
        return
    for position in mine[1 : _CALLERS + 1]:
        caller = event.frames[position]
        yield Text(f"{bar}       ◂ {_name(caller)}   {_place(caller) or ''}", style="quiet")
    folded = _folded(len(event.frames), len(mine))
    if folded:
        yield Text(f"{bar}       {folded}", style="quiet")


def _folded(frames: int, mine: int) -> str:
    parts = []
    if mine > _CALLERS + 1:
        parts.append(f"{_count(mine - _CALLERS - 1, 'more caller')}")
    if mine and frames > mine:
        parts.append(_count(frames - mine, "runtime frame"))
    return f"{', '.join(parts)} folded" if parts else ""


def _leak_of(report: ExplainedReport, at: int) -> str | None:
    """The size of the leak whose stack stands at `at`."""
    chain, leaks = report.printed.chain, report.printed.leaks
    if chain[at].role is not Role.LEAK:
        return None
    number = sum(event.role is Role.LEAK for event in chain[:at])
    if len(leaks) != sum(event.role is Role.LEAK for event in chain):
        return None
    leak = leaks[number]
    how = "direct" if leak.direct else "indirect"
    return f"{_count(leak.size, 'byte')} in {_count(leak.objects, 'object')}, {how}"


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


def _name(frame: PrintedFrame) -> str:
    if frame.function is not None:
        return frame.function.partition("(")[0] or frame.function
    module = (frame.module or "?").replace("\\", "/").rsplit("/", 1)[-1]
    return f"{module}+{frame.offset}" if frame.offset else (frame.pc or module)


def _place(frame: PrintedFrame) -> str | None:
    if frame.file is None:
        return None
    parts = frame.file.replace("\\", "/").split("/")
    short = "/".join(parts[-2:]) if len(parts) > 3 else frame.file
    return f"{short}:{frame.line}" if frame.line is not None else short


def _failure(failure: Failure) -> Table:
    path = "standard input" if failure.path == "-" else failure.path
    text = Text(f"{path} {failure.error}")
    if failure.remedy:
        text.append(f"\n{failure.remedy}", style="quiet")
    return _labelled("note", [text])


def _labelled(label: str, texts: list[Text]) -> Table:
    table = Table.grid(padding=0)
    table.add_column(width=7, no_wrap=True)
    table.add_column(overflow="fold", max_width=_WIDEST - 7)
    for position, text in enumerate(texts):
        table.add_row(Text(label, style="head") if position == 0 else "", text)
    return table


def _wrapped(text: Text) -> Table:
    table = Table.grid()
    table.add_column(overflow="fold", max_width=_WIDEST)
    table.add_row(text)
    return table


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
