"""The stack of who died first, as a log has it: a few frames of each language."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.incident import Death, DeathFrame
from vllm_forensics.model.python_source import in_package
from vllm_forensics.model.stack import FrameKind
from vllm_forensics.render.rows import Rows
from vllm_forensics.render.short_names import short_name

_MAX_FRAMES: Final = 6
_MAX_NAME: Final = 90
_LABELS: Final = {FrameKind.PYTHON: "Python"}


def stack_of(death: Death, width: int) -> Iterator[RenderableType]:
    """Frames innermost first, labels in a margin of that width; a lone one is in the sentence."""
    if len(death.frames) < 2:
        return
    yield Text()
    table = Rows(label_width=width, gap=1)
    for kind, group in groupby(death.frames, key=lambda frame: frame.kind):
        frames = [frame for frame, _ in groupby(group)]  # what is inlined stands there again
        label = Text(_LABELS.get(kind, "Stack"), style="head")
        for frame in frames[:_MAX_FRAMES]:
            table.add_row(label, _name(frame), Text(_place(frame), style="quiet"))
            label = Text()
        if len(frames) > _MAX_FRAMES:
            more = f"and {len(frames) - _MAX_FRAMES} more (--format json)"
            table.add_row(label, Text(more, style="quiet"), Text())
    yield table


def _name(frame: DeathFrame) -> Text:
    name = Text(short_name(frame.function) if frame.function else frame.offset or "?")
    name.truncate(_MAX_NAME, overflow="ellipsis")  # a log cuts templates in their middle
    return name


def _place(frame: DeathFrame) -> str:
    if frame.file is None:
        return frame.module or ""
    return f"{in_package(frame.file)}:{frame.line}"
