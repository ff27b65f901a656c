"""The stack of who died first, as its core or a log has it: the fault, and Python's callers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.joined import JoinedReport
from vllm_forensics.model.report import Crash
from vllm_forensics.model.stack import Frame, FrameKind
from vllm_forensics.render.core_parts import parallel_caller
from vllm_forensics.render.frame_line import fitted
from vllm_forensics.render.incident import LABEL_WIDTH, one_line
from vllm_forensics.render.incident_stack import stack_of
from vllm_forensics.render.rows import command
from vllm_forensics.render.short_names import short_name
from vllm_forensics.render.terminal import TerminalStyle

_MAX_FRAMES: Final = 8
_MAX_CALLERS: Final = 3


class _Row(NamedTuple):
    line: Text
    is_caller: bool = False
    """Is it a Python call of the user's own?"""


def crash_of_first(report: JoinedReport) -> Crash | None:
    """The core of who died first, if it is there."""
    return next((one for one in report.crashes if one.core in report.cores_of_first), None)


def stack_of_first(
    report: JoinedReport, folder: str, style: TerminalStyle, own: frozenset[tuple[str, int]]
) -> Iterator[RenderableType]:
    """Of who died first: its core's stack, or what a log has of it.

    `folder` is left out of the core's path.
    """
    crash = crash_of_first(report)
    if crash is not None:
        yield from where(crash, one_line(crash.core.removeprefix(folder)), style, own)
    elif report.first_death is not None:
        yield from stack_of(report.first_death, LABEL_WIDTH)


def where(
    crash: Crash, core: str, style: TerminalStyle, own: frozenset[tuple[str, int]]
) -> Iterator[RenderableType]:
    """The crashing thread from the fault on; runtime frames folded.

    Args:
        crash: the crash.
        core: what its core is called here.
        style: how wide, and whether all frames are wanted.
        own: the frames, as (core, index), that are the user's own code.

    """
    thread = crash.threads[0] if crash.threads else None
    if thread is None:
        return
    frames = [
        frame
        for frame in thread.stack.frames
        if frame.index >= thread.fault_index and frame.kind is not FrameKind.SIGNAL
    ]
    rows = list(_rows(crash, frames, style, own))
    if not rows:
        return
    yield Text()
    yield command(f"Where   thread {thread.tid} in {core}", style="head")
    next_one = 0
    for at in _most_telling(rows):
        if at > next_one:
            yield Text(f"      {at - next_one} more", style="quiet")
        yield rows[at].line
        next_one = at + 1
    if len(rows) > next_one:
        left = f"      {len(rows) - next_one} more (forensics core {quoted(crash.core)})"
        yield command(left, style="quiet")
    if crash.parallel_caller is not None:
        yield from parallel_caller(crash.parallel_caller)


def quoted(path: str) -> str:
    """For the shell, in one line."""
    return one_line(shlex.quote(path))


def _most_telling(rows: Sequence[_Row]) -> list[int]:
    """Which are shown: the innermost, and where Python's calls stand far below, some of them."""
    callers = [at for at, row in enumerate(rows) if row.is_caller][:_MAX_CALLERS]
    if not callers or callers[-1] < _MAX_FRAMES:
        return list(range(min(len(rows), _MAX_FRAMES)))
    first = range(_MAX_FRAMES - len(callers))
    return [*first, *(at for at in callers if at not in first)]


def _rows(
    crash: Crash, frames: Sequence[Frame], style: TerminalStyle, own: frozenset[tuple[str, int]]
) -> Iterator[_Row]:
    hidden = 0
    for position, frame in enumerate(frames):
        is_own = (crash.core, frame.index) in own
        is_python = frame.kind is FrameKind.PYTHON
        is_fault = position == 0 and crash.signal.from_kernel
        if not (is_own or is_python or is_fault or style.all_frames):
            hidden += 1
            continue
        if hidden:
            plural = "" if hidden == 1 else "s"
            yield _Row(Text(f"      {hidden} runtime frame{plural} folded", style="quiet"))
            hidden = 0
        line = Text(f"  #{frame.index:<3}")
        if is_python:
            line.append("py  ", style="quiet")
        shown = fitted(_function(frame), _place(frame), "", style.width - len(line), column=0)
        line.append(shown.function, style="culprit" if is_own or is_python else "none")
        line.append(shown.place, style="quiet")
        yield _Row(line, is_caller=is_own and is_python)


def _function(frame: Frame) -> str:
    if frame.function is not None and frame.names_trusted:
        return short_name(plain_name(frame.function))
    name = frame.module.rsplit("/", 1)[-1] if frame.module else f"{frame.pc:#x}"
    return f"{name}+{frame.module_offset or 0:#x}" if frame.module else name


def _place(frame: Frame) -> str:
    if frame.file is None or frame.line is None:
        return f"in {frame.module.rsplit('/', 1)[-1]}" if frame.module else ""
    return "/".join(frame.file.rsplit("/", 2)[-2:]) + f":{frame.line}"
