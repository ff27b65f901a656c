"""What vLLM's second block pool notes about its blocks, read so that damage cannot hold us up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any


def free_blocks(pool: Any) -> Iterator[int]:
    """The free list in its order.

    A list that is linked into a ring has no end: at most one more than the pool has is read, so
    one block is there twice.
    """
    queue = pool.free_block_queue
    tail = getattr(queue, "fake_free_list_tail", None)
    # Until 0.9 the list began with a block, and ended with one that has no next.
    block = queue.free_list_head if tail is None else queue.fake_free_list_head.next_free_block
    for _ in range(len(pool.blocks) + 1):
        if block is None or block is tail:
            return
        yield block.block_id
        block = block.next_free_block


def misfiled_blocks(pool: Any) -> Iterator[int]:
    """Blocks that the cache finds under a hash that they do not have, or not under theirs."""
    cache = pool.cached_block_hash_to_block
    found: dict[int, list[Any]] = defaultdict(list)
    # Until 0.10 a plain dictionary, whose values are dictionaries by block.
    for content, blocks in getattr(cache, "_cache", cache).items():
        for block in blocks.values() if isinstance(blocks, dict) else (blocks,):
            found[block.block_id].append(content)
    further = getattr(pool, "cached_block_hashes_by_block", {})
    for block in pool.blocks:
        own, places = block.block_hash, found.get(block.block_id, [])
        noted = [] if own is None else [own, *further.get(block.block_id, ())]
        if len(places) != len(noted) or any(place not in noted for place in places):
            yield block.block_id
