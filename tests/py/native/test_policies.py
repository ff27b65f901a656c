"""What each policy makes of the same mistake, and which exception reaches Python."""

import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from vllm_forensics._native import (
    AccessPolicy,
    BlockAllocator,
    BlockRef,
    CachePart,
    CacheShape,
    CPUWorker,
    PagedKVCache,
    Policies,
    ReclaimPolicy,
    SequenceStep,
    StepPlan,
    blocks_that_fit,
    built_with_address_sanitizer,
)

SHAPE = CacheShape(block_size=2, num_layers=1, num_heads=1, head_size=2)


def store(cache: PagedKVCache, block: int, number: float) -> None:
    token = np.full((1, 1, 2), number)
    cache.reshape_and_cache(0, token, token, [block * SHAPE.block_size])


def first_key(cache: PagedKVCache, block: int) -> float:
    return float(cache.read_block(0, CachePart.key, block)[0, 0, 0])


@pytest.mark.parametrize("access", AccessPolicy)
def test_erase_lets_a_live_request_read_anothers_block_without_a_word(access: AccessPolicy) -> None:
    cache = PagedKVCache(4, SHAPE, Policies(reclaim=ReclaimPolicy.erase, access=access))
    gone, mine, theirs = (cache.allocator.allocate() for _ in range(3))
    store(cache, mine, 1.0)
    store(cache, theirs, 2.0)

    cache.allocator.free(gone)

    assert first_key(cache, mine) == 2.0
    store(cache, mine, 3.0)
    block = cache.allocator.get_block(mine)
    assert block is not None
    assert block.id == theirs


def test_free_list_keeps_every_other_block_where_it_is() -> None:
    cache = PagedKVCache(4, SHAPE)
    gone, mine, theirs = (cache.allocator.allocate() for _ in range(3))
    store(cache, mine, 1.0)
    store(cache, theirs, 2.0)

    cache.allocator.free(gone)
    store(cache, cache.allocator.allocate(), 9.0)

    assert (first_key(cache, mine), first_key(cache, theirs)) == (1.0, 2.0)


def test_reset_only_yields_none() -> None:
    policies = Policies(reclaim=ReclaimPolicy.reset_only, access=AccessPolicy.unchecked)
    allocator = BlockAllocator(2, 64, policies)
    block = allocator.allocate()

    allocator.free(block)

    assert allocator.get_block(block) is None
    assert allocator.num_free_blocks == 1


def test_the_story_kills_the_interpreter() -> None:
    program = """
        from vllm_forensics._native import *
        story = Policies(reclaim=ReclaimPolicy.reset_only, access=AccessPolicy.unchecked)
        shape = CacheShape(block_size=2, num_layers=1, num_heads=1, head_size=2)
        cache = PagedKVCache(4, shape, story)
        source, target = cache.allocator.allocate(), cache.allocator.allocate()
        cache.allocator.free(source)
        cache.copy_blocks([(source, target)])
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        timeout=60,
        # 1 byte: even a core_pattern that pipes is skipped then.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)),
        check=False,
    )

    assert done.returncode == (1 if built_with_address_sanitizer() else -signal.SIGSEGV)


def test_copy_of_a_freed_block_is_a_value_error_with_both_ids() -> None:
    cache = PagedKVCache(4, SHAPE)
    source, target = cache.allocator.allocate(), cache.allocator.allocate()
    cache.allocator.free(source)

    with pytest.raises(
        ValueError, match=r"^Invalid block id in copy_blocks: src=0, dst=1: block 0"
    ):
        cache.copy_blocks([(source, target)])


def test_copy_of_an_id_that_is_none_is_an_index_error_with_both_ids() -> None:
    cache = PagedKVCache(4, SHAPE)
    target = cache.allocator.allocate()

    with pytest.raises(
        IndexError, match=r"copy_blocks: src=99, dst=0: block 99 does not exist, num_blocks=4$"
    ):
        cache.copy_blocks([(99, target)])


def test_an_empty_pool_is_a_runtime_error() -> None:
    allocator = BlockAllocator(1, 64)
    allocator.allocate()

    with pytest.raises(RuntimeError, match=r"^No free block: num_blocks=1, free=0$"):
        allocator.allocate()


def test_a_python_handler_can_make_room_and_its_exception_comes_through() -> None:
    allocator = BlockAllocator(1, 64)
    held = allocator.allocate()
    allocator.set_exhausted_handler(lambda pool: pool.free(held))

    assert allocator.allocate() == held

    def refuse(_: BlockAllocator) -> None:
        raise KeyError("no victim")

    allocator.set_exhausted_handler(refuse)
    with pytest.raises(KeyError, match="no victim"):
        allocator.allocate()
    allocator.set_exhausted_handler(None)
    with pytest.raises(RuntimeError, match="No free block"):
        allocator.allocate()


@pytest.mark.parametrize("access", AccessPolicy)
def test_a_stale_reference_is_refused_under_either_access(access: AccessPolicy) -> None:
    allocator = BlockAllocator(2, 64, Policies(access=access))
    old = allocator.reference_to(allocator.allocate())
    allocator.free(old.id)

    with pytest.raises(ValueError, match="block=0, generation=1: block 0 is not allocated"):
        allocator.resolve(old)
    assert allocator.allocate() == old.id
    with pytest.raises(ValueError, match="generation=1: the block is now in generation 2"):
        allocator.resolve(old)
    assert allocator.resolve(BlockRef(id=old.id, generation=2)).id == old.id


def test_a_worker_refuses_a_table_from_an_earlier_life() -> None:
    worker = CPUWorker(SHAPE)
    worker.initialize_cache(2)
    allocator = worker.device_cache.allocator
    old = allocator.reference_to(allocator.allocate())
    allocator.free(old.id)
    allocator.allocate()
    step = SequenceStep(block_table=[old.id], context_length=1, generations=[old.generation])
    token = np.zeros((1, 1, 1, 2))

    with pytest.raises(ValueError, match="Stale block reference: block=0, generation=1"):
        worker.execute_model(StepPlan([step]), query=token, keys=token, values=token)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (np.zeros((2, 1, 2)), r"keys has shape \[2, 1, 2\], expected \[1, 1, 2\]"),
        (np.zeros((1, 2)), r"keys has shape \[1, 2\], expected \[1, 1, 2\]"),
        (np.float32(0), r"keys has shape \[\], expected \[1, 1, 2\]"),
        (np.zeros((1, 1, 0)), r"keys has shape \[1, 1, 0\]"),
    ],
)
def test_wrong_shapes_are_value_errors(keys: np.ndarray, message: str) -> None:
    cache = PagedKVCache(1, SHAPE)
    cache.allocator.allocate()

    with pytest.raises(ValueError, match=message):
        cache.reshape_and_cache(0, keys, np.zeros((1, 1, 2)), [0])


def test_impossible_sizes_are_value_errors() -> None:
    empty = CacheShape(block_size=0, num_layers=1, num_heads=1, head_size=2)

    with pytest.raises(ValueError, match="block_size must be from 1 to 1048576, not 0"):
        PagedKVCache(1, empty)
    with pytest.raises(ValueError, match="num_blocks=-3"):
        PagedKVCache(-3, SHAPE)
    with pytest.raises(ValueError, match="block_size"):
        blocks_that_fit(1024, empty)
    assert blocks_that_fit(100, SHAPE) == 100 // SHAPE.block_bytes


def test_a_worker_without_caches_is_a_runtime_error() -> None:
    worker = CPUWorker(SHAPE)

    with pytest.raises(RuntimeError, match="call initialize_cache first"):
        _ = worker.device_cache
    worker.initialize_cache(1)
    with pytest.raises(RuntimeError, match="No host cache"):
        worker.swap_in([(0, 0)])


def test_a_block_keeps_its_cache_alive() -> None:
    allocator = PagedKVCache(1, SHAPE).allocator

    assert allocator.allocate() == 0
    assert allocator.block_bytes == SHAPE.block_bytes
