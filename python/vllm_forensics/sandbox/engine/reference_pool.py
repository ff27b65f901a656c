"""Our own block pool: exact reference counts, the order of the free list, a cache by content.

It hands blocks out in the order of vLLM 0.32's: a freed block without content that can be found
again goes to the front of the free list, one with it to the end. There is no null block.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import PoolState
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.recorder import Recorder

Content = tuple[int, ...]
"""All tokens up to the end of a block: what makes it findable. Exact, so never a collision."""


class BlockError(RuntimeError):
    """The pool was asked for something that would break its own count."""


class ReferencePool:
    """Blocks with reference counts, a free list and a cache by content; safe between threads."""

    def __init__(
        self, total: int, recorder: Recorder, *, caching: bool = False, name: str = GPU
    ) -> None:
        """All `total` blocks are free, handed out in ascending order."""
        self.name = name
        self.total = total
        self.references = [0] * total
        self._recorder = recorder
        self._caching = caching
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(total))
        self._content: dict[int, Content] = {}
        self._by_content: dict[Content, dict[int, None]] = {}
        """In the order in which they became findable: the first is the one that is found."""
        self._lock = threading.RLock()

    @property
    def free_blocks(self) -> tuple[int, ...]:
        """In the order in which they would be handed out."""
        return tuple(self._free)

    def count_free(self) -> int:
        """How many blocks can be handed out."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """`count` blocks, each held once.

        Raises:
            BlockError: there are fewer.

        """
        with self._lock:
            if count > len(self._free):
                raise BlockError(f"{count} blocks asked for, {len(self._free)} are free")
            blocks = [self._take() for _ in range(count)]
            for block in blocks:
                self._recorder.allocated(self.name, block)
            return blocks

    def _take(self) -> int:
        block, _ = self._free.popitem(last=False)
        self._forget(block)
        self.references[block] = 1
        return block

    def _forget(self, block: int) -> None:
        """Let nothing be found in a block any more."""
        content = self._content.pop(block, None)
        if content is not None:
            blocks = self._by_content[content]
            del blocks[block]
            if not blocks:
                del self._by_content[content]
            self._recorder.noted(EventKind.EVICT, self.name, block)

    def touch(self, block: int) -> None:
        """Hold a block once more; a free one that still has its content comes back to life.

        Raises:
            BlockError: it is free and nothing can be found in it.

        """
        with self._lock:
            if self.references[block] == 0:
                if block not in self._content:
                    raise BlockError(f"block {block} is free and holds nothing")
                del self._free[block]
            self.references[block] += 1
            self._recorder.joined(EventKind.TOUCH, self.name, block, self.references[block])

    def free(self, blocks: Iterable[int]) -> None:
        """Hold each block once less; at none it can be handed out again, the first of them first.

        Raises:
            BlockError: nobody held it: it is freed twice.

        """
        with self._lock:
            plain: list[int] = []
            for block in blocks:
                self._recorder.freed(self.name, block, self.references[block] - 1)
                if self.references[block] == 0:
                    raise BlockError(
                        f"block {block} is freed twice: nobody holds it, and "
                        f"{threading.current_thread().name} frees it"
                    )
                self.references[block] -= 1
                if self.references[block] == 0:
                    self._free[block] = None
                    if block not in self._content:
                        plain.append(block)
            for block in reversed(plain):
                self._free.move_to_end(block, last=False)

    def cache(self, block: int, content: Content) -> None:
        """Let a full block be found by its content; of several, the first that had it."""
        with self._lock:
            if self._caching and block not in self._content:
                self._content[block] = content
                self._by_content.setdefault(content, {})[block] = None
                self._recorder.noted(EventKind.CACHE, self.name, block)

    def find(self, content: Content) -> int | None:
        """The block with this content."""
        return next(iter(self._by_content.get(content, ())), None)

    def content(self, block: int) -> Content | None:
        """What can be found in a block."""
        return self._content.get(block)

    def evict(self, block: int) -> None:
        """Let a block be found no more; whoever holds it keeps it, and its place is the same."""
        with self._lock:
            self._forget(block)

    def reset_cache(self) -> bool:
        """Let no block be found any more; refused while any is held."""
        with self._lock:
            if len(self._free) < self.total:
                return False
            for block in tuple(self._content):
                self._forget(block)
            return True

    def swapped_out(self, blocks: Iterable[int]) -> None:
        """Give back blocks whose content the worker copies to the other pool."""
        self.free(blocks)

    def state(self) -> PoolState:
        """As it sees itself."""
        return PoolState(
            name=self.name,
            total=self.total,
            reserved=(),
            free=self.free_blocks,
            references=tuple(self.references),
        )
