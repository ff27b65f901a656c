"""Words and small tables that all texts about sanitizer reports share."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.locations import Certainty
from vllm_forensics.model.sanitizer import PrintedFrame, Severity

WIDEST: Final = 110
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


def labelled(label: str, texts: list[Text]) -> Table:
    """A word, and lines beside it."""
    table = Table.grid(padding=0)
    table.add_column(width=7, no_wrap=True)
    table.add_column(overflow="fold", max_width=WIDEST - 7)
    for position, text in enumerate(texts):
        table.add_row(Text(label, style="head") if position == 0 else "", text)
    return table


def wrapped(text: Text) -> Table:
    """A paragraph."""
    table = Table.grid()
    table.add_column(overflow="fold", max_width=WIDEST)
    table.add_row(text)
    return table


def counted(number: int, noun: str) -> str:
    """`1 report`, `2 reports`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
