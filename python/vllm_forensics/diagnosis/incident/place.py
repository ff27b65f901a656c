"""Where somebody died: whose stack shows it, whose words tell it, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vllm_forensics.diagnosis.incident.hearsay import place_titled
from vllm_forensics.diagnosis.incident.machinery import is_wait
from vllm_forensics.diagnosis.incident.source import asserted_place
from vllm_forensics.diagnosis.incident.where import (
    fault_index,
    innermost,
    last_resort,
    place_of,
    with_its_lambda,
)
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import (
    Cause,
    CauseClass,
    Clue,
    ClueKind,
    IncidentReading,
    NativeCall,
    PythonCall,
)
from vllm_forensics.model.python_source import TOP_LEVEL

_Calls = tuple[NativeCall, ...]
_WHERE_COUNTS: Final = {
    CauseClass.NATIVE_FAULT,
    CauseClass.HEAP_CORRUPTION,
    CauseClass.ABORT_EXCEPTION,
    CauseClass.ENVIRONMENT,
    CauseClass.UNKNOWN,
}
"""Elsewhere a native stack is only where something was noticed."""
_NOT_OF_WAITS: Final = {CauseClass.NATIVE_FAULT, CauseClass.HEAP_CORRUPTION}
_NO_RECORD: Final = {ClueKind.STACK, ClueKind.HEARSAY, ClueKind.MENTION, ClueKind.ECHO}
_BESIDE: Final = 12
"""So far from a record the stack that it speaks of begins."""
_RAISERS: Final = re.compile(r"(?i)kernelbase(?:\.dll)?$")
_IMPORT: Final = "<frozen importlib"
_NO_PLACE: Final = re.compile(r"JavaScript heap out of memory")
"""Whoever asks last for what is used up has no part in it."""
_DECLARED: Final = re.compile(r"(?P<function>_?Py[A-Z]\w{2,60}_\w{2,60}|[a-z]\w{1,40}_gil): \S")
"""`PyThreadState_Get: the function must be called with the GIL held`."""
_WAY_BACK: Final = re.compile(r"lib(?:c|pthread)[.-]")
_HANDLERS: Final = {"a server's master", "a signal handler", "backtrace()"}
_STARTERS: Final = re.compile(
    r"(?:.{0,200}/multiprocessing/process\.py|.{0,200}/threading\.py|.{0,200}/runpy\.py|"
    r"<frozen runpy>|.{0,200}/concurrent/futures/(?:process|thread)\.py)"
)
"""Python's own files that only begin what others do."""


@dataclass(frozen=True)
class Place:
    """Where it died as a log tells it; what it does not tell is None, or empty."""

    call: NativeCall | None
    python: str | None
    """The Python function, or the file that imports."""
    source: NativeCall | PythonCall | None
    """Whose file and line it is."""
    stack: tuple[PythonCall, ...]
    certainty: Certainty | None


def where_it_died(
    first: Clue, account: Sequence[Clue], cause: Cause, reading: IncidentReading
) -> Place:
    """The place of the first death: its own stack's first, then its words', then a title's."""
    told = (first, *account)
    call = _native(told, cause)
    is_sure = call is not None
    own = (clue for clue in told if clue.python and _is_own(clue))
    shows = next((clue for clue in own if not _is_of_an_exception(clue, cause)), None)
    stack = shows.python if shows is not None else ()
    called = _own_call(stack)
    if call is None and cause.kind in _WHERE_COUNTS:
        titled = place_titled(first, reading)
        # Python's own stack tells more than a function's name
        is_less = called is not None and titled is not None and titled.module is None
        call = None if is_less else titled
    if call is None and called is None:
        return _told_by_people(first, cause, reading, stack)
    teller = _teller(call, told) if call is not None else shows
    is_sure = (is_sure or call is None) and teller is not None and _is_record(teller, told)
    is_sure = is_sure and cause.kind is not CauseClass.GPU_ASYNC  # where it was noticed
    certainty = Certainty.PROVED if is_sure else Certainty.LIKELY
    return Place(
        call=call,
        python=_name_of(called, stack) if called is not None else None,
        source=call or called,
        stack=stack,
        certainty=certainty,
    )


def without_program(where: Place, name: str | None, reading: IncidentReading) -> Place:
    """The place; none where people only call the dead program by its name."""
    call = where.call
    if call is None or call is not reading.told_place:
        return where
    is_program = name is not None and name.lower() in {
        (one or "").lower() for one in (call.module, call.function)
    }
    return replace(where, call=None, source=None, certainty=None) if is_program else where


def _told_by_people(
    first: Clue, cause: Cause, reading: IncidentReading, stack: tuple[PythonCall, ...]
) -> Place:
    """Where people say that it died, of whom no stack and no word of its own shows it."""
    told: NativeCall | PythonCall | None = None
    if cause.kind in _WHERE_COUNTS:
        shown = reading.shown_stack
        shown = () if shown and is_wait(shown[0].function or "") else shown
        told = place_of(shown) or last_resort(shown) or _declared(first) or reading.told_place
    return Place(
        call=told if isinstance(told, NativeCall) else None,
        python=told.function if isinstance(told, PythonCall) else None,
        source=told,
        stack=stack,
        certainty=Certainty.LIKELY if told is not None else None,
    )


def _declared(first: Clue) -> NativeCall | None:
    """The function that the interpreter's last words begin with."""
    declared = _DECLARED.match(first.detail or "") if first.kind is ClueKind.ABORT else None
    return NativeCall(function=declared["function"], module=None) if declared is not None else None


def _is_of_an_exception(clue: Clue, cause: Cause) -> bool:
    """Is it a traceback without its end, in a text of a fault? It shows where something raised."""
    is_cut = clue.kind is ClueKind.STACK and clue.source == "python"
    return is_cut and cause.kind is CauseClass.NATIVE_FAULT


def _native(told: Sequence[Clue], cause: Cause) -> NativeCall | None:
    if cause.kind not in _WHERE_COUNTS:
        # its own words: there it gave up, whoever is to blame
        return asserted_place(told) if told[0].kind is ClueKind.ABORT else None
    stacks = [_own_part(clue, cause) for clue in told if not _is_anothers(clue.native, cause)]
    programs = {clue.name for clue in told if clue.native and clue.name is not None}
    found = (*_found(place_of, stacks), *_found(last_resort, stacks))
    place = _named(found, programs)
    if place is None or cause.kind is not CauseClass.NATIVE_FAULT:  # whose words are another's
        place = _with_source(place, asserted_place(told))
    if _NO_PLACE.search(cause.detail) is not None:
        module = place.module if place is not None else None
        return NativeCall(function=None, module=module) if module is not None else None
    return place or next(_found(innermost, stacks), None)


def _with_source(place: NativeCall | None, asserted: NativeCall | None) -> NativeCall | None:
    """The place; with the source that an assertion in the same function tells, or that alone."""
    if place is None or asserted is None or place.file is not None:
        return place or asserted
    if place.function is None:  # a list of modules begins with the one that only reports
        return place if "." in (place.module or "") else asserted
    is_same = (asserted.function or "").endswith(place.function)
    return replace(place, file=asserted.file, line=asserted.line) if is_same else place


def _own_part(clue: Clue, cause: Cause) -> _Calls:
    """Its stack without what gave up for another's sake.

    Of V8's full heap its collector is not to blame, and of an exception of Windows' not who raises
    it.
    """
    if len(clue.native) == 1 and clue.source in _HANDLERS:
        only = clue.native[0]
        if only.function is None and _WAY_BACK.match(only.module or "") is not None:
            return ()  # the way back from the handler, and no more
    if "heap out of memory" in (clue.detail or ""):
        return tuple(replace(one, function=None) for one in clue.native)
    if cause.kind in {CauseClass.ABORT_EXCEPTION, CauseClass.ENVIRONMENT}:
        return tuple(one for one in clue.native if _RAISERS.match(one.module or "") is None)
    return clue.native


def _found(
    find: Callable[[_Calls], NativeCall | None], stacks: Sequence[_Calls]
) -> Iterator[NativeCall]:
    return filter(None, map(find, stacks))


def _is_anothers(calls: _Calls, cause: Cause) -> bool:
    """Is it the stack of a thread that waited, where another one faulted?"""
    name = calls[0].function if calls else None
    is_fault = cause.kind in _NOT_OF_WAITS
    return is_fault and name is not None and is_wait(name) and not fault_index(calls)


def _teller(call: NativeCall, told: Sequence[Clue]) -> Clue | None:
    """The clue whose stack, or whose words, show the place."""
    for clue in told:
        if any(_shows(with_its_lambda(one), call) for one in clue.native):
            return clue
    return next((clue for clue in told if asserted_place([clue]) == call), None)


def _shows(frame: NativeCall, call: NativeCall) -> bool:
    """Is a frame the place? Of it the function, or the library, may have been left out."""
    functions, modules = {None, frame.function}, {None, frame.module}
    return call.function in functions and (call.module in modules or frame.module is None)


def _is_record(clue: Clue, told: Sequence[Clue]) -> bool:
    """Is it a record of the death, or a stack beside one, and no sentence?"""
    if clue.kind is ClueKind.STACK or (clue.native and clue.is_told):
        own = (one for one in told if one.kind not in _NO_RECORD and not one.is_told)
        return any(abs(clue.line - one.line) <= _BESIDE for one in own)
    return not clue.is_told and clue.kind is not ClueKind.HEARSAY


def _named(places: Sequence[NativeCall], programs: Collection[str]) -> NativeCall | None:
    """The first place; a later one in the same library may tell the function that it lacks.

    Debuggers name no module for a frame of the program itself.
    """
    first = next(iter(places), None)
    if first is None or first.function is not None:
        return first
    modules = {first.module, None} if first.module in programs else {first.module}
    found = next((one for one in places if one.function and one.module in modules), None)
    return first if found is None else replace(found, module=first.module)


def _own_call(calls: Sequence[PythonCall]) -> PythonCall | None:
    """The innermost call; of an import the file that imports, and not Python's machinery.

    A traceback that was cut off behind what began a process or a thread shows no place.
    """
    if all(_STARTERS.fullmatch(call.file.replace("\\", "/")) for call in calls):
        return None
    own = (call for call in calls if not call.file.startswith(_IMPORT))
    return next(own, calls[0])


def _name_of(own: PythonCall, calls: Sequence[PythonCall]) -> str:
    if calls[0] is own or own.function != TOP_LEVEL:
        return own.function
    path = own.file.replace("\\", "/").split("/")
    return f"import in {'/'.join(path[-2:])}"


def _is_own(clue: Clue) -> bool:
    """Is its Python stack that of the dead process, and not of one that noticed?"""
    is_others = clue.of_another and clue.kind is not ClueKind.HEARSAY
    return not is_others and clue.kind is not ClueKind.ECHO
