"""Tracebacks in a frame, as Rich and what is built on it draws them (Typer, Textual, ComfyUI)."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.incident import PythonCall

ARROWS: Final = ("\u2771 ".encode(),)
"""Of these marks of the line that was executed a part of a traceback is known."""
_TOP: Final = re.compile(
    r"[\u256d\u250c+][\u2500-]{2,400} Traceback \(most recent call last\) [\u2500-]{2,400}"
)
_BOTTOM: Final = re.compile(r"[\u2570\u2514+][\u2500-]{2,800}")
_SOURCE: Final = re.compile(r"\s|\d{1,6}\b|[\u2771\u2502\u256d\u2570]|$")
"""Lines of source, with their numbers, and a box of variables within the frame."""
_ARROW: Final = re.compile(r"\u2771 \d{1,6} \u2502?")
_PLACE: Final = re.compile(r"[/~<]|[A-Za-z]:[\\/]|in \S")
_FRAME: Final = re.compile(
    r"(?P<file>(?:[A-Za-z]:)?[^:]{1,500}):(?P<line>\d{1,9}) ?in ?(?P<function>\S.{0,200})"
    r"|in (?P<cell>\S.{0,80}):(?P<at>\d{1,9})"
)
_MAX_LINES: Final = 12
"""Of a place that was broken where the frame ends."""


class Panel:
    """The inside of a frame, from which the reader of lines has taken its sides."""

    def __init__(self, width: int) -> None:
        """Begin below its upper edge, or within it where that is missing: then its width is 0."""
        self._width = width
        self._place: list[str] = []
        self._is_open = True

    def takes(self, text: str) -> bool:
        """Is the line one of the frame's?"""
        edge = _BOTTOM.match(text)
        if self._is_open and edge is not None and len(edge[0]) >= self._width:
            self._is_open = False
            return True
        is_inside = any(map(bool, (self._place, _SOURCE.match(text), _PLACE.match(text))))
        self._is_open = self._is_open and is_inside
        return self._is_open

    def call(self, text: str) -> PythonCall | None:
        """The call whose place ends above an empty line; where it is long it is broken."""
        if text.strip():
            if self._place or _PLACE.match(text) is not None:
                self._place = [*self._place[: _MAX_LINES - 1], text.strip()]
            return None
        found = _FRAME.fullmatch("".join(self._place))
        self._place = []
        if found is None:
            return None
        line = int(found["line"] or found["at"])
        return PythonCall(
            function=found["function"] or found["cell"], file=found["file"] or "<cell>", line=line
        )


def panel_of(text: str) -> Panel | None:
    """The frame around a traceback whose upper edge the line is, or of which it shows the arrow."""
    edge = _TOP.search(text)
    if edge is not None:
        return Panel(len(edge[0]))
    return Panel(0) if is_in_panel(text) else None


def is_in_panel(text: str) -> bool:
    """Is it the line of a source that was executed, in a frame whose upper part is missing?"""
    return _ARROW.match(text) is not None
