"""The pieces of a crash's screen: folded frames, a source's lines, variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.finding import Certainty, Origin
from vllm_forensics.model.report import ParallelCaller, SourceExcerpt
from vllm_forensics.model.stack import Frame, FrameKind, Variable
from vllm_forensics.render import core_words as words
from vllm_forensics.render.rows import Rows

_MAX_CALLS: Final = 4
_MAX_VARIABLES: Final = 12
_MAX_VALUE: Final = 400
_MEMBER: Final = re.compile(r"\b[A-Za-z_]\w* = std::(?!unique_ptr|shared_ptr)")


def fold(hidden: list[Frame]) -> Iterator[RenderableType]:
    """One line for frames that are not shown."""
    if not hidden:
        return
    if len(hidden) == 1 and hidden[0].function:
        yield Text(f"  #{hidden[0].index:<2} {words.function(hidden[0])}", style="quiet")
        return
    modules = dict.fromkeys(
        "Python" if frame.kind is FrameKind.PYTHON else words.library(frame.module)
        for frame in hidden
    )
    shown = ", ".join(list(modules)[:3])
    yield Text(f"      {words.count(len(hidden), 'runtime frame')} folded ({shown})", style="quiet")


def parallel_caller(caller: ParallelCaller) -> Iterator[RenderableType]:
    """Who gave a pool's thread its work, as far as that is known."""
    yield Text(f"      likely in a parallel loop of thread {caller.tid}, in Python:", style="quiet")
    table = Rows(gap=1)
    for frame in caller.frames[:_MAX_CALLS]:
        call = Text(words.function(frame)).append(f"   {words.place(frame)}", "quiet")
        table.add_row("      ◂", call)
    yield table
    left = len(caller.frames) - _MAX_CALLS
    if left > 0:
        yield Text(f"        {words.count(left, 'older call')} (--format json)", style="quiet")


def source(excerpt: SourceExcerpt) -> Iterator[RenderableType]:
    """The lines around the one that died."""
    digits = len(str(excerpt.first_line + len(excerpt.lines)))
    for number, text in enumerate(excerpt.lines, start=excerpt.first_line):
        marked = number == excerpt.marked_line
        line = Text("      ")
        line.append("▶" if marked else " ", style="mark")
        line.append(
            f" {number:>{digits}} │ {text.expandtabs(4)}", style="none" if marked else "quiet"
        )
        yield line


def origin(steps: Iterable[Origin]) -> Rows:
    """The way that a bad value took, a step a row."""
    table = Rows(gap=1)
    for step in steps:
        table.add_row("  ←", _origin_text(step))
    return table


def _origin_text(step: Origin) -> Text:
    line = Text(step.what)
    if step.function is not None:
        line.append(" by " if step.what.startswith("returned") else " by the caller ", style="none")
        line.append(step.function, style="culprit")
    if step.file is not None:
        line.append(f"   {words.short(step.file)}:{step.line}")
    if step.certainty is not Certainty.PROVED:
        line.append("   likely: another path may lead here", style="caution")
    return line


def variables(variables: tuple[Variable, ...]) -> Iterator[RenderableType]:
    """The frame's variables that have a value, the first of them."""
    useful = [found for found in variables if found.value != "<optimized out>"]
    table = Rows(gap=1)
    for found in useful[:_MAX_VARIABLES]:
        table.add_row(f"  {found.name}", f"= {_shortened(found.value)}")
    yield table
    if len(useful) > _MAX_VARIABLES:
        yield Text(f"  and {len(useful) - _MAX_VARIABLES} more (--format json)", style="quiet")


def _shortened(value: str) -> str:
    """A long object cut down; where a smart pointer in it is null, to the member that holds it."""
    if len(value) <= _MAX_VALUE:
        return value
    null = value.find("get() = 0x0")
    holders = [match.start() for match in _MEMBER.finditer(value, 0, max(null, 0))]
    start = holders[-1] if null >= 0 and holders else 0
    cut = value[start : start + _MAX_VALUE]
    return ("… " if start else "") + cut + ("…" if start + _MAX_VALUE < len(value) else "")
