"""Real memory behind a scheduler's decisions: the specimen's worker, block for block.

Each life of a block has memory of its own, which goes back to the heap when the scheduler frees
the block. Whatever a step then says is written, read, copied and swapped. A scheduler that hands
out a block that is free ends in an error that names it; in a build with AddressSanitizer, in the
report of a use after free.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.event import Event, EventKind
from vllm_forensics.model.sandbox import MemoryUse, Parameters, WorkerStep, WorkItem
from vllm_forensics.sandbox.engine.interface import CPU, GPU
from vllm_forensics.sandbox.engine_errors import EngineError
from vllm_forensics.sandbox.recorder import Recorder

_HEAD: Final = 4
"""Numbers of one key; a real model has some thousand, and nothing here depends on it."""
_LAYER: Final = 0
_TAKING: Final = frozenset({EventKind.ALLOCATE, EventKind.TOUCH, EventKind.FORK})
Table = list[int]


class NativeMemory:
    """A sink of events that gives and takes memory, and a worker that uses it."""

    def __init__(self, parameters: Parameters) -> None:
        """Make a worker with as many blocks as the scheduler counts, none in use.

        Raises:
            UsageError: the compiled module or NumPy is missing.

        """
        native, self._numpy = _imported()
        self._sanitized = bool(native.built_with_address_sanitizer())
        self._size = parameters.block_size
        self._windows = parameters.windows()
        access = native.AccessPolicy.unchecked if self._sanitized else native.AccessPolicy.checked
        policies = native.Policies(reclaim=native.ReclaimPolicy.heap_per_life, access=access)
        shape = native.CacheShape(block_size=self._size, num_layers=1, num_heads=1, head_size=_HEAD)
        self._worker = native.CPUWorker(shape, policies)
        self._worker.initialize_cache(parameters.gpu_blocks, parameters.cpu_blocks)
        self._allocators = {GPU: self._worker.device_cache.allocator}
        if parameters.cpu_blocks:
            self._allocators[CPU] = self._worker.host_cache.allocator
        self._pending: list[tuple[EventKind, str, int]] = []
        self._tables: dict[tuple[int, str], Table] = {}
        self._written = self._read = self._moved = 0

    def attach(self, recorder: Recorder) -> None:
        """Follow what this recorder sees of a scheduler."""
        recorder.add_sink(self)
        recorder.on_end_of_life.append(self._ended)
        recorder.on_scheduled.append(self.execute)

    def used(self) -> MemoryUse:
        """What was done so far."""
        return MemoryUse(self._written, self._read, self._moved, self._sanitized)

    def write(self, event: Event) -> None:
        """Remember who takes a block: a step's swaps come before what it gives back."""
        if event.kind in _TAKING:
            self._pending.append((event.kind, event.pool or GPU, event.block))

    def _ended(self, pool: str, block: int) -> None:
        """Only the scheduler knows how many hold a block: not every holder more is an event."""
        self._pending.append((EventKind.FREE, pool, block))

    def execute(self, step: WorkerStep) -> None:
        """Do what the worker is told for one step.

        Raises:
            EngineError: memory was used that nobody has; not where a sanitizer sees it first.

        """
        try:
            self._move(step)
            groups = (step.items, *step.further)
            for sequence in step.finished:
                for group in range(len(groups)):
                    self._tables.pop((group, sequence), None)
            # In each layer a worker writes first, for all sequences.
            for group, items in enumerate(groups):
                for item in items:
                    self._told(group, item)
                self._write(group, items)
            for group, items in enumerate(groups):
                self._attend(group, items)
        except (IndexError, ValueError, RuntimeError) as error:
            raise EngineError from error

    def _move(self, step: WorkerStep) -> None:
        """What the step took and gave back, and its swaps before what they read is gone; copies."""
        swaps = {(GPU, source): (CPU, target) for source, target in step.swapped_out}
        swaps |= {(CPU, source): (GPU, target) for source, target in step.swapped_in}
        for kind, pool, block in self._pending:
            if kind is EventKind.FREE and (pool, block) in swaps:
                self._swap((pool, block), swaps.pop((pool, block)))
            self._apply(kind, pool, block)
        self._pending.clear()
        for source, target in swaps.items():
            self._swap(source, target)
        self._worker.copy(list(step.copies))
        self._moved += len(step.swapped_in) + len(step.swapped_out) + len(step.copies)

    def _swap(self, source: tuple[str, int], target: tuple[str, int]) -> None:
        """The target was taken before the source is given back: so all schedulers do it."""
        move = self._worker.swap_out if source[0] == GPU else self._worker.swap_in
        move([(source[1], target[1])])

    def _apply(self, kind: EventKind, pool: str, block: int) -> None:
        allocator = self._allocators[pool]
        if kind is EventKind.ALLOCATE:
            self._take(pool, block)
        elif kind is EventKind.FREE:
            if allocator.is_allocated(block):
                allocator.free(block)
        elif not allocator.is_allocated(block):  # found in the cache after its last holder went
            allocator.allocate_block(block)

    def _take(self, pool: str, block: int) -> None:
        allocator = self._allocators[pool]
        if allocator.is_allocated(block):  # its scheduler thinks that it is free
            allocator.free(block)
        allocator.allocate_block(block)

    def _told(self, group: int, item: WorkItem) -> None:
        table = self._tables.setdefault((group, item.sequence), [])
        if item.replaces:
            table.clear()
        table += item.blocks

    def _write(self, group: int, items: tuple[WorkItem, ...]) -> None:
        slots = [slot for item in items for slot in self._slots(group, item)]
        if slots:
            rows = self._numpy.ones((len(slots), 1, _HEAD), self._numpy.float32)
            self._worker.device_cache.reshape_and_cache(_LAYER, rows, rows, slots)
            self._written += len(slots)

    def _slots(self, group: int, item: WorkItem) -> Iterator[int]:
        """Where the new tokens go: as far as the table reaches."""
        table = self._tables[group, item.sequence]
        for token in range(item.start, item.start + item.tokens):
            place, offset = divmod(token, self._size)
            if place < len(table):
                yield table[place] * self._size + offset

    def _attend(self, group: int, items: tuple[WorkItem, ...]) -> None:
        """Read all that the last new token of each sequence sees."""
        tables: list[Table] = []
        lengths: list[int] = []
        window = self._windows[min(group, len(self._windows) - 1)]
        for item in items:
            table = self._tables[group, item.sequence]
            end = min(item.start + item.tokens, len(table) * self._size)
            first = 0 if window is None else max(0, end - window) // self._size
            if item.tokens and end > first * self._size:
                tables.append(table[first:])
                lengths.append(end - first * self._size)
        if tables:
            query = self._numpy.ones((len(tables), 1, _HEAD), self._numpy.float32)
            self._worker.device_cache.paged_attention(_LAYER, query, tables, lengths, 1.0)
            self._read += sum(lengths)


def _imported() -> tuple[Any, Any]:
    """The compiled module, and NumPy; a build of the module on Python's path comes first."""
    try:
        own = importlib.util.find_spec("_native") is not None
        native = importlib.import_module("_native" if own else "vllm_forensics._native")
    except ImportError as error:
        raise UsageError(
            f"the compiled worker cannot be imported: {error}",
            remedy="install a wheel of vllm-forensics for this platform; all else runs without it",
        ) from error
    try:
        return native, importlib.import_module("numpy")
    except ImportError as error:
        raise UsageError(
            "real memory needs NumPy", remedy="pip install numpy; all else runs without it"
        ) from error
