"""A regular expression of many alternatives, of which a text's first letter rules most out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

Match = Callable[..., re.Match[str] | None]
_OTHER: Final = "beyond ASCII"
_NOTHING: Final = re.compile("(?!)").match


class Alternative(NamedTuple):
    """One of the alternatives."""

    begins: str
    """A letter, as a regular expression: what any text begins with that the pattern matches."""
    pattern: str


class Alternatives(dict[str, Match]):
    """By a text's first letter, what matches it: the first alternative decides, as in `a|b|c`.

    `alternatives[text[at : at + 1]](text, at)` is the match, and its `lastgroup` the group of the
    alternative. No call of our own stands between: every line of a log comes here.
    """

    def __init__(self, groups: Mapping[str, Iterable[Alternative]]) -> None:
        """Keep the named groups in order; no pattern matches an empty text."""
        super().__init__({"": _NOTHING})
        self._groups: Final = {name: tuple(members) for name, members in groups.items()}

    def all(self) -> Iterator[Alternative]:
        """Every alternative, in order."""
        return chain.from_iterable(self._groups.values())

    def __missing__(self, first: str) -> Match:
        """Letters beyond ASCII are too many to keep a pattern for each: they rule nothing out."""
        if not first.isascii():
            return self[_OTHER]
        parts = []
        for name, members in self._groups.items():
            fitting = [
                one.pattern
                for one in members
                if first is _OTHER or re.match(one.begins, first) is not None
            ]
            if fitting:
                parts.append(f"(?P<{name}>{'|'.join(fitting)})")
        self[first] = re.compile("|".join(parts)).match if parts else _NOTHING
        return self[first]
