"""The pieces of a crash's screen: folded frames, a source's lines, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.finding import Certainty, Origin
from vllm_forensics.model.report import SourceExcerpt
from vllm_forensics.model.stack import Frame, FrameKind, Variable
from vllm_forensics.render import core_words as words

_LABEL_WIDTH: Final = 8
_MAX_VARIABLES: Final = 12
_MAX_VALUE: Final = 400
_MEMBER: Final = re.compile(r"\b[A-Za-z_]\w* = std::(?!unique_ptr|shared_ptr)")
_WIDEST: Final = 110


def labelled(label: Text, texts: list[Text]) -> Table:
    """A word in the margin, and texts beside it."""
    table = Table.grid(padding=0)
    table.add_column(width=_LABEL_WIDTH, no_wrap=True)
    table.add_column(overflow="fold", max_width=_WIDEST - _LABEL_WIDTH)
    for position, text in enumerate(texts):
        table.add_row(label if position == 0 else "", text)
    return table


def paragraph(text: str) -> Table:
    """Text that is broken into lines no longer than one reads."""
    table = Table.grid(padding=0)
    table.add_column(overflow="fold", max_width=_WIDEST)
    table.add_row(Text(text))
    return table


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


def origin_line(step: Origin) -> Text:
    """One step of the way that a bad value took."""
    line = Text(f"  ← {step.what}")
    if step.function is not None:
        line.append(" by " if step.what.startswith("returned") else " by the caller ", style="none")
        line.append(step.function, style="culprit")
    if step.file is not None:
        line.append(f"   {words.short(step.file)}:{step.line}")
    if step.certainty is not Certainty.PROVED:
        line.append("   likely: another path may lead here", style="caution")
    return line


def variables(variables: tuple[Variable, ...]) -> RenderableType:
    """The frame's variables that have a value, the first of them."""
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
