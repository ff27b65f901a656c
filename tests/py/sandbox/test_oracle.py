"""Our own pool and an unmodified vLLM's: the same operations, the same state, to the last detail.

Both see random operations on blocks and on requests. After each, the order of the free list, the
count of every block and the content that can be found in it must be the same.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, Protocol

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.py.support.vllm_trees import CURRENT, a_tree

from vllm_forensics.model.sandbox import Parameters, RequestSpec
from vllm_forensics.sandbox.engine.interface import GPU, output_token, prompt_tokens
from vllm_forensics.sandbox.engine.loader import loaded
from vllm_forensics.sandbox.engine.reference_pool import BlockError, Content, ReferencePool
from vllm_forensics.sandbox.engine.v1 import V1Engine
from vllm_forensics.sandbox.engine.v1_config import SELECTION
from vllm_forensics.sandbox.engine.v1_hooks import hooks
from vllm_forensics.sandbox.recorder import Recorder, wrapped

pytestmark = pytest.mark.xdist_group("vllm-trees")
TOTAL = 14
"""Blocks of vLLM's pool, of which one is its null block: ours has one less."""
SIZE = 4
"""Tokens of a block."""


class Load(Protocol):
    def __call__(self, name: str) -> ModuleType: ...


@dataclass(eq=False)
class Both:
    """One request, as vLLM has it and as we would have it."""

    real: Any
    index: int
    tokens: list[int]
    computed: int = 0
    cached: int = 0
    blocks: list[int] = field(default_factory=list)


class Pools(RuleBasedStateMachine):
    """Ids are ours; vLLM's are one higher."""

    load: ClassVar[Load]
    operations: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        parameters = Parameters(gpu_blocks=TOTAL, block_size=SIZE, prefix_caching=True)
        self.stack = ExitStack()
        self.recorder = Recorder()
        self.stack.enter_context(wrapped(hooks(self.load, self.recorder)))
        self.engine = V1Engine(self.load, a_tree(CURRENT), parameters, self.recorder)
        self.real = self.engine.pool
        self.ours = ReferencePool(TOTAL - 1, Recorder(), caching=True)
        self.loose: list[int] = []
        """Held by nobody but us, as often as they stand here."""
        self.requests: list[Both] = []
        self.count = 0
        self.hashes: dict[Content, Any] = {}

    def teardown(self) -> None:
        self.stack.close()

    def blocks(self, ids: list[int]) -> list[Any]:
        return [self.real.blocks[block + 1] for block in ids]

    @rule(count=st.integers(0, 6))
    def allocate(self, count: int) -> None:
        if count > self.ours.count_free():
            with pytest.raises(BlockError):
                self.ours.allocate(count)
            with pytest.raises(ValueError, match="Cannot get"):
                self.real.get_new_blocks(count)
            return
        expected = self.ours.allocate(count)
        assert [block.block_id - 1 for block in self.real.get_new_blocks(count)] == expected
        self.loose += expected

    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        known = [b for b in range(TOTAL - 1) if self.ours.references[b] or self.ours.content(b)]
        if known:
            block = data.draw(st.sampled_from(known))
            self.ours.touch(block)
            self.real.touch(self.blocks([block]))
            self.loose.append(block)

    @precondition(lambda self: self.loose)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        order = data.draw(st.permutations(self.loose))
        some = order[: data.draw(st.integers(1, len(order)))]
        for block in some:
            self.loose.remove(block)
        self.ours.free(some)
        self.real.free_blocks(self.blocks(some))

    @rule(block=st.integers(0, TOTAL - 2))
    def evict(self, block: int) -> None:
        self.ours.evict(block)
        self.engine.manager.evict_blocks({block + 1})

    @rule()
    def reset(self) -> None:
        assert self.engine.manager.reset_prefix_cache() == self.ours.reset_cache()

    @precondition(lambda self: len(self.requests) < 6)
    @rule(prompt=st.integers(1, 6 * SIZE), prefix=st.integers(0, 6 * SIZE))
    def arrive(self, prompt: int, prefix: int) -> None:
        spec = RequestSpec(id=str(self.count), prompt_len=prompt, max_tokens=1000, prefix=prefix)
        self.engine.add(spec)
        real = self.engine.scheduler.requests[spec.id]
        self.requests.append(
            Both(real=real, index=self.count, tokens=prompt_tokens(self.count, spec))
        )
        self.count += 1

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        """Allocate for the next tokens of a request, and have them computed."""
        request = data.draw(st.sampled_from(self.requests))
        manager = self.engine.manager
        hits: list[int] = []
        real_hits = None
        if not request.blocks:
            real_hits, found, _ = manager.get_computed_blocks(request.real)
            hits = self.found(request)
            assert [block.block_id - 1 for block in real_hits.blocks[0]] == hits
            assert found == len(hits) * SIZE
        start = request.computed + len(hits) * SIZE
        new = data.draw(st.integers(1, len(request.tokens) - start))
        missing = -(-(start + new) // SIZE) - len(hits) - len(request.blocks)
        revived = sum(self.ours.references[block] == 0 for block in hits)
        got = manager.allocate_slots(request.real, new, len(hits) * SIZE, real_hits)
        if max(missing, 0) + revived > self.ours.count_free():
            assert got is None
            return
        for block in hits:
            self.ours.touch(block)
        added = self.ours.allocate(max(missing, 0))
        request.cached = request.cached or len(hits)
        request.blocks += hits + added
        assert [block.block_id - 1 for block in got.blocks[0]] == added
        request.computed = start + new
        request.real.num_computed_tokens = request.computed
        self.offer(request)
        if request.computed == len(request.tokens):
            token = output_token(request.index, len(request.tokens))
            request.tokens.append(token)
            request.real.append_output_token_ids(token)

    def found(self, request: Both) -> list[int]:
        hits: list[int] = []
        while (len(hits) + 1) * SIZE < len(request.tokens):
            block = self.ours.find(tuple(request.tokens[: (len(hits) + 1) * SIZE]))
            if block is None:
                break
            hits.append(block)
        return hits

    def offer(self, request: Both) -> None:
        for place in range(request.cached, request.computed // SIZE):
            content = tuple(request.tokens[: (place + 1) * SIZE])
            self.ours.cache(request.blocks[place], content)
            digest = request.real.block_hashes[place]
            assert self.hashes.setdefault(content, digest) == digest
        request.cached = max(request.cached, request.computed // SIZE)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        self.release(request)
        request.computed = request.cached = request.real.num_computed_tokens = 0

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request)
        self.release(request)

    def release(self, request: Both) -> None:
        self.ours.free(reversed(request.blocks))
        request.blocks = []
        self.engine.manager.free(request.real)

    @invariant()
    def they_agree(self) -> None:
        type(self).operations += 1
        free = [b.block_id - 1 for b in self.real.free_block_queue.get_all_free_blocks()]
        assert tuple(free) == self.ours.free_blocks
        assert self.real.get_num_free_blocks() == self.ours.count_free()
        assert [block.ref_cnt for block in self.real.blocks[1:]] == self.ours.references
        for block, references in enumerate(self.ours.references):
            content = self.ours.content(block)
            digest = self.real.blocks[block + 1].block_hash
            expected = None if content is None else self.hashes[content]
            assert (None if digest is None else digest[: len(expected or b"")]) == expected
            assert self.recorder.holders[GPU].get(block + 1, 0) == references
        for content, digest in self.hashes.items():
            real = self.real.get_cached_block(digest, [0])
            assert (real[0].block_id - 1 if real else None) == self.ours.find(content)
        for request in self.requests:
            table = self.engine.table(request.real.request_id) or ()
            assert table == tuple(block + 1 for block in request.blocks)


@contextmanager
def a_loaded_vllm() -> Iterator[None]:
    with loaded(a_tree(CURRENT), SELECTION) as load:
        Pools.load = staticmethod(load)  # type: ignore[arg-type]
        Pools.operations = 0
        Pools().teardown()
        # Hypothesis asks sys.modules whether there is a numpy; what stands for it here is none.
        absent = {name: sys.modules.pop(name) for name in ("numpy",) if name in sys.modules}
        yield
        sys.modules.update(absent)


def compared(examples: int) -> int:
    """How many operations were compared."""
    with a_loaded_vllm():
        run_state_machine_as_test(
            Pools,
            settings=settings(
                max_examples=examples,
                stateful_step_count=60,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    return Pools.operations


def test_random_operations_leave_both_pools_in_the_same_state() -> None:
    assert compared(60) > 2_000


@pytest.mark.slow
def test_ten_thousand_random_operations_leave_both_pools_in_the_same_state() -> None:
    assert compared(260) > 10_000
