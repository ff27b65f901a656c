"""The place that an assertion or a failed check names itself: its source, line and function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

_SOURCE: Final = re.compile(
    r"(?<![\w./\\+-])(?P<file>(?:[A-Za-z]:)?[\w./\\+-]{1,240}\."
    r"(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hip|inl|m|mm|metal|rs|go|swift))[:(](?P<line>\d{1,7})\b"
    r"(?:: (?P<function>[^`'\"]{1,200}?): Assertion [`'])?"
)
_IN_FILE: Final = re.compile(
    r"\bin (?P<function>[\w:~]{1,120}), file (?P<file>[^,\n]{1,240}), line (?P<line>\d{1,7})\b"
)
"""`Error: Assertion failed (m.dims >= 2) in Mat, file C:\\src\\matrix.cpp, line 751`: OpenCV's."""
_IN_FUNCTION: Final = re.compile(r"[^\n]{0,400}\bin function [`'](?P<function>[\w:~]{1,120})'")
"""Its newer versions' words behind the source."""
_THROWER: Final = re.compile(
    r"\bin (?P<function>(?:[\w&*<>]{1,60} ){0,4}[\w~:<>]{1,160}::[\w~]{1,80})"
    r"\([^\n]{0,400}? at $"
)
"""`Error in void ns::Pool::take(int) at pool.cpp:12`: a checks' macro puts the function first."""
_MEMBER: Final = re.compile(r"[\w~:<>]{1,160}$")
"""`/src/ggml.c:12: …`; glibc's assert() puts the function between the line and its condition."""


def asserted_place(told: Sequence[Clue]) -> NativeCall | None:
    """Where the words of who gave up say that it did; None where they do not."""
    for clue in told:
        words = f"{clue.text}\n{clue.detail or ''}" if clue.kind is ClueKind.ABORT else ""
        match = _SOURCE.search(words) or _IN_FILE.search(words)
        if match is not None:
            behind = _IN_FUNCTION.match(words, match.end())
            return NativeCall(
                function=match["function"]
                or (behind["function"] if behind is not None else None)
                or _thrower(words[: match.start()]),
                module=None,
                file=match["file"],
                line=int(match["line"]),
            )
    return None


def _thrower(before: str) -> str | None:
    """The function that stands before the word `at` and its source."""
    thrower = _THROWER.search(before)
    name = _MEMBER.search(thrower["function"]) if thrower is not None else None
    return name[0] if name is not None else None
