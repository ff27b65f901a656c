"""A report for a person at a terminal, in this order: what died, where, why, what to type next."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from vllm_forensics.model.cases import Seen
from vllm_forensics.model.finding import Access, Certainty, Origin
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Failure, Report, SourceExcerpt, ThreadReport
from vllm_forensics.model.signals import code_name, signal_name
from vllm_forensics.model.stack import Frame, FrameKind, Variable
from vllm_forensics.render.moments import day
from vllm_forensics.render.short_names import short_name

_THEME: Final = Theme(
    {
        "title": "bold red",
        "head": "bold",
        "culprit": "bold cyan",
        "quiet": "dim",
        "mark": "bold red",
        "caution": "yellow",
        "good": "green",
    }
)
_OVERVIEW_COLUMNS: Final[tuple[tuple[JustifyMethod, int], ...]] = (
    # number, how many, kind, what, function, place: a narrow terminal takes from the last ones
    ("right", 2),
    ("right", 4),
    ("left", 18),
    ("left", 14),
    ("left", 0),
    ("left", 0),
)
_LABEL_WIDTH: Final = 8
_MAX_VARIABLES: Final = 12
_MAX_VALUE: Final = 400
_MEMBER: Final = re.compile(r"\b[A-Za-z_]\w* = std::(?!unique_ptr|shared_ptr)")
_WIDEST: Final = 110
_FUNCTION_WIDTH: Final = 36


class Detail(Enum):
    """How much of a crash is shown."""

    SENTENCE = "sentence"
    BRIEF = "brief"
    """The sentence, the stack, where the value came from."""
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalStyle:
    """How wide, with colour or not, and how much."""

    width: int = 80
    color: bool = False
    all_frames: bool = False
    detail: Detail = Detail.FULL


def render_terminal(
    report: Report, style: TerminalStyle, own_frames: frozenset[tuple[str, int]]
) -> str:
    """The whole report as text. Every string must have been cleaned; markup in them is not obeyed.

    Of the crashes only those that stand for a group are needed. `own_frames` names the frames, as
    (core, index), that are the user's own code; the others are folded.
    """
    return render_parts(_Writer(style, own_frames).report(report), style)


def render_parts(parts: Iterable[RenderableType], style: TerminalStyle) -> str:
    """Lines and tables as text; a single line is cut at the width, a table wraps inside."""
    console = Console(
        file=io.StringIO(),
        width=style.width,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        highlight=False,
        markup=False,
        emoji=False,
        theme=_THEME,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for part in parts:
            console.print(part, no_wrap=isinstance(part, Text), overflow="ellipsis", crop=True)
    lines = (line.rstrip() for line in capture.get().splitlines())
    return "\n".join(lines).rstrip("\n") + "\n"


_KEPT_FACTS: Final = ("time", "user", "unit", "container", "host", "package", "system")
_GIL: Final = {"holds": "holds the GIL", "waits": "waits for the GIL"}
_NOTED: Final = {FrameKind.INLINED: "inlined", FrameKind.PYTHON: "Python"}


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
        different = _count(len(report.groups), "different crash", "es")
        by_core = {crash.core: crash for crash in report.crashes}
        new = sum(_is_new(by_core[group.representative]) for group in report.groups)
        known = f" · {new:,} new" if new else ""
        yield Text(f"{_count(cores, 'core')} · {different}{known}", style="head")
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
                _what(crash),
                Text(_function(crash.culprit), style="culprit"),
                _place(crash.culprit) if crash.culprit else "",
            )
        yield table
        for failure in report.failures:
            yield from self._failure(failure)
        yield Text()

    def _failure(self, failure: Failure) -> Iterator[RenderableType]:
        remedy = f"\n{failure.remedy}" if failure.remedy else ""
        text = Text(f"{failure.path}: {failure.error}")
        text.append(remedy, style="quiet")
        yield _labelled(Text("error", style="title"), [text])

    def _crash(self, crash: Crash, label: str, count: int) -> Iterator[RenderableType]:
        times = f" ×{count}" if count > 1 else ""
        title = f"{label}━━ {signal_name(crash.signal.number)} · {_headline(crash)} "
        bar = "━" * max(2, min(self._style.width, _WIDEST) - len(title) - len(times))
        yield Text(f"{title}{bar}{times}", style="title")
        yield _paragraph(crash.explanation)
        if self._style.detail is Detail.SENTENCE:
            return
        yield Text()
        yield from self._where(crash, crash.threads[0])
        if crash.origin:
            yield Text()
            yield Text("Where the value came from", style="head")
            for step in crash.origin:
                yield _origin_line(step)
        if self._style.detail is Detail.BRIEF:
            return
        if crash.objects:
            yield Text()
            yield Text(f"In {_function(crash.culprit)}", style="head")
            yield _variables(crash.objects)
        yield Text()
        yield from self._facts(crash)

    def _where(self, crash: Crash, thread: ThreadReport) -> Iterator[RenderableType]:
        name = f' "{thread.name}"' if thread.name else ""
        handler = f" · before it ran {crash.reraised_by}" if crash.reraised_by else ""
        gil = f", {_GIL[thread.gil]}" if thread.gil else ""
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
            yield from _fold(hidden)
            hidden = []
            yield from self._frame(crash, frame)
        yield from _fold(hidden)
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
        noted = f"  {_NOTED[frame.kind]}" if frame.kind in _NOTED else ""
        place = f"  {_place(frame)}{noted}"
        room = max(_FUNCTION_WIDTH, self._style.width - len(line) - len(place))
        name = _function(frame).ljust(_FUNCTION_WIDTH)
        name = name if len(name) <= room else f"{name[: room - 1]}…"
        line.append(name, style="culprit" if is_culprit else "head")
        line.append(place.removesuffix(noted), style="none")
        line.append(noted, style="quiet")
        yield line
        if is_culprit and crash.excerpt is not None:
            yield from _source(crash.excerpt)

    def _facts(self, crash: Crash) -> Iterator[RenderableType]:
        machine = []
        if crash.fault.instruction:
            machine.append(f"▶ {crash.fault.instruction}")
        if crash.notable_registers:
            machine.append(" · ".join(crash.notable_registers))
        rows: list[tuple[str, list[str]]] = [
            ("Machine", machine),
            ("Signal", [_signal_text(crash)]),
            ("Proof", list(crash.proof)),
            ("Program", [crash.command or crash.program or "?"]),
            ("Core", [crash.core]),
            ("Kept", [_kept(crash)] if crash.keeper else []),
            ("Fetched", list(_fetched(crash))),
            ("Seen", [_seen(crash.seen)] if crash.seen else []),
            ("Others", [_others(crash.threads[1:])] if len(crash.threads) > 1 else []),
            (
                "Gaps",
                [gap.what + (f"\n→ {gap.remedy}" if gap.remedy else "") for gap in crash.gaps],
            ),
        ]
        for label, texts in rows:
            if texts:
                yield _labelled(Text(label, style="head"), [Text(text) for text in texts])
        yield Text()
        yield _labelled(Text("Next", style="head"), [Text(step) for step in crash.next_steps])


def _is_new(crash: Crash) -> bool:
    return crash.seen is not None and crash.seen.count == 0


def _seen(seen: Seen) -> str:
    note = f" · {seen.note}" if seen.note else ""
    if not seen.count or seen.first_s is None or seen.last_s is None:
        return f"new: never before on record{note}"
    last = "" if day(seen.last_s) == day(seen.first_s) else f", last {day(seen.last_s)}"
    return f"{_count(seen.count, 'time')} since {day(seen.first_s)}{last}{note}"


def _kept(crash: Crash) -> str:
    facts = dict(crash.kept_facts)
    parts = [f"{name} {facts[name]}" for name in _KEPT_FACTS if name in facts]
    return " · ".join([f"by {crash.keeper}", *parts])


def _fetched(crash: Crash) -> Iterator[str]:
    """Which source lines came from a server."""
    frames = crash.threads[0].stack.frames if crash.threads else ()
    for module in crash.modules:
        if module.debug_from is None or not module.debug_from.startswith(("http:", "https:")):
            continue
        lines = [
            f"#{frame.index}" for frame in frames if frame.module == module.path and frame.file
        ]
        what = f"the lines of {', '.join(lines[:8])}" if lines else "names"
        more = " and more" if len(lines) > 8 else ""
        yield f"{what}{more} in {_library(module.path)}, from {module.debug_from}"


def _labelled(label: Text, texts: list[Text]) -> Table:
    table = Table.grid(padding=0)
    table.add_column(width=_LABEL_WIDTH, no_wrap=True)
    table.add_column(overflow="fold", max_width=_WIDEST - _LABEL_WIDTH)
    for position, text in enumerate(texts):
        table.add_row(label if position == 0 else "", text)
    return table


def _paragraph(text: str) -> Table:
    table = Table.grid(padding=0)
    table.add_column(overflow="fold", max_width=_WIDEST)
    table.add_row(Text(text))
    return table


def _fold(hidden: list[Frame]) -> Iterator[RenderableType]:
    if not hidden:
        return
    if len(hidden) == 1 and hidden[0].function:
        yield Text(f"  #{hidden[0].index:<2} {_function(hidden[0])}", style="quiet")
        return
    modules = dict.fromkeys(
        "Python" if frame.kind is FrameKind.PYTHON else _library(frame.module) for frame in hidden
    )
    shown = ", ".join(list(modules)[:3])
    yield Text(f"      {_count(len(hidden), 'runtime frame')} folded ({shown})", style="quiet")


def _source(excerpt: SourceExcerpt) -> Iterator[RenderableType]:
    digits = len(str(excerpt.first_line + len(excerpt.lines)))
    for number, text in enumerate(excerpt.lines, start=excerpt.first_line):
        marked = number == excerpt.marked_line
        line = Text("      ")
        line.append("▶" if marked else " ", style="mark")
        line.append(
            f" {number:>{digits}} │ {text.expandtabs(4)}", style="none" if marked else "quiet"
        )
        yield line


def _origin_line(step: Origin) -> Text:
    line = Text(f"  ← {step.what}")
    if step.function is not None:
        line.append(" by " if step.what.startswith("returned") else " by the caller ", style="none")
        line.append(step.function, style="culprit")
    if step.file is not None:
        line.append(f"   {_short(step.file)}:{step.line}")
    if step.certainty is not Certainty.PROVED:
        line.append("   likely: another path may lead here", style="caution")
    return line


def _variables(variables: tuple[Variable, ...]) -> RenderableType:
    useful = [found for found in variables if found.value != "<optimized out>"]
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, max_width=24, overflow="ellipsis")
    table.add_column(overflow="fold", max_width=_WIDEST - 24)
    for found in useful[:_MAX_VARIABLES]:
        table.add_row(Text(f"  {found.name}"), Text(f"= {_shortened(found.value)}"))
    if len(useful) <= _MAX_VARIABLES:
        return table
    rest = Text(f"  and {len(useful) - _MAX_VARIABLES} more (--format json)", style="quiet")
    return Group(table, rest)


def _shortened(value: str) -> str:
    """A long object cut down; where a smart pointer in it is null, to the member that holds it."""
    if len(value) <= _MAX_VALUE:
        return value
    null = value.find("get() = 0x0")
    holders = [match.start() for match in _MEMBER.finditer(value, 0, max(null, 0))]
    start = holders[-1] if null >= 0 and holders else 0
    cut = value[start : start + _MAX_VALUE]
    return ("… " if start else "") + cut + ("…" if start + _MAX_VALUE < len(value) else "")


def _headline(crash: Crash) -> str:
    name = _function(crash.culprit) if crash.culprit else (crash.program or "?").rsplit("/", 1)[-1]
    verbs = {Access.READ: "read", Access.WRITE: "wrote to", Access.EXECUTE: "jumped to"}
    address = crash.fault.address
    if crash.fault.access is not None and address is not None:
        return f"{name} {verbs[crash.fault.access]} address {address:#x}"
    return f"{crash.fault.kind.value.replace('-', ' ')} in {name}"


def _what(crash: Crash) -> str:
    if crash.fault.access is not None and crash.fault.address is not None:
        words = {Access.READ: "read of", Access.WRITE: "write to", Access.EXECUTE: "jump to"}
        return f"{words[crash.fault.access]} {crash.fault.address:#x}"
    if crash.fault.message:
        text = crash.fault.message
        return f'"{text[:23]}…"' if len(text) > 24 else f'"{text}"'
    return signal_name(crash.signal.number)


def _signal_text(crash: Crash) -> str:
    signal = crash.signal
    text = f"{signal_name(signal.number)} ({code_name(signal)})"
    if signal.address is not None:
        text += f", si_addr {signal.address:#x}"
    if signal.sender_pid is not None and signal.sender_pid != crash.pid:
        text += f", sent by process {signal.sender_pid}"
    if crash.delivered.number != signal.number:
        text += f"; the process ended with {signal_name(crash.delivered.number)}"
    return text


def _others(threads: tuple[ThreadReport, ...]) -> str:
    at = [_function(thread.stack.frames[0]) for thread in threads if thread.stack.frames]
    counts = sorted(((at.count(name), name) for name in dict.fromkeys(at)), reverse=True)
    where = ", ".join(f"{count} in {name}" for count, name in counts[:3])
    states = [
        f"{number} {_GIL[gil]}"
        for gil in _GIL
        if (number := sum(thread.gil == gil for thread in threads))
    ]
    return " · ".join([f"{_count(len(threads), 'more thread')}: {where}", *states])


def _function(frame: Frame | None) -> str:
    if frame is None:
        return "?"
    if frame.kind is FrameKind.SIGNAL:
        return "(signal handler called)"
    if frame.function is not None and frame.names_trusted:
        return short_name(frame.function)
    if frame.module is None:
        return f"{frame.pc:#x}"
    return f"{frame.module.rsplit('/', 1)[-1]}+{frame.module_offset or 0:#x}"


def _place(frame: Frame) -> str:
    if frame.file is not None and frame.line is not None:
        return f"{_short(frame.file)}:{frame.line}"
    return f"in {frame.module.rsplit('/', 1)[-1]}" if frame.module and frame.function else ""


def _short(path: str | None) -> str:
    """The last two parts of a path: enough to recognise a source file."""
    return "/".join((path or "?").rsplit("/", 2)[-2:])


def _library(path: str | None) -> str:
    """A library's name without version and platform: `libc`, `libpython3.11`, `_ctypes`."""
    name = (path or "?").rsplit("/", 1)[-1]
    return name.split(".so")[0].split(".cpython-")[0]


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"
