"""Go's stack without its reason: a logger's fatal message prints one, and so does who is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

GO: Final = "a language runtime"
"""Whose frames they are."""
GOROUTINE: Final = re.compile(r"goroutine \d{1,9} \[running\]:$")
_GIVES_UP: Final = re.compile(
    r"(?:[\w./-]{1,120}/)?k?log(?:rus)?(?:/v\d)?\.(?:Fatal|\(\*\w{1,40}\)\.(?:Fatal|output))"
)
"""CockroachDB's, Kubernetes' and others' loggers."""
_NEAR_THE_TOP: Final = 8
_FATAL: Final = re.compile(
    r"(?:.{0,60}[\s|])?F\d{4,6} \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,9} "
    r"(?P<message>[\w./@-]{1,160}\.go:\d{1,7}.{1,300})"
)
_ABOVE: Final = 3
_WORDS: Final = "a fatal message, with which its logger ends a program"


def of_gos_logger(clue: Clue, calls: Sequence[NativeCall]) -> Clue | None:
    """The end that a fatal message was; None where the stack may be a living program's."""
    names = (call.function or "" for call in calls[:_NEAR_THE_TOP])
    if not any(map(_GIVES_UP.match, names)):
        return None
    return replace(clue, kind=ClueKind.ABORT, detail=_WORDS, native=tuple(calls))


def with_messages(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; such an end with the message, which stands above its stack."""
    if not any(clue.detail == _WORDS for clue in clues):
        return list(clues)
    text = lines()
    return [_told(clue, text) if clue.detail == _WORDS else clue for clue in clues]


def _told(clue: Clue, lines: Sequence[str]) -> Clue:
    above = lines[max(0, clue.line - 1 - _ABOVE) : clue.line - 1]
    found = next(filter(None, map(_FATAL.match, reversed(above))), None)
    return replace(clue, detail=found["message"].strip()) if found is not None else clue
