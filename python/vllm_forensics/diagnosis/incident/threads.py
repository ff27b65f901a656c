"""Which process is meant where the kernel tells a thread: of what runs, it knows threads alone.

`python3[4300]: segfault at …` holds the number and the name of the thread that faulted, and
systemd's `Process 4242 (python3) of user 0 dumped core` those of its process.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.clues import RECORD, subject_pid
from vllm_forensics.diagnosis.incident.programs import is_program
from vllm_forensics.diagnosis.incident.roles import role_of_clue
from vllm_forensics.diagnosis.incident.strangers import IS_ANYBODYS
from vllm_forensics.diagnosis.joined.clocks import clock_s
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading

_THREAD: Final = re.compile(r"Stack trace of thread (?P<thread>\d{1,20})$")
_HAS_ITS_NAME: Final = re.compile(
    r"python|pypy|ruby|perl|php|node|bun\b|deno|postgres|httpd|\[|ld-|(?:ba|da|z)?sh$|busybox"
)
"""What such a program is called depends on what it runs."""
_LONGEST_COMM: Final = 15
_OF_WHAT: Final = {
    ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.GPU, ClueKind.MEMORY,
    ClueKind.EXCEPTION,
}  # fmt: skip
_MOMENT_S: Final = 10.0
"""A parent notices later, and two logs round."""
_MAX_ENDS: Final = 100
_BETWEEN: Final = 100
"""So many lines of a machine's log may lie between the fault and the record of its core."""


def with_processes(reading: IncidentReading) -> IncidentReading:
    """The reading, with number and name of the process in the kernel's word of a thread's fault.

    A record that shows the thread's stack proves it. Without, the record of a process of the same
    name counts, the next one below: threads are younger, so their numbers are higher. Where there
    is no record, the process that told of the same signal itself is the one, or likely one of
    which no more is told than that it ended.
    """
    faults = [clue for clue in reading.clues if _is_fault(clue)]
    if not faults:
        return reading
    reading = replace(reading, clues=tuple(map(_of_program, reading.clues)))
    faults = [clue for clue in reading.clues if _is_fault(clue)]
    records = sorted(filter(_is_record, reading.clues), key=_line)
    stacks = dict(_stacks(records, reading.clues))
    known = {record.pid for record in records} | {one.pid for one in reading.processes}
    ends = list(_own_words(reading) or _ends(reading)) if not records else []
    ends = ends if len(ends) <= _MAX_ENDS else []  # nor would the moment tell one of so many
    is_only = len({fault.pid for fault in faults}) == 1
    found: dict[int, Clue] = {}
    taken: set[int] = set()
    owners: dict[int | None, Clue] = {}
    for fault in faults:
        if fault.pid in known:
            continue
        record = stacks.get(fault.pid) or _next_record(fault, records, taken)
        if record is not None:
            taken.add(id(record))
            found[id(fault)] = _of_process(fault, record)
            continue
        fitting = (one for one in ends if _may_end(fault, one, is_only=is_only))
        end = owners.get(fault.pid) or next(fitting, None)
        if end is not None:
            owners[fault.pid] = end
            ends = [one for one in ends if _who(one) != _who(end)]
            found[id(fault)] = _of_ended(fault, end)
    return replace(reading, clues=tuple(found.get(id(clue), clue) for clue in reading.clues))


def _of_program(clue: Clue) -> Clue:
    """The fault; of its program, where the module that it was in is no library.

    `io_worker_57[4242]: segfault at … in poold[…]`. Interpreters' processes choose their names.
    """
    module = clue.native[0].module if clue.native and _is_fault(clue) else None
    if module is None or clue.name is None or not is_program(module):
        return clue
    is_cut = len(clue.name) == _LONGEST_COMM and module.startswith(clue.name)
    if clue.name == module or _HAS_ITS_NAME.match(module) is not None:
        return clue
    thread = "" if is_cut else f"in its thread {clue.name}"
    detail = ", ".join(filter(None, (clue.detail, thread)))
    return replace(clue, name=module, detail=detail)


def _line(clue: Clue) -> int:
    return clue.line


def _is_fault(clue: Clue) -> bool:
    """A fault, or a process that had to go for want of memory."""
    return clue.source == "kernel" and clue.kind in {ClueKind.SIGNAL, ClueKind.MEMORY}


def _is_record(clue: Clue) -> bool:
    is_systemds = clue.source == "systemd" and clue.kind is ClueKind.CHILD
    return is_systemds and clue.pid is not None and clue.text.startswith("Process ")


def _stacks(records: Sequence[Clue], clues: Sequence[Clue]) -> Iterator[tuple[int | None, Clue]]:
    """The threads whose stacks the records show."""
    for clue in clues:
        match = _THREAD.search(clue.detail or "") if clue.source == "systemd" else None
        if match is None:
            continue
        at = bisect_left(records, clue.line, key=_line) - 1
        if at >= 0 and clue.line - records[at].line < RECORD:
            yield int(match["thread"]), records[at]


def _next_record(fault: Clue, records: Sequence[Clue], taken: Collection[int]) -> Clue | None:
    start = bisect_right(records, fault.line, key=_line)
    near = (one for one in records[start : start + _MAX_ENDS] if id(one) not in taken)
    first = next(near, None)
    if first is None or first.line - fault.line >= _BETWEEN or not _may_be_of(fault, first):
        return None
    is_other = first.signal not in {None, fault.signal}
    is_older = first.pid is not None and fault.pid is not None and first.pid < fault.pid
    return first if is_older and not is_other else None


def _may_be_of(fault: Clue, record: Clue) -> bool:
    """Is the thread called as the process, or after it: `pool_worker` of `pool`?"""
    return record.name is not None and (fault.name or "").startswith(record.name)


def _own_words(reading: IncidentReading) -> list[Clue]:
    """What processes with a number said of their own faults."""
    return [
        clue
        for clue in reading.clues
        if clue.kind is ClueKind.SIGNAL and not _is_fault(clue) and subject_pid(clue) is not None
    ]


def _ends(reading: IncidentReading) -> list[Clue]:
    """What parents say of children that ended, where nobody says of what."""
    if any(clue.kind in _OF_WHAT and not _is_fault(clue) for clue in reading.clues):
        return []
    return [
        clue
        for clue in reading.clues
        if clue.kind is ClueKind.CHILD
        and clue.of_another
        and clue.name is not None
        and clue.signal is None
        and role_of_clue(clue) is not None
    ]


def _who(clue: Clue) -> tuple[int | None, str | None]:
    return subject_pid(clue), clue.name


def _may_end(fault: Clue, end: Clue, *, is_only: bool) -> bool:
    """Is it the same moment and signal, and does the name fit any program of Python's?

    Without clocks in common, an only fault and an end without a cause may be one; words of a
    fault's own are not taken for those of a fault that may be of last week.
    """
    if fault.name is None or IS_ANYBODYS.match(fault.name) is None:
        return False
    if end.signal not in {None, fault.signal}:
        return False
    ours, theirs, since = map(clock_s, (fault.time, end.time, end.since))
    if ours is not None and theirs is not None:
        return abs(ours - theirs) <= _MOMENT_S
    if ours is not None and since is not None:  # a handler knows no clock: it is later than that
        return ours > since - _MOMENT_S
    return is_only and end.signal is None


def _of_ended(fault: Clue, end: Clue) -> Clue:
    """Its number may be a thread's, or another than in the container: it is only told."""
    detail = f"as the kernel says of {fault.name}[{fault.pid}]"
    if fault.detail:  # a killed process stands in the kernel's own words
        detail = f"{fault.detail}, {detail}" if fault.kind is ClueKind.SIGNAL else fault.detail
    name = end.name if end.of_another else end.name or end.writer
    return replace(
        fault, pid=subject_pid(end), name=name, of_another=True, detail=detail, is_matched=True
    )


def _of_process(fault: Clue, process: Clue) -> Clue:
    named = f" {fault.name}" if fault.name and fault.name != process.name else ""
    thread = f"in its thread {fault.pid}{named}"
    detail = f"{fault.detail}, {thread}" if fault.detail else thread
    return replace(fault, pid=process.pid, name=process.name, detail=detail)
