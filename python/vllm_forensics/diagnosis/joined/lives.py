"""One number, several processes: other machines, other times, other containers.

Every container begins to count at 1, so the logs of two of them speak of the same numbers, and so
do two lives in one log. Who is who is told by host, by role and by time; each process gets a number
of its own for as long as it is judged, and its own number back when it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.roles import role_of_clue, role_of_name
from vllm_forensics.diagnosis.joined.clocks import span_text
from vllm_forensics.diagnosis.joined.parts import Part, judged
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.incident import Clue, ProcessRole
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.record import dataclass

APART_S: Final = 600.0
SAME_DEATH_S: Final = 120.0
"""So far apart are the first words of one death and the last, whatever tells them."""
_NEW: Final = 10**24
"""No log holds a number of a process that is as long."""
_GIVEN: Final = re.compile(r"(?<!\d)1\d{24}(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """Everything that was said, with one number a process."""

    parts: tuple[Part, ...]
    own: Mapping[int, int]
    """Each number that was given anew, and the process's own."""
    reasons: Mapping[int, str]
    """Why such a process, and the first of its number, are two."""

    def shown(self, number: int | None) -> int | None:
        """The process's own number."""
        return self.own.get(number, number) if number is not None else None

    def shown_in(self, text: str) -> str:
        """A text with the processes' own numbers."""
        return _GIVEN.sub(lambda found: str(self.shown(int(found[0]))), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Voice:
    """What one part says of the process of a number."""

    part: Part
    host: str | None
    roles: frozenset[ProcessRole]
    times: tuple[float, ...]
    clocks: tuple[float, ...]
    signals: frozenset[str]
    addresses: frozenset[int]
    is_dead: bool
    is_mute: bool
    """Is the process only named?"""
    core: Statement | None

    @property
    def source(self) -> str:
        """The file."""
        return self.part.source


def lives_apart(parts: Sequence[Part]) -> Lives:
    """Give a new number to every process whose number another one has."""
    numbers: dict[tuple[int, int], int] = {}
    own: dict[int, int] = {}
    reasons: dict[int, str] = {}
    for pid, voices in _voices([judged(part) for part in parts]):
        groups: list[tuple[int, list[_Voice]]] = []
        last: dict[str, int] = {}
        for voice in voices:
            if voice.is_mute and voice.source in last:
                numbers[voice.part.number, pid] = last[voice.source]
                continue
            number, against = _process_of(voice, groups, pid)
            if number is None:
                number = pid if not groups else _NEW + len(own)
                groups.append((number, [voice]))
                for other, why in against[:1]:
                    own[number], reasons[number] = pid, why
                    reasons.setdefault(other, why)
            last[voice.source] = number
            numbers[voice.part.number, pid] = number
    return Lives(
        parts=tuple(judged(_renumbered(part, numbers)) for part in parts)
        if own
        else tuple(map(judged, parts)),
        own=own,
        reasons=reasons,
    )


def _voices(parts: Sequence[Part]) -> Iterator[tuple[int, list[_Voice]]]:
    """Logs first: what they say of a role parts processes, and a core then goes where it fits."""
    of_pid: dict[int, list[Part]] = {}
    for part in parts:
        for pid in sorted(part.named | part.dead):
            of_pid.setdefault(pid, []).append(part)
    for pid, speaking in of_pid.items():
        voices = [_voice(pid, part) for part in speaking]
        of_logs = [voice for voice in voices if voice.part.reading is not None]
        others = [voice for voice in voices if voice.part.reading is None]
        yield pid, [*of_logs, *sorted(others, key=lambda one: _fit(one, of_logs), reverse=True)]


def _voice(pid: int, part: Part) -> _Voice:
    about = [one for one in part.told if one.pid == pid]
    seen = part.reading.processes if part.reading is not None else ()
    roles = {role_of_name(one.name) for one in seen if one.pid == pid}
    roles |= {role_of_clue(one.clue) for one in about if one.clue and one.clue.is_tagged}
    core = next((one for one in about if one.kind is SourceKind.CORE), None)
    timed = [one for one in about if one.kind is not SourceKind.CORE]
    return _Voice(
        part=part,
        host=next((one.host for one in about if one.host is not None), None),
        roles=frozenset(role for role in roles if role is not None),
        times=tuple(one.time_s for one in timed if one.time_s is not None),
        clocks=tuple(at for one in part.told if (at := one.clock_s) is not None),
        signals=frozenset(one.signal for one in about if one.signal is not None),
        addresses=frozenset(
            at for one in about for at in (one.address, one.pc, one.sp) if at is not None
        ),
        is_dead=pid in part.dead,
        is_mute=not about and pid not in part.dead,
        core=core,
    )


def _process_of(
    voice: _Voice, groups: Sequence[tuple[int, list[_Voice]]], pid: int
) -> tuple[int | None, list[tuple[int, str]]]:
    """The process that a part speaks of; None, and why it is none of the others, for a new one."""
    reasons: list[tuple[int, str]] = []
    fitting: list[tuple[tuple[int, bool], int, list[_Voice]]] = []
    for number, group in groups:
        against = next((said for one in group if (said := _against(one, voice, pid))), None)
        if against is None:
            fitting.append((_fit(voice, group), number, group))
        else:
            reasons.append((number, against))
    if not fitting:
        return None, reasons
    # The last where all fit alike: a later core of the same name replaces the earlier one.
    _, number, group = max(reversed(fitting), key=lambda fit: fit[0])
    group.append(voice)
    return number, []


def _fit(voice: _Voice, group: Sequence[_Voice]) -> tuple[int, bool]:
    agreeing = sum(
        bool(one.signals & voice.signals) + bool(one.addresses & voice.addresses) for one in group
    )
    near = any(
        abs(one - other) <= SAME_DEATH_S
        for voiced in group
        for one in voiced.clocks[-1:]
        for other in voice.clocks[-1:]
    )
    return agreeing, near


def _against(one: _Voice, other: _Voice, pid: int) -> str | None:
    """Why two parts cannot speak of one process."""
    both = f"{one.source} and {other.source}"
    if None not in {one.host, other.host} and one.host != other.host:
        hosts = f"{one.host} and {other.host}"
        return f"{both} are of {hosts}, two machines that both have a process {pid}"
    if one.source == other.source:
        return _against_itself(one, other, pid)
    if one.roles and other.roles and not one.roles & other.roles:
        names = " and ".join(sorted(role.value for role in (*one.roles, *other.roles)))
        return f"{both} speak of two processes {pid} ({names}): two containers, or two runs"
    again = f"the number {pid} was used again, or a clock is wrong"
    if one.times and other.times:
        apart = max(min(other.times) - max(one.times), min(one.times) - max(other.times))
        if apart > APART_S:
            return f"{both} are {span_text(apart)} apart: {again}"
    return _against_core(one, other, pid)


def _against_itself(one: _Voice, other: _Voice, pid: int) -> str | None:
    """Two lives of one log: it died in the first, and speaks again in the second."""
    if one.part.life == other.part.life or not one.is_dead:
        return None
    reading = other.part.reading
    seen = reading.processes if reading is not None else ()
    begins = reading.clues[0].line if reading is not None and reading.clues else 0
    if other.is_dead or any(one.pid == pid and one.last_line >= begins for one in seen):
        return (
            f"{other.source} tells of a process {pid} again after a restart: the numbers were "
            "counted anew"
        )
    return None


def _against_core(one: _Voice, other: _Voice, pid: int) -> str | None:
    if one.core is not None and other.core is not None:
        if _is_same_death(one.core, other.core):
            return None
        return (
            f"{other.source} is of another process {pid} than {one.source}: the number was used "
            "again, or it is another machine's"
        )
    for core, told in ((one, other), (other, one)):
        written = core.core.time_s if core.core is not None else None
        if written is not None and told.times and min(told.times) - written > APART_S:
            again = f"the number {pid} was used again since, or a clock is wrong"
            span = span_text(min(told.times) - written)
            return f"{core.source} was written {span} before what {told.source} tells: {again}"
    return None


def _is_same_death(one: Statement, other: Statement) -> bool:
    """A minicore and the kernel's core of one process: the same program and fault, at one time.

    A core that was cut short, or lost its modules, does not show the first fault.
    """
    same = (one.program, one.host) == (other.program, other.host) and (
        one.pc == other.pc or (_shows_less(one, other) and _delivered(one) == _delivered(other))
    )
    if one.time_s is None or other.time_s is None:
        return same
    return same and abs(one.time_s - other.time_s) < SAME_DEATH_S


def _shows_less(one: Statement, other: Statement) -> bool:
    kinds = {core.crash.fault.kind for core in (one, other) if core.crash is not None}
    return FaultKind.UNKNOWN in kinds


def _delivered(core: Statement) -> int | None:
    return core.crash.delivered.number if core.crash is not None else None


def _renumbered(part: Part, numbers: Mapping[tuple[int, int], int]) -> Part:
    def number_of(pid: int | None) -> int | None:
        return numbers.get((part.number, pid), pid) if pid is not None else None

    reading = part.reading
    clues: dict[int, Clue] = {}
    told = []
    for one in part.told:
        clue = one.clue
        if clue is not None:
            writer = number_of(clue.writer_pid)
            clue = replace(clue, pid=number_of(one.pid), writer_pid=writer)
            clues[id(one.clue)] = clue
        told.append(replace(one, pid=number_of(one.pid), clue=clue))
    if reading is not None:
        reading = replace(
            reading,
            clues=tuple(clues.get(id(clue), clue) for clue in reading.clues),
            processes=tuple(replace(one, pid=number_of(one.pid)) for one in reading.processes),
        )
    return replace(part, told=tuple(told), reading=reading)
