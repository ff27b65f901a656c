"""Who is meant by a name: the process that signs its lines so."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.model.incident import Clue, IncidentReading

_BY_RANK: Final = re.compile(r"VllmWorker-(\d{1,4})")
_BY_TENSORS: Final = re.compile(r"Worker_(?:DP\d{1,4}_)?TP(\d{1,4})(?:_EP\d{1,4})?")
"""Its rank is that of the tensors' part, unless the layers are spread too: `Worker_PP0_TP1`."""


def with_numbers(reading: IncidentReading) -> IncidentReading:
    """The reading, with the process's number wherever a parent tells its name alone.

    `worker Worker_TP1 died, exit code -9` speaks of the process that signs its lines as
    `(Worker_TP1 pid=42)`: of the last one that had begun, where it was started several times.
    vLLM's engine calls the same one `VllmWorker-1`, where the layers are not spread as well.
    """
    seen = [one for one in reading.processes if one.pid is not None and one.name]
    if not seen:
        return reading

    def meant(clue: Clue) -> int | None:
        begun = [one for one in seen if one.first_line <= clue.line]
        named = [one for one in begun if clue.name in {one.name, *one.other_names}]
        named = named or [one for one in begun if _is_of_rank(one.name, clue.name or "")]
        last = max(named, key=lambda one: one.first_line, default=None)
        if last is None or any(
            one.last_line >= last.first_line for one in named if one is not last
        ):
            return None  # none, or several at a time
        return last.pid

    return replace(
        reading,
        clues=tuple(
            replace(clue, pid=meant(clue))
            if clue.of_another and clue.pid is None and clue.name
            else clue
            for clue in reading.clues
        ),
    )


def _is_of_rank(name: str, told: str) -> bool:
    rank, own = _BY_RANK.fullmatch(told), _BY_TENSORS.fullmatch(name)
    return rank is not None and own is not None and rank[1] == own[1]
