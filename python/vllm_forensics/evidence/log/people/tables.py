"""Tables of signals and of exit codes: each row says what one of them means, and nobody died."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from vllm_forensics.model.incident import Clue
from vllm_forensics.model.signals import signal_number

_ROW: Final = re.compile(
    r"[\s|*\u2022#(`!-]{0,12}(?:"
    r"(?P<lead>(?:(?:exit|return|status|error)[ -])?(?:codes?|status|signal)?)"
    r"[ :=]{0,3}`?\(?(?P<code>\d{1,3})\b(?![.:]\d)|(?P<signal>SIG(?!NAL)[A-Z]{2,6})\b)",
    re.IGNORECASE,
)
_ROWS: Final = 3
"""So many make a table."""
_MEMBER: Final = re.compile(
    r"\s{0,8}[-*\u2022] \*{0,2}(?P<key>severity|title|impact|causes?|mitigations?|resolutions?|"
    r"remediations?|description|category|tags)\*{0,2}:",
    re.IGNORECASE,
)
"""What a catalogue of problems says of each."""
_MEMBERS: Final = 3
_NEAR: Final = 6
_BETWEEN: Final = 9
"""So many lines may lie below a row before the next: what a code means is written there."""
_ALONE: Final = 4
"""Of numbers that stand alone the next row is as near as this."""
_CODES: Final = range(256)


def is_cell(lines: Sequence[str], at: int) -> bool:
    """Is the line all that a table's last cell holds, whose row broke around it?"""
    above, below = (
        lines[near].strip() if 0 <= near < len(lines) else "" for near in (at - 1, at + 1)
    )
    return below == "|" and above.startswith("|") and above.endswith("|") and len(above) > 1


def is_of_catalogue(lines: Sequence[str], at: int) -> bool:
    """Is the line a member of an entry that says how grave a problem is, and what to do?"""
    if _MEMBER.match(lines[at]) is None:
        return False
    found = map(_MEMBER.match, lines[max(0, at - _NEAR) : at + _NEAR + 1])
    return len({one["key"].lower() for one in found if one is not None}) >= _MEMBERS


class _Row(NamedTuple):
    lead: str
    code: int
    signal: str

    @property
    def is_bare(self) -> bool:
        """Is it a number, and nothing says of what?"""
        return not self.lead and not self.signal


def is_row_of_codes(lines: Sequence[str], at: int, clue: Clue) -> bool:
    """Is the line one of three that follow each other, each with another signal or code?

    A list may be numbered for other reasons: a row's code is that of the death which it names.
    """
    own = _row(lines[at])
    if own is None or (not own.signal and own.code not in _codes_of(clue)):
        return False
    return 1 + _rows(lines, at, -1) + _rows(lines, at, 1) >= _ROWS


def _codes_of(clue: Clue) -> tuple[int, ...]:
    """The numbers by which a table may name how it ended."""
    number = signal_number(clue.signal or "")
    codes = (number, 128 + number) if number is not None else ()
    return (*codes, int(clue.exit)) if clue.exit is not None else codes


def _rows(lines: Sequence[str], at: int, step: int) -> int:
    """How many rows of the same table stand on one side of a row."""
    last, found, near = _row(lines[at]), 0, at
    for _ in range(_ROWS):
        between = _ALONE if last is None or last.is_bare else _BETWEEN
        window = range(near + step, near + step * (between + 1), step)
        inside = (one for one in window if 0 <= one < len(lines))
        row_at = next((one for one in inside if _follows(last, _row(lines[one]), step)), None)
        if row_at is None:
            break
        last, near = _row(lines[row_at]), row_at
        found += 1
    return found


def _row(line: str) -> _Row | None:
    match = _ROW.match(line)
    if match is None or int(match["code"] or 0) not in _CODES:
        return None
    return _Row((match["lead"] or "").lower(), int(match["code"] or 0), match["signal"] or "")


def _follows(row: _Row | None, other: _Row | None, step: int) -> bool:
    if row is None or other is None or bool(row.signal) != bool(other.signal):
        return False
    if row.signal:
        return row.signal != other.signal
    if row.is_bare:
        return other.is_bare and step * other.code > step * row.code
    return row.lead == other.lead and row.code != other.code
