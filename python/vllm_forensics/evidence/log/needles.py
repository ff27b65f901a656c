"""Finds the lines of a large log that hold any of many words, at the cost of a few reads.

A log says the same over and over, with other numbers. So lines are compared by their shape: what
is left of them without digits, the letters of hexadecimal numbers and some punctuation. A word
whose own shape does not stand in a line's shape does not stand in the line; and a shape that was
once found to hold no word's is known from then on. Of most chunks every shape is known. Where a
log is prose, and no line like another, its vocabulary is still small: what is new is looked
through token by token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

_DROPPED: Final = b"0123456789abcdef"
_CHUNK: Final = 1 << 16
_MAX_SHAPES: Final = 1 << 14
_MAX_SHAPE: Final = 512
"""Longer shapes are not kept: memory stays bounded."""
_MANY: Final = 64
_MAX_TOKENS: Final = 1 << 15
_MAX_TOKEN: Final = 64


class Hit(NamedTuple):
    """A line that holds a word."""

    position: int
    """Where the line begins."""
    lines: int
    """How many newlines stand before it, from the place where the search began."""


class Words:
    """The words to find, and what is known to hold none of them; for one log."""

    def __init__(self, given: Iterable[bytes]) -> None:
        """Take words, none of which holds a newline."""
        by_part: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for word in given:
            shape = _shape(word)
            by_part.setdefault(max(shape.split(), key=len), []).append((shape, word))
        self._by_part = {part: tuple(members) for part, members in by_part.items()}
        self._harmless: set[bytes] = set()
        """Shapes of lines."""
        self._plain: set[bytes] = set()
        """Tokens of shapes, what stands between blanks; a text's are soon all known."""
        self._parts: dict[bytes, tuple[bytes, ...]] = {}
        """The other tokens, each with the parts of words that it holds."""

    def suspicious(self, chunk: bytes, shapes: list[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """The shapes of a chunk's lines that may hold a word, each with the words."""
        unknown = set(shapes) - self._harmless
        if not unknown:
            return {}
        text = b"\n".join(unknown)
        present = [
            (shape, word)
            for part in self._parts_in(text)
            for shape, word in self._by_part[part]
            if shape in text
        ]
        real = [pair for pair in present if pair[1] in chunk]
        if present and not real and len(unknown) > _MANY:
            return {}  # no word after all, and prose: which shapes are harmless is not worth it
        odd = {
            shape: tuple([word for short, word in present if short in shape])
            for shape in unknown
            if present
        }
        if len(self._harmless) > _MAX_SHAPES:
            self._harmless.clear()
        self._harmless.update(
            [shape for shape in unknown if not odd.get(shape) and len(shape) < _MAX_SHAPE]
        )
        return {shape: words for shape, words in odd.items() if words} if real else {}

    def _parts_in(self, text: bytes) -> list[bytes]:
        """The parts of words that stand in the text."""
        odd = set(text.split()) - self._plain
        new = [token for token in odd if token not in self._parts]
        found = {part for token in odd for part in self._parts.get(token, ())}
        if new:
            together = b" ".join(new)
            here = [part for part in self._by_part if part in together]
            found.update(here)
            if len(self._plain) > _MAX_TOKENS or len(self._parts) > _MAX_TOKENS:
                self._plain.clear()
                self._parts.clear()
            for token in new:
                if len(token) > _MAX_TOKEN:
                    continue
                parts = tuple([part for part in here if part in token])
                if parts:
                    self._parts[token] = parts
                else:
                    self._plain.add(token)
        return [part for part in self._by_part if part in found]


class Search:
    """Goes through one piece of a log, forwards."""

    def __init__(self, data: bytes, words: Words, end: int) -> None:
        """Begin before the first byte; nothing from `end` on is read."""
        self._data = data
        self._words = words
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
        start = self._read_to
        stop = self._data.rfind(b"\n", start, min(start + _CHUNK, self._end)) + 1
        if stop == 0:  # a long line
            stop = self._data.find(b"\n", start, self._end) + 1 or self._end
        chunk = self._data[start:stop]
        shapes = chunk.translate(None, _DROPPED).split(b"\n")
        suspicious = self._words.suspicious(chunk, shapes)
        if suspicious:
            at = start
            for number, (shape, line) in enumerate(zip(shapes, chunk.split(b"\n"), strict=True)):
                if shape in suspicious and any(word in line for word in suspicious[shape]):
                    self._hits.append(Hit(at, self._lines + number))
                at += len(line) + 1
        self._lines += len(shapes) - 1
        self._read_to = stop

    @property
    def lines_read(self) -> int:
        """Newlines in all that was searched."""
        return self._lines


def _shape(text: bytes) -> bytes:
    return text.translate(None, _DROPPED)
