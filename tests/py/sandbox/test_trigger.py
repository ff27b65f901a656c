"""Each trigger meets its condition with the smallest load, and brings the options that it needs."""

import pytest
from tests.py.support.vllm_trees import CURRENT, OLD, a_tree, driven

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import (
    Generation,
    Outcome,
    Parameters,
    RequestSpec,
    SandboxRun,
    ViolationKind,
)
from vllm_forensics.sandbox.trigger import Trigger, conditions, triggered

pytestmark = pytest.mark.xdist_group("vllm-trees")


def met(
    trigger: Trigger, version: str, parameters: Parameters
) -> tuple[Parameters, tuple[RequestSpec, ...], SandboxRun]:
    generation = Generation.REFERENCE if version == "reference" else a_tree(version).generation
    parameters = conditions(trigger, parameters, generation)
    load = triggered(trigger, parameters, generation)
    return parameters, load, driven(version, parameters, load)


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize("blocks", [5, 100, 101, 1000])
def test_exhaustion_needs_more_blocks_than_there_are_and_no_request_does(
    generation: Generation, blocks: int
) -> None:
    parameters = Parameters(gpu_blocks=blocks)
    usable = blocks - (generation is Generation.V1)

    load = triggered(Trigger.EXHAUSTION, parameters, generation)

    # The last token of all is never written: it needs no block.
    needed = [-(-(spec.prompt_len + spec.max_tokens - 1) // 16) for spec in load]
    assert sum(needed) > usable
    assert max(needed) <= usable


@pytest.mark.parametrize("gpu_blocks", [24, 100, 333])
def test_swap_exhaustion_kills_an_engine_in_the_first_step_that_must_swap(gpu_blocks: int) -> None:
    parameters, load, result = met(
        Trigger.SWAP_EXHAUSTION, OLD, Parameters(gpu_blocks=gpu_blocks, cpu_blocks=9)
    )

    assert (parameters.best_of, parameters.cpu_blocks) == (2, 9)
    assert len(load) == 2
    assert result.outcome is Outcome.RAISED
    assert result.error is not None
    assert "lack of CPU swap space" in result.error


def test_enough_swap_space_is_no_condition_for_its_exhaustion() -> None:
    with pytest.raises(UsageError) as error:
        met(Trigger.SWAP_EXHAUSTION, OLD, Parameters(gpu_blocks=24, cpu_blocks=20))

    assert error.value.remedy == "give --cpu-blocks 11 or fewer, or more --gpu-blocks"


@pytest.mark.parametrize(("window", "size"), [(64, 16), (32, 16), (64, 8), (48, 16)])
def test_a_window_that_comes_round_under_two_continuations_ends_in_a_double_free(
    window: int, size: int
) -> None:
    _, load, result = met(
        Trigger.FORK_WINDOW, OLD, Parameters(sliding_window=window, block_size=size)
    )

    assert len(load) == 1
    assert result.outcome is Outcome.RAISED
    assert result.error is not None
    assert result.error.startswith("ValueError: Double free!")
    kinds = {violation.kind for violation in result.violations}
    assert {ViolationKind.TWO_WRITERS, ViolationKind.DOUBLE_FREE} <= kinds


def test_one_token_less_and_the_window_does_not_come_round() -> None:
    parameters, (spec,), _ = met(Trigger.FORK_WINDOW, OLD, Parameters())
    shorter = RequestSpec(id="0", prompt_len=spec.prompt_len, max_tokens=spec.max_tokens - 1)

    result = driven(OLD, parameters, (shorter,))

    assert result.outcome is Outcome.VIOLATION
    assert result.error is None


@pytest.mark.parametrize("version", ["reference", CURRENT])
@pytest.mark.parametrize("blocks", [3, 10, 100])
def test_blocks_of_a_request_that_is_given_up_in_flight_go_to_the_one_that_waits(
    version: str, blocks: int
) -> None:
    parameters, _, result = met(Trigger.ABORT_IN_FLIGHT, version, Parameters(gpu_blocks=blocks))

    assert parameters.async_scheduling
    assert result.steps[0].waiting == 1
    assert result.finished == ("0", "2")
    assert result.outcome is Outcome.FINISHED
    assert result.violations == ()


@pytest.mark.parametrize(
    ("trigger", "generation", "remedy"),
    [
        (Trigger.SWAP_EXHAUSTION, Generation.V1, "give --vllm 0.4.2"),
        (Trigger.FORK_WINDOW, Generation.REFERENCE, "give --vllm 0.4.2"),
        (Trigger.ABORT_IN_FLIGHT, Generation.V0, "give --vllm 0.32.0, or leave --vllm out"),
    ],
)
def test_what_a_generation_cannot_meet_is_refused_with_what_to_type(
    trigger: Trigger, generation: Generation, remedy: str
) -> None:
    with pytest.raises(UsageError) as error:
        conditions(trigger, Parameters(), generation)

    assert error.value.remedy == remedy


@pytest.mark.parametrize("trigger", [Trigger.EXHAUSTION, Trigger.ABORT_IN_FLIGHT])
def test_a_pool_that_is_too_small_for_a_condition_is_refused(trigger: Trigger) -> None:
    with pytest.raises(UsageError, match="cannot be driven"):
        triggered(trigger, Parameters(gpu_blocks=1), Generation.REFERENCE)
