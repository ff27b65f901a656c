"""Finds the first of many words in a large log, at a cost that hardly depends on how many they are.

One search for each word would read the log as often as there are words. Instead, a chunk is read
once, and of its bytes only a few kinds are kept: its shadow, a tenth of its size. A word whose own
shadow does not stand in the chunk's cannot stand in the chunk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_RARE_FIRST: Final = b"*<z[WSEAR=xbmu\n"
"""The bytes that a shadow keeps. Those of the words that logs hold least, so that shadows are
short, and enough of each word's for its shadow to be its own."""
_COMMON: Final = b"mu\n"
"""Those of them that hardly a line of a log is without."""
_DROPPED: Final = bytes(set(range(256)) - set(_RARE_FIRST))
_CHUNK: Final = 1 << 14


class Skipped(NamedTuple):
    """What was passed over without a word in it."""

    position: int
    """Where the first word stands, or the end of the data."""
    lines: int
    """How many newlines there are before `position`."""


Groups = tuple[tuple[bytes, tuple[tuple[bytes, bytes], ...]], ...]
"""The words to find, each with its shadow, grouped by the rarest byte of their shadows."""


class Words(NamedTuple):
    """The words to find, made ready."""

    everything: Groups
    common: Groups
    """Those that may stand where a shadow holds nothing but common bytes."""


def words(given: Iterable[bytes]) -> Words:
    """The words, none of which holds a newline, made ready for `Search`."""
    groups: dict[bytes, list[tuple[bytes, bytes]]] = {}
    for word in given:
        shadow = word.translate(None, _DROPPED)
        rarest = bytes(sorted(shadow, key=_RARE_FIRST.index)[:1])
        groups.setdefault(rarest, []).append((shadow, word))
    everything = tuple((rarest, tuple(group)) for rarest, group in groups.items())
    return Words(everything, tuple(group for group in everything if group[0] in _COMMON))


class Search:
    """Goes through one piece of a log, forwards."""

    def __init__(self, data: bytes, words: Words) -> None:
        """Begin before the first byte."""
        self._data = data
        self._words = words
        self._next: dict[bytes, int] = {}
        """Before which place each word does not stand, of those that may stand before `_stop`."""
        self._stop = 0

    def skip(self, position: int) -> Skipped:
        """From `position`, where a line begins, to the first word."""
        data, lines = self._data, 0
        while position < len(data):
            known = position < self._stop
            if not known:
                shadow = self._look(position)
            if self._next:
                hit = self._first(position)
                if hit >= 0:
                    return Skipped(hit, lines + data.count(b"\n", position, hit))
            lines += data.count(b"\n", position, self._stop) if known else shadow.count(b"\n")
            position = self._stop
        return Skipped(len(data), lines)

    def _look(self, position: int) -> bytes:
        data = self._data
        stop = data.rfind(b"\n", position, position + _CHUNK) + 1
        if stop == 0:  # a long line
            stop = data.find(b"\n", position) + 1 or len(data)
        shadow = data[position:stop].translate(None, _DROPPED)
        self._stop = stop
        has_rare = shadow.translate(None, _COMMON)
        self._next = {
            word: position
            for rarest, group in (self._words.everything if has_rare else self._words.common)
            if rarest in shadow
            for short, word in group
            if short in shadow
        }
        return shadow

    def _first(self, position: int) -> int:
        best, limit = -1, self._stop
        for word, absent_before in self._next.items():
            start = max(position, absent_before)
            at = self._data.find(word, start, min(limit + len(word) - 1, self._stop))
            if at >= 0:
                best = limit = at
            self._next[word] = max(start, limit)
        return best
