"""The native module's event log, as the chains that both halves share.

from vllm_forensics._native import EventLog
from vllm_forensics.evidence.event_log import chains_of

EventLog.enable()
...
for chain in chains_of(EventLog.events()):
    print(chain.pool, chain.block, [event.kind.value for event in chain.events])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from vllm_forensics.model.event import Chain, Event, EventKind


class _Named(Protocol):
    """A member of one of the native module's enumerations."""

    @property
    def name(self) -> str:
        """The member's name."""


class NativeEvent(Protocol):
    """What `_native.Event` offers; this module runs where the native one was not built."""

    @property
    def kind(self) -> _Named:
        """What happened."""

    @property
    def pool(self) -> _Named:
        """Whose ids count."""

    @property
    def block(self) -> int:
        """The block; of a copy, the target."""

    @property
    def source(self) -> int | None:
        """Of a copy or swap: the block that was read."""

    @property
    def generation(self) -> int:
        """The life of the block; 0 if it had none."""

    @property
    def step(self) -> int:
        """The worker's step."""

    @property
    def thread(self) -> int:
        """Kernel thread id."""

    @property
    def file(self) -> str:
        """Who called."""

    @property
    def line(self) -> int:
        """Where in that file."""


def chains_of(events: Iterable[NativeEvent]) -> tuple[Chain, ...]:
    """One chain a block, in the order of the blocks' first events.

    The pools count their ids separately, so a chain is of one block in one pool. A copy or swap
    stands in the chain of the block that was written, and as a use in that of the block that was
    read, where both are in one pool (a copy).
    """
    lives: dict[tuple[str, int], list[Event]] = {}
    for native in events:
        event = _convert(native)
        lives.setdefault((native.pool.name, event.block), []).append(event)
        if event.kind is EventKind.COPY and event.source is not None:
            read = Event(
                kind=EventKind.USE,
                block=event.source,
                pool=event.pool,
                step=event.step,
                thread=event.thread,
                file=event.file,
                line=event.line,
            )
            lives.setdefault((native.pool.name, event.source), []).append(read)
    return tuple(
        Chain(block=block, pool=pool, events=tuple(found)) for (pool, block), found in lives.items()
    )


def _convert(native: NativeEvent) -> Event:
    return Event(
        kind=EventKind(native.kind.name),
        block=native.block,
        pool=native.pool.name,
        source=native.source,
        generation=native.generation,
        step=native.step,
        thread=str(native.thread),
        file=native.file,
        line=native.line,
    )
