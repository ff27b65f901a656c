"""What stands before every line of a log that no table of prefixes knows.

A number that a pager put there, a file's name that grep did, a collector's pod and container: where
a dump's or a traceback's first line does not begin its line, what stands before it is learned, and
taken off the lines that begin alike. Numbers and times may differ, words may not.
"""

from __future__ import annotations

import re
from typing import Final

_OPENER: Final = re.compile(
    r"Traceback \(most recent call last\)|Fatal Python error: |Current thread 0x[0-9a-f]{4,16} |"
    r"terminate called (?:after|without) |panic: (?=\w)|#\d {1,3}0x[0-9a-f]{8,16} in |"
    r"Process [\w.-]{1,60}:(?=\\n['\"]|$)"
)
_WORDS: Final = (
    *(b"Traceback (most", b"Fatal Python error: ", b"Current thread 0x", b"terminate called "),
    *(b"Process ", b"panic: "),
    *(f"#{number}  0x".encode() for number in range(10)),
)
"""One of them stands in every such line."""
_LONGEST: Final = 200
_MOST: Final = 8
_QUOTES: Final = (b"'", b'"')
_PART: Final = re.compile(r"[\s:=]{1,200}|[^\s:=]{1,200}")
_CLOCKS: Final = re.compile(r"(?<=\d)[TZ]")
_NUMBER: Final = re.compile(r"\d{1,200}")
_ALIGNED: Final = " {0,12}"


class OwnPrefixes:
    """The prefixes that were learned."""

    def __init__(self) -> None:
        """Know none."""
        self._shapes: list[re.Pattern[bytes]] = []
        self._next: re.Pattern[bytes] | None = None
        """Learned from one line; the next has to agree."""

    def taken_off(self, raw: bytes) -> bytes:
        """The line without its prefix, where that was learned."""
        if self._next is not None:
            shape, self._next = self._next, None
            if shape.match(raw) is not None:
                self._shapes = [shape, *self._shapes][:_MOST]
        for shape in self._shapes:
            match = shape.match(raw)
            if match is not None:
                rest = raw[match.end() :]
                is_quoted = match[0][-1:] in _QUOTES  # as Python shows the bytes of a line
                return rest.rstrip(match[0][-1:]).removesuffix(b"\\n") if is_quoted else rest
        return raw

    def learn(self, raw: bytes, text: str) -> str | None:
        """Learn what stands before the beginning of a dump, and answer with that beginning.

        `text` is how the line was read so far; None where nothing begins behind a prefix.
        """
        if not any(word in raw for word in _WORDS):
            return None
        match = _OPENER.search(text, 0, _LONGEST)
        if match is None or not text[: match.start()].strip(" "):
            return None
        before = raw[: raw.find(match[0].encode("utf-8", "replace"))].decode("utf-8", "replace")
        if 0 < len(before) <= _LONGEST:
            self._next = _shape(before)
        return match[0]


def _shape(before: str) -> re.Pattern[bytes]:
    parts = _PART.findall(before)
    *first, last = parts
    first = [_ALIGNED if not part.strip(" ") else _part(part) for part in first]
    # an empty line may have lost its blanks
    end = f"(?:{_part(last)}|{_part(last.rstrip())}$)" if last[-1].isspace() else _part(last)
    return re.compile("".join((*first, end)).encode())


def _part(part: str) -> str:
    """A pattern of one word: its numbers may differ where it has no letters."""
    escaped = re.escape(part)
    if part[-1:] in {"'", '"'}:  # Python shows a line in the quotes that do not stand in it
        escaped = re.escape(part[:-1]) + "['\"]"
    if any(letter.isalpha() for letter in _CLOCKS.sub("", part)):
        return escaped
    return _NUMBER.sub(r"\\d{1,20}", escaped)
