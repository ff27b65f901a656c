"""Faults that the reference engine has when they are asked for: `--plant`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from vllm_forensics.model.sandbox import Plant, PoolState
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.engine.reference_pool import BlockError, ReferencePool
from vllm_forensics.sandbox.recorder import Recorder

_FAULTY_CALL: Final = 12
"""Of `allocate`: by then some requests run."""


class SecondOccupancyPool(ReferencePool):
    """Notes in an array of its own which blocks are taken, and forgets it when it swaps.

    Once a request was swapped out, its blocks are free for whoever counts, and taken for whoever
    allocates: what was counted as free is refused.
    """

    def __init__(
        self, total: int, recorder: Recorder, *, caching: bool = False, name: str = GPU
    ) -> None:
        """All blocks are free, by both notes."""
        super().__init__(total, recorder, caching=caching, name=name)
        self._occupied = [False] * total

    def allocate(self, count: int) -> list[int]:
        """As usual, and noted once more.

        Raises:
            BlockError: there are fewer, or one is free and noted as taken.

        """
        for block in self.free_blocks[:count]:
            if self._occupied[block]:
                raise BlockError(f"block {block} is free and cannot be had: it is noted as taken")
        blocks = super().allocate(count)
        for block in blocks:
            self._occupied[block] = True
        return blocks

    def touch(self, block: int) -> None:
        """As usual, and noted once more."""
        super().touch(block)
        self._occupied[block] = True

    def free(self, blocks: Iterable[int]) -> None:
        """As usual, and noted once more."""
        given = tuple(blocks)
        super().free(given)
        for block in given:
            self._occupied[block] = self.references[block] > 0

    def swapped_out(self, blocks: Iterable[int]) -> None:
        """The fault: what is given back here stays noted as taken."""
        super().free(blocks)

    def state(self) -> PoolState:
        """Both notes."""
        return replace(super().state(), occupied=tuple(self._occupied))


class EarlyFreePool(ReferencePool):
    """Gives back, once, the first block that was handed out, while its request still uses it.

    Nothing is raised: whoever holds the block reads memory that is gone, until it is freed again.
    """

    def __init__(
        self, total: int, recorder: Recorder, *, caching: bool = False, name: str = GPU
    ) -> None:
        """All blocks are free."""
        super().__init__(total, recorder, caching=caching, name=name)
        self._first: int | None = None
        self._calls = 0

    def allocate(self, count: int) -> list[int]:
        """As usual; with the twelfth call the fault.

        Raises:
            BlockError: there are fewer.

        """
        blocks = super().allocate(count)
        self._calls += 1
        if self._first is None:
            self._first = blocks[0]
        elif self._calls == _FAULTY_CALL and self.references[self._first]:
            super().free((self._first,))
            # The last to be had again: until then nobody else's data is in it.
            self._free.move_to_end(self._first)
        return blocks


POOLS: Final[dict[Plant | None, type[ReferencePool]]] = {
    None: ReferencePool,
    Plant.EARLY_FREE: EarlyFreePool,
    Plant.SECOND_OCCUPANCY: SecondOccupancyPool,
}
"""The kind of pool that a planted fault needs."""
