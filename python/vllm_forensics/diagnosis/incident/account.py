"""Which other clues tell of the same death as the first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.clues import (
    ASKED,
    NEAR,
    OUTSIDE,
    OWN_WORDS,
    RECORD,
    ends_in,
    is_where,
    subject_pid,
)
from vllm_forensics.diagnosis.incident.roles import role_of_clue
from vllm_forensics.model.incident import SHELL, SPY, Clue, ClueKind

_FATAL: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT}
"""Words of a process that a signal ends."""
_ENDED: Final = {"SIGKILL", "SIGTERM"}
"""By these one process ends another."""
_QUOTES: Final = re.compile("[`'\"]")
_NEXT: Final = 4
_MESSAGE: Final = 3
"""So many lines the message of an exception may have before it comes to the point."""
_STACK: Final = 100
"""So far below the words of a panic its status may stand: its stack lies between."""
_NO_ACCOUNT: Final = {ClueKind.ECHO, ClueKind.START, ClueKind.HEARSAY, ClueKind.MENTION}
_NAMELESS: Final = {*OWN_WORDS, ClueKind.EXCEPTION}
_ADDED: Final = {ClueKind.STACK, ClueKind.NOT_MEMORY}
_WITH_PLACE: Final = {
    ClueKind.SIGNAL,
    ClueKind.HEAP,
    ClueKind.ABORT,
    ClueKind.CHILD,
    ClueKind.STACK,
}


def account_of(first: Clue, clues: Sequence[Clue]) -> tuple[Clue, ...]:
    """The other clues to the same death, in the order of the log."""
    pid = subject_pid(first)
    found: list[Clue] = []
    clues = _without_peers(first, _without_other_dumps(first, clues))
    last: dict[int | None, Clue] = {}
    for clue in clues:
        above = last.get(clue.writer_pid)
        last[clue.writer_pid] = clue
        if clue is first or clue.kind in _NO_ACCOUNT:
            continue
        is_near = abs(clue.line - first.line) < NEAR
        if clue.kind in _ADDED:
            if clue.source == SPY or is_where(clue) or _adds(clue, first, pid, found):
                found.append(clue)
            continue
        if clue.follows is not None and is_near and clue.writer_pid == first.writer_pid:
            if above is None or above is first or any(above is one for one in found):
                found.append(clue)
            continue  # what follows another's echo is no word of the dead one
        other = subject_pid(clue)
        if pid is not None and other is not None:
            if other == pid and _agrees(first, clue):
                found.append(clue)
        elif (
            _was_sent(first, clue)
            or (clue.sender is None and _may_be_the_same(first, clue))
            or _goes_on(clue, (first, *found))
            or _heads(clue, first)
            or ends_in(first, clue)
            or _is_of_core(first, clue)
            or _gave_up(first, clue)
        ):
            found.append(clue)
            pid = pid if pid is not None else other
    return tuple(found)


def _without_other_dumps(first: Clue, clues: Sequence[Clue]) -> Sequence[Clue]:
    """The clues; of living processes' stacks only that of the one that waits, if it is known."""
    spied = [clue for clue in clues if clue.source == SPY]
    if not spied:
        return clues
    who = first.writer.replace(" ", "_") if first.writer is not None else ""
    own = [clue for clue in spied if who in (clue.name or "")]
    if first.kind is ClueKind.HANG and len({clue.pid for clue in own}) == 1:
        spied = [clue for clue in spied if clue not in own[:1]]
    return [clue for clue in clues if clue not in spied]


def _without_peers(first: Clue, clues: Sequence[Clue]) -> Sequence[Clue]:
    """The clues; where a parent tells of several that died alike, one dump is each one's own."""
    if subject_pid(first) is not None or first.of_another or first.kind not in OWN_WORDS:
        return clues
    alike = [clue for clue in clues if clue.signal == first.signal]
    dead = {clue.pid for clue in alike if clue.kind is ClueKind.CHILD} - {None}
    dumps = [one for one in alike if (one.kind, one.source) == (first.kind, first.source)]
    if min(len(dead), len(dumps)) < 2:
        return clues
    peers = {id(one) for one in dumps if one is not first}
    return [clue for clue in clues if id(clue) not in peers]


def _was_sent(first: Clue, clue: Clue) -> bool:
    """Does the kubelet say that it ended the container of which the status was told?"""
    is_ended = first.kind is ClueKind.CHILD and first.signal in _ENDED
    return is_ended and clue.sender is not None and clue.source == first.source


def _goes_on(clue: Clue, told: Sequence[Clue]) -> bool:
    """Is it a line of systemd's record whose signal was told above?"""
    return clue.kind is ClueKind.CHILD and any(
        one.source == clue.source == "systemd" and clue.line - one.line < RECORD for one in told
    )


def _is_of_core(first: Clue, clue: Clue) -> bool:
    """Does the machine tell of the core that the death of a title left?"""
    is_record = clue.source == "systemd" and clue.pid is not None
    return first.is_told and is_record and _is_lost(clue)


def _gave_up(first: Clue, clue: Clue) -> bool:
    """Did a handler that told the fault call abort() then, as whoever keeps cores saw?"""
    is_own = first.kind is ClueKind.SIGNAL and not first.of_another and first.source != clue.source
    is_after = 0 < clue.line - first.line < NEAR and clue.signal == "SIGABRT"
    return is_own and is_after and clue.source == "kernel" and ": apport " in clue.text


def _heads(clue: Clue, first: Clue) -> bool:
    """Is it the beginning of systemd's record, of whose stack the death is read?"""
    is_above = 0 < first.line - clue.line < RECORD
    return clue.source == "systemd" and first.source == "a debugger" and is_above


def _adds(clue: Clue, first: Clue, pid: int | None, found: Sequence[Clue]) -> bool:
    """Does a stack without a word, or a container's denial, belong to the death?"""
    distance = abs(clue.line - first.line)
    if clue.kind is ClueKind.NOT_MEMORY and clue.sender is not None:
        return pid is not None and clue.pid == pid
    if clue.kind is ClueKind.NOT_MEMORY:
        is_sent = clue.source == SHELL and first.signal == "SIGKILL"
        is_of_record = any(one.source == clue.source for one in (first, *found))
        return (is_sent or is_of_record) and distance < RECORD
    if _was_cut_below(clue, first):
        return not any(one.python for one in (first, *found))
    if _is_anothers(clue, first, pid) or first.kind not in _WITH_PLACE or distance >= NEAR:
        return False
    # The kernel names a library and no function.
    is_known = any(one.native and one.source != "kernel" for one in (first, *found))
    return not is_known


def _is_anothers(clue: Clue, first: Clue, pid: int | None) -> bool:
    """Is it a stack of another process, or of an exception that did not end this one?"""
    if clue.writer_pid != pid and (clue.writer_pid is not None or not clue.native):
        return True
    # who tells of the dead one raised it, or it came before the end
    is_by_signal = first.of_another or (first.kind in _FATAL and not first.is_told)
    return clue.source == "python" and is_by_signal


def _was_cut_below(clue: Clue, first: Clue) -> bool:
    """Is it the traceback, without its end, of what a title or the GPU's runtime says above it?"""
    is_of_title = first.is_told and first.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}
    is_cut = clue.source == "python" and not clue.native and clue.line > first.line
    return is_cut and (is_of_title or first.kind is ClueKind.GPU)


def _agrees(first: Clue, clue: Clue) -> bool:
    if clue.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}:
        return clue.kind is first.kind and clue.detail == first.detail
    if clue.source == first.source == "kernel" and clue.kind is first.kind is ClueKind.SIGNAL:
        return clue.native == first.native  # of every start of a machine the first process is 1
    return clue.signal not in ASKED


def _may_be_the_same(first: Clue, clue: Clue) -> bool:
    """Of a clue without a process: its signal, its place and the process's role must fit."""
    if clue.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT, ClueKind.HANG}:
        return _says_the_same(first, clue)
    if clue.kind is ClueKind.GPU:
        return first.kind is ClueKind.GPU or _was_of_gpu(first, clue)
    ours, theirs = role_of_clue(first), role_of_clue(clue)
    differ = ours is not None and theirs is not None and ours is not theirs
    differ |= first.kind is ClueKind.HANG and _is_lost(clue)  # who waited ended it then
    if differ or _are_two_services(first, clue) or _left_by_itself(first, clue):
        return False
    if _is_lost(clue):
        if ours is None and subject_pid(first) is None and first.kind in _NAMELESS:
            # a dump names nobody; the parent does, and at once of an exception
            reach = NEAR if first.kind in OWN_WORDS else _NEXT
            return 0 < clue.line - first.line < reach
        is_record = clue.source == first.source and abs(clue.line - first.line) < _NEXT
        return is_record or (ours is not None and ours is theirs)
    is_near = abs(clue.line - first.line) < NEAR
    return _signals_fit(first, clue) and (
        is_near or clue.source in OUTSIDE or first.source in OUTSIDE
    )


def _is_lost(clue: Clue) -> bool:
    """Does a parent tell of an end, and of no signal?"""
    return clue.kind is ClueKind.CHILD and clue.signal is None


def _was_of_gpu(first: Clue, clue: Clue) -> bool:
    """Did the GPU's runtime call abort(), as the parent saw?"""
    is_end = first.kind is ClueKind.CHILD and first.signal == clue.signal == "SIGABRT"
    return is_end and abs(first.line - clue.line) < RECORD


def _left_by_itself(first: Clue, clue: Clue) -> bool:
    """Did a container's first process exit, where a signal had ended another one?"""
    is_containers = clue.kind is ClueKind.CHILD and clue.source == "the container runtime"
    is_fatal = first.kind in {*_FATAL, ClueKind.MEMORY} and first.source != clue.source
    return is_containers and clue.signal is None and is_fatal


def _are_two_services(first: Clue, clue: Clue) -> bool:
    """Do both come from containers, or ranks, of different names?"""
    names = [
        one.name if one.of_another else one.writer
        for one in (first, clue)
        if not one.of_another or one.source == "the container runtime"
    ]
    if len(names) < 2 or None in names:
        return False
    ours, theirs = names
    if ours and theirs and (ours.endswith(theirs) or theirs.endswith(ours)):
        return False  # with the project's name before it, and without
    # vLLM's own names are no services: one process may write from files of two kinds
    return ours != theirs and all(name == name.lower() for name in names if name)


def _says_the_same(first: Clue, clue: Clue) -> bool:
    if clue.kind is ClueKind.ENVIRONMENT and first.kind is ClueKind.EXCEPTION:
        return 0 < clue.line - first.line < _MESSAGE  # the message goes on
    ours, theirs = (_QUOTES.sub("", one.detail or "") for one in (first, clue))
    # a title repeats the message without its end
    is_part = bool(ours and theirs) and (ours.startswith(theirs) or theirs.startswith(ours))
    same = ours == theirs or is_part or "SIGBUS" == clue.signal == first.signal
    return clue.kind is first.kind and same


def _signals_fit(first: Clue, clue: Clue) -> bool:
    is_next = 0 < clue.line - first.line < _NEXT
    if first.kind is ClueKind.ABORT and clue.kind in {ClueKind.SIGNAL, ClueKind.CHILD} and is_next:
        return True  # it gave up, and died while it did; how, its parent saw
    if clue.signal is not None and first.signal is not None:
        # A damaged heap may end a process before abort() does: the parent then tells of SIGSEGV.
        is_heap = first.kind is ClueKind.HEAP and clue.signal == "SIGSEGV"
        return clue.signal == first.signal or (is_heap and clue.kind is ClueKind.CHILD)
    if first.kind is ClueKind.ABORT and first.signal is None:  # Go: a panic, then its signal
        if clue.signal == "SIGABRT" and clue.source == "an exit status":
            return clue.line - first.line < _STACK
        return clue.line - first.line < _NEXT
    if first.kind is ClueKind.SIGNAL:
        return True
    return first.signal is not None or first.kind in {
        ClueKind.CHILD,
        ClueKind.GPU,
        ClueKind.HANG,
    }
