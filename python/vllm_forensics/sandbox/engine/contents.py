"""Under which hash each block can be found by its content; read when a snapshot is kept.

The invariants look at a snapshot after every step, and need no hashes: they are read apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from vllm_forensics.model.sandbox import Generation, Snapshot
from vllm_forensics.sandbox.engine.interface import CPU, GPU, Engine

_DIGITS: Final = 16
"""Of a hash, as hexadecimal: enough to tell blocks of one run apart."""


def with_contents(snapshot: Snapshot, engine: Engine) -> Snapshot:
    """The snapshot of this engine, taken just now, with the hashes in its pools."""
    found: dict[str, dict[int, str]] = {GPU: {}, CPU: {}}
    for pool, block, text in _hashes(engine):
        found[pool][block] = text
    if not any(found.values()):
        return snapshot
    return replace(
        snapshot,
        pools=tuple(
            replace(pool, contents=tuple(sorted(found.get(pool.name, {}).items())))
            for pool in snapshot.pools
        ),
    )


def _hashes(engine: Engine) -> Iterator[tuple[str, int, str]]:
    inside: Any = engine
    if engine.generation is Generation.V1:
        for block in inside.pool.blocks:
            if block.block_hash is not None:
                yield GPU, block.block_id, _text(block.block_hash)
    elif engine.generation is Generation.V0:
        yield from _of_first(inside.manager)
    elif engine.generation is Generation.REFERENCE:
        for number in range(inside.pool.total):
            content = inside.pool.content(number)
            if content is not None:
                yield GPU, number, _text(content)


def _of_first(manager: Any) -> Iterator[tuple[str, int, str]]:
    """Its first manager names a block by its hash; its second one a hash by its block."""
    # 0.3 numbers blocks in the place of a hash where there is no cache.
    for name in (GPU, CPU) if getattr(manager, "enable_caching", False) else ():
        allocator = getattr(manager, f"{name}_allocator", None)
        for block in getattr(allocator, "cached_blocks", {}).values():
            yield name, block.block_number, _text(block.block_hash)
    inner = getattr(getattr(manager, "block_allocator", None), "_allocators", {})
    first = 0
    for key, allocator in sorted(inner.items(), key=lambda item: item[0].name, reverse=True):
        for content, block in getattr(allocator, "_cached_blocks", {}).items():
            yield key.name.lower(), block - first, _text(content)
        first += len(allocator.all_block_ids)


def _text(content: Any) -> str:
    """A hash as text: bytes as they are, a number in hexadecimal, tokens as their own digest."""
    if not isinstance(content, bytes | int | tuple):
        content = getattr(content, "block_hash", content)
    if isinstance(content, tuple) and hasattr(content, "hash_value"):  # until 0.10
        content = content.hash_value
    if isinstance(content, int):
        return f"{content & (1 << 64) - 1:016x}"
    if isinstance(content, bytes):
        return content.hex()[:_DIGITS]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:_DIGITS]
