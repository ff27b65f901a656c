"""Writes down what happens to every block, and keeps who holds it.

Engines wrap the classes of the vLLM that they loaded, not instances, and report to one recorder.
Events are kept as plain tuples: a step of a real scheduler takes a quarter of a millisecond, and a
frozen dataclass for each event would be felt.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol

from vllm_forensics.model.event import Chain, Event, EventKind
from vllm_forensics.model.sandbox import Completed, Snapshot, StepRecord, WorkerStep

_KEPT: Final = 2_000_000
"""Events in memory; the oldest go first. About 200 bytes each."""
_CHAIN: Final = 40
"""Events of one chain: its end, in which the fault is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen:
    """One step that was completed, as whoever watches a run is told of it."""

    step: WorkerStep
    done: Completed
    record: StepRecord
    snapshot: Callable[[], Snapshot]
    """Takes the state after the step, with the hashes; valid only while the watcher is called."""


class Noted(NamedTuple):
    """One event as it is kept: a tuple, because it is made quickly."""

    kind: EventKind
    pool: str
    block: int
    request: str | None
    step: int
    generation: int
    source: int | None = None
    code: CodeType | None = None
    line: int = 0

    @property
    def times(self) -> int:
        """How many in a row it stands for."""
        return 1

    @property
    def last_step(self) -> int | None:
        """The step of the last of several."""
        return None


class Uses(Noted):
    """Uses in a row by one request: the first one, and a count that goes on."""

    times = 1
    last_step: int | None = None


_tuple = tuple.__new__


class Sink(Protocol):
    """Where events go besides memory."""

    def write(self, event: Event) -> None:
        """Take one event."""


@dataclass(frozen=True, slots=True)
class _Both:
    first: Sink
    second: Sink

    def write(self, event: Event) -> None:
        self.first.write(event)
        self.second.write(event)


class Recorder:
    """The events of a run, and the life that each block is in."""

    _depth = 3
    """Frames between `_add` and who called the method that is wrapped: its wrapper, and our own."""

    def __init__(self, sink: Sink | None = None, *, kept: int = _KEPT) -> None:
        """Keep the last `kept` events; hand each to `sink` too."""
        self.step = -1
        """The first is 0."""
        self.request: str | None = None
        """For whom the engine is working: the engines' hooks set it."""
        self.count = 0
        self.entries: deque[Noted] = deque(maxlen=kept)
        self.holders: dict[str, dict[int, int]] = defaultdict(dict)
        """By pool and block: how many hold it; none: it never lived."""
        self.generations: dict[str, dict[int, int]] = defaultdict(dict)
        self.owners: dict[str, dict[int, str | None]] = defaultdict(dict)
        """By pool and block: for whom it was allocated or touched last."""
        self.used_blocks: dict[str, int] = defaultdict(int)
        """By pool: how many blocks have a holder."""
        self.failing: str | None = None
        """For whom the engine was working when it raised."""
        self.on_end_of_life: list[Callable[[str, int], None]] = []
        self.on_double_free: list[Callable[[str, int, str | None], None]] = []
        self.on_step: list[Callable[[StepSeen], None]] = []
        """Told of each step after it."""
        self.on_scheduled: list[Callable[[WorkerStep], None]] = []
        """Told what the worker is to do, once it was checked."""
        self.on_end: list[Callable[[Snapshot], None]] = []
        """Told the state when the run is over, however it ended."""
        self._sink = sink
        self.last_use: dict[tuple[str, int], Uses] = {}
        """By pool and block: its last event, where that is a use."""

    def allocated(self, pool: str, block: int) -> None:
        """A new life of a block begins, with one holder."""
        generations = self.generations[pool]
        generations[block] = generations.get(block, 0) + 1
        self.used_blocks[pool] += not self.holders[pool].get(block, 0)
        self.holders[pool][block] = 1
        self.owners[pool][block] = self.request
        self._add(EventKind.ALLOCATE, pool, block)

    def joined(self, kind: EventKind, pool: str, block: int, holders: int) -> None:
        """One more holder, by a fork or because the content is found in the cache."""
        self.used_blocks[pool] += not self.holders[pool].get(block, 0)
        self.holders[pool][block] = holders
        self.owners[pool][block] = self.request
        self._add(kind, pool, block)

    def freed(self, pool: str, block: int, holders: int) -> None:
        """One holder less, `holders` are left; at none the life is over, below it was before."""
        self._add(EventKind.FREE, pool, block)
        self._one_holder_less(pool, block, holders)

    def _one_holder_less(self, pool: str, block: int, holders: int) -> None:
        self.holders[pool][block] = max(holders, 0)
        if holders < 0:
            for told in self.on_double_free:
                told(pool, block, self.request)
        elif holders == 0:
            self.used_blocks[pool] -= 1
            for told_end in self.on_end_of_life:
                told_end(pool, block)

    def noted(self, kind: EventKind, pool: str, block: int) -> None:
        """Something that changes no holder."""
        self._add(kind, pool, block)

    def moved(self, kind: EventKind, pool: str, source: int, target: int) -> None:
        """The worker copies a block; `pool` is the target's, which is whose the copy is."""
        self.last_use.pop((pool, target), None)
        request, generation = self.owners[pool].get(target), self.generations[pool].get(target, 0)
        self._keep(Noted(kind, pool, target, request, self.step, generation, source))

    def used(self, pool: str, block: int, request: str) -> None:
        """The worker writes to a block. Uses in a row by one request are one event."""
        last = self.last_use.get((pool, block))
        if last is not None and last.request == request:
            last.times += 1
            last.last_step = self.step
            return
        generation = self.generations[pool].get(block, 0)
        entry = Uses(EventKind.USE, pool, block, request, self.step, generation)
        self._keep(entry)
        self.last_use[pool, block] = entry

    def add_sink(self, sink: Sink) -> None:
        """Hand every event to one more."""
        self._sink = sink if self._sink is None else _Both(self._sink, sink)

    def alive(self, pool: str, block: int) -> bool:
        """Whether anybody holds the block."""
        return self.holders[pool].get(block, 0) > 0

    @contextmanager
    def working_for(self, request: str | None) -> Iterator[None]:
        """Events inside of the block are for this request."""
        before, self.request = self.request, request
        try:
            yield
        except BaseException:
            self.failing = self.failing or request
            raise
        finally:
            self.request = before

    def allocated_all(self, pool: str, blocks: Iterable[int]) -> None:
        """As `allocated`, for blocks that one call handed out."""
        caller = sys._getframe(self._depth - 1)
        code, line = caller.f_code, caller.f_lineno
        holders, generations, owners = self.holders[pool], self.generations[pool], self.owners[pool]
        request, step = self.request, self.step
        for block in blocks:
            generation = generations[block] = generations.get(block, 0) + 1
            self.used_blocks[pool] += not holders.get(block, 0)
            holders[block] = 1
            owners[block] = request
            self.last_use.pop((pool, block), None)
            kind = EventKind.ALLOCATE
            event = (kind, pool, block, request, step, generation, None, code, line)
            self._keep(_tuple(Noted, event))

    def freed_all(self, pool: str, blocks: Iterable[tuple[int, int]]) -> None:
        """As `freed`, for blocks that one call gives back: each with the holders that are left."""
        caller = sys._getframe(self._depth - 1)
        code, line = caller.f_code, caller.f_lineno
        for block, left in blocks:
            self._put(EventKind.FREE, pool, block, (code, line))
            self._one_holder_less(pool, block, left)

    def noted_all(self, kind: EventKind, pool: str, blocks: Iterable[int]) -> None:
        """As `noted`, for what one call does to blocks."""
        caller = sys._getframe(self._depth - 1)
        code, line = caller.f_code, caller.f_lineno
        for block in blocks:
            self._put(kind, pool, block, (code, line))

    def _add(self, kind: EventKind, pool: str, block: int) -> None:
        caller = sys._getframe(self._depth)
        self._put(kind, pool, block, (caller.f_code, caller.f_lineno))

    def _put(self, kind: EventKind, pool: str, block: int, where: tuple[CodeType, int]) -> None:
        self.last_use.pop((pool, block), None)
        generation = self.generations[pool].get(block, 0)
        event = (kind, pool, block, self.request, self.step, generation, None, *where)
        self._keep(_tuple(Noted, event))

    def _keep(self, entry: Noted) -> None:
        self.count += 1
        self.entries.append(entry)
        if self._sink is not None:
            self._sink.write(event_of(entry))

    def chain(self, pool: str, block: int) -> Chain:
        """The end of one block's story."""
        events = [event_of(e) for e in self.entries if e.block == block and e.pool == pool]
        return Chain(block=block, pool=pool, events=tuple(events[-_CHAIN:]))


def event_of(entry: Noted) -> Event:
    """The event in the language that all of this program shares."""
    code = entry.code
    return Event(
        kind=entry.kind,
        block=entry.block,
        pool=entry.pool,
        source=entry.source,
        generation=entry.generation,
        step=entry.step,
        request=entry.request,
        function=code.co_qualname if code else None,
        file=short_file(code.co_filename) if code else None,
        line=entry.line if code else None,
        times=entry.times,
        last_step=entry.last_step,
    )


def short_file(file: str) -> str:
    """The path from the package on: vLLM's, or our own."""
    cut = max(file.rfind("/vllm/"), file.rfind("/vllm_forensics/"))
    return file[cut + 1 :] if cut >= 0 else file


Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def wrapped(methods: dict[tuple[type, str], Wrapper]) -> Iterator[None]:
    """Methods of classes replaced by wrappers of themselves, and put back after the block.

    Only where the class itself defines the method: an inherited one is wrapped where it is defined.
    """
    before: list[tuple[type, str, Any]] = []
    try:
        for (owner, name), wrapper in methods.items():
            if name in owner.__dict__:
                original = owner.__dict__[name]
                before.append((owner, name, original))
                setattr(owner, name, wrapper(original))
        yield
    finally:
        for owner, name, original in reversed(before):
            setattr(owner, name, original)
