"""Which clue tells the first death."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Final

from vllm_forensics.diagnosis.incident.clues import (
    ASKED,
    MACHINES,
    NEAR,
    RECORD,
    ends_in,
    is_death,
    is_where,
    subject_pid,
)
from vllm_forensics.diagnosis.incident.roles import role_of_clue
from vllm_forensics.model.incident import (
    LISTING,
    SHELL,
    SPY,
    UNNAMED,
    Clue,
    ClueKind,
    Follows,
    ProcessRole,
)

_NETWORK: Final = re.compile(r"(?:BrokenPipeError|ConnectionResetError|Connection reset by peer)")
_CLIENTS: Final = re.compile(r"(?:ClientDisconnect|KeyboardInterrupt)\b")
"""What a client, or a person at the keyboard, does any day."""
_ANY_TIME: Final = {*MACHINES, "systemd"}
_ANNOUNCED: Final = "or sacrifice child"
_RIGHT_BELOW: Final = 3
_TOGETHER: Final = 8
"""So near stand a launcher's lines about several of its ranks."""
_ABORTING: Final = {"Java", "Ruby"}
"""Their handlers of a fault's signal end in abort()."""
_FAULTS: Final = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"}
_INNER: Final = {ProcessRole.WORKER: 3, ProcessRole.RAY_ACTOR: 3, ProcessRole.ENGINE_CORE: 2}


def first_death(clues: Sequence[Clue]) -> Clue | None:
    """The clue to the first death; None where no clue speaks of any."""
    clues = _without_rumours(clues)
    told = [clue for clue in clues if is_death(clue)]
    own = [clue for clue in told if not clue.is_told]
    # A title says in few words what the log below it says itself, if it says why.
    told = own if any(map(_says_why, own)) else told
    raised = [clue for clue in clues if clue.kind in {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}]
    raised = [clue for clue in raised if not clue.is_told] or raised
    memory = _killed_for_memory(told)
    known = [clue for clue in told if clue.source != UNNAMED or clue.native]
    first = min(known or told, key=lambda clue: clue.line, default=None)
    if first is not None:  # a line read by its form is believed where the known words follow it
        early = (clue for clue in told if 0 < first.line - clue.line < RECORD)
        first = next(early, first)
    if first is not None and first.kind is ClueKind.CHILD:
        roots = (clue for clue in told if clue.is_root and clue.source == first.source)
        first = _before_the_others_end(next(roots, first), told)
    first = _fault_of(first, told)
    if memory is not None and first is not None and first.signal == "SIGKILL":
        first = memory
    if first is not None:  # a title's exception says less than whoever tells of a death
        raised = [clue for clue in raised if not clue.is_told or clue.kind is ClueKind.ENVIRONMENT]
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
        found = [clue for clue in clues if clue.kind in kinds and _tells(clue)]
        if kinds == {ClueKind.STACK} and all(clue.source == "python" for clue in found):
            # An outer process's traceback without its end says less than who died further in.
            found += [clue for clue in clues if found and clue.kind is ClueKind.ECHO]
        if found:
            return _most_telling(found)
    return None


def _before_the_others_end(first: Clue, told: Sequence[Clue]) -> Clue:
    """The child that faulted, where its parent tells first of those that it killed for that.

    `rank 3: killed by signal 9`, `rank 2: killed by signal 11`: launchers end all for one.
    """
    if first.signal not in {"SIGKILL", "SIGTERM"} or first.sender is not None:
        return first
    faulted = (
        one
        for one in told
        if one.kind is first.kind and one.source == first.source and one.signal in _FAULTS
    )
    return next((one for one in faulted if 0 < one.line - first.line < _TOGETHER), first)


def _killed_for_memory(told: Sequence[Clue]) -> Clue | None:
    """The first that was killed: older kernels announce the parent, and sacrifice its child."""
    kills = [clue for clue in told if clue.kind is ClueKind.MEMORY]
    first = next(iter(kills), None)
    if first is None or _ANNOUNCED not in (first.detail or ""):
        return first
    below = (one for one in kills if 0 < one.line - first.line < _RIGHT_BELOW)
    return next((one for one in below if one.pid not in {None, first.pid}), first)


def _without_rumours(clues: Sequence[Clue]) -> Sequence[Clue]:
    """The clues; what people say of waiting counts for less than a signal or an exception."""
    if not any(
        (clue.kind is ClueKind.HEARSAY and clue.signal is not None)
        or (clue.kind is ClueKind.EXCEPTION and clue.is_told and clue.source == "python")
        for clue in clues
    ):
        return clues
    return [one for one in clues if one.kind is not ClueKind.HANG or one.source != "somebody"]


def _fault_of(first: Clue | None, told: Sequence[Clue]) -> Clue | None:
    """The fault that Java's machine noticed before it called the abort() of which others tell."""
    if first is None or first.signal != "SIGABRT":
        return first
    heading = next((clue for clue in told if clue.source in _ABORTING), None)
    is_others = first.of_another or first.source == SHELL
    if heading is None or not is_others or heading.line - first.line > NEAR:
        return first
    record = (clue for clue in told if 0 <= clue.line - heading.line < RECORD)
    return next((clue for clue in record if clue.signal in _FAULTS), first)


def _says_why(clue: Clue) -> bool:
    """Is more told than that abort() was called?"""
    return clue.kind not in {ClueKind.SIGNAL, ClueKind.CHILD} or clue.signal != "SIGABRT"


def is_of_a_stop(first: Clue, stopped: int | None) -> bool:
    """Does all that the text tells come of an orderly stop that it announced before?"""
    if stopped is None or first.line < stopped:
        return False
    return first.kind is ClueKind.ECHO or (first.kind is ClueKind.CHILD and first.signal in ASKED)


def _tells(clue: Clue) -> bool:
    """Is it more than a connection's end, or a living process's stack?

    Clients go away every day, and a stack may be asked for at any time.
    """
    if clue.source == SPY or is_where(clue):
        return False
    if clue.kind is ClueKind.ECHO and _CLIENTS.match(clue.detail or "") is not None:
        return False
    is_echo = clue.kind is ClueKind.ECHO and not clue.python
    return not is_echo or _NETWORK.match(clue.detail or clue.text) is None


def _raised_first(raised: Sequence[Clue], first: Clue | None, clues: Sequence[Clue]) -> Clue | None:
    """The exception that came before every other death and was not survived."""
    notices = _Notices(clues)
    children = [one for one in clues if one.kind is ClueKind.CHILD and one.source != LISTING]
    for clue in raised:
        if first is not None and clue.kind is ClueKind.ENVIRONMENT and _explains(clue, first):
            return clue
        if first is not None and clue.line > first.line:
            return None
        noticed = notices.below(clue)
        if first is None:
            if clue.signal is not None or not _is_consequence(clue, children):
                return _who_lacked(clue, raised)
        elif noticed is not None and noticed.line <= first.line and first.source not in _ANY_TIME:
            return clue
    return None


def _who_lacked(clue: Clue, raised: Sequence[Clue]) -> Clue:
    """Of a full /dev/shm the worker that a signal ended, where a parent tells of one."""
    if clue.kind is not ClueKind.ENVIRONMENT or clue.python or clue.signal is not None:
        return clue
    ended = (one for one in raised if one.of_another and one.kind is clue.kind and one.signal)
    return next((one for one in ended if _explains(clue, one)), clue)


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
    if ends_in(clue, first):
        return True
    return (first.signal == "SIGBUS" or first.line - clue.line < 0) and clue.signal in {
        None,
        "SIGBUS",
    }


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

    def order(clue: Clue) -> tuple[bool, int, bool, tuple[bool, ...], int]:
        inner = _INNER.get(role_of_clue(clue) or ProcessRole.UNKNOWN, 0)
        is_vague = clue.kind is ClueKind.HEARSAY and clue.signal is None
        # of several threads' stacks the one that ended all tells by what
        is_silent = clue.kind is ClueKind.STACK and bool(clue.native) and clue.signal is None
        is_echo = clue.kind is ClueKind.ECHO
        is_later = clue.kind is ClueKind.CHILD and not clue.is_root
        is_weak = (is_vague, is_silent, clue.is_told, is_later)
        return (clue.signal in ASKED, -inner, is_echo, is_weak, clue.line)

    return min(clues, key=order)
