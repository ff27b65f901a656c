"""The stack of who died first: from the fault on, without what handled the signal above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.where import (
    fault_index,
    gives_up,
    innermost,
    last_resort,
    place_of,
    with_its_lambda,
)
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Clue, DeathFrame, NativeCall, PythonCall
from vllm_forensics.model.stack import FrameKind

_MOST: Final = 32
"""Frames of each language."""


def stack_of(
    told: Sequence[Clue], place: NativeCall | None, python: Sequence[PythonCall]
) -> tuple[DeathFrame, ...]:
    """Native frames innermost first, then Python's; of each so many as help."""
    native = _native(told, place) if place is not None else ()
    shown = [call for call in native if call.function or call.module]
    return (*map(_of_native, shown[:_MOST]), *map(_of_python, python[:_MOST]))


def _native(told: Sequence[Clue], place: NativeCall) -> Sequence[NativeCall]:
    """The stack that shows the place, from the fault on; a kernel's line shows no stack."""
    stacks = [clue.native for clue in told if len(clue.native) > 1]
    for calls in stacks:
        if place in {place_of(calls), last_resort(calls), innermost(calls)}:
            return calls[_begin(calls, place) :]
    return next((calls[_begin(calls, place_of(calls)) :] for calls in stacks), ())


def _begin(calls: tuple[NativeCall, ...], place: NativeCall | None) -> int:
    """Below what handled the signal, whosever the innermost frames are."""
    at, start = _index(calls, place), fault_index(calls)
    while start < at and (gives_up(calls[start]) or _is_nameless(calls[start])):
        start += 1
    return min(start, at)


def _is_nameless(call: NativeCall) -> bool:
    return call.function is None and call.module is None


def _index(calls: Sequence[NativeCall], place: NativeCall | None) -> int:
    if place is None:
        return 0
    names = (place.function, place.module)
    at = (
        number
        for number, call in enumerate(map(with_its_lambda, calls))
        if call == place or names in {(call.function, call.module), (None, call.module)}
    )
    return next(at, 0)


def _of_native(call: NativeCall) -> DeathFrame:
    return DeathFrame(
        kind=FrameKind.NATIVE,
        function=plain_name(call.function) if call.function else None,
        module=call.module,
        offset=call.offset,
        file=call.file,
        line=call.line,
    )


def _of_python(call: PythonCall) -> DeathFrame:
    return DeathFrame(
        kind=FrameKind.PYTHON,
        function=call.function,
        module=None,
        offset=None,
        file=call.file,
        line=call.line,
    )
