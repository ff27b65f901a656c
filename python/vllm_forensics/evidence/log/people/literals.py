"""Lines within a program's comment or literal of many lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_COMMENT: Final = re.compile(r"\s*/\*(?!.*\*/)")
_TEXT: Final = re.compile(
    r"(?:.{0,120}(?:[=(:,]|return|<<) ?[rRfFbBuU]{0,2}|[rRfFbBuU]{1,2})"
    r"(?P<mark>\"\"\"|''')(?!.*(?P=mark))|"
    r"\s*(?P<doc>\"\"\"|''')[^\W\d](?!.*(?P=doc))|"
    r".{0,120}(?::?=|\(|,|return) ?(?P<tick>`)(?!`)[^`]{0,200}$"
)
_FARTHEST: Final = 200
"""Further below its beginning nothing is looked for its end."""


def literal_lines(lines: Sequence[str]) -> set[int]:
    """The indices of lines in comments and literals that begin and end in the text."""
    found: set[int] = set()
    at = 0
    while at < len(lines):
        end = _end(lines, at)
        if end is not None:
            found.update(range(at, end + 1))
        at = at + 1 if end is None else end + 1
    return found


def _end(lines: Sequence[str], at: int) -> int | None:
    """The last line of what begins in a line."""
    if _COMMENT.match(lines[at]) is not None:
        mark = "*/"
    elif (match := _TEXT.match(lines[at])) is not None:
        mark = match["mark"] or match["doc"] or match["tick"]
    else:
        return None
    below = range(at + 1, min(len(lines), at + _FARTHEST))
    return next((near for near in below if mark in lines[near]), None)
