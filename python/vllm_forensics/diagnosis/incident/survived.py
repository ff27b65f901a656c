"""Exceptions that a server logged and lived on after: it answered the next request."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.clues import is_death
from vllm_forensics.diagnosis.incident.roles import role_of_clue
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading, ProcessRole

_BEHIND: Final = {ProcessRole.WORKER, ProcessRole.RAY_ACTOR, ProcessRole.ENGINE_CORE}
"""They answer nobody themselves."""
_ENDS: Final = {ClueKind.START, ClueKind.CHILD, ClueKind.ECHO, ClueKind.HANG}


def without_survived(reading: IncidentReading) -> IncidentReading:
    """The reading without the exceptions behind which the same life of a server goes on."""
    if not reading.answered:
        return reading
    ends = [clue.line for clue in reading.clues if clue.kind in _ENDS or is_death(clue)]
    kept = tuple(clue for clue in reading.clues if not _is_survived(clue, reading.answered, ends))
    return replace(reading, clues=kept) if len(kept) < len(reading.clues) else reading


def _is_survived(clue: Clue, answered: tuple[int, ...], ends: list[int]) -> bool:
    if clue.kind is not ClueKind.EXCEPTION or not clue.is_caught or clue.is_told:
        return False
    if role_of_clue(clue) in _BEHIND:
        return False
    answer = next(iter(answered[bisect_right(answered, clue.line) :]), None)
    end = next(iter(ends[bisect_right(ends, clue.line) :]), None)
    return answer is not None and (end is None or answer <= end)
