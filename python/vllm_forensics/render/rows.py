"""Labels in a margin and texts beside them, so that a path or a command can be copied whole.

Rich breaks a word that is longer than its column, and a terminal's user cannot paste the halves.
Here text is broken between words alone, and a command nowhere: the terminal may wrap it, which
leaves it one line for whoever copies it or reads it from a pipe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

WIDEST: Final = 110
_NARROWEST: Final = 20
_LONGEST_LABEL: Final = 48
_PATH: Final = "path"
_WORD: Final = re.compile(r"\S+")
_TYPED: Final = re.compile(
    r"(?:^|\s)(?:-{1,2}[A-Za-z]|#\s|[<>]\s|(?:forensics|install)\s"
    r"|(?:ADDRESS|COMMAND|CORE|FILE|FOLDER|LOG|PID|PLACE|PROGRAM|SYMBOLS)\b)|[/=|$*~]"
)
"""Our command, an option, a path, a comment, a pipe, what is to be replaced: what prose about a
fault does not hold."""

Cell = str | Text


class Rows:
    """Rows of short cells, each with a text at its end that wraps beside them."""

    def __init__(self, *, gap: int = 0, label_width: int = 0, widest: int = WIDEST) -> None:
        """`gap` stands between cells; `label_width` is the least of the first one's."""
        self._gap = gap
        self._label_width = label_width
        self._widest = widest
        self._rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: Cell) -> None:
        """As many cells as the other rows have; the last is the text."""
        self._rows.append(tuple(Text(one) if isinstance(one, str) else one for one in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines for rich, some of them longer than its width."""
        del console
        widths = self._widths()
        left = sum(width + self._gap for width in widths)
        room = max(_NARROWEST, min(options.max_width, self._widest) - left)
        for *labels, text in self._rows:
            lines = _lines(text, room)
            start = Text()
            for label, width in zip(labels, widths, strict=True):
                start.append_text(label)
                start.append(" " * (width - label.cell_len + self._gap))
            if start.cell_len > left:  # a long label has a line of its own
                start.rstrip()
                yield _unbroken(start)
                if not text:
                    continue
                start = Text(" " * left)
            for line in lines:
                yield _unbroken(start + line)
                start = Text(" " * left)

    def _widths(self) -> list[int]:
        """Of each cell before the text: as wide as the widest that is not too wide for a margin."""
        widths = []
        for column in range(max((len(row) - 1 for row in self._rows), default=0)):
            cells = [row[column].cell_len for row in self._rows]
            least = self._label_width if column == 0 else 0
            widths.append(max((cell for cell in cells if cell <= _LONGEST_LABEL), default=0))
            widths[-1] = max(widths[-1], least)
        return widths


def command(text: str, style: str = "") -> Text:
    """What may be pasted into a shell: one line, however long it is."""
    return Text(text, style=style, no_wrap=True)


def advice(text: str, style: str = "") -> Text:
    """What to do: where any of it may be something to type, all of it is one line."""
    return Text(text, style=style, no_wrap=_TYPED.search(text) is not None)


def path(text: str) -> Text:
    """A path within a text: it may hold blanks, and is broken at none of them."""
    return Text().append(text, style=_PATH)


def labelled(
    label: str, texts: Iterable[Cell], width: int, *, gap: int = 0, widest: int = WIDEST
) -> Rows:
    """A word in the margin, and texts beside it."""
    rows = Rows(label_width=width, gap=gap, widest=widest)
    for text in texts:
        rows.add_row(Text(label, style="head"), text)
        label = ""
    return rows


def steps(texts: Iterable[str], width: int, *, gap: int = 0) -> Rows:
    """What to type next."""
    return labelled("Next", [advice(text) for text in texts], width, gap=gap)


def paragraph(text: Cell, widest: int = WIDEST) -> Rows:
    """A text that is broken into lines no longer than one reads."""
    rows = Rows(widest=widest)
    rows.add_row(text)
    return rows


def _unbroken(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ignore"
    return text


def _lines(text: Text, width: int) -> Iterator[Text]:
    for line in text.split("\n", allow_blank=True):
        line.expand_tabs(8)
        if text.no_wrap:
            yield line
            continue
        indent = min(len(line.plain) - len(line.plain.lstrip(" ")), width // 2)
        for number, part in enumerate(line.divide(_breaks(line, width, indent))):
            part.rstrip()
            yield Text(" " * indent) + part if number else part


def _breaks(line: Text, width: int, indent: int) -> list[int]:
    """Where a new line begins; what is longer than a line stays whole."""
    found: list[int] = []
    start, room = 0, width
    for number, (begin, end) in enumerate(_units(line)):
        if number and begin > start and cell_len(line.plain[start:end]) > room:
            found.append(begin)
            start, room = begin, width - indent
    return found


def _units(line: Text) -> list[tuple[int, int]]:
    """Words, and paths with the blanks in them."""
    paths = [(span.start, span.end) for span in line.spans if span.style == _PATH]
    units: list[tuple[int, int]] = []
    for word in _WORD.finditer(line.plain):
        if units and any(begin < word.start() < end for begin, end in paths):
            units[-1] = (units[-1][0], word.end())
        else:
            units.append(word.span())
    return units
