"""What unmodified vLLMs do: the textbook case, what died in 0.4.2, what stays silent today."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.py.support.vllm_trees import CURRENT, OLD, OLDEST, TEXTBOOK, a_tree, driven

from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.errors import ForensicsError, UsageError
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import (
    Generation,
    Outcome,
    Parameters,
    Policy,
    RequestSpec,
    SandboxRun,
    ViolationKind,
)
from vllm_forensics.sandbox import recorder
from vllm_forensics.sandbox.engine.interface import Engine
from vllm_forensics.sandbox.engine.v0 import opened_v0
from vllm_forensics.sandbox.load import drawn, uniform
from vllm_forensics.sandbox.run import run
from vllm_forensics.sandbox.trigger import Trigger, triggered

pytestmark = pytest.mark.xdist_group("vllm-trees")


def kinds(result: SandboxRun) -> set[ViolationKind]:
    return {violation.kind for violation in result.violations}


# Textbook: ten prompts of 11 blocks, 100 blocks. All engines run nine, and keep the tenth waiting:
# nobody refuses. They differ in what is theirs to use: the reference has all 100 blocks, v1 keeps
# one as null block, v0 holds a hundredth back when it admits. Nine prompts hold 99 blocks, so the
# twelfth block of a growing request makes the last one give way, once, in each of them.
@pytest.mark.parametrize(
    ("version", "usable"), [("reference", 100), (CURRENT, 99), (OLD, 100), (OLDEST, 100)]
)
def test_of_ten_prompts_nine_run_at_once_and_the_tenth_waits(version: str, usable: int) -> None:
    result = driven(version, Parameters(gpu_blocks=100), TEXTBOOK)

    assert result.outcome is Outcome.FINISHED
    assert result.violations == ()
    first = result.steps[0]
    assert (first.running, first.waiting, first.gpu_used) == (9, 1, 99)
    assert len(result.finished) == 10
    assert result.finished[-1] == "9"
    assert result.preemptions == 1
    assert [step.preempted for step in result.steps if step.preempted] == [("8",)]
    (pool,) = [counts for counts in result.blocks if counts.pool == "gpu"]
    assert (pool.usable, pool.free) == (usable, usable)


def test_a_run_says_which_vllm_it_drove() -> None:
    new, old = (driven(version, Parameters(), TEXTBOOK) for version in (CURRENT, OLD))

    assert new.tree == a_tree(CURRENT)
    assert new.tree is not None
    assert new.tree.version == CURRENT
    assert new.engine is Generation.V1
    assert old.tree is not None
    assert old.tree.version == OLD
    assert old.engine is Generation.V0


@pytest.mark.parametrize("version", [OLD, OLDEST])
def test_three_continuations_exhaust_the_swap_space_and_kill_the_engine(version: str) -> None:
    parameters = Parameters(gpu_blocks=24, cpu_blocks=8, best_of=3)

    result = driven(version, parameters, uniform(4, 60, 200))

    assert result.outcome is Outcome.RAISED
    assert result.error is not None
    assert result.error.startswith("RuntimeError: Aborted due to the lack of CPU swap space")
    assert len(result.steps) == 5
    assert "request 2, which holds 6 GPU blocks" in result.why
    assert "4 of 8 CPU blocks" in result.why
    assert result.raised_at[-1].endswith("_swap_out")
    told = [event.kind for event in result.chains[0].events]
    assert told[0] is EventKind.ALLOCATE
    assert told.count(EventKind.FORK) == 2
    assert told[-1] is EventKind.PREEMPT


def test_with_one_continuation_the_same_load_is_healthy() -> None:
    parameters = Parameters(gpu_blocks=24, cpu_blocks=8, best_of=1)

    result = driven(OLD, parameters, uniform(4, 60, 200))

    assert result.outcome is Outcome.FINISHED
    assert result.violations == ()


def test_with_a_window_two_continuations_write_one_block_and_free_it_twice() -> None:
    parameters = Parameters(gpu_blocks=200, best_of=2, sliding_window=64)

    result = driven(OLD, parameters, uniform(1, 200, 200))

    assert result.outcome is Outcome.RAISED
    assert result.error is not None
    assert result.error.startswith("ValueError: Double free!")
    both = [v for v in result.violations if v.kind is ViolationKind.TWO_WRITERS]
    # One block of the ring after the other; the engine notices nothing until it frees them.
    assert sum(violation.times for violation in both) == 143
    assert min(violation.step for violation in both) == 57
    assert len(result.steps) == 199
    (double,) = [v for v in result.violations if v.kind is ViolationKind.DOUBLE_FREE]
    assert double.chain is not None
    assert [event.kind for event in double.chain.events][-2:] == [EventKind.FREE, EventKind.FREE]


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(gpu_blocks=200, best_of=2),
        Parameters(gpu_blocks=200, sliding_window=64),
        Parameters(gpu_blocks=200, best_of=2, block_manager=2),
        Parameters(gpu_blocks=60, cpu_blocks=60, best_of=2),
        Parameters(gpu_blocks=60, prefix_caching=True),
        Parameters(gpu_blocks=200, block_manager=2, prefix_caching=True),
        Parameters(gpu_blocks=200, block_manager=2, prefix_caching=True, best_of=2),
        Parameters(gpu_blocks=60, chunked_prefill=True, max_batched_tokens=100),
    ],
)
def test_healthy_runs_of_the_first_engine_raise_no_alarm(parameters: Parameters) -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n * 2, prompt_len=100 + n, max_tokens=70, prefix=48)
        for n in range(8)
    )

    result = driven(OLD, parameters, load)

    assert [violation.message for violation in result.violations] == []
    assert result.outcome is Outcome.FINISHED
    assert len(result.finished) == 8


def test_a_swapped_request_that_can_never_come_back_is_dropped_and_its_blocks_leak() -> None:
    parameters = Parameters(gpu_blocks=50, cpu_blocks=400, block_size=1, best_of=2)

    result = driven(OLD, parameters, uniform(1, 6, 46))

    assert result.error is None
    assert result.refused == ("0",)
    assert result.finished == ()
    (leak,) = [v for v in result.violations if v.kind is ViolationKind.LEAK]
    assert leak.pool == "cpu"
    assert "50 blocks of the cpu pool are still held" in leak.message
    assert leak.chain is not None
    told = [(e.kind, e.request) for e in leak.chain.events]
    assert told == [(EventKind.ALLOCATE, "0"), (EventKind.SWAP, "0")]


@pytest.mark.parametrize(
    ("version", "parameters", "why"),
    [
        (
            "reference",
            Parameters(max_batched_tokens=64),
            "its 170 tokens must be computed in one step, and a step takes 64",
        ),
        (
            CURRENT,
            Parameters(max_batched_tokens=64, chunked_prefill=False),
            "its 170 tokens must be computed in one step, and a step takes 64",
        ),
        (
            OLD,
            Parameters(best_of=3, max_seqs=2),
            "it is continued 3 times, and a step takes 2 sequences",
        ),
    ],
)
def test_what_waits_for_something_else_than_blocks_is_told_apart(
    version: str, parameters: Parameters, why: str
) -> None:
    result = driven(version, parameters, TEXTBOOK)

    assert result.outcome is Outcome.STALLED
    assert result.why.endswith(f"are free: enough, but {why}")


def test_the_second_manager_with_a_cache_dies_of_its_own_assertion_in_a_small_pool() -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n * 2, prompt_len=100 + n, max_tokens=70, prefix=48)
        for n in range(8)
    )
    parameters = Parameters(gpu_blocks=60, block_manager=2, prefix_caching=True)

    result = driven(OLD, parameters, load)

    assert result.outcome is Outcome.RAISED
    assert result.error == "AssertionError"
    assert result.raised_at[-1].endswith("allocate_mutable")
    assert result.violations == ()


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(gpu_blocks=60),
        Parameters(gpu_blocks=30),
        Parameters(gpu_blocks=60, prefix_caching=False),
        Parameters(gpu_blocks=60, sliding_window=40),
        Parameters(gpu_blocks=60, sliding_window=40, max_batched_tokens=64),
        Parameters(gpu_blocks=60, max_batched_tokens=50),
        Parameters(gpu_blocks=40, policy=Policy.PRIORITY),
        Parameters(gpu_blocks=40, policy=Policy.PRIORITY, max_batched_tokens=64),
        Parameters(gpu_blocks=400, block_size=1),
        Parameters(gpu_blocks=40, async_scheduling=True),
        Parameters(gpu_blocks=40, async_scheduling=True, policy=Policy.PRIORITY),
        Parameters(gpu_blocks=60, async_scheduling=True, sliding_window=40),
        Parameters(gpu_blocks=60, spec_tokens=3),
        Parameters(gpu_blocks=40, spec_tokens=3, max_batched_tokens=64),
        Parameters(gpu_blocks=60, spec_tokens=2, sliding_window=40),
        Parameters(gpu_blocks=60, hybrid=True, sliding_window=40),
        Parameters(gpu_blocks=100, hybrid=True, sliding_window=40, max_batched_tokens=50),
        Parameters(gpu_blocks=60, hybrid=True, sliding_window=40, async_scheduling=True),
        Parameters(gpu_blocks=100, hybrid=True, sliding_window=40, spec_tokens=3),
        Parameters(gpu_blocks=40, connector=2),
        Parameters(gpu_blocks=40, connector=3, async_scheduling=True),
        Parameters(gpu_blocks=40, connector=7, async_scheduling=True, prefix_caching=False),
        Parameters(gpu_blocks=60, connector=3, spec_tokens=2),
        Parameters(gpu_blocks=60, connector=3, sliding_window=40),
    ],
)
def test_healthy_runs_of_the_second_engine_raise_no_alarm(parameters: Parameters) -> None:
    load = tuple(
        RequestSpec(
            id=str(n),
            arrival=n * 3,
            prompt_len=100 + n * 7,
            max_tokens=60,
            prefix=64,
            priority=-n % 3,
            abort_after=n * 3 + 20 if n % 5 == 4 else None,
        )
        for n in range(14)
    )

    result = driven(CURRENT, parameters, load)

    assert [violation.message for violation in result.violations] == []
    assert result.outcome is Outcome.FINISHED
    assert len(result.finished) >= 12


@pytest.mark.parametrize(
    ("batch", "needed", "windowed"), [(2048, 20, 10), (48, 18, 8), (40, 18, 8), (32, 17, 7)]
)
def test_a_stall_counts_the_blocks_of_all_groups_of_layers(
    batch: int, needed: int, windowed: int
) -> None:
    def run_with(usable: int) -> SandboxRun:
        return driven(
            CURRENT,
            Parameters(
                gpu_blocks=usable + 1, hybrid=True, sliding_window=64, max_batched_tokens=batch
            ),
            uniform(1, 160, 1),
        )

    enough, short, tiny = run_with(needed), run_with(needed - 1), run_with(9)

    groups = f"(10 for layers that see everything, {windowed} for layers that see 64 tokens)"
    assert enough.outcome is Outcome.FINISHED
    assert short.outcome is Outcome.STALLED
    assert f"needs {needed} blocks of 16 tokens {groups}" in short.why
    assert short.why.endswith("1 short for layers that see 64 tokens, for ever")
    assert tiny.why.endswith(f"{needed - 9} short for layers that see everything, for ever")


@pytest.mark.parametrize(("batch", "needed"), [(2048, 10), (48, 8), (32, 7), (16, 6)])
def test_a_stall_counts_what_a_window_needs_within_one_step(batch: int, needed: int) -> None:
    def run_with(usable: int) -> SandboxRun:
        return driven(
            CURRENT,
            Parameters(gpu_blocks=usable + 1, sliding_window=64, max_batched_tokens=batch),
            uniform(1, 160, 1),
        )

    enough, short = run_with(needed), run_with(needed - 1)

    assert enough.outcome is Outcome.FINISHED
    assert f"needs {needed} blocks of 16 tokens; the pool has {needed - 1}" in short.why


def test_what_a_connector_loads_is_not_computed_and_what_it_sends_is_kept_meanwhile() -> None:
    load = uniform(1, 64, 4)

    plain = driven(CURRENT, Parameters(), load)
    moved = driven(CURRENT, Parameters(connector=5), load)

    scheduled = [step.scheduled_tokens for step in plain.steps]
    assert scheduled == [64, 1, 1, 1]
    scheduled = [step.scheduled_tokens for step in moved.steps]
    assert scheduled == [0, 0, 0, 0, 0, 0, 32, 1, 1, 1, 0, 0, 0, 0, 0]
    assert [step.gpu_used for step in moved.steps] == [2] * 6 + [4] + [5] * 7 + [0]
    assert moved.outcome is Outcome.FINISHED
    assert moved.violations == ()


def test_with_a_step_in_flight_a_token_is_asked_for_before_the_last_one_came() -> None:
    load = uniform(1, 64, 4)

    result = driven(CURRENT, Parameters(async_scheduling=True), load)

    # Its last step was scheduled before the end was known.
    assert [step.scheduled_tokens for step in result.steps] == [64, 1, 1, 1, 0]
    assert result.finished == ("0",)


def test_drafts_that_are_accepted_save_steps() -> None:
    load = uniform(1, 64, 40)

    plain = driven(CURRENT, Parameters(), load)
    drafted = driven(CURRENT, Parameters(spec_tokens=3), load)

    assert len(plain.steps) == 40
    assert len(drafted.steps) < 20
    assert drafted.violations == ()


def test_each_group_of_layers_has_blocks_of_its_own() -> None:
    load = uniform(1, 160, 60)

    everything = driven(CURRENT, Parameters(), load)
    window = driven(CURRENT, Parameters(sliding_window=32), load)
    both = driven(CURRENT, Parameters(sliding_window=32, hybrid=True), load)

    last = [result.steps[-2].gpu_used for result in (everything, window, both)]
    assert last == [14, 3, 17]


def test_a_shared_prefix_is_found_in_the_cache_and_held_by_many() -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n * 3, prompt_len=80, max_tokens=10, prefix=64)
        for n in range(4)
    )

    result = driven(CURRENT, Parameters(), load)

    # 80 tokens once, 16 for each that finds the other 64; one token for each of nine more steps.
    assert sum(step.scheduled_tokens for step in result.steps) == 80 + 3 * 16 + 4 * 9
    assert result.violations == ()


@pytest.mark.parametrize("version", ["reference", CURRENT, OLD])
def test_requests_that_come_together_may_share_what_one_of_them_computes(version: str) -> None:
    load = tuple(RequestSpec(id=str(n), prompt_len=80, max_tokens=10, prefix=64) for n in range(6))

    result = driven(version, Parameters(prefix_caching=True), load)

    assert result.outcome is Outcome.FINISHED
    assert result.violations == ()


@pytest.mark.parametrize("version", ["reference", CURRENT, OLD])
def test_a_prompt_that_is_wholly_in_the_cache_is_no_fault(version: str) -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n * 2, prompt_len=64, max_tokens=20, prefix=64)
        for n in range(4)
    )

    result = driven(version, Parameters(prefix_caching=True), load)

    assert result.outcome is Outcome.FINISHED
    assert result.violations == ()


def test_a_preemption_storm_is_counted_and_is_no_fault() -> None:
    result = driven(CURRENT, Parameters(gpu_blocks=30), uniform(20, 60, 100))

    assert result.outcome is Outcome.FINISHED
    assert result.preemptions > 10
    assert result.violations == ()


@pytest.mark.parametrize(
    ("version", "short"), [("reference", "the pool has 100: 25"), (CURRENT, "the pool has 99: 26")]
)
def test_a_prompt_larger_than_the_pool_stalls_without_an_error(version: str, short: str) -> None:
    result = driven(version, Parameters(gpu_blocks=100), uniform(1, 2000, 16))

    assert result.outcome is Outcome.STALLED
    assert result.error is None
    assert result.why.startswith("request 0 (2000 prompt tokens) needs 125 blocks of 16 tokens")
    assert f"{short} short" in result.why
    assert kinds(result) == {ViolationKind.STALL}


def test_the_first_engine_gives_such_a_prompt_up_and_says_nothing() -> None:
    result = driven(OLD, Parameters(gpu_blocks=100), uniform(1, 2000, 16))

    assert result.outcome is Outcome.FINISHED
    assert result.finished == ()
    assert result.refused == ("0",)


def test_a_request_that_outgrows_the_pool_alone_stalls_after_it_lost_its_place() -> None:
    parameters = Parameters(gpu_blocks=50)
    load = triggered(Trigger.LONE_GROWTH, parameters, Generation.V1)

    result = driven(CURRENT, parameters, load)

    assert result.outcome is Outcome.STALLED
    assert result.preemptions == 1
    assert "1 short" in result.why


@pytest.mark.parametrize("version", ["reference", CURRENT, OLD])
def test_the_smallest_load_that_exhausts_a_pool_makes_one_request_give_way(version: str) -> None:
    parameters = Parameters(gpu_blocks=64)
    generation = Generation.REFERENCE if version == "reference" else a_tree(version).generation
    load = triggered(Trigger.EXHAUSTION, parameters, generation)

    result = driven(version, parameters, load)

    assert result.outcome is Outcome.FINISHED
    assert result.preemptions == 1


def test_a_free_of_a_running_request_is_silent_and_the_worker_sees_it() -> None:
    def meddle(step: int, engine: Engine) -> None:
        if step == 4:
            inside: Any = engine
            inside.manager.free(inside.scheduler.requests["0"])

    result = driven(CURRENT, Parameters(), uniform(2, 40, 30), meddle)

    found = [v for v in result.violations if v.kind is ViolationKind.USE_AFTER_FREE]
    assert found[0].step == 4
    assert found[0].request == "0"
    assert found[0].chain is not None
    told = [event.kind for event in found[0].chain.events]
    assert EventKind.FREE in told
    assert told.index(EventKind.ALLOCATE) < told.index(EventKind.FREE)


def test_a_double_free_is_silent_in_the_pool_and_named_at_once() -> None:
    def meddle(step: int, engine: Engine) -> None:
        if step == 4:
            pool: Any = engine
            block = pool.pool.blocks[50]
            assert block.ref_cnt == 0
            pool.pool.free_blocks([block])

    result = driven(CURRENT, Parameters(), uniform(2, 40, 10), meddle)

    assert result.error is None
    found = {v.kind: v for v in result.violations}
    assert found[ViolationKind.DOUBLE_FREE].step == 4
    assert found[ViolationKind.DOUBLE_FREE].block == 50
    assert found[ViolationKind.REFERENCE_COUNT].block == 50


def test_blocks_that_are_taken_and_never_given_back_are_a_leak_at_the_end() -> None:
    def meddle(step: int, engine: Engine) -> None:
        if step == 3:
            inside: Any = engine
            inside.pool.get_new_blocks(5)

    result = driven(CURRENT, Parameters(), uniform(2, 40, 10), meddle)

    (leak,) = [v for v in result.violations if v.kind is ViolationKind.LEAK]
    assert "5 blocks" in leak.message
    assert leak.chain is not None
    assert leak.chain.events[0].kind is EventKind.ALLOCATE


def test_a_leak_that_starves_a_request_is_told_as_what_holds_it_up() -> None:
    def meddle(step: int, engine: Engine) -> None:
        if step == 0:
            inside: Any = engine
            inside.pool.get_new_blocks(95)

    result = driven(CURRENT, Parameters(), uniform(1, 100, 10), meddle)

    assert result.outcome is Outcome.STALLED
    assert "needs 7 blocks of 16 tokens; 4 are free, and 95 are held by nobody" in result.why


def test_an_error_in_our_own_wrappers_is_never_told_as_one_of_vllm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "Uses", None)

    with pytest.raises(ForensicsError, match="the sandbox cannot follow this vLLM: TypeError"):
        driven(CURRENT, Parameters(), TEXTBOOK)


def test_a_vllm_that_cannot_be_imported_is_said_to_be_that(tmp_path: Path) -> None:
    for name, text in {
        "__init__": "",
        "core/__init__": "",
        "core/scheduler": "import sys, (",
    }.items():
        path = tmp_path / "vllm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tree = find_tree(str(tmp_path), on_fetch=lambda what: None)

    with pytest.raises(ForensicsError, match="cannot follow this vLLM: SyntaxError"):
        run(partial(opened_v0, tree), Parameters(), TEXTBOOK)


def test_a_run_is_the_same_each_time() -> None:
    load = drawn(uniform(12, 90, 30), 3)

    first, second = (driven(CURRENT, Parameters(gpu_blocks=40), load) for _ in range(2))

    assert first == second


def test_what_a_generation_does_not_have_is_refused_with_what_to_type() -> None:
    for version, parameters in (
        (CURRENT, Parameters(best_of=2)),
        (CURRENT, Parameters(cpu_blocks=2)),
        (CURRENT, Parameters(gpu_blocks=1)),
        (CURRENT, Parameters(hybrid=True)),
        (CURRENT, Parameters(hybrid=True, sliding_window=32, connector=2)),
        (CURRENT, Parameters(async_scheduling=True, spec_tokens=2)),
        (OLD, Parameters(async_scheduling=True)),
        (OLD, Parameters(connector=2)),
        ("reference", Parameters(spec_tokens=2)),
        (OLD, Parameters(policy=Policy.PRIORITY)),
    ):
        with pytest.raises(UsageError) as error:
            driven(version, parameters, TEXTBOOK)

        assert "--" in error.value.remedy
