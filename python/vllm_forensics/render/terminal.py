"""How text reaches a terminal: its styles, how wide it is, and how much of it is wanted."""

from __future__ import annotations

import io
from collections.abc import Iterable
from enum import Enum
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text
from rich.theme import Theme

from vllm_forensics.model.record import dataclass
from vllm_forensics.render.rows import Rows

_THEME: Final = Theme(
    {
        "title": "bold red",
        "head": "bold",
        "culprit": "bold cyan",
        "quiet": "dim",
        "mark": "bold red",
        "caution": "yellow",
        "good": "green",
        "path": "none",
    }
)


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


def render_parts(parts: Iterable[RenderableType], style: TerminalStyle) -> str:
    """Lines and tables as text; a single line is cut at the width, unless it must not wrap.

    What has to be read or copied whole is of `rows`, whose lines may be longer than the terminal.
    """
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
            if isinstance(part, Rows) or (isinstance(part, Text) and part.no_wrap):
                console.print(part, soft_wrap=True)
            else:
                console.print(part, no_wrap=isinstance(part, Text), overflow="ellipsis")
    lines = (line.rstrip() for line in capture.get().splitlines())
    return "\n".join(lines).rstrip("\n") + "\n"
