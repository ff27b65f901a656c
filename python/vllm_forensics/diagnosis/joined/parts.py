"""What one source says of one time: the parts out of which incidents are put together.

A log is cut where something was started anew and died again. What the machine itself says of one
process, the kernel or a tracer, is a part of its own: a kernel's log tells of everybody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.clues import OUTSIDE, is_death, subject_pid
from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.diagnosis.incident.restarts import cut_at_starts, lives_of
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.incident import ClueKind, Incident, IncidentReading
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.record import dataclass

_MAX_LIVES: Final = 2_000
_TRACES: Final = {SourceKind.STRACE, SourceKind.SUPERVISOR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one source says of one time, or of one process."""

    number: int
    source: str
    kind: SourceKind
    life: int
    """Of its log, from 0."""
    told: tuple[Statement, ...]
    reading: IncidentReading | None = None
    """Of that life; None where it is no log's, or of one process alone."""
    incident: Incident | None = None
    """What the log would be taken to say if it were alone."""

    @property
    def dead(self) -> frozenset[int]:
        """Who died, by this part."""
        found = {
            one.pid
            for one in self.told
            if one.clue is not None and (is_death(one.clue) or one.kind is SourceKind.CORE)
        }
        found |= {one.pid for one in self.told if one.report is not None}
        if self.incident is not None:
            found.add(self.incident.first_death.pid)
        return frozenset(pid for pid in found if pid is not None)

    @property
    def named(self) -> frozenset[int]:
        """Who is spoken of."""
        found = {one.pid for one in self.told}
        found |= {one.pid for one in self.reading.processes} if self.reading is not None else set()
        return frozenset(pid for pid in found if pid is not None)

    @property
    def lines(self) -> tuple[int, int] | None:
        """From where to where it is told in its source."""
        lines = [one.line for one in self.told if one.line is not None]
        lines += [one.report.printed.lines[1] for one in self.told if one.report is not None]
        return (min(lines), max(lines)) if lines else None


def parts_of(told: Sequence[Statement], logs: Mapping[str, IncidentReading]) -> tuple[Part, ...]:
    """Every statement in exactly one part, in the order of the sources."""
    lives = {source: lives_of(reading, _MAX_LIVES) for source, reading in logs.items()}
    starts = {
        source: [life.clues[0].line for life in of_log[1:]] for source, of_log in lives.items()
    }
    cuts = {
        source: [cut[0].line for cut in cut_at_starts(reading) if cut][1:]
        for source, reading in logs.items()
    }
    placed = [(_after(one, starts), one) for one in told]
    alone = {(one.source, life, one.pid) for life, one in placed if _is_of_one(one) and one.pid}
    grouped: dict[tuple[str, SourceKind, int, int, int | None], list[Statement]] = {}
    for life, one in placed:
        is_alone = (one.source, life, one.pid) in alone and (one.kind in _TRACES or _is_of_one(one))
        of_log = one.kind is SourceKind.SANITIZER
        kind = SourceKind.LOG if of_log else one.kind
        section = 0 if is_alone else _after(one, cuts)
        key = (one.source, kind, life, section, one.pid if is_alone else None)
        grouped.setdefault(key, []).append(one)
    found = []
    for number, ((source, kind, life, _, pid), said) in enumerate(grouped.items()):
        readings = lives.get(source)
        reading = readings[life] if readings is not None and pid is None else None
        found.append(
            Part(
                number=number,
                source=source,
                kind=kind,
                life=life,
                told=tuple(replace(one, part=number) for one in said),
                reading=reading,
            )
        )
    return tuple(found)


def judged(part: Part) -> Part:
    """With what it would be taken to say if it were alone."""
    if part.reading is None:
        return part
    lines = {one.line for one in part.told}
    clues = tuple(clue for clue in part.reading.clues if clue.line in lines)
    is_told = any(clue.kind is not ClueKind.START for clue in clues)
    reading = replace(part.reading, clues=clues)
    incident = explain_incident(reading, part.source) if is_told else None
    return replace(part, reading=reading, incident=incident)


def _after(one: Statement, places: Mapping[str, list[int]]) -> int:
    """How many of these lines of its log stand above it?"""
    begins = places.get(one.source)
    return bisect_right(begins, one.line) if begins and one.line is not None else 0


def _is_of_one(one: Statement) -> bool:
    """Does the machine itself say how one process died?"""
    clue = one.clue
    if clue is None or clue.kind is ClueKind.START:
        return False
    return one.kind in _TRACES or (
        one.kind is SourceKind.LOG and clue.source in OUTSIDE and subject_pid(clue) is not None
    )
