"""One loader for every second engine since 0.8, and what one of them does to two requests."""

import pytest
from tests.py.support.vllm_trees import TEXTBOOK, driven

from vllm_forensics.model.sandbox import Outcome, Parameters, Policy, RequestSpec, ViolationKind

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("vllm-trees")]
MIXED = tuple(
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


@pytest.mark.parametrize("version", ["0.8.5", "0.11.0", "0.14.0", "0.20.2", "0.26.0"])
def test_each_version_runs_the_textbook_case_and_mixed_loads_without_an_alarm(version: str) -> None:
    textbook = driven(version, Parameters(), TEXTBOOK)
    mixed = [
        driven(version, parameters, MIXED)
        for parameters in (
            Parameters(gpu_blocks=30),
            Parameters(gpu_blocks=60, prefix_caching=False),
            Parameters(gpu_blocks=60, sliding_window=40, max_batched_tokens=64),
        )
    ]

    assert (textbook.steps[0].running, textbook.preemptions) == (9, 1)
    for result in (textbook, *mixed):
        assert result.outcome is Outcome.FINISHED
        assert result.violations == ()


def test_by_priority_0_11_lets_two_requests_write_one_block() -> None:
    parameters = Parameters(gpu_blocks=40, policy=Policy.PRIORITY)

    result = driven("0.11.0", parameters, MIXED)

    # A request that was scheduled in this very step loses its place and its blocks to another, and
    # its count of tokens stays in what the worker is told. Nothing is raised.
    assert result.outcome is Outcome.VIOLATION
    assert result.error is None
    found = {violation.kind: violation for violation in result.violations}
    assert set(found) == {ViolationKind.USE_AFTER_FREE, ViolationKind.TWO_WRITERS}
    assert found[ViolationKind.TWO_WRITERS].step == 25
    assert found[ViolationKind.TWO_WRITERS].block == 25
    healthy = driven("0.14.0", parameters, MIXED)
    assert healthy.outcome is Outcome.FINISHED
