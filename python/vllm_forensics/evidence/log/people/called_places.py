"""The function at which a title says that it crashed, where the text below shows that it is one.

`Segfault in PoolPredict`: a class, a program or a function. It is a function where it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

_AT: Final = lazily(
    r"(?i)\b(?:(?:seg)?fault|segv|crash(?:es|ed)?|error|abort(?:s|ed)?|overflow) "
    r"(?:in|at|within|inside) "
    r"[`\"']?(?P<word>(?-i:[A-Z]\w{4,60}))\b(?![.:-]\w)"
)
_BELOW: Final = 60
"""So many lines are looked through."""


def with_called_places(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; where somebody names a place, with the function that the text calls so."""
    return [_at(clue, lines) if _is_open(clue) else clue for clue in clues]


def _is_open(clue: Clue) -> bool:
    is_said = clue.kind is ClueKind.HEARSAY and clue.signal is not None
    return is_said and not clue.native and not clue.python and clue.name is None


def _at(clue: Clue, lines: Callable[[], Sequence[str]]) -> Clue:
    at = _AT.search(clue.text)
    if at is None:
        return clue
    calls = (f"{at['word']}(", f"{at['word']} () ")
    is_called = any(call in line for line in lines()[:_BELOW] for call in calls)
    place = NativeCall(function=at["word"], module=None)
    return replace(clue, native=(place,)) if is_called else clue
