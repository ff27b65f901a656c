"""Processes that only the machine's own log names, and that another death does not concern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.clues import MACHINES, is_death, subject_pid
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading

_OF_MACHINES: Final = {*MACHINES, "systemd"}
_TELLS: Final = {ClueKind.EXCEPTION, ClueKind.ECHO, ClueKind.CHILD, ClueKind.ENVIRONMENT}
IS_ANYBODYS: Final = re.compile(
    r"(?i)python|pt_|vllm|ray|engine|worker|uvicorn|gunicorn|thread|pool|cuda|main|node\b|java"
)
"""Names that a program of Python, or any thread of it, may have in the kernel's eyes."""
_WORD: Final = re.compile(r"[a-z0-9]{3,}")


def without_strangers(reading: IncidentReading) -> IncidentReading:
    """The reading without the machine's lines about processes that are none of the text's own.

    The machine's log is pasted whole: it also tells what died yesterday. Numbers alone prove
    nothing, as a container counts anew; number, name and signal have to disagree.
    """
    own = [clue for clue in reading.clues if clue.source not in _OF_MACHINES]
    known = {one.pid for one in reading.processes} | {subject_pid(clue) for clue in own}
    known |= {clue.writer_pid for clue in own}
    known.discard(None)
    told = [clue for clue in own if is_death(clue) or clue.kind in _TELLS]
    machines = [clue for clue in reading.clues if clue.source in _OF_MACHINES]
    told += [clue for clue in machines if subject_pid(clue) in known]
    if not known or not told:
        return _of_title(reading, machines)
    names = _words(
        name
        for name in (
            *(one.name for one in reading.processes),
            *(name for clue in told for name in (clue.name, clue.writer, clue.source)),
        )
        if name is not None
    )
    strangers = {id(clue) for clue in machines if _is_stranger(clue, known, names)}
    if not strangers:
        return reading
    kept = tuple(clue for clue in reading.clues if id(clue) not in strangers)
    return replace(reading, clues=kept)


def _of_title(reading: IncidentReading, machines: Sequence[Clue]) -> IncidentReading:
    """The reading without others than the program that people say crashed, if it is told of."""
    heard = (one for one in reading.clues if one.kind is ClueKind.HEARSAY)
    names = _words(one.name for one in heard if one.name is not None)
    faults = [one for one in machines if one.name is not None and is_death(one)]
    others = {id(one) for one in faults if _is_stranger(one, set(), names)}
    if not names or len(others) == len(faults):
        return reading
    kept = tuple(clue for clue in reading.clues if id(clue) not in others)
    return replace(reading, clues=kept)


def _is_stranger(clue: Clue, known: set[int | None], names: set[str]) -> bool:
    pid = subject_pid(clue)
    if pid is None or pid in known or clue.name is None or IS_ANYBODYS.match(clue.name):
        return False
    return not (_words([clue.name]) & names)


def _words(names: Iterable[str]) -> set[str]:
    return {word for name in names for word in _WORD.findall(name.lower())}
