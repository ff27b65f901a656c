"""A planted fault is what it says: two notes of one fact, of which swapping updates one."""

import pytest

from vllm_forensics.model.sandbox import Outcome, Parameters, Plant, SandboxRun, ViolationKind
from vllm_forensics.sandbox.engine.reference import opened_reference
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.run import run


def ended(*, gpu_blocks: int, requests: int, max_tokens: int, cpu_blocks: int = 30) -> SandboxRun:
    parameters = Parameters(
        gpu_blocks=gpu_blocks, cpu_blocks=cpu_blocks, plant=Plant.SECOND_OCCUPANCY
    )
    return run(opened_reference, parameters, uniform(requests, 170, max_tokens))


def test_the_notes_part_when_a_request_is_swapped_out_and_kill_when_another_grows() -> None:
    result = ended(gpu_blocks=23, requests=2, max_tokens=40)

    (parted,) = result.violations
    assert parted.kind is ViolationKind.OCCUPANCY
    assert parted.step == 7
    assert [step.preempted for step in result.steps if step.preempted] == [("1",)]
    assert result.steps[7].preempted == ("1",)
    assert result.outcome is Outcome.RAISED
    assert len(result.steps) == 23


def test_notes_that_part_in_the_step_that_dies_are_told_too() -> None:
    result = ended(gpu_blocks=100, requests=10, max_tokens=16)

    (parted,) = result.violations
    assert result.outcome is Outcome.RAISED
    assert len(result.steps) == parted.step == 7


@pytest.mark.parametrize("gpu_blocks", [200, 100])
def test_where_nothing_is_swapped_the_two_notes_agree(gpu_blocks: int) -> None:
    result = ended(gpu_blocks=gpu_blocks, requests=10, max_tokens=16, cpu_blocks=0)

    assert result.outcome is Outcome.FINISHED
    assert result.violations == ()
