"""The specimen: a paged key-value cache and the worker that drives it.

What each name does, with shapes, units and errors, is said in the headers under `csrc/`. C++
exceptions arrive as their Python kin: `std::out_of_range` as `IndexError`,
`std::invalid_argument` as `ValueError`, `std::runtime_error` as `RuntimeError`.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

class EventKind(Enum):
    """What happened to a block."""

    allocate = 0
    free = 1
    fork = 2
    copy = 3
    swap = 4
    use = 5

class Pool(Enum):
    """Which allocator a block belongs to; ids are counted from 0 in each."""

    device = 0
    host = 1

class ReclaimPolicy(Enum):
    """What free does with a block nobody refers to any more."""

    reset_only = 0
    erase = 1
    free_list = 2
    heap_per_life = 3

class AccessPolicy(Enum):
    """Whether block ids are looked at before they are used."""

    unchecked = 0
    checked = 1

class DataType(Enum):
    """How numbers are stored; arithmetic is done in float."""

    float32 = 0
    bfloat16 = 1

class CachePart(Enum):
    """Which half of a layer."""

    key = 0
    value = 1

@final
class Event:
    """One entry of the event log."""

    @property
    def kind(self) -> EventKind: ...
    @property
    def pool(self) -> Pool: ...
    @property
    def block(self) -> int:
        """The block it happened to; of a copy or swap, the target."""

    @property
    def source(self) -> int | None:
        """Of a copy or swap: the block that was read."""

    @property
    def generation(self) -> int:
        """The life of the block at that time; 0 if it had none."""

    @property
    def step(self) -> int:
        """The worker's step, 0 before the first."""

    @property
    def thread(self) -> int:
        """Kernel thread id, as in a core's notes."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...

class EventLog:
    """The process's log of block events: off by default, not bounded when on."""

    @staticmethod
    def enable() -> None: ...
    @staticmethod
    def disable() -> None: ...
    @staticmethod
    def enabled() -> bool: ...
    @staticmethod
    def clear() -> None: ...
    @staticmethod
    def events() -> list[Event]: ...
    @staticmethod
    def set_step(step: int) -> None: ...

class Policies:
    """How blocks are reclaimed and accessed."""

    def __init__(
        self,
        *,
        reclaim: ReclaimPolicy = ReclaimPolicy.free_list,
        access: AccessPolicy = AccessPolicy.checked,
    ) -> None: ...
    @property
    def reclaim(self) -> ReclaimPolicy: ...
    @property
    def access(self) -> AccessPolicy: ...

class BlockRef:
    """A block in one of its lives."""

    def __init__(self, *, id: int, generation: int) -> None: ...
    @property
    def id(self) -> int: ...
    @property
    def generation(self) -> int: ...

@final
class Block:
    """A borrowed block; valid until it is reclaimed."""

    @property
    def id(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def reference_count(self) -> int: ...
    @property
    def generation(self) -> int: ...

class BlockAllocator:
    """Hands out blocks by id, shares them, takes them back. ValueError for impossible sizes."""

    def __init__(
        self,
        num_blocks: int,
        block_bytes: int,
        policies: Policies = ...,
        *,
        pool: Pool = Pool.device,
    ) -> None: ...
    def allocate(self) -> int:
        """Hand out a free block; RuntimeError if none is free."""

    def allocate_block(self, block: int) -> None:
        """Hand out this block; IndexError, ValueError if it is not free."""

    def free(self, block: int) -> None:
        """Give up one ownership. Checked: IndexError, ValueError for a block not allocated."""

    def fork(self, block: int) -> None:
        """Add an owner; errors as in `free`."""

    def get_block(self, block: int) -> Block | None:
        """Look up the slot; None for a reset one. Checked: errors as in `free`."""

    def resolve(self, reference: BlockRef) -> Block:
        """Look up a block in that life: IndexError, ValueError when it is over."""

    def reference_to(self, block: int) -> BlockRef:
        """Refer to the present life of an allocated block; errors as in `resolve`."""

    def contains(self, block: int) -> bool: ...
    def is_allocated(self, block: int) -> bool: ...
    def reference_count(self, block: int) -> int: ...
    def generation(self, block: int) -> int: ...
    def set_exhausted_handler(self, handler: Callable[[BlockAllocator], None] | None) -> None:
        """Set what is called when nothing is free; it may free blocks."""

    @property
    def num_blocks(self) -> int: ...
    @property
    def num_free_blocks(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def pool(self) -> Pool: ...

class CacheShape:
    """The sizes of a cache but its number of blocks; checked where a cache is made."""

    def __init__(
        self,
        *,
        block_size: int,
        num_layers: int,
        num_heads: int,
        head_size: int,
        dtype: DataType = DataType.float32,
    ) -> None: ...
    @property
    def block_size(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def head_size(self) -> int: ...
    @property
    def dtype(self) -> DataType: ...
    @property
    def block_bytes(self) -> int: ...

class PagedKVCache:
    """Keys and values of past tokens, in blocks that need not be neighbours."""

    def __init__(
        self,
        num_blocks: int,
        shape: CacheShape,
        policies: Policies = ...,
        *,
        pool: Pool = Pool.device,
    ) -> None: ...
    @property
    def allocator(self) -> BlockAllocator: ...
    @property
    def shape(self) -> CacheShape: ...
    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, (source, target), in order."""

    def swap_blocks(self, target: PagedKVCache, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks into another cache of the same shape, (here, there)."""

    def reshape_and_cache(
        self, layer: int, keys: ArrayLike, values: ArrayLike, slots: Sequence[int]
    ) -> None:
        """Store one key and value a token, both [tokens, num_heads, head_size]."""

    def paged_attention(
        self,
        layer: int,
        query: ArrayLike,
        block_tables: Sequence[Sequence[int]],
        context_lengths: Sequence[int],
        scale: float,
    ) -> NDArray[np.float32]:
        """One decode step of attention, [sequences, num_heads, head_size] in and out."""

    def read_block(self, layer: int, part: CachePart, block: int) -> NDArray[np.float32]:
        """Copy out one block of one layer: [block_size, num_heads, head_size]."""

class SequenceStep:
    """One sequence in a decode step."""

    def __init__(
        self,
        *,
        block_table: Sequence[int],
        context_length: int,
        generations: Sequence[int] = ...,
    ) -> None: ...
    @property
    def block_table(self) -> list[int]: ...
    @property
    def context_length(self) -> int: ...
    @property
    def generations(self) -> list[int]: ...

class StepPlan:
    """What the scheduler asks of one step: swap in, swap out, copy, then attention."""

    def __init__(
        self,
        sequences: Sequence[SequenceStep],
        *,
        blocks_to_swap_in: Sequence[tuple[int, int]] = ...,
        blocks_to_swap_out: Sequence[tuple[int, int]] = ...,
        blocks_to_copy: Sequence[tuple[int, int]] = ...,
    ) -> None: ...
    @property
    def sequences(self) -> list[SequenceStep]: ...
    @property
    def blocks_to_swap_in(self) -> list[tuple[int, int]]: ...
    @property
    def blocks_to_swap_out(self) -> list[tuple[int, int]]: ...
    @property
    def blocks_to_copy(self) -> list[tuple[int, int]]: ...

class CPUWorker:
    """Owns a device and a host cache and executes steps on them."""

    def __init__(self, shape: CacheShape, policies: Policies = ...) -> None: ...
    def initialize_cache(self, num_device_blocks: int, num_host_blocks: int = 0) -> None:
        """Make both caches, once: RuntimeError the second time."""

    def execute_model(
        self, plan: StepPlan, *, query: ArrayLike, keys: ArrayLike, values: ArrayLike
    ) -> NDArray[np.float32]:
        """One decode step; every array is [num_layers, sequences, num_heads, head_size]."""

    def swap_in(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy blocks to the device, (host, device)."""

    def swap_out(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy blocks to the host, (device, host)."""

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy blocks within the device cache."""

    @property
    def device_cache(self) -> PagedKVCache: ...
    @property
    def host_cache(self) -> PagedKVCache: ...
    @property
    def step(self) -> int: ...

def blocks_that_fit(
    memory_bytes: int, shape: CacheShape, access: AccessPolicy = AccessPolicy.checked
) -> int:
    """Say how many blocks of this shape fit in a memory size."""

def built_with_address_sanitizer() -> bool:
    """Say whether the module was compiled with AddressSanitizer."""
