"""Several incidents in one log: what died anew after a restart, or after a long time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from vllm_forensics.diagnosis.incident.clues import OUTSIDE, is_death, subject_pid
from vllm_forensics.diagnosis.incident.roles import role_of_name
from vllm_forensics.diagnosis.joined.clocks import clock_s, uptime_s
from vllm_forensics.model.incident import (
    MOST_LIVES,
    Clue,
    ClueKind,
    IncidentReading,
    ProcessRole,
    SeenProcess,
)

_LONG_S: Final = 3_600.0
"""Peers wait for a dead one for half an hour at most: gloo's timeout."""
_RAISED: Final = {ClueKind.EXCEPTION, ClueKind.ENVIRONMENT}
_OF_ITS_OWN: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.MEMORY}


def lives_of(reading: IncidentReading, most: int = MOST_LIVES) -> tuple[IncidentReading, ...]:
    """The reading, cut where something died again after it was started anew, or much later.

    A life without a death of its own belongs to the one before: echoes come late, and another
    log, such as the kernel's, may have been pasted behind the first. More than `most` are not told
    one by one: the first ones and the last.
    """
    lives: list[list[Clue]] = []
    dead = _Dead()
    reborn = _reborn(reading.processes)
    for part in cut_at_starts(reading):
        is_anew = bool(lives) and _is_between(reborn, lives[-1], part[0]) and _was_noticed(part)
        if lives and not is_anew and not dead.died_again(part):
            lives[-1].extend(part)
        else:
            lives.append(part)
        dead.add(part)
    if len(lives) < 2:
        return (reading,)
    if len(lives) > most:
        lives = [*lives[: most - 1], lives[-1]]
    starts = [0, *(_start(*pair, reborn) for pair in pairwise(lives))]
    ends = [*starts[1:], reading.lines + 1]
    return tuple(
        replace(
            reading,
            clues=tuple(life),
            processes=tuple(
                one for one in reading.processes if one.first_line < end and one.last_line >= start
            ),
            # what was announced in a life before, or said at the end, is none of this one's
            stopped=reading.stopped if (reading.stopped or 0) >= start else None,
            succeeded=reading.succeeded and end > reading.lines,
        )
        for life, start, end in zip(lives, starts, ends, strict=True)
    )


def _start(before: Sequence[Clue], life: Sequence[Clue], reborn: Sequence[int]) -> int:
    """Its first line: its processes write before they die."""
    line = life[0].line
    at = bisect_right(reborn, line) - 1
    return reborn[at] if at >= 0 and reborn[at] > before[-1].line else line


def cut_at_starts(reading: IncidentReading) -> Iterator[list[Clue]]:
    """Parts that begin where something was started after a death, or where one came much later."""
    part: list[Clue] = []
    has_death = False
    last: list[float | None] = [None, None]
    reborn = _reborn(reading.processes)
    for clue in reading.clues:
        now = (clock_s(clue.time), uptime_s(clue.time))
        is_reborn = _is_between(reborn, part, clue)
        is_start = is_reborn or clue.kind is ClueKind.START
        has_ended = has_death or (is_reborn and _was_noticed(part))
        if has_ended and (is_start or _comes_late(clue, now, last)):
            yield part
            part, has_death = [], False
        part.append(clue)
        has_death = has_death or (is_death(clue) and not clue.is_told)
        last = [before if at is None else at for at, before in zip(now, last, strict=True)]
    yield part


def _is_between(reborn: Sequence[int], part: Sequence[Clue], clue: Clue) -> bool:
    """Did everything begin anew between a part's last clue and this one?"""
    above = part[-1].line if part else 0
    return bisect_right(reborn, clue.line) > bisect_right(reborn, above)


def _was_noticed(part: Sequence[Clue]) -> bool:
    """Did others notice an end, though no signal is told? An exception alone may be survived."""
    kinds = {clue.kind for clue in part if not clue.is_told}
    return ClueKind.CHILD in kinds or (bool(kinds & _RAISED) and ClueKind.ECHO in kinds)


def _comes_late(clue: Clue, now: Sequence[float | None], last: Sequence[float | None]) -> bool:
    """Does a process die of itself long after what was told last, by either clock?"""
    is_late = any(
        at is not None and before is not None and at - before > _LONG_S
        for at, before in zip(now, last, strict=True)
    )
    is_own = clue.kind in _OF_ITS_OWN or clue.source == "systemd"
    return is_late and is_own and is_death(clue)


def _reborn(processes: Sequence[SeenProcess]) -> list[int]:
    """The lines at which all that had run is silent, and one of its names has a new number.

    Ray gives one name to many actors at a time: nothing begins anew with them.
    """
    found: list[int] = []
    seen: set[str] = set()
    last = 0
    for one in sorted(processes, key=lambda one: one.first_line):
        if one.name in seen and last < one.first_line:
            found.append(one.first_line)
            seen.clear()  # the others of the new life write their first lines later
        if role_of_name(one.name) not in {None, ProcessRole.RAY_ACTOR}:
            seen.add(one.name)
        last = max(last, one.last_line)
    return found


class _Dead:
    """Who has died so far, and what they said themselves."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._words: set[tuple[int | None, str, ClueKind]] = set()

    def add(self, part: Iterable[Clue]) -> None:
        """Those of one more part."""
        for clue in part:
            pid = subject_pid(clue)
            if pid is not None and is_death(clue):
                self._pids.add(pid)
                self._words.add((pid, clue.source, clue.kind))

    def died_again(self, part: Iterable[Clue]) -> bool:
        """Does the part tell a death that was not told before?

        Every container begins to count at 1: nobody says his last words twice, so the second are
        another process's of the same number.
        """
        return any(
            is_death(clue) and (subject_pid(clue) not in self._pids or self._is_repeated(clue))
            for clue in part
        )

    def _is_repeated(self, clue: Clue) -> bool:
        is_own_word = not clue.of_another and clue.source not in OUTSIDE
        return is_own_word and (subject_pid(clue), clue.source, clue.kind) in self._words
