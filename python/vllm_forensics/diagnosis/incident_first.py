"""Which clue tells the first death, and which others tell of the same one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Final

from vllm_forensics.diagnosis.incident_roles import role_of_clue
from vllm_forensics.model.incident import UNNAMED, Clue, ClueKind, Follows, ProcessRole

_OWN_WORDS: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.MEMORY, ClueKind.GPU}
_FATAL: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT}
"""Words of a process that a signal ends."""
_ASKED: Final = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGUSR1"}
"""Signals by which one process asks another to end."""
_TEARDOWN: Final = re.compile(r"terminate called (?:without an active exception|recursively)")
_WARNING_ONLY: Final = re.compile(r"No available shared memory broadcast block")
_NETWORK: Final = re.compile(r"(?:BrokenPipeError|ConnectionResetError|Connection reset by peer)")
_CLIENTS: Final = re.compile(r"ClientDisconnect\b")
MACHINES: Final = {"kernel", "a core", "strace", "the supervisor"}
"""What only tools see, and no user."""
OUTSIDE: Final = {*MACHINES, "systemd", "the container runtime", "the shell"}
"""Their lines may stand anywhere: another log was pasted behind the first."""
_ANY_TIME: Final = {*MACHINES, "systemd"}
_LAST_WORDS: Final = re.compile(r"This application failed to start because")
"""Of what a program lacks, it says at its end: the abort that follows is its own."""
_QUOTES: Final = re.compile("[`'\"]")
_NEAR: Final = 600
_NEXT: Final = 4
_MESSAGE: Final = 3
"""So many lines the message of an exception may have before it comes to the point."""
_STACK: Final = 100
"""So far below the words of a panic its status may stand: its stack lies between."""
_RECORD: Final = 40
"""So many lines a container's record has at most."""
_NO_ACCOUNT: Final = {ClueKind.ECHO, ClueKind.START, ClueKind.HEARSAY, ClueKind.MENTION}
_ADDED: Final = {ClueKind.STACK, ClueKind.NOT_MEMORY}
_WITH_PLACE: Final = {
    ClueKind.SIGNAL,
    ClueKind.HEAP,
    ClueKind.ABORT,
    ClueKind.CHILD,
    ClueKind.STACK,
}
_INNER: Final = {ProcessRole.WORKER: 3, ProcessRole.RAY_ACTOR: 3, ProcessRole.ENGINE_CORE: 2}


def subject_pid(clue: Clue) -> int | None:
    """The process that a clue speaks of."""
    return clue.pid if clue.of_another or clue.pid is not None else clue.writer_pid


def first_death(clues: Sequence[Clue]) -> Clue | None:
    """The clue to the first death; None where no clue speaks of any."""
    told = [clue for clue in clues if is_death(clue)]
    own = [clue for clue in told if not clue.is_told]
    # A title says in few words what the log below it says itself, if it says why.
    told = own if any(map(_says_why, own)) else told
    raised = [clue for clue in clues if clue.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}]
    raised = [clue for clue in raised if not clue.is_told] or raised
    memory = next((clue for clue in told if clue.kind is ClueKind.MEMORY), None)
    known = [clue for clue in told if clue.source != UNNAMED or clue.native]
    first = min(known or told, key=lambda clue: clue.line, default=None)
    if first is not None:  # a line read by its form is believed where the known words follow it
        early = (clue for clue in told if 0 < first.line - clue.line < _RECORD)
        first = next(early, first)
    if first is not None and first.kind is ClueKind.CHILD:
        roots = (clue for clue in told if clue.is_root and clue.source == first.source)
        first = next(roots, first)
    if memory is not None and first is not None and first.signal == "SIGKILL":
        first = memory
    by_code = _raised_first(raised, first, clues)
    if by_code is not None:
        return _last_of_chain(by_code, clues)
    if first is not None:
        return first
    # Nothing but what others noticed, an orderly end, or a wait without an end.
    for kinds in (
        {ClueKind.CHILD},
        {ClueKind.HANG},
        {ClueKind.STACK},
        {ClueKind.ECHO},
        {ClueKind.ABORT},
        {ClueKind.HEARSAY},
    ):
        found = [clue for clue in clues if clue.kind in kinds and not _of_network(clue)]
        if kinds == {ClueKind.STACK} and all(clue.source == "python" for clue in found):
            # An outer process's traceback without its end says less than who died further in.
            found += [clue for clue in clues if found and clue.kind is ClueKind.ECHO]
        if found:
            return _most_telling(found)
    return None


def _says_why(clue: Clue) -> bool:
    """Is more told than that abort() was called?"""
    return clue.kind not in {ClueKind.SIGNAL, ClueKind.CHILD} or clue.signal != "SIGABRT"


def is_of_a_stop(first: Clue, stopped: int | None) -> bool:
    """Does all that the text tells come of an orderly stop that it announced before?"""
    if stopped is None or first.line < stopped:
        return False
    return first.kind is ClueKind.ECHO or (first.kind is ClueKind.CHILD and first.signal in _ASKED)


def _of_network(clue: Clue) -> bool:
    """Does it tell of no more than a connection's end? Clients go away every day."""
    if clue.kind is ClueKind.ECHO and _CLIENTS.match(clue.detail or "") is not None:
        return True
    is_echo = clue.kind is ClueKind.ECHO and not clue.python
    return is_echo and _NETWORK.match(clue.detail or clue.text) is not None


def is_death(clue: Clue) -> bool:
    """Does it tell, in itself, that a process ended against its will?"""
    if clue.signal in _ASKED or _TEARDOWN.search(clue.text):
        return False
    if clue.kind is ClueKind.HANG:
        return _WARNING_ONLY.search(clue.text) is None
    if clue.kind is ClueKind.CHILD:
        return clue.signal is not None
    return clue.kind in _OWN_WORDS


def _raised_first(raised: Sequence[Clue], first: Clue | None, clues: Sequence[Clue]) -> Clue | None:
    """The exception that came before every other death and was not survived."""
    notices = _Notices(clues)
    children = [clue for clue in clues if clue.kind is ClueKind.CHILD]
    for clue in raised:
        if first is not None and clue.kind is ClueKind.ENVIRONMENT and _explains(clue, first):
            return clue
        if first is not None and clue.line > first.line:
            return None
        noticed = notices.below(clue)
        if first is None:
            if not _is_consequence(clue, children):
                return clue
        elif noticed is not None and noticed.line <= first.line and first.source not in _ANY_TIME:
            return clue
    return None


def _last_of_chain(first: Clue, clues: Sequence[Clue]) -> Clue:
    """An exception that was handled did not end the process; the one raised meanwhile did."""
    for clue in clues[clues.index(first) + 1 :]:
        if clue.follows is None and clue.writer_pid == first.writer_pid:
            break
        if (
            clue.follows is Follows.HANDLING
            and clue.kind is ClueKind.EXCEPTION
            and clue.writer_pid == first.writer_pid
        ):
            first = clue
    return first


def _explains(clue: Clue, first: Clue) -> bool:
    """A full /dev/shm explains a SIGBUS, a missing thread limit an abort that follows at once."""
    if _ends_in(clue, first):
        return True
    return (first.signal == "SIGBUS" or first.line - clue.line < 0) and clue.signal in {
        None,
        "SIGBUS",
    }


def _ends_in(clue: Clue, end: Clue) -> bool:
    """Did a program say what it lacks, and end?"""
    is_last = _LAST_WORDS.match(clue.detail or "") is not None
    return is_last and 0 < end.line - clue.line < _RECORD


class _Notices:
    """The words of others that something had ended."""

    def __init__(self, clues: Sequence[Clue]) -> None:
        self._clues = [
            clue
            for clue in clues
            if clue.kind in {ClueKind.ECHO, ClueKind.HANG}
            or (clue.kind is ClueKind.CHILD and not clue.signal)
        ]
        self._reached = list(accumulate((clue.line for clue in self._clues), max))

    def below(self, of: Clue) -> Clue | None:
        """The first that stands below a clue."""
        for clue in islice(self._clues, bisect_right(self._reached, of.line), None):
            is_notice = clue.kind is not ClueKind.HANG or _waited_for(clue, of)
            if is_notice and clue.line > of.line:
                return clue
        return None


def _waited_for(clue: Clue, of: Clue) -> bool:
    """Is it another rank's word that it waited too long?"""
    return clue.kind is ClueKind.HANG and of.writer not in {None, clue.writer}


def _is_consequence(clue: Clue, children: Sequence[Clue]) -> bool:
    """Was it raised where somebody had noticed a death before, further out in the tree?"""
    before = next((one for one in children if one.line < clue.line), None)
    if before is None:
        return False
    inner = _INNER.get(role_of_clue(clue) or ProcessRole.UNKNOWN, 0)
    dead = _INNER.get(role_of_clue(before) or ProcessRole.UNKNOWN, 0)
    same = subject_pid(before) is not None and subject_pid(before) == subject_pid(clue)
    return not same and (inner < dead or dead == 0)


def _most_telling(clues: Sequence[Clue]) -> Clue:
    """Of what others noticed: the innermost process, then what came first."""

    def order(clue: Clue) -> tuple[bool, int, bool, bool, int]:
        inner = _INNER.get(role_of_clue(clue) or ProcessRole.UNKNOWN, 0)
        is_vague = clue.kind is ClueKind.HEARSAY and clue.signal is None
        return (clue.signal in _ASKED, -inner, clue.kind is ClueKind.ECHO, is_vague, clue.line)

    return min(clues, key=order)


def account_of(first: Clue, clues: Sequence[Clue]) -> tuple[Clue, ...]:
    """The other clues to the same death, in the order of the log."""
    pid = subject_pid(first)
    found: list[Clue] = []
    last: dict[int | None, Clue] = {}
    for clue in clues:
        above = last.get(clue.writer_pid)
        last[clue.writer_pid] = clue
        if clue is first or clue.kind in _NO_ACCOUNT:
            continue
        is_near = abs(clue.line - first.line) < _NEAR
        if clue.kind in _ADDED:
            if _adds(clue, first, pid, found):
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
            _may_be_the_same(first, clue)
            or _goes_on(clue, (first, *found))
            or _ends_in(first, clue)
        ):
            found.append(clue)
            pid = pid if pid is not None else other
    return tuple(found)


def _goes_on(clue: Clue, told: Sequence[Clue]) -> bool:
    """Is it a line of systemd's record whose signal was told above?"""
    return clue.kind is ClueKind.CHILD and any(
        one.source == clue.source == "systemd" and clue.line - one.line < _RECORD for one in told
    )


def _adds(clue: Clue, first: Clue, pid: int | None, found: Sequence[Clue]) -> bool:
    """Does a stack without a word, or a container's denial, belong to the death?"""
    distance = abs(clue.line - first.line)
    if clue.kind is ClueKind.NOT_MEMORY and clue.sender is not None:
        return pid is not None and clue.pid == pid
    if clue.kind is ClueKind.NOT_MEMORY:
        is_sent = clue.source == "the shell" and first.signal == "SIGKILL"
        return (is_sent or first.source == clue.source) and distance < _RECORD
    if clue.writer_pid != pid and (clue.writer_pid is not None or not clue.native):
        return False  # another process's
    if clue.source == "python" and first.of_another:
        return False  # who tells of the dead one, not the dead one itself
    if first.kind not in _WITH_PLACE or distance >= _NEAR:
        return False
    return not any(one.native for one in (first, *found))


def _agrees(first: Clue, clue: Clue) -> bool:
    if clue.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}:
        return clue.kind is first.kind and clue.detail == first.detail
    return clue.signal not in _ASKED


def _may_be_the_same(first: Clue, clue: Clue) -> bool:
    """Of a clue without a process: its signal, its place and the process's role must fit."""
    if clue.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT, ClueKind.HANG}:
        return _says_the_same(first, clue)
    if clue.kind is ClueKind.GPU:
        return first.kind is ClueKind.GPU or _was_of_gpu(first, clue)
    ours, theirs = role_of_clue(first), role_of_clue(clue)
    differ = ours is not None and theirs is not None and ours is not theirs
    if differ or _are_two_services(first, clue) or _left_by_itself(first, clue):
        return False
    if clue.kind is ClueKind.CHILD and clue.signal is None:
        if ours is None and subject_pid(first) is None and first.kind in _OWN_WORDS:
            return 0 < clue.line - first.line < _NEAR  # a dump names nobody; the parent does
        is_record = clue.source == first.source and abs(clue.line - first.line) < _NEXT
        return is_record or (ours is not None and ours is theirs)
    is_near = abs(clue.line - first.line) < _NEAR
    return _signals_fit(first, clue) and (
        is_near or clue.source in OUTSIDE or first.source in OUTSIDE
    )


def _was_of_gpu(first: Clue, clue: Clue) -> bool:
    """Did the GPU's runtime call abort(), as the parent saw?"""
    is_end = first.kind is ClueKind.CHILD and first.signal == clue.signal == "SIGABRT"
    return is_end and abs(first.line - clue.line) < _RECORD


def _left_by_itself(first: Clue, clue: Clue) -> bool:
    """Did a container's first process exit, where a signal had ended another one?"""
    is_containers = clue.kind is ClueKind.CHILD and clue.source == "the container runtime"
    return is_containers and clue.signal is None and first.kind in _FATAL


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
