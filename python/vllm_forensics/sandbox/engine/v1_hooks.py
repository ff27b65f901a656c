"""What is recorded of vLLM's second scheduler: the methods through which every block goes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any

from vllm_forensics.model.event import EventKind
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.recorder import Recorder, Wrapper

Import = Callable[[str], ModuleType]


def managers_of(manager: Any) -> tuple[Any, ...]:
    """One for each group of layers; until 0.9 the manager itself held the only tables."""
    coordinator = getattr(manager, "coordinator", None)
    if coordinator is not None:
        return tuple(coordinator.single_type_managers)
    return (manager,)


def hooks(load: Import, recorder: Recorder) -> dict[tuple[type, str], Wrapper]:
    """The wrappers for the classes that were loaded."""
    scheduler = load("vllm.v1.core.sched.scheduler").Scheduler
    pool = load("vllm.v1.core.block_pool").BlockPool
    manager = load("vllm.v1.core.kv_cache_manager").KVCacheManager
    return {
        (pool, "get_new_blocks"): _allocating(recorder),
        (pool, "touch"): _touching(recorder),
        (pool, "free_blocks"): _freeing(recorder),
        (pool, "_maybe_evict_cached_block"): _evicting(recorder),
        (pool, "cache_full_blocks"): _caching(recorder),
        (manager, "allocate_slots"): _for_request(recorder),
        (manager, "free"): _for_request(recorder),
        (scheduler, "_preempt_request"): _preempting(recorder),
    }


def _for_request(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def method(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
            # Called for each request and step: a context manager would be felt.
            before, recorder.request = recorder.request, request.request_id
            try:
                return original(self, request, *arguments, **options)
            except BaseException:
                recorder.failing = recorder.failing or request.request_id
                raise
            finally:
                recorder.request = before

        return method

    return wrap


def _allocating(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def get_new_blocks(self: Any, *arguments: Any, **options: Any) -> Any:
            blocks = original(self, *arguments, **options)
            recorder.allocated_all(GPU, [block.block_id for block in blocks])
            return blocks

        return get_new_blocks

    return wrap


def _touching(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def touch(self: Any, blocks: Any, *arguments: Any, **options: Any) -> Any:
            groups = list(blocks)
            result = original(self, blocks, *arguments, **options)
            # Until 0.14 one sequence for each group of layers.
            flat = [b for g in groups for b in (g if isinstance(g, list | tuple) else (g,))]
            for block in flat:
                if block is not self.null_block:
                    recorder.joined(EventKind.TOUCH, GPU, block.block_id, block.ref_cnt)
            return result

        return touch

    return wrap


def _freeing(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def free_blocks(self: Any, ordered_blocks: Any, *arguments: Any, **options: Any) -> Any:
            blocks = list(ordered_blocks)
            # Before: so that an assertion inside of it has its cause on record.
            recorder.freed_all(GPU, given_back(self, blocks))
            return original(self, blocks, *arguments, **options)

        return free_blocks

    return wrap


def given_back(pool: Any, blocks: Iterable[Any]) -> list[tuple[int, int]]:
    """The blocks but the null block, each with how many hold it when it is given back."""
    left: dict[int, int] = {}
    given: list[tuple[int, int]] = []
    for block in blocks:
        if block is not pool.null_block:
            number = block.block_id
            left[number] = left.get(number, block.ref_cnt) - 1
            given.append((number, left[number]))
    return given


def _evicting(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def evict(self: Any, block: Any) -> Any:
            evicted = original(self, block)
            if evicted:
                recorder.noted(EventKind.EVICT, GPU, block.block_id)
            return evicted

        return evict

    return wrap


def unknown_blocks(
    original: Callable[..., Any],
) -> Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], list[Any]]:
    """Of a call of this `cache_full_blocks`: the blocks that are to be found from then on.

    Given its pool and blocks, and what follows these. Until 0.11 it is called for each request and
    step, mostly for nothing.
    """
    names = list(inspect.signature(original).parameters)[3:]
    first, end = names.index("num_cached_blocks"), names.index("num_full_blocks")

    def unknown_of(
        pool: Any, blocks: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> list[Any]:
        start = arguments[first] if first < len(arguments) else options["num_cached_blocks"]
        stop = arguments[end] if end < len(arguments) else options["num_full_blocks"]
        new = blocks[start:stop]
        return [b for b in new if b.block_hash is None and b is not pool.null_block]

    return unknown_of


def found_since(unknown: list[Any]) -> list[int]:
    """Which of these blocks can be found now."""
    return [block.block_id for block in unknown if block.block_hash is not None]


def _caching(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        unknown_of = unknown_blocks(original)

        @wraps(original)
        def cache(self: Any, request: Any, blocks: Any, *arguments: Any, **options: Any) -> Any:
            unknown = unknown_of(self, blocks, arguments, options)
            result = original(self, request, blocks, *arguments, **options)
            recorder.noted_all(EventKind.CACHE, GPU, found_since(unknown))
            return result

        return cache

    return wrap


def _preempting(recorder: Recorder) -> Wrapper:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def preempt(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
            null_block = self.kv_cache_manager.block_pool.null_block
            with recorder.working_for(request.request_id):
                for manager in managers_of(self.kv_cache_manager):
                    for block in manager.req_to_blocks.get(request.request_id, ()):
                        if block is not null_block:
                            recorder.noted(EventKind.PREEMPT, GPU, block.block_id)
                return original(self, request, *arguments, **options)

        return preempt

    return wrap
