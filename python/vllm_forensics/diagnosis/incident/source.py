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
"""`/src/ggml.c:12: …`; glibc's assert() puts the function between the line and its condition."""


def asserted_place(told: Sequence[Clue]) -> NativeCall | None:
    """Where the words of who gave up say that it did; None where they do not."""
    for clue in told:
        match = _SOURCE.search(clue.text) if clue.kind is ClueKind.ABORT else None
        if match is not None:
            return NativeCall(
                function=match["function"],
                module=None,
                file=match["file"],
                line=int(match["line"]),
            )
    return None
