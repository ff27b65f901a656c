"""What one clue says by itself: of which process it speaks, and whether that ended."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.incident import SHELL, Clue, ClueKind

OWN_WORDS: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.MEMORY, ClueKind.GPU}
ASKED: Final = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGUSR1"}
"""Signals by which one process asks another to end."""
_TEARDOWN: Final = re.compile(
    r"terminate called (?:without an active exception|recursively)|: Destroyed while thread "
)
"""How many programs end that were dying of something else, or ended well."""
_WARNING_ONLY: Final = re.compile(
    r"No available (?:shared memory broadcast )?block|blocked for more than \d{1,6} seconds"
)
MACHINES: Final = {"kernel", "a core", "strace", "the supervisor"}
"""What only tools see, and no user."""
OUTSIDE: Final = {*MACHINES, "systemd", "the container runtime", SHELL}
"""Their lines may stand anywhere: another log was pasted behind the first."""
_LAST_WORDS: Final = re.compile(r"This application failed to start because")
"""Of what a program lacks, it says at its end: the abort that follows is its own."""
NEAR: Final = 600
"""So many lines lie between two clues to one death at most."""
RECORD: Final = 40
"""So many lines a container's record has at most."""


def subject_pid(clue: Clue) -> int | None:
    """The process that a clue speaks of."""
    return clue.pid if clue.of_another or clue.pid is not None else clue.writer_pid


def is_death(clue: Clue) -> bool:
    """Does it tell, in itself, that a process ended against its will?"""
    if clue.signal in ASKED or _TEARDOWN.search(clue.text):
        return False
    if clue.kind is ClueKind.HANG:
        return _WARNING_ONLY.search(clue.text) is None
    if clue.kind is ClueKind.CHILD:
        return clue.signal is not None
    return clue.kind in OWN_WORDS


def is_where(clue: Clue) -> bool:
    """Does it tell only in which of Python's calls a debugger found a process, dead or alive?"""
    return clue.kind is ClueKind.STACK and clue.source == "a debugger" and not clue.native


def ends_in(clue: Clue, end: Clue) -> bool:
    """Did a program say what it lacks, and end?"""
    is_last = _LAST_WORDS.match(clue.detail or "") is not None
    return is_last and 0 < end.line - clue.line < RECORD
