"""An allocator never hands out one block twice, and agrees with a model of a few lines."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vllm_forensics._native import (
    AccessPolicy,
    BlockAllocator,
    Policies,
    ReclaimPolicy,
)

POLICIES = st.builds(
    Policies, reclaim=st.sampled_from(ReclaimPolicy), access=st.just(AccessPolicy.checked)
)
IDS = st.integers(min_value=-2, max_value=9)
KEEPING = (ReclaimPolicy.free_list, ReclaimPolicy.heap_per_life)
"""These have a free list of their own; the last block freed is handed out first."""


@given(num_blocks=st.integers(1, 64), policies=POLICIES)
def test_a_full_pool_has_handed_out_every_id_once(num_blocks: int, policies: Policies) -> None:
    allocator = BlockAllocator(num_blocks, 16, policies)

    ids = [allocator.allocate() for _ in range(num_blocks)]

    assert sorted(ids) == list(range(num_blocks))


@given(st.lists(st.one_of(st.none(), st.integers(0, 7)), max_size=60))
def test_free_list_never_hands_out_a_block_that_somebody_holds(calls: list[int | None]) -> None:
    """None allocates; a number frees the one held at that place."""
    allocator = BlockAllocator(5, 16)
    held: list[int] = []
    seen: set[int] = set()

    for call in calls:
        if call is None and allocator.num_free_blocks:
            block = allocator.allocate()
            assert block not in held
            assert allocator.generation(block) not in seen
            seen.add(allocator.generation(block))
            held.append(block)
        elif call is not None and call < len(held):
            allocator.free(held.pop(call))


@dataclass
class Model:
    """The allocator in Python: a slot is None when destroyed, else how many own it."""

    reclaim: ReclaimPolicy
    slots: list[int | None]
    free_ids: list[int] = field(default_factory=list)

    def next_id(self) -> int | None:
        if self.reclaim in KEEPING:
            return self.free_ids[-1] if self.free_ids else None
        return next((block for block, owners in enumerate(self.slots) if owners == 0), None)

    def allocate(self) -> int | None:
        block = self.next_id()
        if block is not None:
            self.slots[block] = 1
            if self.free_ids:
                self.free_ids.pop()
        return block

    def allocate_block(self, block: int) -> type[Exception] | None:
        if not 0 <= block < len(self.slots):
            return IndexError
        if self.slots[block] != 0:
            return ValueError
        self.slots[block] = 1
        if block in self.free_ids:
            self.free_ids.remove(block)
        return None

    def owners(self, block: int) -> int:
        return (self.slots[block] or 0) if 0 <= block < len(self.slots) else 0

    def error(self, block: int) -> type[Exception] | None:
        if not 0 <= block < len(self.slots):
            return IndexError
        return None if self.slots[block] else ValueError

    def add_owner(self, block: int) -> None:
        self.slots[block] = self.owners(block) + 1

    def drop_owner(self, block: int) -> None:
        self.slots[block] = self.owners(block) - 1
        if self.slots[block]:
            return
        match self.reclaim:
            case ReclaimPolicy.free_list | ReclaimPolicy.heap_per_life:
                self.free_ids.append(block)
            case ReclaimPolicy.reset_only:
                self.slots[block] = None
            case ReclaimPolicy.erase:
                del self.slots[block]
            case _:
                assert_never(self.reclaim)


def error_of(call: Callable[[int], None], block: int) -> type[Exception] | None:
    try:
        call(block)
    except (IndexError, ValueError) as error:
        return type(error)
    return None


class AllocatorMachine(RuleBasedStateMachine):
    """Random operations, right and wrong ones, on both."""

    model: Model
    native: BlockAllocator

    @initialize(num_blocks=st.integers(1, 7), policies=POLICIES)
    def make(self, num_blocks: int, policies: Policies) -> None:
        self.model = Model(
            reclaim=policies.reclaim,
            slots=[0] * num_blocks,
            free_ids=list(reversed(range(num_blocks))) if policies.reclaim in KEEPING else [],
        )
        self.native = BlockAllocator(num_blocks, 16, policies)

    @rule()
    def allocate(self) -> None:
        expected = self.model.allocate()
        try:
            assert self.native.allocate() == expected
        except RuntimeError:
            assert expected is None

    @rule(block=IDS)
    def allocate_block(self, block: int) -> None:
        assert error_of(self.native.allocate_block, block) is self.model.allocate_block(block)

    @rule(block=IDS)
    def free(self, block: int) -> None:
        expected = self.model.error(block)

        assert error_of(self.native.free, block) is expected
        if expected is None:
            self.model.drop_owner(block)

    @rule(block=IDS)
    def fork(self, block: int) -> None:
        expected = self.model.error(block)

        assert error_of(self.native.fork, block) is expected
        if expected is None:
            self.model.add_owner(block)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "native"):
            return
        assert self.native.num_blocks == len(self.model.slots)
        assert self.native.num_free_blocks == self.model.slots.count(0)
        for block in range(-2, 10):
            assert self.native.reference_count(block) == self.model.owners(block)
            assert self.native.is_allocated(block) is (self.model.owners(block) > 0)


TestAllocatorMachine = AllocatorMachine.TestCase
TestAllocatorMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
