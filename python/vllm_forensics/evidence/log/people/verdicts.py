"""Tests that passed although something died in them: it was meant to.

What a test that failed raised, its runner caught: of a run that came to its end nobody died by an
exception.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.evidence.log.people.marks import Marks

_PASSED: Final = re.compile(
    r"(?:=+ )?(?!.*\b(?:failed|errors?)\b)(?:\d.{0,40} )?"
    r"\b\d{1,6} passed\b.{0,80} in [\d.]{1,12}s|"
    r".{0,80}\b(?:failed|crashed|died|aborted) as expected\b|"
    r"\[  PASSED  \] \d{1,6} tests?\b|test result: ok\. |100% tests passed|"
    r"OK(?: \((?:skipped|expected failures).{0,40}\))?$|# fail 0$|ok  \t\S"
)
_FAILED: Final = re.compile(
    r"\[  FAILED  \]|.{0,300}\bFAILED\b|test result: FAILED|.{0,200}\b[1-9]\d{0,5} failed\b|"
    r"--- FAIL: |\*\*\*"
)
_BEGINS: Final = re.compile(
    r"=+ test session starts =+|\[==========\] Running|running \d{1,6} tests?$|Test project |"
    r"\$ |\S{0,40}[$#] |={60,}$|```|TAP version"
)
_UNITTEST: Final = re.compile(r"Ran \d{1,6} tests? in ")
_REACH: Final = 4_000
_ENDED: Final = re.compile(
    r"=+ (?=.*\b\d{1,6} (?:failed|passed|errors?|skipped)\b).{1,120} in \d{1,7}\.\d\ds.{0,30} =+$"
)
"""pytest's last line, whatever came of it."""
_CARGO: Final = re.compile(r"running \d{1,6} tests?$")
_CARGO_ENDED: Final = re.compile(r"test result: ")
"""Of cargo's the same: it catches what its tests' threads panic of."""
_PYTEST: Final = re.compile(r"=+ test session starts =+$")
_MARK: Final = re.compile(
    # Only at a line's beginning, and only runners that tell where they begin.
    rb"(?m)^(?:=+ (?:test session starts =+|"
    rb".{0,60}\b\d{1,6} (?:passed|failed|errors?|skipped)\b.{0,90})|"
    rb"\[==========\] Running .{0,60}|\[  (?:PASSED|FAILED)  \] .{0,200}|"
    rb"running \d{1,6} tests?|test result: .{0,100}|TAP version .{0,20}|# fail \d.{0,6}|"
    rb"Test project .{0,200}|100% tests passed.{0,60}|\d\d?% tests passed.{0,60})\r?$"
)
_BEGIN_WORDS: Final = (
    *(b" test session starts ", b"[==========] Running ", b"running ", b"TAP version "),
    b"Test project ",
)
"""One of them stands in every line that begins a run: before the first nothing is of interest."""


class Verdicts:
    """The lines of a log of any size that say where test runs begin, and how they ended."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._marks = Marks(_MARK, _BEGIN_WORDS)

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        self._marks.feed(piece)

    def passed(self) -> list[range]:
        """Where runs stand that passed as a whole, as indices of lines."""
        self._marks.close()
        lines = self._marks.lines
        begun = [at for at, line in enumerate(lines) if _BEGINS.match(line) is not None]
        first = begun[0] if begun else len(lines)
        parts = passed_parts(lines[first:], most=len(lines))
        numbers = self._marks.numbers[first:]
        return [range(numbers[part.start], numbers[part.stop - 1] + 1) for part in parts]

    def ended(self) -> list[range]:
        """Where runs of pytest and cargo stand that came to their end, as indices of lines."""
        found: list[range] = []
        begin: int | None = None
        for number, line in zip(self._marks.numbers, self._marks.lines, strict=True):
            if _PYTEST.match(line) is not None or _CARGO.match(line) is not None:
                begin = number
            elif begin is not None and (_ENDED.match(line) or _CARGO_ENDED.match(line)):
                found.append(range(begin, number + 1))
                begin = None
        return found


def passed_parts(lines: Sequence[str], most: int = _REACH) -> list[range]:
    """Where test runs stand that passed as a whole, as indices of lines."""
    found: list[range] = []
    begin = 0
    has_failed = has_ran = False
    for at, line in enumerate(lines[:most]):
        if _BEGINS.match(line) is not None:
            begin, has_failed, has_ran = at, False, False
        elif _PASSED.match(line) is not None and (has_ran or not line.startswith("OK")):
            if not has_failed:
                found.append(range(begin, at + 1))
            begin, has_failed, has_ran = at + 1, False, False
        elif _UNITTEST.match(line) is not None:
            has_ran = True
        has_failed = has_failed or _FAILED.match(line) is not None
    return found
