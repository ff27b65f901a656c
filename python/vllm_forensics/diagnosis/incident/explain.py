"""From clues to an incident: the first death, its cause, the processes and the echoes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.account import account_of
from vllm_forensics.diagnosis.incident.by_program import by_program
from vllm_forensics.diagnosis.incident.causes import cause_of
from vllm_forensics.diagnosis.incident.clues import MACHINES, is_death, subject_pid
from vllm_forensics.diagnosis.incident.echoes import echoes_of, is_a_parents_word
from vllm_forensics.diagnosis.incident.first import first_death, is_of_a_stop
from vllm_forensics.diagnosis.incident.hearsay import (
    hearsay_of,
    is_asked_for,
    name_titled,
    place_titled,
)
from vllm_forensics.diagnosis.incident.names import certainty_of_name, with_numbers
from vllm_forensics.diagnosis.incident.processes import processes_of
from vllm_forensics.diagnosis.incident.programs import program_of
from vllm_forensics.diagnosis.incident.restarts import lives_of
from vllm_forensics.diagnosis.incident.roles import role_in_title, role_of_clue, role_of_name
from vllm_forensics.diagnosis.incident.source import asserted_place
from vllm_forensics.diagnosis.incident.stack import stack_of
from vllm_forensics.diagnosis.incident.steps import next_steps
from vllm_forensics.diagnosis.incident.strangers import without_strangers
from vllm_forensics.diagnosis.incident.threads import with_processes
from vllm_forensics.diagnosis.incident.where import innermost, last_resort, place_of
from vllm_forensics.diagnosis.incident.words import explanation
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import (
    LISTING,
    OOPS,
    CauseClass,
    Clue,
    ClueKind,
    Death,
    Echo,
    EvidenceLine,
    Incident,
    IncidentReading,
    NativeCall,
    ProcessRole,
    PythonCall,
)

_MAX_EVIDENCE: Final = 12
_LAST_LINES: Final = 8
"""What a process wrote before it died may stand so far below: two streams were joined."""
_IMPORT: Final = "<frozen importlib"
_SHELL: Final = "the shell"
"""It tells what was typed, which may be a script's name."""
_OF_ITSELF: Final = {(ClueKind.SIGNAL, OOPS): "kernel"}
"""Who died where its own record of a fault names no process."""
_INTERPRETERS: Final = {
    "Ruby": "ruby",
    "MATLAB": "MATLAB",
    "R": "R",
    "Julia": "julia",
    "Java": "java",
}
"""Who prints such a report of itself, whatever a title says that it ran."""
_KINDS: Final = {"worker", "Worker", "child", "Child", "rank", "Rank"}
"""What a parent calls all of its children."""
_NUMBER: Final = re.compile(r"\d+")
_ASKED: Final = re.compile(r"(?P<name>\S{1,40}) invoked oom-killer: ")
_FAILED: Final = re.compile(r"encountered a fatal error|hit an exception|failed to start")
"""What a process says of itself."""
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
    is_known = first.kind is not ClueKind.ECHO
    pid = next(filter(None, map(subject_pid, told)), None) if is_known else None
    named = sorted(
        told,
        key=lambda clue: (
            clue.source == _SHELL,
            _is_loosely_named(clue),
            subject_pid(clue) != pid,
            clue.name in _KINDS,
        ),
    )
    names = list(filter(None, map(_name, named))) if is_known else []
    name = next(iter(names), None)
    name = next((one for one in names if one == f"{name}.exe"), name)
    seen = next((one.name for one in reading.processes if pid is not None and one.pid == pid), None)
    role = next(filter(None, map(role_of_clue, told)), None)
    if role is None and first.is_told:  # a title's: below it stands whose log it is
        role = role_in_title(first.text)
        role = role or next(filter(None, map(role_of_clue, _unfinished(reading))), None)
    if name is None or (role is None and role_of_name(seen) is not None):
        name = seen or name  # the kernel knows the thread's name only
    if is_known and pid is None and name is None and role is None:
        pid, name = _who_said_so(reading, first)
        # vLLM's names are known; any other class in front of a pid is an actor's.
        role = role_of_name(name) or (ProcessRole.RAY_ACTOR if name else None)
    role = role or role_of_name(name)
    pid = pid or _started(name, first, reading)
    pid, name, role = _only_one_of_role(pid, name, role, reading)
    by_itself = _INTERPRETERS.get(first.source) or _OF_ITSELF.get((first.kind, first.source))
    name = name or _INTERPRETERS.get(first.source)
    name = name or next(filter(None, (program_of(clue.native) for clue in told)), None)
    if name is None or name.lower() == "child":  # a child's kind says less than a title's name
        name = name_titled(first, reading) or name or by_itself
        name = name or _listed(first, reading) or _invoked(told)
    role = role or role_of_name(name) or _begun_as(pid, reading)
    signals = [clue.signal for clue in told if clue.signal is not None]
    # How a runtime gives up is known by its words; how that ended, by whoever waited for it.
    waited = [clue.signal for clue in account if clue.kind is ClueKind.CHILD and clue.signal]
    signals = [*waited, *signals] if first.kind is ClueKind.ABORT else signals
    death = Death(
        pid=pid,
        name=name,
        role=role or (_alone(reading) if is_known else ProcessRole.UNKNOWN),
        signal=next(iter(signals), None),
        exit=next((clue.exit for clue in told if clue.exit is not None), None),
        time=next((clue.time for clue in told if clue.time is not None), None),
        module=place.module if place else None,
        function=plain_name(place.function) if place and place.function else None,
        python_function=_called(python) if python else None,
        file=place.file if place else None,
        line=place.line if place else None,
        symbolized=place.symbolized if place else None,
        name_certainty=certainty_of_name(name, told, reading, by_itself),
        cause=cause,
        evidence=(),
        frames=stack_of(told, place, python),
    )
    lines = sorted({clue.line: clue.text for clue in told}.items())[:_MAX_EVIDENCE]
    return replace(
        death, evidence=tuple(EvidenceLine(line=line, text=text) for line, text in lines)
    )


def _unfinished(reading: IncidentReading) -> Iterator[Clue]:
    """The tracebacks whose last line was cut off."""
    return (one for one in reading.clues if one.kind is ClueKind.STACK and one.source == "python")


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


def _who_said_so(reading: IncidentReading, first: Clue) -> tuple[int | None, str | None]:
    """The process that wrote that it had failed, or the only one; nothing else says who it was."""
    for clue in reading.clues:
        if clue.kind is ClueKind.ECHO and _FAILED.search(clue.text):
            return clue.writer_pid, clue.writer
        if clue.kind is ClueKind.CHILD and clue.line > first.line:
            break  # what fails behind that fails of another's end
    if len(reading.processes) == 1:
        (only,) = reading.processes
        is_server = role_of_name(only.name) in {ProcessRole.API_SERVER, ProcessRole.CLIENT}
        lived_on = not first.is_told and only.last_line > first.line + _LAST_LINES
        return (None, None) if is_server or lived_on or not only.name else (only.pid, only.name)
    return None, None


def _started(name: str | None, first: Clue, reading: IncidentReading) -> int | None:
    """The process that a supervisor started last under the dead one's name."""
    starts = (clue for clue in reading.clues if clue.kind is ClueKind.START)
    pids = [clue.pid for clue in starts if clue.name == name and clue.line < first.line]
    return pids[-1] if name is not None and pids else None


def _invoked(told: Sequence[Clue]) -> str | None:
    """Who asked for the memory that there was not, where the kernel's record names nobody else."""
    asked = (_ASKED.match(one.detail or "") for one in told if one.kind is ClueKind.MEMORY)
    return next((one["name"] for one in asked if one is not None), None)


def _listed(first: Clue, reading: IncidentReading) -> str | None:
    """Who is listed as down, where only a status is told."""
    is_status = first.kind in {ClueKind.CHILD, ClueKind.MEMORY} and not reading.processes
    names = (one.name for one in reading.clues if one.source == LISTING and one.name is not None)
    return next(names, None) if is_status else None


def _begun_as(pid: int | None, reading: IncidentReading) -> ProcessRole | None:
    """The role under which a master started the process."""
    starts = (clue for clue in reading.clues if clue.kind is ClueKind.START)
    names = (clue.name for clue in starts if pid is not None and clue.pid == pid)
    return next(filter(None, map(role_of_name, names)), None)


def _called(calls: Sequence[PythonCall]) -> str:
    """The innermost function; of an import the file that imports, and not Python's machinery."""
    if not calls[0].file.startswith(_IMPORT):
        return calls[0].function
    own = next((call for call in calls if not call.file.startswith(_IMPORT)), calls[0])
    if own.function != "<module>":
        return own.function
    path = own.file.replace("\\", "/").split("/")
    return f"import in {'/'.join(path[-2:])}"


def _is_loosely_named(clue: Clue) -> bool:
    """Is its name told with the line, and not one that only a machine would write: `worker_3`?"""
    is_told = clue.is_told and clue.kind is not ClueKind.HEARSAY
    return is_told and not any(one == "_" or one.isdigit() for one in clue.name or "")


def _is_own(clue: Clue) -> bool:
    """Is its Python stack that of the dead process, and not of one that noticed?"""
    is_others = clue.of_another and clue.kind is not ClueKind.HEARSAY
    return not is_others and clue.kind is not ClueKind.ECHO


def _name(clue: Clue) -> str | None:
    return clue.name if clue.of_another else clue.name or clue.writer


def _only_one_of_role(
    pid: int | None, name: str | None, role: ProcessRole | None, reading: IncidentReading
) -> tuple[int | None, str | None, ProcessRole | None]:
    """A death that names no process is that of the only one with its role, or of its name."""
    if pid is not None:
        return pid, name, role
    named = [one for one in reading.processes if name and one.name == name]
    of_role = [one for one in reading.processes if role and role_of_name(one.name) is role]
    fitting = named or [one for one in of_role if _may_be(name, one.name)]
    if len(fitting) == 1 and len(of_role) < 2:
        return fitting[0].pid, name or fitting[0].name, role
    return pid, name, role


def _may_be(told: str | None, seen: str) -> bool:
    """`VllmWorker-0` may be `Worker_TP0`, and not `Worker_TP1`."""
    numbers = [_NUMBER.findall(one)[-1:] for one in (told or "", seen)]
    return not all(numbers) or numbers[0] == numbers[1]


def _alone(reading: IncidentReading) -> ProcessRole:
    dead = {subject_pid(clue) for clue in reading.clues if is_death(clue)} - {None}
    is_one = len(reading.processes) < 2 and len(dead) < 2
    return ProcessRole.MAIN if is_one else ProcessRole.UNKNOWN
