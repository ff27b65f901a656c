"""One line for a frame: its function gives way to its place, whose line number is never cut."""

from __future__ import annotations

from typing import Final, NamedTuple

COLUMN: Final = 36
"""Places stand below each other from here on, where there is room."""
_GAP: Final = 2
_LEAST: Final = 20
"""So much of a name tells which function it is."""


class FrameLine(NamedTuple):
    """What stands in the line, in this order."""

    function: str
    """With the blanks behind it."""
    place: str
    note: str


def fitted(function: str, place: str, note: str, room: int, *, column: int = COLUMN) -> FrameLine:
    """The three parts in so many columns.

    A note goes first, then the folder of a place, then the end of a name; at last the beginning of
    a file's name: `multiproc_executor.py:1045` cut at its end would name another line.
    """
    least = min(len(function), _LEAST)
    note = f"  {note}" if note else ""
    if least + _GAP + len(place) + len(note) > room:
        note = ""
    if least + _GAP + len(place) > room and " " not in place:
        place = place.rpartition("/")[2]
    if not place:
        return FrameLine(_cut(function, room), "", "")
    left = room - _GAP - len(place) - len(note)
    function = _cut(function, max(least, left))
    kept = room - _GAP - len(function)
    if len(place) > kept:
        place = "…" + place[len(place) - max(kept - 1, 1) :]
    width = max(len(function), min(column, left))
    return FrameLine(function.ljust(width) + " " * _GAP, place, note)


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: max(width - 1, 0)]}…"
