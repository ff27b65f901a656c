"""One number, several processes: other machines, other times, other containers.

Every container begins to count at 1, so the logs of two of them speak of the same numbers. Who is
who is told by host, by role and by time; each process gets a number of its own for as long as it
is judged, and its own number back when it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident_roles import role_of_clue, role_of_name
from vllm_forensics.diagnosis.statement import Statement
from vllm_forensics.model.incident import IncidentReading, ProcessRole
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.record import dataclass

APART_S: Final = 600.0
_NEW: Final = 10**24
"""No log holds a number of a process that is as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Everything that was said, with one number a process."""

    told: tuple[Statement, ...]
    logs: Mapping[str, IncidentReading]
    own: Mapping[int, int]
    """Each number that was given anew, and the process's own."""
    reasons: Mapping[int, str]
    """Why such a process is not the first of its number."""

    def shown(self, number: int | None) -> int | None:
        """The process's own number."""
        return self.own.get(number, number) if number is not None else None

    def shown_in(self, text: str) -> str:
        """A text with the processes' own numbers."""
        for number, pid in self.own.items():
            text = text.replace(str(number), str(pid))
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Voice:
    """What one source says of the process of a number."""

    source: str
    is_log: bool
    host: str | None
    roles: frozenset[ProcessRole]
    times: tuple[float, ...]
    signals: frozenset[str]


def lives_apart(told: Sequence[Statement], logs: Mapping[str, IncidentReading]) -> Lives:
    """Give a new number to every process whose number another one has."""
    numbers: dict[tuple[str, int], int] = {}
    own: dict[int, int] = {}
    reasons: dict[int, str] = {}
    for pid in dict.fromkeys(one.pid for one in told if one.pid is not None):
        groups: list[tuple[int, list[_Voice]]] = []
        for voice in _voices(pid, told, logs):
            number, why = _process_of(voice, groups, pid)
            if number is None:
                number = pid if not groups else _NEW + len(own)
                groups.append((number, [voice]))
                if why is not None:
                    own[number], reasons[number] = pid, why
            numbers[voice.source, pid] = number
    return Lives(
        told=tuple(_renumbered(one, numbers) for one in told),
        logs={source: _log(source, reading, numbers) for source, reading in logs.items()},
        own=own,
        reasons=reasons,
    )


def _voices(
    pid: int, told: Sequence[Statement], logs: Mapping[str, IncidentReading]
) -> list[_Voice]:
    """Logs first: what they say of a role parts processes, and a core then goes where it fits."""
    found = []
    for source in dict.fromkeys(one.source for one in told if one.pid == pid):
        about = [one for one in told if one.pid == pid and one.source == source]
        names = (
            [one.name for one in logs[source].processes if one.pid == pid] if source in logs else []
        )
        roles = {role_of_name(name) for name in names}
        roles |= {role_of_clue(one.clue) for one in about if one.clue and one.clue.is_tagged}
        found.append(
            _Voice(
                source=source,
                is_log=source in logs,
                host=next((one.host for one in about if one.host is not None), None),
                roles=frozenset(role for role in roles if role is not None),
                times=tuple(
                    one.time_s
                    for one in about
                    if one.time_s is not None and one.kind is not SourceKind.CORE
                ),
                signals=frozenset(one.signal for one in about if one.signal is not None),
            )
        )
    return sorted(found, key=lambda voice: not voice.is_log)


def _process_of(
    voice: _Voice, groups: Sequence[tuple[int, list[_Voice]]], pid: int
) -> tuple[int | None, str | None]:
    """The process that a source speaks of; None and the reason where it is a new one."""
    why: str | None = None
    fitting: list[tuple[int, int, list[_Voice]]] = []
    for number, group in groups:
        against = next((said for one in group if (said := _against(one, voice, pid))), None)
        if against is None:
            agreeing = sum(bool(one.signals & voice.signals) for one in group)
            fitting.append((agreeing, number, group))
        why = why or against
    if not fitting:
        return None, why
    _, number, group = max(fitting, key=lambda fit: fit[0])
    group.append(voice)
    return number, None


def _against(one: _Voice, other: _Voice, pid: int) -> str | None:
    """Why two sources cannot speak of one process."""
    both = f"{one.source} and {other.source}"
    if None not in {one.host, other.host} and one.host != other.host:
        hosts = f"{one.host} and {other.host}"
        return f"{both} are of {hosts}, two machines that both have a process {pid}"
    if one.roles and other.roles and not one.roles & other.roles:
        names = " and ".join(sorted(role.value for role in (*one.roles, *other.roles)))
        return f"{both} speak of two processes {pid} ({names}): two containers, or two runs"
    if one.times and other.times:
        apart = max(min(other.times) - max(one.times), min(one.times) - max(other.times))
        if apart > APART_S:
            again = f"the number {pid} was used again, or a clock is wrong"
            return f"{both} are {span_text(apart)} apart: {again}"
    return None


def _renumbered(one: Statement, numbers: Mapping[tuple[str, int], int]) -> Statement:
    pid = numbers.get((one.source, one.pid)) if one.pid is not None else None
    if pid is None:
        return one
    clue = one.clue
    if clue is not None:
        writer = pid if clue.writer_pid == one.pid else clue.writer_pid
        clue = replace(clue, pid=pid, writer_pid=writer)
    return replace(one, pid=pid, clue=clue)


def _log(
    source: str, reading: IncidentReading, numbers: Mapping[tuple[str, int], int]
) -> IncidentReading:
    processes = tuple(
        one if one.pid is None else replace(one, pid=numbers.get((source, one.pid), one.pid))
        for one in reading.processes
    )
    return replace(reading, processes=processes)


def span_text(seconds: float) -> str:
    """`4 hours`, `12 minutes`, `30 s`."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
