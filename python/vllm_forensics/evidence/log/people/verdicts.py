"""Tests that passed although something died in them: it was meant to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

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


def passed_parts(lines: Sequence[str]) -> list[range]:
    """Where test runs stand that passed as a whole, as indices of lines."""
    found: list[range] = []
    begin = 0
    has_failed = has_ran = False
    for at, line in enumerate(lines[:_REACH]):
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
