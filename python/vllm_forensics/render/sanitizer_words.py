"""Words and small tables that all texts about sanitizer reports share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.locations import Certainty
from vllm_forensics.model.sanitizer import PrintedFrame, Severity
from vllm_forensics.render import rows
from vllm_forensics.render.rows import Cell, Rows

_LABEL_WIDTH: Final = 7
LEVEL_STYLES: Final = {Severity.HIGH: "mark", Severity.MEDIUM: "caution", Severity.LOW: "none"}


def name_in_line(frame: PrintedFrame) -> str:
    """The function without its arguments; where it has no name, module and offset."""
    if frame.function is not None:
        return plain_name(frame.function)
    module = (frame.module or "?").replace("\\", "/").rsplit("/", 1)[-1]
    return f"{module}+{frame.offset}" if frame.offset else (frame.pc or module)


def place_in_line(frame: PrintedFrame) -> str | None:
    """FILE:LINE with at most one folder, or None."""
    place = short_place(frame.file, frame.line)
    return f"{place} (likely)" if place and frame.symbolized is Certainty.LIKELY else place


def short_place(file: str | None, line: int | None) -> str | None:
    """FILE:LINE; of a long path only the last folder."""
    if file is None:
        return None
    parts = file.replace("\\", "/").split("/")
    short = "/".join(parts[-2:]) if len(parts) > 3 else file
    return f"{short}:{line}" if line is not None else short


def labelled(label: str, texts: Iterable[Cell]) -> Rows:
    """A word, and lines beside it."""
    return rows.labelled(label, texts, _LABEL_WIDTH)


def next_steps(texts: Iterable[str]) -> Rows:
    """What to do next, beside such lines."""
    return rows.steps(texts, _LABEL_WIDTH)


def counted(number: int, noun: str) -> str:
    """`1 report`, `2 reports`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
