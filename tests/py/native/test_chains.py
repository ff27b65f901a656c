"""The native event log as the chains that both halves of the toolkit share."""

from vllm_forensics._native import (
    AccessPolicy,
    BlockAllocator,
    CacheShape,
    EventLog,
    PagedKVCache,
    Policies,
)
from vllm_forensics.evidence.event_log import chains_of
from vllm_forensics.model.event import EventKind

SHAPE = CacheShape(block_size=2, num_layers=1, num_heads=1, head_size=2)


def test_a_block_that_was_reused_has_one_chain_with_two_generations() -> None:
    EventLog.clear()
    EventLog.enable()
    allocator = BlockAllocator(1, 16)

    block = allocator.allocate()
    allocator.free(block)
    allocator.allocate()
    EventLog.disable()

    (chain,) = chains_of(EventLog.events())
    assert chain.block == block
    assert [event.kind for event in chain.events] == [
        EventKind.ALLOCATE,
        EventKind.FREE,
        EventKind.ALLOCATE,
    ]
    first, _, second = (event.generation for event in chain.events)
    assert first is not None
    assert second is not None
    assert first < second
    assert chain.index_of_last(EventKind.FREE) == 1
    assert chain.index_of_last(EventKind.USE) is None


def test_a_copy_is_the_targets_event_and_a_use_of_its_source() -> None:
    EventLog.clear()
    EventLog.enable()
    cache = PagedKVCache(2, SHAPE, Policies(access=AccessPolicy.checked))
    source, target = cache.allocator.allocate(), cache.allocator.allocate()

    cache.copy_blocks([(source, target)])
    EventLog.disable()

    chains = {chain.block: chain for chain in chains_of(EventLog.events())}
    assert chains[target].events[-1].kind is EventKind.COPY
    assert chains[target].events[-1].source == source
    assert chains[source].events[-1].kind is EventKind.USE
    assert chains[source].events[-1].file == chains[target].events[-1].file
