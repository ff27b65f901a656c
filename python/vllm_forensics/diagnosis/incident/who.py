"""Who died: the pid, the name and the role of the first death, and how sure the name is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vllm_forensics.diagnosis.incident.called import certainty_of, is_teller, name_of
from vllm_forensics.diagnosis.incident.clues import is_death, subject_pid
from vllm_forensics.diagnosis.incident.hearsay import name_titled
from vllm_forensics.diagnosis.incident.programs import program_of
from vllm_forensics.diagnosis.incident.roles import (
    name_of_frames,
    role_in_title,
    role_of_clue,
    role_of_name,
)
from vllm_forensics.diagnosis.incident.scripts import script_of
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import (
    BUGCHECK,
    LISTING,
    OOPS,
    SHELL,
    Clue,
    ClueKind,
    IncidentReading,
    ProcessRole,
)

_LAST_LINES: Final = 8
"""What a process wrote before it died may stand so far below: two streams were joined."""
_RIGHT_BELOW: Final = 2
_OF_ITSELF: Final = {(ClueKind.SIGNAL, OOPS): "kernel", (ClueKind.SIGNAL, BUGCHECK): "kernel"}
"""Who died where its own record of a fault names no process."""
_INTERPRETERS: Final = {
    "Ruby": "ruby",
    "MATLAB": "MATLAB",
    "R": "R",
    "Julia": "julia",
    "Java": "java",
    "Erlang": "beam",
}
"""Who prints such a report of itself, whatever a title says that it ran."""
_SERVERS: Final = {
    "ClickHouse": "clickhouse",
    "PHP-FPM": "php-fpm",
    "Blender": "blender",
    "RPCS3": "rpcs3",
    "PostgreSQL": "postgres",
    "the postmaster": "postgres",
}
"""The same, of which a stack may tell under which name it runs."""
_HOSTED: Final = {"Node": "node"}
"""The same, of which other programs may be made: a name that is likely."""
_DUMPS: Final = "faulthandler"
_PYTHONS: Final = "Fatal Python error"
_TYPED: Final = {"<stdin>", "<string>", "<console>"}
_OF_ENGINE: Final = "EngineDeadError"
_KINDS: Final = {"worker", "Worker", "child", "Child", "rank", "Rank", "server"}
"""What a parent calls all of its children."""
_CHILDREN: Final = {ProcessRole.ENGINE_CORE, ProcessRole.WORKER, ProcessRole.RAY_ACTOR}
_NUMBER: Final = re.compile(r"\d+")
_ASKED: Final = re.compile(r"(?P<name>\S[^:]{0,39}?) invoked oom-killer: ")
_FAILED: Final = re.compile(
    r"encountered a fatal error|hit an exception|failed to start|Error executing metho"
)
"""What a process says of itself."""


@dataclass(frozen=True)
class Who:
    """A process as a log tells it; what it does not tell is None."""

    pid: int | None
    name: str | None
    role: ProcessRole
    name_certainty: Certainty | None


def who_died(first: Clue, account: Sequence[Clue], reading: IncidentReading) -> Who:
    """The process of the first death.

    Its own record comes first, then who else is seen with its pid or role, then what the stack, a
    title or a list says of it. An echo names nobody: it speaks of another.
    """
    told = (first, *account)
    is_known = first.kind is not ClueKind.ECHO
    pid = next(filter(None, map(subject_pid, told)), None) if is_known else None
    name = _name_told(told, pid) or _name_below(first, reading) if is_known else None
    role = _role_told(first, told, reading)
    seen = next((one.name for one in reading.processes if pid is not None and one.pid == pid), None)
    if name is None or (role is None and role_of_name(seen) is not None):
        name = seen or name  # the kernel knows the thread's name only
    if is_known and pid is None and name is None and role is None:
        pid, name = _who_said_so(reading, first)
        # vLLM's names are known; any other class in front of a pid is an actor's.
        role = role_of_name(name) or (ProcessRole.RAY_ACTOR if name else None)
    role = role or role_of_name(name) or _role_missed(first)
    pid = pid or _started(name, first, reading)
    pid, name, role = _only_one_of_role(pid, name, role, reading)
    interpreter, server = _INTERPRETERS.get(first.source), _SERVERS.get(first.source)
    by_itself = interpreter or _OF_ITSELF.get((first.kind, first.source)) or server
    runs_python = _interpreter_of(told)
    name = (runs_python if (name or "").lower() == "interpreter" else None) or name or interpreter
    of_stack = _name_of_stack(told, role)
    is_longer = (of_stack or "").lower().startswith(f"{name}-".lower())  # `Pool` is `pool-server`
    name = None if name in _KINDS and server is not None else name
    name = of_stack if is_longer else name or of_stack or server
    if name is None or name.lower() == "child":  # a child's kind says less than a title's name
        titled = name_titled(first, reading)
        name = (None if is_teller(titled, told) else titled) or name or by_itself
        name = name or _listed(first, reading) or _invoked(told)
        name = name or _name_of_frames(told) or runs_python or _HOSTED.get(first.source)
    role = role or role_of_name(name) or _begun_as(pid, reading)
    return Who(
        pid=pid,
        name=name,
        role=role or (_alone(reading) if is_known else ProcessRole.UNKNOWN),
        name_certainty=certainty_of(name, told, reading, by_itself or runs_python),
    )


def _role_missed(first: Clue) -> ProcessRole | None:
    """Whom the exception misses with which a client notices an end: vLLM's engine core."""
    is_echo = first.kind is ClueKind.ECHO and _OF_ENGINE in (first.detail or first.text)
    return ProcessRole.ENGINE_CORE if is_echo else None


def _interpreter_of(told: Sequence[Clue]) -> str | None:
    """Who writes such a dump, or runs what was typed at a prompt or behind `-c`."""
    outermost = (clue.python[-1].file for clue in told if clue.python)
    is_typed = any(file in _TYPED for file in outermost)
    is_told = any(clue.source == _DUMPS or _PYTHONS in clue.text for clue in told)
    return "python" if is_typed or is_told else None


def _name_of_stack(told: Sequence[Clue], role: ProcessRole | None) -> str | None:
    """The program whose stack it is, or the script that Python runs.

    A forked child shows its parent's script too: its role says more.
    """
    scripts = (script_of(clue.python) for clue in told if clue.kind is not ClueKind.ECHO)
    script = next(filter(None, scripts), None) if role not in _CHILDREN else None
    program = next(filter(None, (program_of(clue.native) for clue in told)), None)
    return script or program


def _name_of_frames(told: Sequence[Clue]) -> str | None:
    """What a process calls itself whose function is on its own stack."""
    own = (clue.python for clue in told if clue.kind is not ClueKind.ECHO)
    return next(filter(None, map(name_of_frames, own)), None)


def _name_told(told: Sequence[Clue], pid: int | None) -> str | None:
    """The surest name in the death's own records; a file's whole name rather than its stem."""
    named = sorted(
        told,
        key=lambda clue: (
            clue.source == SHELL,
            _is_loosely_named(clue),
            subject_pid(clue) != pid,
            clue.name in _KINDS,
        ),
    )
    found = ((clue, name_of(clue)) for clue in named)
    names = [
        name
        for clue, name in found
        if name is not None and (clue.source == SHELL or not is_teller(name, told))
    ]
    name = next(iter(names), None)
    return next((one for one in names if one == f"{name}.exe"), name)


def _name_below(first: Clue, reading: IncidentReading) -> str | None:
    """Below a title stands whose log it is: the writer of a traceback whose end was cut off."""
    cut = _unfinished(reading) if first.is_told else ()
    known = subject_pid(first)
    own = (one for one in cut if known is None or one.writer_pid in {None, known})
    return next((one.writer for one in own if one.writer is not None), None)


def _role_told(first: Clue, told: Sequence[Clue], reading: IncidentReading) -> ProcessRole | None:
    """The role that the records show; a title's is its own, or that of the log below it."""
    role = next(filter(None, map(role_of_clue, told)), None)
    if role is not None or not first.is_told:
        return role
    below = filter(None, map(role_of_clue, _unfinished(reading)))
    return role_in_title(first.text) or next(below, None)


def _unfinished(reading: IncidentReading) -> Iterator[Clue]:
    """The tracebacks whose last line was cut off."""
    return (one for one in reading.clues if one.kind is ClueKind.STACK and one.source == "python")


def _who_said_so(reading: IncidentReading, first: Clue) -> tuple[int | None, str | None]:
    """The process that wrote that it had failed, or the only one; nothing else says who it was.

    Right below the traceback its parent may tell who left.
    """
    for clue in reading.clues:
        is_right_below = 0 < clue.line - first.line <= _RIGHT_BELOW
        if is_right_below and clue.kind is ClueKind.CHILD and clue.exit is not None and clue.name:
            return clue.pid, clue.name
        if clue.kind is ClueKind.ECHO and _FAILED.search(clue.text):
            return clue.writer_pid, clue.writer or clue.name
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


def _is_loosely_named(clue: Clue) -> bool:
    """Is its name told with the line, and not one that only a machine would write: `worker_3`?"""
    is_told = clue.is_told and clue.kind is not ClueKind.HEARSAY
    return is_told and not any(one == "_" or one.isdigit() for one in clue.name or "")


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
