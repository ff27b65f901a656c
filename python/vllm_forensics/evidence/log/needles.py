"""Finds the lines of a large log that hold any of many words, in one pass over its bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick, Implementation

_CHUNK: Final = 1 << 16


class Hit(NamedTuple):
    """A line that holds a word."""

    position: int
    """Where the line begins."""
    lines: int
    """How many newlines stand before it, from the place where the search began."""


@lru_cache(maxsize=8)
def words(given: tuple[bytes, ...], *, is_large: bool) -> BytesAhoCorasick:
    """An automaton of all words: its time does not grow with their number.

    The one for a large log is fast, and takes as long to make as to search a megabyte.
    """
    kind = Implementation.DFA if is_large else Implementation.ContiguousNFA
    return BytesAhoCorasick(given, implementation=kind)


class Words:
    """Words that are looked for in one line."""

    def __init__(self, given: Iterable[str]) -> None:
        """A word is known by its number in the order in which they are given."""
        self._search = AhoCorasick(given, implementation=Implementation.ContiguousNFA)

    def found(self, text: str) -> list[tuple[int, int]]:
        """The words that stand in the line, once for each place: number and place."""
        if not text.isascii():  # JSON may hold half of a pair: '\\ud800' has no UTF-8
            text = text.encode("utf-8", "replace").decode("utf-8")
        places = self._search.find_matches_as_indexes(text, overlapping=True)
        return [(word, start) for word, start, _ in places]


class Search:
    """Goes through one piece of a log, forwards."""

    def __init__(self, data: bytes, given: BytesAhoCorasick, end: int) -> None:
        """Begin before the first byte; nothing from `end` on is read. No word holds a newline."""
        self._data = data
        self._words = given
        self._end = end
        self._read_to = 0
        self._lines = 0
        self._hits: deque[Hit] = deque()

    def next_hit(self, position: int) -> Hit | None:
        """The first line with a word that begins at or behind a line's beginning."""
        while True:
            while self._hits:
                if self._hits[0].position >= position:
                    return self._hits[0]
                self._hits.popleft()
            if self._read_to >= self._end:
                return None
            self._look()

    def _look(self) -> None:
        """Read one more chunk, up to the end of a line."""
        data, start = self._data, self._read_to
        stop = data.rfind(b"\n", start, min(start + _CHUNK, self._end)) + 1
        if stop == 0:  # a long line
            stop = data.find(b"\n", start, self._end) + 1 or self._end
        counted, known_to = start, start
        for _, at, _ in self._words.find_matches_as_indexes(data[start:stop]):
            if start + at < known_to:
                continue  # the line is known already
            line = data.rfind(b"\n", counted, start + at) + 1 or counted
            self._lines += data.count(b"\n", counted, line)
            counted = line
            self._hits.append(Hit(line, self._lines))
            known_to = data.find(b"\n", start + at, stop) + 1 or stop
        self._lines += data.count(b"\n", counted, stop)
        self._read_to = stop

    @property
    def lines_read(self) -> int:
        """Newlines in all that was searched."""
        return self._lines
