"""Where a mangled name is read, letter by letter, and what of it was seen before."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.itanium.parts import Part, Type, UnknownName, text_of
from vllm_forensics.evidence.itanium.words import STANDARD

_NUMBER: Final = re.compile(r"[0-9]+")
_DISCRIMINATOR: Final = re.compile(r"_[0-9]|__[0-9]{1,9}_")
_MAX_RESULT: Final = 16 << 10
"""Substitutions let a short name double its length again and again."""


class Cursor:
    """A place in a mangled name; what was seen is numbered in the order of the ABI."""

    def __init__(self, text: str) -> None:
        """Begin with the first letter."""
        self.text = text
        self.at = 0
        self.seen: list[Part] = []

    @property
    def at_end(self) -> bool:
        """Was all of the text read?"""
        return self.at == len(self.text)

    def substitution(self) -> str:
        """The name that stands for one seen before."""
        return text_of(self.known())

    def known(self) -> Part:
        """What was seen before, or one of std's own that have letters."""
        standard = STANDARD.get(self.peek(2))
        if standard is not None:
            self.at += 2
            return Type(standard)
        if not self.take("S"):
            raise UnknownName
        end = self.text.find("_", self.at)
        digits = self.text[self.at : end]
        if end < 0 or not re.fullmatch(r"[0-9A-Z]{0,6}", digits):
            raise UnknownName
        self.at = end + 1
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(self.seen):
            raise UnknownName
        return self.seen[index]

    def remember(self, found: Part) -> Part:
        """Number it as seen."""
        self.seen.append(found)
        return found

    def number_or_none(self) -> int | None:
        """The decimal number that begins here."""
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            return None
        self.at = number.end()
        return int(number[0][:9])

    def check(self, *texts: str) -> None:
        """Refuse names that have grown too long."""
        if sum(map(len, texts)) > _MAX_RESULT:
            raise UnknownName

    def peek(self, count: int = 1) -> str:
        """The next letters, which are not taken yet."""
        found = self.text[self.at : self.at + count]
        if len(found) < count:
            raise UnknownName
        return found

    def take(self, mark: str) -> bool:
        """Take the mark, where it stands here."""
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def discriminator(self) -> None:
        """Pass over what tells one of a function's own names from another."""
        found = _DISCRIMINATOR.match(self.text, self.at)
        self.at = found.end() if found is not None else self.at

    def ordinal(self) -> int:
        """Which of the unnamed ones it is, from 1."""
        number = self.number_or_none()
        if not self.take("_"):
            raise UnknownName
        return 1 if number is None else number + 2

    def source_name(self) -> str:
        """A name with its length before it."""
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise UnknownName
        start = number.end()
        end = start + int(number.group())
        if end == start or end > len(self.text):
            raise UnknownName
        self.at = end
        found = self.text[start:end]
        return "(anonymous namespace)" if found.startswith("_GLOBAL__N_") else found
