"""What vLLM's second block pool notes about its blocks, read so that damage cannot hold us up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


def cached_blocks(pool: Any) -> Mapping[Any, Any]:
    """What is found under each hash; until 0.10 the pool had a plain dictionary."""
    cache = pool.cached_block_hash_to_block
    found: Mapping[Any, Any] = getattr(cache, "_cache", cache)
    return found


def found_in(cache: Mapping[Any, Any], content: Any) -> Iterable[Any]:
    """The blocks under one hash: one alone, or several by number."""
    blocks = cache.get(content)
    if blocks is None:
        return ()
    return blocks.values() if isinstance(blocks, dict) else (blocks,)


def misfiled_blocks(pool: Any) -> Iterator[int]:
    """Blocks that the cache finds under a hash that they do not have, or not under theirs."""
    further = getattr(pool, "cached_block_hashes_by_block", {})
    own = {b.block_id: found for b in pool.blocks if (found := b.block_hash) is not None}
    wrong: set[int] = set()
    cache = cached_blocks(pool)
    for content in cache:
        for block in found_in(cache, content):
            number = block.block_id
            if own.get(number) == content:
                del own[number]
            elif content not in further.get(number, ()):
                wrong.add(number)
    # What is left was not found.
    yield from sorted(wrong | own.keys())
