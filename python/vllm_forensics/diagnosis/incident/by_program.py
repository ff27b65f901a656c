"""One incident for each program, where the kernel tells of faults of several and nobody else does.

`dmesg | grep segfault` lists what died in weeks. Of one program's threads the kernel tells other
names, and a parent dies of its child's end: only where all that is told are faults of programs
of different names, each is a death of its own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.clues import OUTSIDE, is_death, subject_pid
from vllm_forensics.diagnosis.incident.strangers import IS_ANYBODYS
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading

_KERNEL: Final = "kernel"
_SAID: Final = {ClueKind.HEARSAY, ClueKind.MENTION}
_OWN_PROGRAMS: Final = re.compile(r"(?i)node\b|java")
"""A program of Python may start them; where the kernel alone speaks, each is itself."""
_COMM: Final = 15
"""So many letters of a name the kernel keeps."""


def by_program(reading: IncidentReading) -> tuple[IncidentReading, ...]:
    """The reading, parted by the programs of whose faults the kernel alone tells, in its order."""
    if reading.processes or not all(map(_is_of_machines, reading.clues)):
        return (reading,)
    groups: dict[str, list[Clue]] = {}
    group_of: dict[int, str] = {}
    for clue in reading.clues:
        if _is_fault(clue) and (group := _group(clue)) is not None:
            groups.setdefault(group, [])
            if clue.pid is not None:
                group_of.setdefault(clue.pid, group)
    if len(groups) < 2:
        return (reading,)
    last = next(iter(groups))
    for clue in reading.clues:
        pid, named = subject_pid(clue), _group(clue)
        if pid is not None and pid in group_of:
            last = group_of[pid]
        elif named is not None and named in groups:
            last = named
        groups[last].append(clue)
    return tuple(replace(reading, clues=tuple(clues)) for clues in groups.values())


def _is_of_machines(clue: Clue) -> bool:
    """Is it the machine's own line, or no death at all?"""
    return clue.source in OUTSIDE or clue.kind in _SAID or not is_death(clue)


def _is_fault(clue: Clue) -> bool:
    return clue.source == _KERNEL and clue.kind is ClueKind.SIGNAL and not clue.is_told


def _group(clue: Clue) -> str | None:
    """The program, as far as the kernel tells its name; any Python's is one."""
    if clue.name is None or clue.kind in _SAID:
        return None
    is_pythons = IS_ANYBODYS.match(clue.name) and not _OWN_PROGRAMS.match(clue.name)
    return "" if is_pythons else clue.name[:_COMM].rstrip("0123456789:/-_")
