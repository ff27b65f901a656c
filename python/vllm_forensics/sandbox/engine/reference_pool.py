"""Our own block pool: exact reference counts, the order of the free list, a cache by content.

It hands blocks out in the order of vLLM 0.32's: a freed block without content that can be found
again goes to the front of the free list, one with it to the end. There is no null block.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from vllm_forensics.model.event import EventKind
from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.recorder import Recorder

Content = tuple[int, ...]
"""All tokens up to the end of a block: what makes it findable. Exact, so never a collision."""


class BlockError(RuntimeError):
    """The pool was asked for something that would break its own count."""


class ReferencePool:
    """Blocks with reference counts, a free list and a cache by content; safe between threads."""

    def __init__(self, total: int, recorder: Recorder, *, caching: bool = False) -> None:
        """All `total` blocks are free, handed out in ascending order."""
        self.total = total
        self.references = [0] * total
        self._recorder = recorder
        self._caching = caching
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(total))
        self._content: dict[int, Content] = {}
        self._by_content: dict[Content, int] = {}
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
                self._recorder.allocated(GPU, block)
            return blocks

    def _take(self) -> int:
        block, _ = self._free.popitem(last=False)
        content = self._content.pop(block, None)
        if content is not None:
            del self._by_content[content]
            self._recorder.noted(EventKind.EVICT, GPU, block)
        self.references[block] = 1
        return block

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
            self._recorder.joined(EventKind.TOUCH, GPU, block, self.references[block])

    def free(self, blocks: Iterable[int]) -> None:
        """Hold each block once less; at none it can be handed out again.

        Raises:
            BlockError: nobody held it: it is freed twice.

        """
        with self._lock:
            for block in blocks:
                self._recorder.freed(GPU, block, self.references[block] - 1)
                if self.references[block] == 0:
                    raise BlockError(
                        f"block {block} is freed twice: nobody holds it, and "
                        f"{threading.current_thread().name} frees it"
                    )
                self.references[block] -= 1
                if self.references[block] == 0:
                    self._free[block] = None
                    self._free.move_to_end(block, last=block in self._content)

    def cache(self, block: int, content: Content) -> None:
        """Let a full block be found by its content; the first block with a content stays it."""
        with self._lock:
            if self._caching and content not in self._by_content and block not in self._content:
                self._content[block] = content
                self._by_content[content] = block
                self._recorder.noted(EventKind.CACHE, GPU, block)

    def find(self, content: Content) -> int | None:
        """The block with this content."""
        return self._by_content.get(content)
