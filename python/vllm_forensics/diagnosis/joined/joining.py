"""Joins what many sources say: by process, then in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from vllm_forensics.diagnosis.incident.clues import is_death, subject_pid
from vllm_forensics.diagnosis.incident.threads import with_processes
from vllm_forensics.diagnosis.joined.clocks import clock_s, naive_moment
from vllm_forensics.diagnosis.joined.lives import SAME_DEATH_S
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading, SeenProcess
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.stack import Frame, FrameKind

_GAP: Final = 120
"""Lines between two sources: nothing in one is next to anything in the other."""
_APART: Final = 1 << 40
"""No log has so many lines."""
_RECORD: Final = 120
"""Lines of one log that are no further apart hang together,"""
_RECORD_S: Final = 2.0
"""nor in time: what another log says meanwhile stands before or behind them all."""
_OWN_WORDS: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT}
_MAX_FRAMES: Final = 64
_RANK: Final = tuple(SourceKind)
"""Cores come first in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """All statements in one order, as the judgement of one log takes them."""

    reading: IncidentReading
    at_line: dict[int, Statement]
    """The statement behind each line of the reading."""
    is_certain: bool
    """False where two sources tell of deaths and nothing says which came first."""


def with_one_pid_a_process(told: Sequence[Statement]) -> list[Statement]:
    """The kernel's log counts a container's processes otherwise than the container does.

    Seen: `python[4242]: segfault at 18 ip 5581… sp 7ffc…` and a core of process 7. One process has
    that instruction and that stack pointer: both speak of it.
    """
    cores = {
        (one.pc, one.sp): one.pid
        for one in told
        if one.kind is SourceKind.CORE and None not in {one.pc, one.sp}
    }
    other: dict[int, int] = {}
    for one in told:
        pid = cores.get((one.pc, one.sp)) if one.kind is SourceKind.LOG else None
        if pid is not None and one.pid is not None and one.pid != pid:
            other[one.pid] = pid
    return [
        one
        if one.pid is None or one.pid not in other
        else replace(_as(one, other[one.pid]), kernels_pid=one.pid)
        for one in told
    ]


def with_threads_owned(
    told: Sequence[Statement], logs: Mapping[str, IncidentReading]
) -> list[Statement]:
    """The kernel's log names a thread, or counts otherwise; another log tells who ended then."""
    cores = {one.pid for one in told if one.kind is SourceKind.CORE}
    of_logs = [one for one in told if one.kind is SourceKind.LOG and one.clue is not None]
    hosts = {one.host for one in of_logs if one.host is not None}
    found: dict[int, Statement] = {}
    for host in hosts if len(hosts) > 1 else {None}:
        here = [one for one in of_logs if one.pid not in cores and host in {None, one.host}]
        found.update(_owned(here, logs))
    return [found.get(id(one), one) for one in told]


def _owned(
    told: Sequence[Statement], logs: Mapping[str, IncidentReading]
) -> Iterator[tuple[int, Statement]]:
    """The statements of one machine's logs that speak of another process than they say."""
    place = {source: number * _APART for number, source in enumerate(logs)}
    clues = [
        replace(one.clue, line=one.clue.line + place[one.source])
        for one in told
        if one.clue is not None
    ]
    known = tuple(process for log in logs.values() for process in log.processes)
    reading = IncidentReading(clues=tuple(clues), processes=known, size_bytes=0, lines=0)
    for one, old, new in zip(told, clues, with_processes(reading).clues, strict=True):
        if new is not old and one.clue is not None:
            clue = replace(new, line=one.clue.line)
            yield id(one), replace(one, pid=subject_pid(clue), clue=clue)


def with_owners(told: Sequence[Statement], among: Sequence[Statement]) -> list[Statement]:
    """Words without a process go to the one core in `among` that has their signal and functions.

    faulthandler names no process. Where several cores would do, none is chosen.
    """
    cores = [one for one in among if one.crash is not None]
    if not cores:
        return list(told)
    named = {one.pid for one in told if one.kind is SourceKind.LOG and one.pid is not None}
    found: list[Statement] = []
    for one in told:
        owner = _owner(one, cores, named) if one.pid is None else None
        found.append(_as(one, owner) if owner is not None else one)
    return found


def _owner(one: Statement, cores: Sequence[Statement], named: set[int]) -> int | None:
    clue = one.clue
    if one.kind is not SourceKind.LOG or clue is None or clue.kind not in _OWN_WORDS:
        return None
    fitting = [core for core in cores if clue.signal is None or clue.signal in _signals(core)]
    functions = {call.function for call in clue.python}
    functions |= {plain_name(call.function) for call in clue.native if call.function}
    sharing = [core for core in fitting if functions & _functions(core)]
    if len({core.pid for core in sharing}) == 1:
        return sharing[0].pid
    if len({core.pid for core in fitting}) != 1 or sharing or fitting[0].pid in named:
        return None
    # Where both have Python's stack, it would have to be the same.
    is_other = bool(clue.python) and _has_python(fitting[0])
    return None if is_other else fitting[0].pid


def _has_python(core: Statement) -> bool:
    return any(frame.kind is FrameKind.PYTHON for frame in _frames(core))


def _signals(core: Statement) -> set[str]:
    crash = core.crash
    if crash is None:
        return set()
    return {signal_name(crash.signal.number), signal_name(crash.delivered.number)}


def _functions(core: Statement) -> set[str]:
    return {plain_name(one.function) for one in _frames(core)[:_MAX_FRAMES] if one.function}


def _frames(core: Statement) -> tuple[Frame, ...]:
    crash = core.crash
    return crash.threads[0].stack.frames if crash is not None and crash.threads else ()


def _as(one: Statement, pid: int) -> Statement:
    clue = replace(one.clue, pid=pid) if one.clue is not None else None
    return replace(one, pid=pid, clue=clue)


def ordered(told: Sequence[Statement], logs: Iterable[IncidentReading]) -> Ordered:
    """One reading of everything: logs by their times, the others where their process is spoken of.

    What stands in one log stays in its order, with its distances.
    """
    of_logs = [
        list(group)
        for _, group in groupby(
            (one for one in told if one.kind is SourceKind.LOG and one.clue is not None),
            key=attrgetter("source"),
        )
    ]
    spoken, by_time = _merged(of_logs)
    placed, unplaced = _with_others(
        spoken, [one for one in told if one.kind is not SourceKind.LOG and one.clue is not None]
    )
    logs = list(logs)
    lines: dict[int, Statement] = {}
    clues: list[Clue] = []
    last = 0
    source: str | None = None
    last_of: dict[str, tuple[int, int]] = {}
    for one in placed:
        theirs, ours = last_of.get(one.source, (one.line or 0, last + _GAP))
        after = last + (1 if one.source == source else _GAP)
        line = max(after, ours + (one.line or 0) - theirs)
        source = one.source
        last_of[one.source] = (one.line or 0, line)
        last = line
        lines[line] = one
        if one.clue is not None:
            clues.append(replace(one.clue, line=line))
    deaths = {one.source if one.pid is None else one.pid for one in spoken if is_own_word(one)}
    return Ordered(
        reading=IncidentReading(
            clues=tuple(clues),
            processes=_processes(logs, told, last),
            size_bytes=sum(log.size_bytes for log in logs),
            lines=last,
        ),
        at_line=lines,
        is_certain=not unplaced and (by_time or len(deaths) < 2),
    )


def _merged(logs: list[list[Statement]]) -> tuple[list[Statement], bool]:
    """Logs of one clock are merged by it; the others follow each other."""
    if len(logs) < 2:
        return [one for log in logs for one in log], True
    clocks = [[clock_s(one.time) for one in log] for log in logs]
    known = [[time for time in clock if time is not None] for clock in clocks]
    if not all(known) or not _is_one_clock(logs, known):
        # An echo follows a death, whatever the files are called.
        by_death = sorted(logs, key=lambda log: not any(map(_is_death, log)))
        return [one for log in by_death for one in log], False
    keyed: list[tuple[float, int, int, Statement]] = []
    for number, (log, clock) in enumerate(zip(logs, clocks, strict=True)):
        time = begun = known[number][0]
        line = log[0].line or 0
        for place, (one, at) in enumerate(zip(log, clock, strict=True)):
            time = max(time, at if at is not None else time)
            if time - begun > _RECORD_S or (one.line or 0) - line > _RECORD:
                begun = time
            line = one.line or 0
            keyed.append((begun, number, place, one))
    return [one for _, _, _, one in sorted(keyed, key=lambda entry: entry[:3])], True


def is_own_word(one: Statement) -> bool:
    """Is it a dying process's own word?"""
    return one.clue is not None and one.clue.kind in _OWN_WORDS


def _is_death(one: Statement) -> bool:
    return one.clue is not None and is_death(one.clue)


def _is_one_clock(logs: list[list[Statement]], known: list[list[float]]) -> bool:
    """Do the logs write times alike, or are they of the same minutes whatever they write?"""
    forms = {_form(one.time) for log in logs for one in log if one.time is not None}
    return len(forms) == 1 or max(map(min, known)) - min(map(max, known)) < SAME_DEATH_S


def _form(time: str | None) -> str:
    return "".join("0" if char.isdigit() else char for char in time or "")


def _with_others(
    spoken: Sequence[Statement], others: Sequence[Statement]
) -> tuple[list[Statement], bool]:
    """Cores and the like before the first words about their process; else by time.

    Those that nothing places stand behind the deaths that logs tell of, or first where none does.
    """
    before: dict[int, list[Statement]] = {}
    front: list[Statement] = []
    behind: list[Statement] = []
    has_death = any(map(is_own_word, spoken))
    for one in _by_process(others):
        place = next((at for at, other in enumerate(spoken) if _concerns(other, one)), None)
        place = place if place is not None else _by_time(one, spoken)
        if place is not None:
            before.setdefault(place, []).append(one)
        else:
            (behind if has_death else front).append(one)
    placed = front
    for at in range(len(spoken) + 1):
        placed += before.get(at, [])
        placed += spoken[at : at + 1]
    return placed + behind, bool(behind)


def _by_process(others: Sequence[Statement]) -> list[Statement]:
    """Processes by their first moment; of each the core first, which knows the first fault.

    A core is written when the process has ended, and a trace tells of the signal that a handler
    sent.
    """
    began: dict[int | None, float] = {}
    for one in others:
        if one.time_s is not None:
            began[one.pid] = min(one.time_s, began.get(one.pid, one.time_s))
    return sorted(
        others,
        key=lambda one: (began.get(one.pid, float("inf")), one.pid or 0, _RANK.index(one.kind)),
    )


def _concerns(words: Statement, one: Statement) -> bool:
    return words.pid is not None and words.pid == one.pid


def _by_time(one: Statement, spoken: Sequence[Statement]) -> int | None:
    """Where it belongs by the clock; None where a clock has no zone and is not near either."""
    if one.time_s is None:
        return None
    known = [
        (at, moment)
        for at, other in enumerate(spoken)
        if (moment := other.time_s or naive_moment(other.time)) is not None
    ]
    if not known or any(
        abs(moment - one.time_s) > SAME_DEATH_S * 5 and spoken[at].time_s is None
        for at, moment in known
    ):
        return None
    return next((at for at, moment in known if moment >= one.time_s), len(spoken))


def _processes(
    logs: Iterable[IncidentReading], told: Sequence[Statement], last: int
) -> tuple[SeenProcess, ...]:
    """Who is named anywhere; the joined lines say nothing of when."""
    found: dict[int, SeenProcess] = {}
    for log in logs:
        for one in log.processes:
            if one.pid is not None:
                known = found.get(one.pid)
                found[one.pid] = one if known is None or not known.name else known
    for statement in told:
        if statement.pid is None or statement.is_orderly_end:
            continue
        if statement.program is not None:
            found.setdefault(
                statement.pid,
                SeenProcess(
                    pid=statement.pid,
                    name=statement.program,
                    first_line=0,
                    last_line=last,
                    last_time=None,
                ),
            )
    return tuple(replace(one, first_line=0, last_line=last) for one in found.values())
