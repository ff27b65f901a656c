"""Who is meant by a name: the process that signs its lines so."""

from __future__ import annotations

from dataclasses import replace

from vllm_forensics.model.incident import Clue, IncidentReading


def with_numbers(reading: IncidentReading) -> IncidentReading:
    """The reading, with the process's number wherever a parent tells its name alone.

    `worker Worker_TP1 died, exit code -9` speaks of the process that signs its lines as
    `(Worker_TP1 pid=42)`: of the last one that had begun, where it was started several times.
    """
    seen = [one for one in reading.processes if one.pid is not None and one.name]
    if not seen:
        return reading

    def meant(clue: Clue) -> int | None:
        named = [one for one in seen if one.name == clue.name and one.first_line <= clue.line]
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
