"""The shared language of both halves: what happened to a piece of memory, in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.stack import Frame


class EventKind(StrEnum):
    """What was done to a block."""

    ALLOCATE = "allocate"
    FREE = "free"
    FORK = "fork"
    COPY = "copy"
    SWAP = "swap"
    USE = "use"
    TOUCH = "touch"
    """One more holder of a block whose content is there already."""
    CACHE = "cache"
    """The block can be found by its content from now on."""
    EVICT = "evict"
    """The block can no longer be found by its content."""
    PREEMPT = "preempt"
    """The request that held the block lost its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to one block."""

    kind: EventKind
    block: int
    """A block id, or an address where the block is a piece of heap; of a copy, the target."""
    pool: str | None = None
    """Which allocator counts the ids, where there is more than one."""
    source: int | None = None
    """Of a copy or swap: the block that was read."""
    generation: int | None = None
    """Which life of the block: it grows with each allocation of the same id."""
    step: int | None = None
    request: str | None = None
    """Of a scheduler's block: for whom it was done."""
    function: str | None = None
    """Who called, where there is one name instead of a stack."""
    times: int = 1
    """How often in a row: uses of one block by one request are told once."""
    last_step: int | None = None
    """Of several in a row: the step of the last."""
    thread: str | None = None
    file: str | None = None
    line: int | None = None
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The events of one block in the order in which they happened."""

    block: int
    events: tuple[Event, ...]
    pool: str | None = None

    def index_of_last(self, kind: EventKind) -> int | None:
        """Where the last event of `kind` stands, or None."""
        for index in range(len(self.events) - 1, -1, -1):
            if self.events[index].kind is kind:
                return index
        return None
