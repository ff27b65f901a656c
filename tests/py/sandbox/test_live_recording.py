"""A live engine's trace is driven again, and gives the same events block by block."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.py.cli.test_main import forensics
from tests.py.support.traced_engine import LAST_STEP, LOAD, traced
from tests.py.support.vllm_trees import CURRENT, opener

from vllm_forensics.errors import EvidenceError
from vllm_forensics.investigate.sandbox_recording import read_recording
from vllm_forensics.model.event import Event
from vllm_forensics.model.sandbox import Outcome, Parameters
from vllm_forensics.model.sandbox_recording import Origin, Recording
from vllm_forensics.sandbox.collector import recorded
from vllm_forensics.sandbox.live.recording import recording_of
from vllm_forensics.sandbox.run import run

pytestmark = pytest.mark.xdist_group("vllm-trees")


@pytest.fixture(scope="module")
def trace_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def trace(how: str) -> Path:
        if how not in made:
            made[how] = traced(how, tmp_path_factory.mktemp(how))
        return made[how]

    return trace


def again(recording: Recording) -> Recording:
    """The recording of a run of the sandbox with the same load."""
    parameters = recording.parameters
    assert isinstance(parameters, Parameters)
    driven, result = recorded(
        lambda recorder: run(opener(CURRENT), parameters, recording.load, recorder=recorder),
        "again",
    )
    assert result.outcome is Outcome.FINISHED, result.why
    return driven


def told(recording: Recording) -> list[list[Event]]:
    """All events of each step, without where in a vLLM they were seen."""
    return [
        [replace(event, function=None, file=None, line=None) for event in step.events]
        for step in recording.steps
    ]


@pytest.mark.parametrize("how", ["finish", "turns", "abort", "async"])
def test_the_same_version_does_the_same_to_every_block(
    how: str, trace_of: Callable[[str], Path]
) -> None:
    live = read_recording(str(trace_of(how)))

    driven = again(live)

    assert live.origin is Origin.LIVE
    assert sum(map(len, told(live))) > 60
    assert told(driven) == told(live)
    assert [step.scheduled for step in driven.steps] == [step.scheduled for step in live.steps]


def test_what_one_request_put_out_is_found_by_the_next_that_repeats_it(
    trace_of: Callable[[str], Path],
) -> None:
    live = read_recording(str(trace_of("turns")))

    first, second = (next(s for s in live.load if s.id == name) for name in ("first", "second"))
    assert second.contents[: len(first.contents)] == first.contents
    starts = [s.start for step in live.steps for s in step.scheduled or () if s.request == "second"]
    assert starts[0] > first.prompt_len


def test_a_request_that_stopped_early_is_driven_with_the_output_that_it_had(
    trace_of: Callable[[str], Path],
) -> None:
    lines = [json.loads(line) for line in trace_of("finish").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "request":
            line["output"] = 400

    live = recording_of([json.dumps(line).encode() for line in lines], "trace")

    assert {spec.max_tokens for spec in live.load} == {LOAD[0].max_tokens}


def test_a_step_that_was_not_answered_is_no_complete_one(trace_of: Callable[[str], Path]) -> None:
    live = read_recording(str(trace_of("segv")))

    assert [step.completed for step in live.steps] == [True] * LAST_STEP + [False]
    assert live.steps[-1].scheduled is not None
    assert {spec.max_tokens for spec in live.load} == {LOAD[0].max_tokens}


def test_a_trace_without_its_beginning_is_shown_but_not_driven(
    trace_of: Callable[[str], Path],
) -> None:
    with pytest.raises(EvidenceError, match="what was before decides too"):
        read_recording(str(trace_of("long")))


def test_the_commands_that_take_a_recording_take_a_trace(trace_of: Callable[[str], Path]) -> None:
    trace = str(trace_of("finish"))

    alike = forensics("sandbox", "diff", trace, f"vllm={CURRENT}")
    smaller = forensics("sandbox", "diff", trace, f"vllm={CURRENT} gpu-blocks=20")

    assert (alike.status, smaller.status) == (0, 1)
    assert alike.out.startswith("alike   the same decisions, and the same block numbers")
    assert smaller.out.startswith("first difference at step")


def lines_with(live: dict[str, Any], file: Path) -> list[bytes]:
    first, *rest = file.read_bytes().splitlines()
    header = json.loads(first)
    header["live"] |= live
    return [json.dumps(header).encode(), *rest]


@pytest.mark.parametrize(
    ("live", "said"),
    [
        ({"connector": "NixlConnector"}, "NixlConnector moves no blocks"),
        ({"speculative_tokens": 3}, "no tokens are drafted"),
        ({"groups": [{"type": "Full", "block_size": 16}] * 2}, "several groups of layers"),
    ],
)
def test_what_a_sandbox_does_otherwise_than_the_live_engine_is_said(
    live: dict[str, Any], said: str, trace_of: Callable[[str], Path]
) -> None:
    [assumed] = recording_of(lines_with(live, trace_of("finish")), "trace").assumed

    assert said in assumed
