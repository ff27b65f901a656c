"""Which process is meant where the kernel tells a thread: of what runs, it knows threads alone.

`python3[4300]: segfault at …` holds the number and the name of the thread that faulted, and
systemd's `Process 4242 (python3) of user 0 dumped core` those of its process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident_clues import RECORD
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading

_THREAD: Final = re.compile(r"Stack trace of thread (?P<thread>\d{1,20})$")
_BETWEEN: Final = 100
"""So many lines of a machine's log may lie between the fault and the record of its core."""


def with_processes(reading: IncidentReading) -> IncidentReading:
    """The reading, with number and name of the process in the kernel's word of a thread's fault.

    A record that shows the thread's stack proves it. Without, the record of a process of the same
    name counts, the next one below: threads are younger, so their numbers are higher.
    """
    records = [clue for clue in reading.clues if _is_record(clue)]
    if not records:
        return reading
    numbers = {record.pid for record in records}
    stacks = dict(_stacks(records, reading.clues))
    taken = set[int]()

    def meant(fault: Clue) -> Clue | None:
        if fault.source != "kernel" or fault.kind is not ClueKind.SIGNAL or fault.pid in numbers:
            return None
        found = stacks.get(fault.pid) or _next_record(fault, records)
        if found is None or id(found) in taken:
            return None
        taken.add(id(found))
        return found

    return replace(
        reading,
        clues=tuple(
            clue if (process := meant(clue)) is None else _of_process(clue, process)
            for clue in reading.clues
        ),
    )


def _is_record(clue: Clue) -> bool:
    is_systemds = clue.source == "systemd" and clue.kind is ClueKind.CHILD
    return is_systemds and clue.pid is not None and clue.text.startswith("Process ")


def _stacks(records: Sequence[Clue], clues: Sequence[Clue]) -> Iterator[tuple[int | None, Clue]]:
    """The threads whose stacks the records show."""
    for clue in clues:
        match = _THREAD.search(clue.detail or "") if clue.source == "systemd" else None
        above = [one for one in records if 0 < clue.line - one.line < RECORD] if match else []
        if match is not None and above:
            yield int(match["thread"]), above[-1]


def _next_record(fault: Clue, records: Sequence[Clue]) -> Clue | None:
    below = (one for one in records if 0 < one.line - fault.line < _BETWEEN)
    first = next(below, None)
    if first is None or first.name != fault.name or first.pid is None or fault.pid is None:
        return None
    is_other = first.signal not in {None, fault.signal}
    return first if first.pid < fault.pid and not is_other else None


def _of_process(fault: Clue, process: Clue) -> Clue:
    named = f" {fault.name}" if fault.name and fault.name != process.name else ""
    thread = f"in its thread {fault.pid}{named}"
    detail = f"{fault.detail}, {thread}" if fault.detail else thread
    return replace(fault, pid=process.pid, name=process.name, detail=detail)
