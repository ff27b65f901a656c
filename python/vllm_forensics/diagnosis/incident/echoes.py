"""What is only a consequence of the first death, each with the line and the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.clues import MACHINES, OUTSIDE, subject_pid
from vllm_forensics.diagnosis.incident.where import place_of
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Clue, ClueKind, Death, Echo

_MAX_ECHOES: Final = 100
_OWN_DEATHS: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.MEMORY}
_ASKED: Final = {"SIGTERM", "SIGINT"}
_FAULTS: Final = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"}
"""What one process does to itself, and no other's death to it."""
_KEEPS_CORES: Final = "systemd"
"""Each of its records is a death of its own: that one caused another, it cannot know."""
_TOLD: Final = {ClueKind.CHILD, ClueKind.HANG, *_OWN_DEATHS, ClueKind.ABORT}
_RECORDS: Final = {"systemd", "Windows", "macOS"}
_OF_RECORDS: Final = ("siginfo:", "Stack trace of thread ")
_MASTERS: Final = {"the container runtime", "a listing", "a parent", "a server's master"}
"""Who starts programs that have nothing to do with each other."""
_STATUS: Final = re.compile(
    r"(?i)\W{0,4}(?:rc|ret|(?:exit |return )?(?:status|code)|exit)\W{1,3}\d{1,3}"
)
"""What somebody let a shell print: no error that a program shows."""
_ASKED_FOR: Final = ("SystemExit", "KeyboardInterrupt", "CancelledError")
_OWN: Final = "the same process, after the first sign of its death"
_NO_ECHOES: Final = {
    ClueKind.STACK,
    ClueKind.START,
    ClueKind.NOT_MEMORY,
    ClueKind.HEARSAY,
    ClueKind.MENTION,
}


def echoes_of(rest: Sequence[Clue], first: Clue, death: Death) -> tuple[Echo, ...]:
    """The clues that the first death explains, in the order of the log."""
    found = []
    apart = {subject_pid(clue) for clue in rest if _died_elsewhere(clue, death)} - {None, death.pid}
    for clue in rest:
        is_apart = clue.kind in _OWN_DEATHS and subject_pid(clue) in apart
        is_apart = is_apart or _tells_it_again(clue, first, death) or _is_by_itself(clue, death)
        is_echo = clue.kind not in _NO_ECHOES and not is_apart
        why = _why(clue, first, death) if is_echo else None
        if why is not None:
            found.append(Echo(line=clue.line, text=clue.text, of=death.pid, why=why))
    if len(found) > _MAX_ECHOES:
        found = [*found[: _MAX_ECHOES - 1], found[-1]]
    return tuple(found)


def _died_elsewhere(clue: Clue, death: Death) -> bool:
    """Did another process die of a fault of its own, in another function than the first?"""
    if clue.kind is not ClueKind.SIGNAL or clue.signal not in _FAULTS or not clue.native:
        return False
    place = place_of(clue.native)
    names = (death.function, place.function) if place is not None else (None, None)
    return None not in names and plain_name(names[1] or "") != names[0]


def _tells_it_again(clue: Clue, first: Clue, death: Death) -> bool:
    """Is it the same death in a title or a sentence, or in another line of its own record?"""
    pid = subject_pid(clue)
    agrees = clue.signal in {None, death.signal} and pid in {None, death.pid}
    if clue.is_told and pid is None and clue.kind in _TOLD:
        is_somebodys = clue.source == "somebody" or clue.text.startswith("#")
        return is_somebodys or (clue.signal is not None and agrees)
    if clue.kind is first.kind is ClueKind.ABORT:
        words = (clue.detail or "", first.detail or "")
        return agrees and all(words) and words[0].startswith(words[1])
    is_line = clue.source in _RECORDS or clue.text.startswith(_OF_RECORDS)
    return is_line and agrees and clue.exit is None


def _is_by_itself(clue: Clue, death: Death) -> bool:
    """Is it the death of another, which none but it can have caused?

    A fault that a shell or the kernel tells is of who died of it, a core of who left it, and what
    the kernel killed for lack of memory of whom it killed; and who watches over several programs
    tells of each. Workers of one program are no such.
    """
    pid = subject_pid(clue)
    if clue.kind is ClueKind.MEMORY and clue.source in MACHINES:
        return None not in {pid, death.pid} and pid != death.pid
    if clue.kind in _OWN_DEATHS:
        is_fault = clue.signal in _FAULTS and clue.source in OUTSIDE
        return (is_fault or clue.source == "a debugger") and (pid is None or pid != death.pid)
    if clue.kind is not ClueKind.CHILD or clue.source not in _MASTERS or clue.signal in _ASKED:
        return False
    if pid is not None and death.pid is not None:
        return pid != death.pid
    return None not in {clue.name, death.name} and clue.name != death.name


def is_a_parents_word(clue: Clue, first: Clue) -> bool:
    """Does it only repeat, in another process, what the dead one had said itself?"""
    if _STATUS.fullmatch(clue.text) is not None and clue.signal == first.signal is not None:
        return False
    return (
        clue.kind is ClueKind.CHILD
        and clue is not first
        and clue.source not in OUTSIDE
        and (first.kind is not ClueKind.CHILD or clue.signal is None)
    )


def _why(clue: Clue, first: Clue, death: Death) -> str | None:
    if clue.kind is ClueKind.ECHO:
        is_own = subject_pid(clue) in {subject_pid(first), death.pid}
        is_heading = clue.line < first.line and is_own
        return None if is_heading else _why_raised(clue, death)
    pids = {subject_pid(clue), subject_pid(first)}
    are_two = len(pids) == 2 and None not in pids
    if clue.kind is ClueKind.CHILD:
        if clue.signal in _ASKED:
            return f"{clue.signal} was sent to it: it was asked to end"
        has_core = clue.source == _KEEPS_CORES and clue.signal == "SIGABRT"
        is_own = clue.signal in _FAULTS or has_core
        return None if are_two and is_own else "another process tells of an end"
    is_own = clue.kind is not first.kind or (clue.signal in _FAULTS and clue.source in MACHINES)
    if are_two and clue.kind in _OWN_DEATHS and is_own:
        return None  # two processes, each with a cause of its own
    return _why_later(clue, first) if clue.line > first.line else None


def _why_raised(clue: Clue, death: Death) -> str:
    if death.pid is not None and subject_pid(clue) == death.pid:
        return _OWN
    if (clue.detail or "").startswith(_ASKED_FOR):
        return "raised where somebody asked for an end"
    return "such an error is raised only where another process has ended"


def _why_later(clue: Clue, first: Clue) -> str:
    ours, theirs = subject_pid(first), subject_pid(clue)
    if ours is not None and ours == theirs:
        return _OWN
    if clue.kind in {ClueKind.GPU, ClueKind.HANG}:
        return "a peer that waited for the dead process, or shared its GPU work"
    if clue.kind is ClueKind.EXCEPTION:
        if clue.python[:1] and clue.python[:1] == first.python[:1]:
            return "it failed at the same place, later"
        return "raised after the death, where it was noticed"
    return "it ended after the first death"
