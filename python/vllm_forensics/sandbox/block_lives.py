"""Names blocks by their lives, so that two runs can be compared whatever numbers they use.

A life is called after whom it was allocated for: the third block that was allocated for request 7
is the same one in both runs, whether its number is 12 or 98.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from vllm_forensics.model.event import Event, EventKind
from vllm_forensics.model.sandbox import Life
from vllm_forensics.sandbox.recorder import Recorder, event_of

_MOST_LIVES: Final = 200_000
"""Kept for a picture."""


class LifeName(NamedTuple):
    """The `place`-th block of a pool that was allocated for a request; from 1."""

    pool: str
    request: str | None
    place: int


class Decision(NamedTuple):
    """One event without numbers."""

    kind: EventKind
    life: LifeName
    source: LifeName | None = None


@dataclass(slots=True)
class StepView:
    """What one step decided, without numbers."""

    number: int
    by_request: dict[str | None, Counter[Decision]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    allocated: list[tuple[LifeName, int]] = field(default_factory=list)
    """With the number that each life got."""
    used_before: dict[str, int] = field(default_factory=dict)
    """By pool: blocks that somebody held when the step began."""


class BlockLives:
    """Follows one run's events."""

    def __init__(self) -> None:
        """Nothing is held."""
        self.lives: list[Life] = []
        """Those that are over."""
        self.last_release: dict[tuple[str, int], tuple[int, str | None]] = {}
        """Step and request of a block's last release."""
        self._names: dict[tuple[str, int], LifeName] = {}
        self._numbers: dict[LifeName, int] = {}
        self._first: dict[tuple[str, int], tuple[int, str | None]] = {}
        self._holders: Counter[tuple[str, int]] = Counter()
        self._places: Counter[tuple[str, str | None]] = Counter()
        self.used: Counter[str] = Counter()

    def step(self, number: int, events: tuple[Event, ...]) -> StepView:
        """Apply one step's events."""
        view = StepView(number=number, used_before=dict(self.used))
        for event in events:
            decision = self._take(event, number, view)
            if decision is not None:
                view.by_request[event.request][decision] += 1
        return view

    def number_of(self, name: LifeName) -> int | None:
        """The number that a life has in this run."""
        return self._numbers.get(name)

    def all_lives(self) -> tuple[Life, ...]:
        """Those that are over and those that are not."""
        held = (
            Life(pool=pool, block=block, request=request, first=first, last=None)
            for (pool, block), (first, request) in self._first.items()
        )
        return (*self.lives, *held)[:_MOST_LIVES]

    def _take(self, event: Event, number: int, view: StepView) -> Decision | None:
        pool = event.pool or "gpu"
        key = (pool, event.block)
        match event.kind:
            case EventKind.ALLOCATE:
                self._places[pool, event.request] += 1
                name = LifeName(pool, event.request, self._places[pool, event.request])
                self._names[key] = name
                self._numbers[name] = event.block
                view.allocated.append((name, event.block))
                self._hold(key, number, event.request, holders=1)
                return Decision(event.kind, name)
            case EventKind.FORK | EventKind.TOUCH:
                self._hold(key, number, event.request, holders=self._holders[key] + 1)
            case EventKind.FREE:
                self._release(key, number, event.request)
            case EventKind.COPY | EventKind.SWAP:
                other = pool
                if event.kind is EventKind.SWAP:
                    other = "cpu" if pool == "gpu" else "gpu"
                source = self._name((other, event.source if event.source is not None else -1))
                return Decision(event.kind, self._name(key), source)
            case EventKind.EVICT:
                pass
            case EventKind.CACHE | EventKind.PREEMPT | EventKind.USE:
                return None  # told otherwise, or when an engine does it decides nothing
        return Decision(event.kind, self._name(key))

    def _name(self, key: tuple[str, int]) -> LifeName:
        """Of a block whose allocation was not seen, its number is all there is."""
        return self._names.get(key) or LifeName(key[0], None, -1 - key[1])

    def _hold(self, key: tuple[str, int], step: int, request: str | None, *, holders: int) -> None:
        if self._holders[key] <= 0:
            self.used[key[0]] += 1
            self._first[key] = (step, request)
        self._holders[key] = holders

    def _release(self, key: tuple[str, int], step: int, request: str | None) -> None:
        self._holders[key] -= 1
        if self._holders[key] == 0:
            self.used[key[0]] -= 1
            self.last_release[key] = (step, request)
            first, owner = self._first.pop(key)
            if len(self.lives) < _MOST_LIVES:
                pool, block = key
                self.lives.append(
                    Life(pool=pool, block=block, request=owner, first=first, last=step)
                )
        self._holders[key] = max(self._holders[key], 0)


def lives_of(recorder: Recorder) -> tuple[Life, ...]:
    """All lives of a run that is over; none where its beginning is no longer kept."""
    if recorder.count > len(recorder.entries):
        return ()
    lives = BlockLives()
    # Before the first step is as good as in it.
    for step, entries in groupby(recorder.entries, key=lambda entry: max(entry.step, 0)):
        lives.step(step, tuple(event_of(entry) for entry in entries))
    return lives.all_lives()
