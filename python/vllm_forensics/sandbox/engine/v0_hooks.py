"""What is recorded of vLLM's first scheduler: its allocators, and for whom they work."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from vllm_forensics.model.event import EventKind
from vllm_forensics.sandbox.engine.interface import CPU, GPU
from vllm_forensics.sandbox.recorder import Recorder, Wrapper

Import = Callable[[str], ModuleType]
_FOR_SOMEBODY = ("allocate", "append_slots", "append_slot", "free", "swap_in", "swap_out")


def hooks(
    load: Import, recorder: Recorder, names: dict[int, str], gpu_blocks: int
) -> dict[tuple[type, str], Wrapper]:
    """The wrappers for the classes that this version has."""
    found: dict[tuple[type, str], Wrapper] = {}
    for_whom = _for_whom(recorder, names)
    scheduler = load("vllm.core.scheduler")
    found[scheduler.Scheduler, "_swap_out"] = for_whom
    found[scheduler.Scheduler, "_swap_in"] = for_whom
    found[scheduler.Scheduler, "_preempt_by_recompute"] = _preempting(recorder)
    found[scheduler.Scheduler, "_preempt_by_swap"] = _preempting(recorder)
    module = load(scheduler.BlockSpaceManager.__module__)
    if hasattr(module, "BlockAllocator"):  # 0.3: one module, one manager
        _add_manager(found, module.BlockSpaceManager, recorder, names)
        found |= _allocator(module.BlockAllocator, recorder)
        return found
    first = load("vllm.core.block_manager_v1")
    _add_manager(found, first.BlockSpaceManagerV1, recorder, names)
    found |= _allocator(first.UncachedBlockAllocator, recorder)
    found |= _allocator(first.CachedBlockAllocator, recorder)
    second = load("vllm.core.block_manager_v2")
    _add_manager(found, second.BlockSpaceManagerV2, recorder, names)
    counter = load("vllm.core.block.common").RefCounter
    found[counter, "incr"] = _counting_up(recorder, gpu_blocks)
    found[counter, "decr"] = _counting_down(recorder, gpu_blocks)
    return found


def _add_manager(
    found: dict[tuple[type, str], Wrapper],
    manager: type,
    recorder: Recorder,
    names: dict[int, str],
) -> None:
    for name in _FOR_SOMEBODY:
        found[manager, name] = _for_whom(recorder, names)
    found[manager, "fork"] = _forking(recorder, names)


def _allocator(allocator: type, recorder: Recorder) -> dict[tuple[type, str], Wrapper]:
    return {
        (allocator, "allocate"): _allocating(recorder),
        (allocator, "free"): _freeing(recorder),
    }


def _pool(block: Any) -> str:
    return CPU if block.device.name == "CPU" else GPU


def _for_whom(recorder: Recorder, names: dict[int, str]) -> Wrapper:
    """Of a method whose first argument is a group or a sequence."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def method(self: Any, whom: Any, *arguments: Any, **options: Any) -> Any:
            request = getattr(whom, "request_id", None) or names.get(whom.seq_id)
            with recorder.working_for(request):
                return original(self, whom, *arguments, **options)

        return method

    return wrap


def _forking(recorder: Recorder, names: dict[int, str]) -> Wrapper:
    """The manager counts the blocks up itself, past the allocator."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def fork(self: Any, parent_seq: Any, child_seq: Any) -> Any:
            with recorder.working_for(names.get(child_seq.seq_id)):
                result = original(self, parent_seq, child_seq)
                table = self.block_tables[child_seq.seq_id]
                if isinstance(table, list):
                    for block in sorted(set(table), key=lambda one: int(one.block_number)):
                        recorder.joined(
                            EventKind.FORK, _pool(block), block.block_number, block.ref_count
                        )
                return result

        return fork

    return wrap


def _allocating(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def allocate(self: Any, *arguments: Any, **options: Any) -> Any:
            content = arguments[0] if arguments else options.get("block_hash")
            kept = content is not None and content in getattr(self, "evictor", ())
            block = original(self, *arguments, **options)
            if block.ref_count == 1 and not kept:
                recorder.allocated(_pool(block), block.block_number)
            else:
                recorder.joined(EventKind.TOUCH, _pool(block), block.block_number, block.ref_count)
            return block

        return allocate

    return wrap


def _freeing(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def free(self: Any, block: Any) -> Any:
            recorder.freed(_pool(block), block.block_number, block.ref_count - 1)
            return original(self, block)

        return free

    return wrap


def _counting_up(recorder: Recorder, gpu_blocks: int) -> Wrapper:
    """The second manager's counts: its blocks on the CPU are numbered after the others."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def incr(self: Any, block_id: int) -> Any:
            count = original(self, block_id)
            pool, block = _place(block_id, gpu_blocks)
            if count == 1:
                recorder.allocated(pool, block)
            else:
                recorder.joined(EventKind.FORK, pool, block, count)
            return count

        return incr

    return wrap


def _counting_down(recorder: Recorder, gpu_blocks: int) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def decr(self: Any, block_id: int) -> Any:
            pool, block = _place(block_id, gpu_blocks)
            recorder.freed(pool, block, self._refcounts[block_id] - 1)
            return original(self, block_id)

        return decr

    return wrap


def _place(block_id: int, gpu_blocks: int) -> tuple[str, int]:
    return (GPU, block_id) if block_id < gpu_blocks else (CPU, block_id - gpu_blocks)


def _preempting(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def preempt(self: Any, seq_group: Any, *arguments: Any, **options: Any) -> Any:
            with recorder.working_for(seq_group.request_id):
                for sequence in seq_group.get_seqs():
                    table = self.block_manager.block_tables.get(sequence.seq_id, ())
                    for block in table if isinstance(table, list) else ():
                        recorder.noted(EventKind.PREEMPT, _pool(block), block.block_number)
                return original(self, seq_group, *arguments, **options)

        return preempt

    return wrap
