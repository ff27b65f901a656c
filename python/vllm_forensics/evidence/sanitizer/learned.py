"""Prefixes that no table knows, learned from what stands before a report's header."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"\d+")
_CLOCK: Final = re.compile(r"\d+(?:[:.,/-]\d+)+")
_MAX_LEARNED: Final = 200


class LearnedPrefix:
    """What stood before a header, and how it looks on the other lines of that process.

    Its clock may differ, and one number may go up by one with each line: a viewer's line numbers.
    """

    def __init__(self, prefix: str, line: int) -> None:
        """Learn it from the header in this line of the log."""
        self.prefix = prefix
        self.counted = 0
        """How many lines were known by their line number alone."""
        self._identity = _identity_of(prefix)
        self._numbers = _numbers_of(prefix)
        self._line = line
        parts = _NUMBER.split(prefix.rstrip(" "))
        shape = r"(\d+)".join(re.sub(r"(?:\\ )+", " *", re.escape(part)) for part in parts)
        end = "(?: |$)" if prefix.endswith(" ") else ""
        if prefix.endswith(":"):  # grep writes file:12: before a line it found, file-13- around it
            shape = re.sub(r":(?=$|\()", "[:-]", shape)
        self._pattern = re.compile(shape + end)

    def is_the_same_as(self, other: LearnedPrefix) -> bool:
        """Did one process print behind both?"""
        if self._identity == other._identity:
            return True
        rest = self.strip(other.prefix, other._line) if self.counted > 1 else None
        if rest is None or rest.strip():
            return False
        other.counted = self.counted
        return True

    def strip(self, text: str, line: int) -> str | None:
        """What follows the prefix, where this is its stream; None where it is not."""
        match = self._pattern.match(text)
        if match is None:
            return None
        if _identity_of(match[0]) != self._identity:
            if not self._counts_lines(match[0], line):
                return None
            self.counted += 1
        return text[match.end() :]

    def _counts_lines(self, prefix: str, line: int) -> bool:
        """Does it differ by nothing but a number that has gone up by one with each line?"""
        numbers = _numbers_of(prefix)
        if len(numbers) != len(self._numbers):
            return False
        pairs = zip(self._numbers, numbers, strict=True)
        grown = [new - old for old, new in pairs if new != old]
        passed = line - self._line
        if len(grown) == 1 and self.counted > 1 and grown[0] > passed:
            return True  # somebody left lines out
        # Nothing but grep's sign differs where no number does.
        return grown == [passed] or (not grown and self._identity.endswith(":"))


def learn(before: str, line: int) -> LearnedPrefix | None:
    """The prefix that the text before a header is, or None where it is none."""
    prefix = before.rstrip("=")
    if not prefix.strip() or len(prefix) > _MAX_LEARNED:
        return None
    return LearnedPrefix(prefix, line)


def _identity_of(prefix: str) -> str:
    """A prefix without its clock: what stays the same for one process."""
    return " ".join(_CLOCK.sub("#", prefix).split())


def _numbers_of(prefix: str) -> tuple[int, ...]:
    """The numbers in a prefix without its clock."""
    return tuple(int(number[-18:]) for number in _NUMBER.findall(_CLOCK.sub("#", prefix)))
