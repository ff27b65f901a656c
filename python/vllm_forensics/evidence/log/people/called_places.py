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
_METHOD: Final = lazily(r"[a-z]{1,30}(?:_[a-z\d]{1,30}){1,6}")
_BELOW: Final = 60
"""So many lines are looked through."""


def with_called_places(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; where somebody names a place, with the function that the text calls so."""
    return [_at(clue, lines) if _is_open(clue) else clue for clue in clues]


def with_functions(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; where a title's name is one that the text calls as a method, it is the place."""
    named = {one.name for one in clues if one.name is not None and _METHOD.fullmatch(one.name)}
    called = {name for name in named if any(f".{name}(" in line for line in lines()[:_BELOW])}
    return [_of_function(one) if one.name in called else one for one in clues]


def _of_function(clue: Clue) -> Clue:
    is_said = clue.kind is ClueKind.HEARSAY and not clue.native and not clue.python
    place = (NativeCall(function=clue.name, module=None),) if is_said else clue.native
    return replace(clue, name=None, native=place)


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
