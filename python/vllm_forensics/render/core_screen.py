"""A report for a person at a terminal, in this order: what died, where, why, what to type next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.report import Crash, Failure, Report, ThreadReport
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.stack import Frame, FrameKind
from vllm_forensics.render import core_parts as parts
from vllm_forensics.render import core_words as words
from vllm_forensics.render.frame_line import fitted
from vllm_forensics.render.rows import Cell, Rows, advice, command, labelled, paragraph, path, steps
from vllm_forensics.render.terminal import Detail, TerminalStyle, render_parts

_OVERVIEW_COLUMNS: Final[tuple[tuple[JustifyMethod, int], ...]] = (
    # number, how many, kind, what, function, place: a narrow terminal takes from the last ones
    ("right", 2),
    ("right", 4),
    ("left", 18),
    ("left", 14),
    ("left", 0),
    ("left", 0),
)
_WIDEST: Final = 110
_LABEL_WIDTH: Final = 8
_NOTED: Final = {FrameKind.INLINED: "inlined", FrameKind.PYTHON: "Python"}


def render_cores(
    report: Report, style: TerminalStyle, own_frames: frozenset[tuple[str, int]]
) -> str:
    """The whole report as text. Every string must have been cleaned; markup in them is not obeyed.

    Of the crashes only those that stand for a group are needed. `own_frames` names the frames, as
    (core, index), that are the user's own code; the others are folded.
    """
    return render_parts(_Writer(style, own_frames).report(report), style)


class _Writer:
    """Turns a report into lines and small tables."""

    def __init__(self, style: TerminalStyle, own_frames: frozenset[tuple[str, int]]) -> None:
        self._style = style
        self._own = own_frames

    def report(self, report: Report) -> Iterator[RenderableType]:
        inputs = sum(len(group.cores) for group in report.groups) + len(report.failures)
        if inputs > 1:
            yield from self._overview(report)
        by_core = {crash.core: crash for crash in report.crashes}
        for number, group in enumerate(report.groups, start=1):
            crash = by_core[group.representative]
            label = f"━━ {number} " if len(report.groups) > 1 else ""
            yield from self._crash(crash, label, len(group.cores))
            yield Text()
        if inputs == 1:
            for failure in report.failures:
                yield from self._failure(failure)
        if report.store_failure is not None:
            yield from self._failure(report.store_failure)

    def _overview(self, report: Report) -> Iterator[RenderableType]:
        cores = sum(len(group.cores) for group in report.groups) + len(report.failures)
        different = words.count(len(report.groups), "different crash", "es")
        by_core = {crash.core: crash for crash in report.crashes}
        new = sum(words.is_new(by_core[group.representative]) for group in report.groups)
        known = f" · {new:,} new" if new else ""
        yield Text(f"{words.count(cores, 'core')} · {different}{known}", style="head")
        yield Text()
        table = Table.grid(padding=(0, 2))
        for justify, least in _OVERVIEW_COLUMNS:
            table.add_column(
                justify=justify, no_wrap=True, overflow="ellipsis", min_width=least or None
            )
        for number, group in enumerate(report.groups, start=1):
            crash = by_core[group.representative]
            table.add_row(
                str(number),
                f"×{len(group.cores)}",
                crash.fault.kind.value.replace("-", " "),
                words.what(crash),
                Text(words.function(crash.culprit), style="culprit"),
                words.place(crash.culprit) if crash.culprit else "",
            )
        yield table
        for failure in report.failures:
            yield from self._failure(failure)
        yield Text()

    def _failure(self, failure: Failure) -> Iterator[RenderableType]:
        rows = Rows(label_width=_LABEL_WIDTH)
        said = path(failure.path) + Text(f": {failure.error}")
        rows.add_row(Text("error", style="title"), said)
        if failure.remedy:
            rows.add_row("", advice(failure.remedy, style="quiet"))
        yield rows

    def _crash(self, crash: Crash, label: str, count: int) -> Iterator[RenderableType]:
        times = f" ×{count}" if count > 1 else ""
        title = f"{label}━━ {signal_name(crash.signal.number)} · {words.headline(crash)} "
        bar = "━" * max(2, min(self._style.width, _WIDEST) - len(title) - len(times))
        whole = f"{title}{bar}{times}"
        yield paragraph(Text(whole, style="title"), len(whole))
        yield paragraph(crash.explanation)
        if self._style.detail is Detail.SENTENCE:
            return
        yield Text()
        yield from self._where(crash, crash.threads[0])
        if crash.origin:
            yield Text()
            yield Text("Where the value came from", style="head")
            yield parts.origin(crash.origin)
        if self._style.detail is Detail.BRIEF:
            return
        if crash.objects:
            yield Text()
            yield Text(f"In {words.function(crash.culprit)}", style="head")
            yield from parts.variables(crash.objects)
        yield Text()
        yield from self._facts(crash)

    def _where(self, crash: Crash, thread: ThreadReport) -> Iterator[RenderableType]:
        name = f' "{thread.name}"' if thread.name else ""
        handler = f" · before it ran {crash.reraised_by}" if crash.reraised_by else ""
        gil = f", {words.GIL[thread.gil]}" if thread.gil else ""
        yield Text(f"Where   thread {thread.tid}{name}{gil}{handler}", style="head")
        recursion = thread.stack.recursion
        last = recursion.first_index + recursion.period if recursion else None
        hidden: list[Frame] = []
        for frame in thread.stack.frames:
            if frame.index < thread.fault_index or (last is not None and frame.index >= last):
                continue
            if not self._shown(crash, frame, thread.fault_index):
                hidden.append(frame)
                continue
            yield from parts.fold(hidden)
            hidden = []
            yield from self._frame(crash, frame)
        yield from parts.fold(hidden)
        if crash.parallel_caller is not None:
            yield from parts.parallel_caller(crash.parallel_caller)
        if recursion is not None:
            cycle = "this frame" if recursion.period == 1 else f"these {recursion.period} frames"
            least = "at least " if recursion.is_least else ""
            yield Text(f"      {cycle} × {least}{recursion.count:,}", style="caution")
        elif thread.stack.truncated and len(thread.stack.frames) > 1:
            yield Text("      older frames were not read", style="quiet")

    def _shown(self, crash: Crash, frame: Frame, first: int) -> bool:
        at_fault = frame.index == first and crash.fault.instruction is not None
        return self._style.all_frames or at_fault or (crash.core, frame.index) in self._own

    def _frame(self, crash: Crash, frame: Frame) -> Iterator[RenderableType]:
        is_culprit = crash.culprit is not None and frame.index == crash.culprit.index
        line = Text("▶ " if is_culprit else "  ", style="mark")
        line.append(f"#{frame.index:<2} ", style="quiet")
        shown = fitted(
            words.function(frame),
            words.place(frame),
            _NOTED.get(frame.kind, ""),
            self._style.width - len(line),
        )
        line.append(shown.function, style="culprit" if is_culprit else "head")
        line.append(shown.place, style="none")
        line.append(shown.note, style="quiet")
        yield line
        if is_culprit and crash.excerpt is not None:
            yield from parts.source(crash.excerpt)

    def _facts(self, crash: Crash) -> Iterator[RenderableType]:
        machine: list[Cell] = []
        if crash.fault.instruction:
            machine.append(f"▶ {crash.fault.instruction}")
        if crash.notable_registers:
            machine.append(" · ".join(crash.notable_registers))
        rows: list[tuple[str, list[Cell]]] = [
            ("Machine", machine),
            ("Signal", [words.signal_text(crash)]),
            ("Proof", list(crash.proof)),
            ("Program", [command(crash.command or crash.program or "?")]),
            ("Core", [command(crash.core)]),
            ("Kept", [words.kept(crash)] if crash.keeper else []),
            ("Fetched", list(words.fetched(crash))),
            ("Seen", [words.seen(crash.seen)] if crash.seen else []),
            ("Others", [words.others(crash.threads[1:])] if len(crash.threads) > 1 else []),
            ("Gaps", list(_gaps(crash))),
        ]
        for label, texts in rows:
            if texts:
                yield labelled(label, texts, _LABEL_WIDTH)
        yield Text()
        yield steps(crash.next_steps, _LABEL_WIDTH)


def _gaps(crash: Crash) -> Iterator[Cell]:
    for gap in crash.gaps:
        yield gap.what
        if gap.remedy:
            yield advice(f"→ {gap.remedy}")
