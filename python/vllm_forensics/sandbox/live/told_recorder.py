"""A recorder that is told by a trace what an engine did, instead of seeing it."""

from __future__ import annotations

from collections import deque
from typing import Final

from vllm_forensics.model.event import Chain, Event, EventKind
from vllm_forensics.sandbox.live.lines import StateLine
from vllm_forensics.sandbox.recorder import Noted, Recorder, event_of
from vllm_forensics.sandbox.recording_lines import EventLine, event_of_line

_KEPT: Final = 1_000_000
"""Events, about 400 bytes each: the last of a trace."""
_CHAIN: Final = 40


class ToldRecorder(Recorder):
    """Keeps the call sites that the trace tells."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        super().__init__()
        self._told: deque[Event | Noted] = deque(maxlen=_KEPT)
        self._line: EventLine | None = None

    def tell(self, line: EventLine) -> None:
        """One event; a block that is freed more often than held is told as such."""
        pool, block = line.pool or "", line.block
        self._line, self.request = line, line.request
        if line.kind == "allocate":
            # The trace numbers the lives; its beginning may be gone.
            self.generations[pool][block] = (line.generation or 1) - 1
            self.allocated(pool, block)
        elif line.kind in {"touch", "fork"}:
            holders = self.holders[pool].get(block, 0)
            self.joined(EventKind(line.kind), pool, block, holders + 1)
        elif line.kind == "free":
            self.freed(pool, block, self.holders[pool].get(block, 0) - 1)
        else:
            self.noted(EventKind(line.kind), pool, block)
        self._line = None

    def begin_with(self, state: StateLine, pool: str) -> None:
        """Who held what when the beginning of the trace was cut off."""
        for block, holders, generation, owner in state.held:
            self.holders[pool][block] = holders
            self.generations[pool][block] = generation
            self.owners[pool][block] = owner
        self.used_blocks[pool] = len(state.held)
        for block, generation in state.ended:
            self.generations[pool][block] = generation

    def _add(self, kind: EventKind, pool: str, block: int) -> None:
        del kind
        self.last_use.pop((pool, block), None)
        self.count += 1
        if self._line is not None:
            self._told.append(event_of_line(self._line))

    def _keep(self, entry: Noted) -> None:
        self.count += 1
        self._told.append(entry)

    def chain(self, pool: str, block: int) -> Chain:
        """The end of one block's story."""
        events = [e for e in self._told if e.block == block and e.pool == pool][-_CHAIN:]
        told = (event_of(e) if isinstance(e, Noted) else e for e in events)
        return Chain(block=block, pool=pool, events=tuple(told))

    def used_in(self, step: int, pool: str) -> int | None:
        """A block that the worker was told to write in this step, its last use so far."""
        for (name, block), use in self.last_use.items():
            last = use.step if use.last_step is None else use.last_step
            if name == pool and last == step:
                return block
        return None
