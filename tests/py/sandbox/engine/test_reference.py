"""Our own pool and scheduler: what the others are measured against must be exact."""

import threading

import pytest

from vllm_forensics.errors import UsageError
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Outcome, Parameters, Policy, RequestSpec
from vllm_forensics.sandbox.engine.reference import ReferenceEngine, opened_reference
from vllm_forensics.sandbox.engine.reference_pool import BlockError, ReferencePool
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.run import run


def a_pool(total: int = 8, *, caching: bool = False) -> ReferencePool:
    return ReferencePool(total, Recorder(), caching=caching)


def test_blocks_are_handed_out_in_order_and_the_last_freed_comes_back_first() -> None:
    pool = a_pool(6)

    first = pool.allocate(3)
    pool.free([1])
    pool.free([0])

    assert first == [0, 1, 2]
    assert pool.free_blocks == (0, 1, 3, 4, 5)


def test_a_block_that_can_be_found_again_goes_to_the_end_of_the_free_list() -> None:
    pool = a_pool(4, caching=True)
    (block,) = pool.allocate(1)
    pool.cache(block, (1, 2, 3))

    pool.free([block])

    assert pool.free_blocks == (1, 2, 3, 0)
    assert pool.find((1, 2, 3)) == block


def test_a_found_block_comes_back_to_life_and_is_lost_when_it_is_handed_out() -> None:
    pool = a_pool(2, caching=True)
    (block,) = pool.allocate(1)
    pool.cache(block, (1, 2, 3))
    pool.free([block])

    pool.touch(block)
    revived = pool.references[block]
    pool.free([block])
    pool.allocate(2)

    assert revived == 1
    assert pool.find((1, 2, 3)) is None


def test_more_blocks_than_are_free_are_refused_and_none_is_taken() -> None:
    pool = a_pool(2)

    with pytest.raises(BlockError, match="3 blocks asked for, 2 are free"):
        pool.allocate(3)

    assert pool.count_free() == 2


def test_a_free_block_without_content_cannot_be_held() -> None:
    with pytest.raises(BlockError, match="holds nothing"):
        a_pool().touch(3)


def test_two_threads_that_free_one_block_are_caught() -> None:
    for _ in range(50):
        pool = a_pool(4)
        (block,) = pool.allocate(1)
        start = threading.Barrier(2)
        caught: list[str] = []

        def free(
            pool: ReferencePool = pool,
            block: int = block,
            start: threading.Barrier = start,
            caught: list[str] = caught,
        ) -> None:
            start.wait()
            try:
                pool.free([block])
            except BlockError as error:
                caught.append(str(error))

        threads = [threading.Thread(target=free, name=f"freer-{n}") for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(caught) == 1
        assert "block 0 is freed twice" in caught[0]
        assert "freer-" in caught[0]
        assert sorted(pool.free_blocks) == [0, 1, 2, 3]


def test_a_double_free_is_on_record_before_it_is_refused() -> None:
    recorder = Recorder()
    pool = ReferencePool(2, recorder)
    seen: list[int] = []
    recorder.on_double_free.append(lambda name, block, request: seen.append(block))
    (block,) = pool.allocate(1)
    pool.free([block])

    with pytest.raises(BlockError):
        pool.free([block])

    assert seen == [block]
    kinds = [event.kind for event in recorder.chain("gpu", block).events]
    assert kinds == [EventKind.ALLOCATE, EventKind.FREE, EventKind.FREE]


def test_the_last_that_came_is_preempted_and_computed_anew() -> None:
    load = uniform(2, 64, 40)

    result = run(opened_reference, Parameters(gpu_blocks=10), load)

    assert result.outcome is Outcome.FINISHED
    assert result.finished == ("0", "1")
    assert [step.preempted for step in result.steps if step.preempted] == [("1",)]


def test_with_room_on_the_cpu_it_is_swapped_out_and_goes_on_where_it_was() -> None:
    load = uniform(2, 64, 40)

    swapped = run(opened_reference, Parameters(gpu_blocks=10, cpu_blocks=10), load)
    anew = run(opened_reference, Parameters(gpu_blocks=10), load)

    assert swapped.outcome is Outcome.FINISHED
    assert swapped.violations == ()
    assert max(step.cpu_used for step in swapped.steps) == 5
    computed, again = (sum(s.scheduled_tokens for s in run.steps) for run in (swapped, anew))
    assert computed == 2 * (64 + 39)
    assert again > computed
    assert [counts.free for counts in swapped.blocks] == [10, 10]


def test_a_swapped_request_that_is_aborted_gives_both_pools_back() -> None:
    load = (
        RequestSpec(id="0", prompt_len=64, max_tokens=90),
        RequestSpec(id="1", prompt_len=64, max_tokens=90, abort_after=40),
    )

    result = run(opened_reference, Parameters(gpu_blocks=10, cpu_blocks=10), load)

    assert result.steps[39].swapped == 1
    assert result.outcome is Outcome.FINISHED
    assert [counts.free for counts in result.blocks] == [10, 10]


def test_blocks_that_are_freed_together_are_handed_out_in_that_order() -> None:
    pool = a_pool(5, caching=True)
    pool.allocate(4)
    pool.cache(2, (7,))

    pool.free([3, 2, 0])

    assert pool.free_blocks == (3, 0, 4, 2)


def test_of_two_blocks_with_one_content_the_first_is_found_until_it_is_evicted() -> None:
    pool = a_pool(4, caching=True)
    pool.allocate(2)
    pool.cache(0, (7,))
    pool.cache(1, (7,))

    first = pool.find((7,))
    pool.evict(0)

    assert (first, pool.find((7,))) == (0, 1)
    assert pool.references[:2] == [1, 1]


def test_the_cache_is_emptied_only_while_nobody_holds_a_block() -> None:
    pool = a_pool(3, caching=True)
    (block,) = pool.allocate(1)
    pool.cache(block, (7,))

    refused = pool.reset_cache()
    pool.free([block])
    done = pool.reset_cache()

    assert (refused, done) == (False, True)
    assert pool.find((7,)) is None


def test_by_priority_a_later_request_runs_first() -> None:
    load = tuple(
        RequestSpec(id=name, prompt_len=64, max_tokens=4, priority=priority)
        for name, priority in (("late", 9), ("early", 1))
    )
    parameters = Parameters(gpu_blocks=5, policy=Policy.PRIORITY)

    result = run(opened_reference, parameters, load)

    assert result.finished == ("early", "late")


def test_a_shared_prefix_is_computed_once() -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n * 3, prompt_len=80, max_tokens=2, prefix=64)
        for n in range(2)
    )

    shared = run(opened_reference, Parameters(prefix_caching=True), load)
    apart = run(opened_reference, Parameters(), load)

    assert sum(step.scheduled_tokens for step in apart.steps) == 162
    assert sum(step.scheduled_tokens for step in shared.steps) == 162 - 64


def test_a_prompt_is_cut_into_chunks_where_that_is_asked_for() -> None:
    load = uniform(1, 100, 2)
    parameters = Parameters(chunked_prefill=True, max_batched_tokens=40)

    result = run(opened_reference, parameters, load)

    assert [step.scheduled_tokens for step in result.steps] == [40, 40, 20, 1]


def test_an_aborted_request_gives_its_blocks_back() -> None:
    load = (RequestSpec(id="0", prompt_len=64, max_tokens=400, abort_after=3),)

    result = run(opened_reference, Parameters(gpu_blocks=40), load)

    assert result.outcome is Outcome.FINISHED
    assert result.finished == ()
    assert result.blocks[0].free == 40


@pytest.mark.parametrize(
    "parameters",
    [Parameters(best_of=2), Parameters(sliding_window=64)],
)
def test_what_only_a_vllm_has_is_refused_with_what_to_type(parameters: Parameters) -> None:
    with pytest.raises(UsageError) as error:
        ReferenceEngine(parameters, Recorder())

    assert "--vllm" in error.value.remedy
