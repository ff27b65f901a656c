"""A regular expression of many alternatives, of which a text's first letter rules most out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

_OTHER: Final = "beyond ASCII"


class Alternative(NamedTuple):
    """One of the alternatives."""

    begins: str
    """A letter, as a regular expression: what any text begins with that the pattern matches."""
    pattern: str


class Alternatives:
    """The first alternative that matches decides, as in `a|b|c`."""

    def __init__(self, groups: Mapping[str, Iterable[Alternative]]) -> None:
        """Keep the named groups in order; no pattern matches an empty text."""
        self._groups: Final = {name: tuple(members) for name, members in groups.items()}
        self._of: Final[dict[str, re.Pattern[str] | None]] = {"": None}

    def __iter__(self) -> Iterator[Alternative]:
        """All of them, in order."""
        return chain.from_iterable(self._groups.values())

    def match(self, text: str, position: int = 0) -> re.Match[str] | None:
        """What the text holds at a position; `lastgroup` is the group of what matched."""
        first = text[position : position + 1]
        try:
            pattern = self._of[first]
        except KeyError:
            pattern = self._made_for(first)
        return None if pattern is None else pattern.match(text, position)

    def _made_for(self, first: str) -> re.Pattern[str] | None:
        """Letters beyond ASCII are too many to keep a pattern for each: they rule nothing out."""
        if not first.isascii():
            first = _OTHER
        if first not in self._of:
            parts = []
            for name, members in self._groups.items():
                fitting = [
                    one.pattern
                    for one in members
                    if first is _OTHER or re.match(one.begins, first) is not None
                ]
                if fitting:
                    parts.append(f"(?P<{name}>{'|'.join(fitting)})")
            self._of[first] = re.compile("|".join(parts)) if parts else None
        return self._of[first]
