"""Puts the parts together that tell of one incident, and keeps those apart that cannot.

What links two parts: a process that one of them says is dead; the same minutes; the same source.
What keeps them apart: two lives of one log, two machines that died each of its own, times. The
stronger link goes first, and none joins what is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from vllm_forensics.diagnosis.joined.lives import APART_S, SAME_DEATH_S
from vllm_forensics.diagnosis.joined.parts import Part
from vllm_forensics.model.incident import CauseClass, ClueKind
from vllm_forensics.model.joined import SourceKind

_PEER_WAITS_S: Final = 3_600.0
_ZONES_S: Final = 15 * 3_600.0
"""No two time zones are further apart."""
_YEAR_S: Final = 366 * 86_400.0
_AT_ONCE_S: Final = 5.0
"""Workers of one engine die alike within seconds; a service is not started again as fast."""
_NEIGHBOURS: Final = 8
_MAX_DEAD: Final = 8
_WAITING: Final = {CauseClass.HANG, CauseClass.GPU_ASYNC}
_OF_PEERS: Final = {*_WAITING, CauseClass.UNKNOWN}
"""Of these a process dies because another one, maybe of another machine, did."""

_OWN_CAUSES: Final = {CauseClass.NATIVE_FAULT, CauseClass.HEAP_CORRUPTION}
_FAULTS: Final = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"}

Span = tuple[float, float]


class Link(IntEnum):
    """Why two parts are of one incident, the strongest first."""

    PROCESS = 1
    TIME = 2
    SOURCE = 3
    NOTHING_ELSE = 4


class Group:
    """Parts of one incident, and what no other part of it may contradict."""

    def __init__(self, part: Part) -> None:
        """Begin with one part."""
        self.parts = [part]
        self.dead = part.dead
        self._lives = {part.source: part.life}
        self._hosts = _hosts_of(part)
        self._is_of_peer = _is_of_peer(part)
        self.moment = _span(one.time_s for one in part.told if _is_timed(one.kind, one.clue))
        self.clock = clock_of(part)
        written = [one.time_s for one in part.told if one.kind is SourceKind.CORE]
        self._written = _span(written)
        self._alike = _alike(part, self.clock)
        self._faults = _faults_of(part)

    @property
    def tells_of_a_process(self) -> bool:
        """Is it said which process died?"""
        return bool(self.dead)

    @property
    def moment_s(self) -> float | None:
        """When it began, in seconds since the epoch; of a core alone when it was written."""
        began = self.moment or self._written
        return began[0] if began is not None else None

    @property
    def began(self) -> float | None:
        """When it is first spoken of, in seconds of the year; beginnings count."""
        span = _span(one.clock_s for part in self.parts for one in part.told)
        return span[0] if span is not None else None

    @property
    def has_core(self) -> bool:
        """Is there a core among them?"""
        return self._written is not None

    def excludes(self, other: Group, link: Link) -> bool:
        """Can the two not be of one incident?"""
        lives = other._lives
        if any(lives.get(source, life) != life for source, life in self._lives.items()):
            return True
        if len(self._hosts | other._hosts) > 1:
            return True
        return (
            self._is_of_another_time(other)
            or _is_older(self._written, other.moment)
            or _is_older(other._written, self.moment)
            or (link is Link.TIME and self._is_too_long_with(other))
            or (link is Link.TIME and self._failed_by_itself(other))
            or (link is not Link.PROCESS and self._died_alike_before(other))
        )

    def _is_of_another_time(self, other: Group) -> bool:
        if self.moment is not None and other.moment is not None:
            is_of_peer = self._is_of_peer or other._is_of_peer
            return gap(self.moment, other.moment) > (_PEER_WAITS_S if is_of_peer else APART_S)
        if self.clock is None or other.clock is None or self._written or other._written:
            return False
        around = _YEAR_S + min(self.clock[0], other.clock[0]) - max(self.clock[1], other.clock[1])
        return min(gap(self.clock, other.clock), around) > _ZONES_S

    def _is_too_long_with(self, other: Group) -> bool:
        """Deaths that follow each other all day long are no one incident."""
        span = _both(self.clock, other.clock) or (0.0, 0.0)
        is_of_peer = self._is_of_peer or other._is_of_peer
        return span[1] - span[0] > (_PEER_WAITS_S if is_of_peer else APART_S)

    def _died_alike_before(self, other: Group) -> bool:
        """The same death twice, and not at once: it was started again in between."""
        return any(
            gap(span, other._alike[what]) > _AT_ONCE_S
            for what, span in self._alike.items()
            if what in other._alike
        )

    def _failed_by_itself(self, other: Group) -> bool:
        """Two processes, each with a fault of its own: no death makes another process fault.

        The same fault in several workers at once is one incident: they did the same work.
        """
        if self.dead & other.dead or not self._lives.keys().isdisjoint(other._lives):
            return False
        pairs = list(zip(self._faults, other._faults, strict=True))
        return not any(one & two for one, two in pairs) and any(one and two for one, two in pairs)

    def take(self, other: Group) -> None:
        """All of the other's parts."""
        self.parts += other.parts
        self.dead |= other.dead
        self._lives |= other._lives
        self._hosts |= other._hosts
        self._is_of_peer = self._is_of_peer and other._is_of_peer
        python, native = self._faults
        self._faults = python | other._faults[0], native | other._faults[1]
        self.moment = _both(self.moment, other.moment)
        self.clock = _both(self.clock, other.clock)
        self._written = _both(self._written, other._written)
        for what, span in other._alike.items():
            self._alike[what] = _both(self._alike.get(what), span) or span


def incidents_of(parts: Sequence[Part]) -> tuple[list[Group], list[Part]]:
    """The incidents, each with its parts; and the parts that may be of any of them."""
    telling = [part for part in parts if _tells(part)]
    groups = {part.number: Group(part) for part in telling}
    for link, one, other in _links(telling):
        first, second = groups[one.number], groups[other.number]
        if first is not second and not first.excludes(second, link):
            first.take(second)
            for part in second.parts:
                groups[part.number] = first
    found = list({id(group): group for group in groups.values()}.values())
    return _with_the_nameless(found)


def _with_the_nameless(groups: list[Group]) -> tuple[list[Group], list[Part]]:
    """Deaths without a process go where they can only belong."""
    known = [group for group in groups if group.tells_of_a_process]
    nameless = [group for group in groups if not group.tells_of_a_process]
    left: list[Part] = []
    for group in nameless:
        fitting = [one for one in known if not one.excludes(group, Link.NOTHING_ELSE)]
        if len(fitting) == 1:
            fitting[0].take(group)
        elif not fitting or _has_a_place(group):
            known.append(group)
        else:
            left += group.parts
    return known, left


def _has_a_place(group: Group) -> bool:
    deaths = [part.incident.first_death for part in group.parts if part.incident is not None]
    return any(death.function or death.module or death.python_function for death in deaths)


def _tells(part: Part) -> bool:
    """Is there more than beginnings and calls?"""
    return any(one.clue is None or one.clue.kind is not ClueKind.START for one in part.told)


def _links(parts: Sequence[Part]) -> Iterator[tuple[Link, Part, Part]]:
    yield from ((Link.PROCESS, *pair) for pair in _by_process(parts))
    yield from ((Link.TIME, *pair) for pair in _by_time(parts))
    last: dict[tuple[str, int], Part] = {}
    for part in parts:
        one = last.get((part.source, part.life))
        if one is not None:
            yield Link.SOURCE, one, part
        last[part.source, part.life] = part


def _by_process(parts: Sequence[Part]) -> Iterator[tuple[Part, Part]]:
    """Who says that a process is dead, with whoever speaks of it."""
    dead: dict[int, list[Part]] = {}
    for part in parts:
        for pid in part.dead:
            dead.setdefault(pid, []).append(part)
    for of_one in dead.values():
        yield from ((of_one[0], other) for other in of_one[1:])
    for part in parts:
        for pid in part.named & dead.keys():
            yield from ((one, part) for one in dead[pid][:_MAX_DEAD] if one is not part)


def _by_time(parts: Sequence[Part]) -> Iterator[tuple[Part, Part]]:
    """Those of the same minutes, the nearest first."""
    timed = [(span, part) for part in parts if (span := clock_of(part)) is not None]
    timed.sort(key=lambda one: (one[0], one[1].number))
    near = []
    for place, (span, part) in enumerate(timed):
        for other_span, other in timed[place + 1 : place + 1 + _NEIGHBOURS]:
            apart = gap(span, other_span)
            if apart > (_PEER_WAITS_S if _waited(other) else SAME_DEATH_S):
                continue
            near.append((apart, part.number, other.number, part, other))
    for *_, part, other in sorted(near, key=lambda one: one[:3]):
        yield part, other


def _waited(part: Part) -> bool:
    """Was a peer told by its own patience that another one is gone?"""
    return part.incident is not None and part.incident.first_death.cause.kind in _WAITING


def clock_of(part: Part) -> Span | None:
    """From when to when it tells of a death, in seconds of the year."""
    return _span(
        one.clock_s
        for one in part.told
        if one.kind is SourceKind.CORE or _is_timed(one.kind, one.clue)
    )


def _is_timed(kind: SourceKind, clue: object) -> bool:
    return kind is not SourceKind.CORE and getattr(clue, "kind", None) is not ClueKind.START


def _hosts_of(part: Part) -> frozenset[str]:
    """Where something died of its own."""
    hosts = {one.host for one in part.told if one.host is not None}
    return frozenset(hosts) if part.dead and not _is_of_peer(part) else frozenset()


def _is_of_peer(part: Part) -> bool:
    return part.incident is not None and part.incident.first_death.cause.kind in _OF_PEERS


def _alike(part: Part, clock: Span | None) -> dict[str, Span]:
    """What it died of, as far as that tells bugs apart: a signature, or the kernel's place."""
    if clock is None:
        return {}
    found = [one.crash.signature for one in part.told if one.crash is not None]
    for one in part.told if part.reading is None else ():
        calls = one.clue.native if one.clue is not None else ()
        found += [f"{one.signal} {call.module} {call.offset}" for call in calls[:1] if call.offset]
    return dict.fromkeys(found, clock)


def _faults_of(part: Part) -> tuple[frozenset[str], frozenset[str]]:
    """Where a process of the part did wrong itself, in Python and natively.

    Giving up is none: peers give up because another one is gone.
    """
    death = part.incident.first_death if part.incident is not None else None
    is_own = death is not None and death.pid is not None and death.cause.kind in _OWN_CAUSES
    python = {death.python_function or ""} if death is not None and is_own else set()
    native = {death.function or ""} if death is not None and is_own else set()
    for one in part.told:
        clue = one.clue
        if clue is None or one.pid is None:
            continue
        if clue.kind is not ClueKind.HEAP and (
            clue.kind is not ClueKind.SIGNAL or clue.signal not in _FAULTS
        ):
            continue
        python |= {call.function for call in clue.python[:1]}
        native |= {one.function} if one.function else set()
    return frozenset(python - {""}), frozenset(native - {""})


def _span(times: Iterable[float | None]) -> Span | None:
    known = [time for time in times if time is not None]
    return (min(known), max(known)) if known else None


def _both(one: Span | None, other: Span | None) -> Span | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def gap(one: Span, other: Span) -> float:
    """So many seconds lie between them; 0 where they overlap."""
    return max(0.0, other[0] - one[1], one[0] - other[1])


def _is_older(core: Span | None, told: Span | None) -> bool:
    """Was a core written before what is told?"""
    return core is not None and told is not None and told[0] - core[0] > APART_S
