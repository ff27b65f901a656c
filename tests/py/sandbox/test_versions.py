"""One loader for every second engine since 0.8, and what one of them does to two requests."""

from dataclasses import replace

import pytest
from tests.py.support.vllm_trees import TEXTBOOK, driven, opener

from vllm_forensics.model.sandbox import Outcome, Parameters, Policy, RequestSpec, ViolationKind
from vllm_forensics.model.sandbox_explore import Bounds
from vllm_forensics.sandbox.explore import Explorer
from vllm_forensics.sandbox.load import uniform

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


@pytest.mark.parametrize("version", ["0.11.0", "0.14.0"])
def test_until_0_14_a_request_that_is_given_up_loses_the_blocks_that_are_being_loaded(
    version: str,
) -> None:
    parameters = Parameters(gpu_blocks=6, connector=1)
    load = uniform(3, 40, 3)

    usual = driven(version, parameters, load)
    found = Explorer(opener(version), parameters, load).explore(Bounds())
    actions = tuple(happening.action for happening in found.sequence)
    later = Explorer(opener("0.20.2"), parameters, load).play(actions)

    assert usual.outcome is Outcome.FINISHED
    assert usual.violations == ()
    # The connector goes on writing into blocks that are handed out to others. Nothing is raised.
    assert [str(action) for action in actions] == ["schedule", "abort 0", "loaded 0"]
    assert found.error is None
    assert found.violations[0].kind is ViolationKind.USE_AFTER_FREE
    assert (later.violations, later.error) == ((), None)


@pytest.mark.parametrize("version", ["0.11.0", "0.14.0", "0.20.2", "0.26.0"])
@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(gpu_blocks=60, async_scheduling=True),
        Parameters(gpu_blocks=60, spec_tokens=2),
        Parameters(gpu_blocks=100, sliding_window=40, hybrid=True),
        Parameters(gpu_blocks=60, connector=3),
    ],
)
def test_what_a_step_in_flight_drafts_layers_and_a_connector_do_is_no_alarm(
    version: str, parameters: Parameters
) -> None:
    load = tuple(replace(spec, abort_after=None) for spec in MIXED)

    result = driven(version, parameters, load)

    assert [violation.message for violation in result.violations] == []
    assert result.outcome is Outcome.FINISHED
