"""What is known of every block of vLLM's second engine, brought up to date with what was written.

To look at all blocks after each step costs more than the step. Whatever writes a block is seen by
its class, so only these are looked at, those of tables that changed, and what is found under the
hashes that they have or had. A ledger proves that no rule is broken, or it does not; what is
broken then, a whole snapshot tells. Unseen is an entry of the cache that is exchanged for another
where no block with its hash is written, until the next snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from vllm_forensics.sandbox.engine.v1_pool import cached_blocks, found_in

Written = dict[int, Any]
"""By identity, blocks of which any field was set."""


@contextmanager
def writes_seen(block_class: type) -> Iterator[Written]:
    """Every block of which a field is set inside of the `with` block."""
    written: Written = {}
    plain: Any = block_class.__setattr__

    def note(self: Any, name: str, value: Any) -> None:
        plain(self, name, value)
        written[id(self)] = self

    setattr(block_class, "__setattr__", note)  # noqa: B010 - the class is a stranger's
    try:
        yield written
    finally:
        del block_class.__setattr__


class V1Ledger:
    """Counts, links and hashes of a sound pool, and the tables that name its blocks."""

    def __init__(self, scheduler: Any, managers: tuple[Any, ...], written: Written) -> None:
        """Nothing is known before the first `begin`."""
        self._scheduler = scheduler
        self._managers = managers
        self._pool: Any = scheduler.kv_cache_manager.block_pool
        self._null = self._pool.null_block
        self._written = written
        self._sound = False
        self._tables: list[dict[Any, list[Any]]] = []
        """Of each group, and of what is given back later: the blocks that each table names."""
        self._named: Counter[int] = Counter()
        self._hashes: dict[int, Any] = {}
        self._found: Counter[Any] = Counter()
        """By hash, how many blocks have it."""
        self._links: dict[int, tuple[Any, Any]] = {}
        """The neighbours of each block that stands in the free list."""

    def begin(self, *, sound: bool) -> None:
        """The whole state was looked at: learn it anew, unless all of it is known."""
        if self._sound or not sound:
            self._sound = sound
            return
        self._written.clear()
        self._tables = [{name: list(t) for name, t in group.items()} for group in self._groups()]
        self._named = Counter(
            block.block_id
            for group in self._tables
            for table in group.values()
            for block in {id(block): block for block in table}.values()
            if block is not self._null
        )
        blocks = self._pool.blocks
        self._hashes = {b.block_id: b.block_hash for b in blocks if b.block_hash is not None}
        self._found = Counter(self._hashes.values())
        self._links = {b.block_id: (b.prev_free_block, b.next_free_block) for b in blocks}
        self._sound = True

    def still_sound(self) -> bool:
        """Whether what was written since the last call surely breaks no rule.

        False: look at the whole. It stays so until `begin` is called again.
        """
        self._sound = self._sound and self._proved()
        return self._sound

    def _proved(self) -> bool:
        touched = {block.block_id: block for block in self._written.values()}
        self._written.clear()
        if not self._take_tables(touched):
            return False
        pool = self._pool
        cache = cached_blocks(pool)
        hashes: set[Any] = set()
        return (
            all(
                self._block_is_sound(block, hashes)
                for number, block in touched.items()
                if number >= 0  # the ends of the free list are no blocks
            )
            and all(self._is_found(content, found_in(cache, content)) for content in hashes)
            and not getattr(pool, "cached_block_hashes_by_block", None)
            and len(cache) == len(self._found)
            and pool.free_block_queue.num_free_blocks == len(pool.blocks) - 1 - len(self._named)
        )

    def _groups(self) -> Iterator[Mapping[Any, list[Any]]]:
        """The tables of each group of layers, and what goes back once a step is completed."""
        for manager in self._managers:
            yield manager.req_to_blocks
        later = getattr(self._scheduler, "deferred_frees", ())
        yield {place: blocks for place, (_, blocks) in enumerate(later)}

    def _take_tables(self, touched: dict[int, Any]) -> bool:
        """Count anew what tables name; blocks that are named more or less often are touched."""
        requests = self._scheduler.requests
        for known, tables in zip(self._tables, self._groups(), strict=True):
            for name in known.keys() - tables.keys():
                self._count(known.pop(name), [], touched)
            for name, blocks in tables.items():
                before = known.get(name)
                if before != blocks:
                    self._count(before or [], blocks, touched)
                    known[name] = list(blocks)
                if isinstance(name, str) and blocks:
                    request = requests.get(name)
                    if request is None or (
                        request.num_computed_tokens == 0 and request.status.name == "PREEMPTED"
                    ):
                        return False
        return True

    def _count(self, before: list[Any], after: list[Any], touched: dict[int, Any]) -> None:
        old = {block.block_id: block for block in before if block is not self._null}
        new = {block.block_id: block for block in after if block is not self._null}
        for number in old.keys() - new.keys():
            touched[number] = old[number]
            self._named[number] -= 1
            if not self._named[number]:
                del self._named[number]
        for number in new.keys() - old.keys():
            touched[number] = new[number]
            self._named[number] += 1

    def _block_is_sound(self, block: Any, hashes: set[Any]) -> bool:
        number = block.block_id
        if self._pool.blocks[number] is not block or not self._is_held_or_free(block, number):
            return False
        content, before = block.block_hash, self._hashes.get(number)
        if before is not None:
            hashes.add(before)
        if content is not None:
            hashes.add(content)
        if content != before:
            self._rehash(number, before, content)
        return True

    def _rehash(self, number: int, before: Any, content: Any) -> None:
        if before is not None:
            del self._hashes[number]
            self._found[before] -= 1
            if not self._found[before]:
                del self._found[before]
        if content is not None:
            self._hashes[number] = content
            self._found[content] += 1

    def _is_found(self, content: Any, blocks: Iterable[Any]) -> bool:
        """Under a hash there must be as many blocks as have it, and no others."""
        found = {id(block) for block in blocks if block.block_hash == content}
        return len(found) == len(tuple(blocks)) == self._found.get(content, 0)

    def _is_held_or_free(self, block: Any, number: int) -> bool:
        named = self._named.get(number, 0)
        before, after = block.prev_free_block, block.next_free_block
        left, right = self._links.get(number, (None, None))
        self._links[number] = before, after
        # Neighbours, and those that were, must see it as it sees them.
        for other, name, own in (
            (left, "next_free_block", before),
            (right, "prev_free_block", after),
            (before, "next_free_block", before),
            (after, "prev_free_block", after),
        ):
            if other is not None and (getattr(other, name) is block) != (other is own):
                return False
        free = after is not None or block is getattr(
            self._pool.free_block_queue, "free_list_tail", None
        )
        if block is self._null:
            return not free
        counted: int = block.ref_cnt
        return counted == named and free == (named == 0)
