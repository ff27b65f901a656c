"""Several incidents in one log: where a supervisor started anew what had died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident_first import is_death, subject_pid
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading

_MAX_LIVES: Final = 64
"""More lives than that are not told one by one: the first ones and the last."""


def lives_of(reading: IncidentReading) -> tuple[IncidentReading, ...]:
    """The reading, cut where something was started after a death, if it died again.

    A life without a death of its own belongs to the one before: echoes come late, and another
    log, such as the kernel's, may have been pasted behind the first.
    """
    lives: list[list[Clue]] = []
    for part in _cut(reading.clues):
        if lives and not _died_itself(part, lives):
            lives[-1].extend(part)
        else:
            lives.append(part)
    if len(lives) < 2:
        return (reading,)
    if len(lives) > _MAX_LIVES:
        lives = [*lives[: _MAX_LIVES - 1], lives[-1]]
    starts = [0, *(life[0].line for life in lives[1:])]
    ends = [*starts[1:], reading.lines + 1]
    return tuple(
        replace(
            reading,
            clues=tuple(life),
            processes=tuple(
                one for one in reading.processes if one.first_line < end and one.last_line >= start
            ),
        )
        for life, start, end in zip(lives, starts, ends, strict=True)
    )


def _cut(clues: Sequence[Clue]) -> list[list[Clue]]:
    parts: list[list[Clue]] = [[]]
    has_death = False
    for clue in clues:
        if clue.kind is ClueKind.START and has_death:
            parts.append([])
            has_death = False
        parts[-1].append(clue)
        has_death = has_death or is_death(clue)
    return parts


def _died_itself(part: Sequence[Clue], before: Sequence[Sequence[Clue]]) -> bool:
    """Does the part tell a death that is none of those before?"""
    dead = {subject_pid(clue) for life in before for clue in life if is_death(clue)} - {None}
    return any(is_death(clue) and subject_pid(clue) not in dead for clue in part)
