"""From clues to an incident: the first death, its cause, the processes and the echoes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.account import account_of
from vllm_forensics.diagnosis.incident.by_program import by_program
from vllm_forensics.diagnosis.incident.causes import cause_of
from vllm_forensics.diagnosis.incident.clues import MACHINES
from vllm_forensics.diagnosis.incident.echoes import echoes_of, is_a_parents_word
from vllm_forensics.diagnosis.incident.first import first_death, is_of_a_stop
from vllm_forensics.diagnosis.incident.hearsay import (
    hearsay_of,
    is_asked_for,
    place_titled,
)
from vllm_forensics.diagnosis.incident.names import with_numbers
from vllm_forensics.diagnosis.incident.processes import processes_of
from vllm_forensics.diagnosis.incident.restarts import lives_of
from vllm_forensics.diagnosis.incident.source import asserted_place
from vllm_forensics.diagnosis.incident.stack import stack_of
from vllm_forensics.diagnosis.incident.steps import next_steps
from vllm_forensics.diagnosis.incident.strangers import without_strangers
from vllm_forensics.diagnosis.incident.threads import with_processes
from vllm_forensics.diagnosis.incident.where import innermost, last_resort, place_of
from vllm_forensics.diagnosis.incident.who import who_died
from vllm_forensics.diagnosis.incident.words import explanation
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import (
    CauseClass,
    Clue,
    ClueKind,
    Death,
    Echo,
    EvidenceLine,
    Incident,
    IncidentReading,
    NativeCall,
    PythonCall,
)
from vllm_forensics.model.python_source import TOP_LEVEL

_MAX_EVIDENCE: Final = 12
_IMPORT: Final = "<frozen importlib"
_NOTICES: Final = {ClueKind.ECHO, ClueKind.CHILD, ClueKind.START, ClueKind.HEARSAY}
_WHERE_COUNTS: Final = {
    CauseClass.NATIVE_FAULT,
    CauseClass.HEAP_CORRUPTION,
    CauseClass.ABORT_EXCEPTION,
    CauseClass.ENVIRONMENT,
    CauseClass.UNKNOWN,
}
"""Elsewhere a native stack is only where something was noticed."""


def explain_incidents(reading: IncidentReading, log: str) -> tuple[Incident, ...]:
    """The incidents that a log tells of, in its order: one for each life that ended badly."""
    own = with_numbers(without_strangers(with_processes(reading)))
    lives = (life for program in by_program(own) for life in lives_of(program))
    found = (explain_incident(life, log) for life in lives)
    return tuple(incident for incident in found if incident is not None)


def explain_incident(reading: IncidentReading, log: str) -> Incident | None:
    """The first incident that a log tells of; None where nobody died in it."""
    clues = reading.clues
    first = first_death(clues)
    if first is None or is_of_a_stop(first, reading.stopped):
        return None
    if first.kind is ClueKind.EXCEPTION and reading.succeeded:
        return None  # it was handled
    account = account_of(first, clues)
    heard = hearsay_of(first, account, clues)
    if not heard and is_asked_for(first):
        return None
    account = (*account, *heard)
    death = _death(first, account, reading)
    if first.is_caught and not _was_noticed(first, clues):
        death = replace(death, cause=replace(death.cause, certainty=Certainty.LIKELY))
    told = {id(clue) for clue in (first, *account) if not is_a_parents_word(clue, first)}
    echoes = echoes_of([clue for clue in clues if id(clue) not in told], first, death)
    # The kernel's own log is not what a user sees, wherever it was pasted; nor are cores.
    unseen = {clue.line for clue in clues if clue.source in MACHINES}
    seen = [clue.line for clue in clues if id(clue) in told and clue.line not in unseen]
    visible = tuple(echo for echo in echoes if echo.line not in unseen)
    is_echo = _visible_is_echo(first, max(seen, default=0), visible)
    processes = processes_of(reading, death, clues)
    return Incident(
        log=log,
        first_death=death,
        processes=processes,
        visible_error_is_echo=is_echo,
        echoes=echoes,
        explanation=explanation(
            death, visible, processes, is_echo=is_echo, teaches=reading.teaches
        ),
        next_steps=next_steps(death, (first, *account)),
    )


def _was_noticed(first: Clue, clues: Sequence[Clue]) -> bool:
    """Did anybody tell of an end below it? Else who logged an exception may have lived on."""
    return any(clue.line > first.line and clue.kind in _NOTICES for clue in clues)


def _visible_is_echo(first: Clue, last: int, echoes: Sequence[Echo]) -> bool:
    """Is what stands last in the log, or all that stands there, only an echo?"""
    if first.kind is ClueKind.ECHO or (first.kind is ClueKind.CHILD and first.signal is None):
        return True
    return any(echo.line > last for echo in echoes)


def _death(first: Clue, account: Sequence[Clue], reading: IncidentReading) -> Death:
    told = (first, *account)
    cause = cause_of(first, account)
    place: NativeCall | None = None
    if cause.kind in _WHERE_COUNTS:
        places = (find(clue.native) for find in (place_of, last_resort) for clue in told)
        programs = {clue.name for clue in told if clue.native and clue.name is not None}
        place = _named(list(filter(None, places)), programs) or asserted_place(told)
        place = place or next(filter(None, (innermost(clue.native) for clue in told)), None)
        place = place or place_titled(first, reading)
    elif first.kind is ClueKind.ABORT:
        place = asserted_place(told)  # its own words: there it gave up, whoever is to blame
    python = next((clue.python for clue in told if clue.python and _is_own(clue)), ())
    called = _own_call(python)
    source = place or called
    who = who_died(first, account, reading)
    signals = [clue.signal for clue in told if clue.signal is not None]
    # How a runtime gives up is known by its words; how that ended, by whoever waited for it.
    waited = [clue.signal for clue in account if clue.kind is ClueKind.CHILD and clue.signal]
    signals = [*waited, *signals] if first.kind is ClueKind.ABORT else signals
    death = Death(
        pid=who.pid,
        name=who.name,
        role=who.role,
        signal=next(iter(signals), None),
        exit=next((clue.exit for clue in told if clue.exit is not None), None),
        time=next((clue.time for clue in told if clue.time is not None), None),
        module=place.module if place else None,
        function=plain_name(place.function) if place and place.function else None,
        python_function=_called(python, called) if called else None,
        file=source.file if source else None,
        line=source.line if source else None,
        symbolized=place.symbolized if place else None,
        name_certainty=who.name_certainty,
        cause=cause,
        evidence=(),
        frames=stack_of(told, place, python),
    )
    lines = sorted({clue.line: clue.text for clue in told}.items())[:_MAX_EVIDENCE]
    return replace(
        death, evidence=tuple(EvidenceLine(line=line, text=text) for line, text in lines)
    )


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
    """The innermost call; of an import the file that imports, and not Python's machinery."""
    own = (call for call in calls if not call.file.startswith(_IMPORT))
    return next(own, next(iter(calls), None))


def _called(calls: Sequence[PythonCall], own: PythonCall) -> str:
    if calls[0] is own or own.function != TOP_LEVEL:
        return own.function
    path = own.file.replace("\\", "/").split("/")
    return f"import in {'/'.join(path[-2:])}"


def _is_own(clue: Clue) -> bool:
    """Is its Python stack that of the dead process, and not of one that noticed?"""
    is_others = clue.of_another and clue.kind is not ClueKind.HEARSAY
    return not is_others and clue.kind is not ClueKind.ECHO
