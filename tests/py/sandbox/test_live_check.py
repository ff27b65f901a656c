"""What a trace tells of an engine that is gone; the traces are of vLLM's own scheduler."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.cli.test_main import forensics
from tests.py.integration.tool import REPOSITORY
from tests.py.support.traced_engine import LAST_STEP, LOAD, lines_of, traced

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Outcome, SandboxRun, ViolationKind
from vllm_forensics.sandbox.live.check import check_trace

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMA = REPOSITORY / "docs" / "schemas" / "forensics.sandbox.1.json"
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def trace_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The newest file of a process that was driven so; each is driven once."""
    made: dict[str, Path] = {}

    def trace(how: str) -> Path:
        if how not in made:
            made[how] = traced(how, tmp_path_factory.mktemp(how))
        return made[how]

    return trace


def changed(file: Path, change: Callable[[Lines], None]) -> SandboxRun:
    """What is told of the trace with other lines in it."""
    lines = lines_of(file)
    change(lines)
    return check_trace([json.dumps(line).encode() + b"\n" for line in lines], "a trace")


def checked(file: Path) -> SandboxRun:
    return changed(file, lambda lines: None)


@pytest.mark.parametrize("how", ["finish", "async"])
def test_a_healthy_engine_raises_no_alarm(how: str, trace_of: Callable[[str], Path]) -> None:
    run = checked(trace_of(how))

    assert run.outcome is Outcome.FINISHED
    assert run.violations == ()
    assert sorted(run.finished) == [spec.id for spec in LOAD]
    assert [step.number for step in run.steps] == list(range(len(run.steps)))
    assert max(step.gpu_used for step in run.steps) > 20
    assert run.blocks[0].free == run.blocks[0].usable == 39


def test_what_the_worker_had_when_the_process_died_is_named(
    trace_of: Callable[[str], Path],
) -> None:
    run = checked(trace_of("segv"))

    assert run.outcome is Outcome.CUT
    assert f"the worker had step {LAST_STEP}, 6 tokens of r0, r1, r2, r3 and 2 more" in run.why
    assert "or it still runs" in run.why
    assert {state.id for state in run.requests} == {spec.id for spec in LOAD}
    [chain] = run.chains
    kinds = [event.kind for event in chain.events]
    assert kinds[0] is EventKind.ALLOCATE
    assert kinds[-1] is EventKind.USE
    assert chain.events[-1].last_step == LAST_STEP


def test_a_double_free_that_vllm_does_not_notice_is_told_with_the_block_s_life(
    trace_of: Callable[[str], Path],
) -> None:
    run = checked(trace_of("raise"))

    first = run.violations[0]
    assert run.outcome is Outcome.RAISED
    assert run.error is not None
    assert run.error.startswith("AssertionError at vllm/v1/core/block_pool.py:")
    assert first.kind is ViolationKind.DOUBLE_FREE
    assert first.chain is not None
    assert first.chain.events[0].function is not None
    assert [e.kind for e in first.chain.events][-2:] == [EventKind.FREE, EventKind.FREE]


def test_a_use_after_a_free_is_seen_although_nothing_was_raised(
    trace_of: Callable[[str], Path],
) -> None:
    def free_in_the_middle(lines: Lines) -> None:
        at = next(n for n, line in enumerate(lines) if line["kind"] == "step" and line["step"] == 3)
        block = next(line["block"] for line in lines if line["kind"] == "allocate")
        event = {"kind": "free", "pool": "gpu", "block": block, "step": 3, "generation": 1}
        lines[at:at] = [event] * sum(
            line["kind"] in {"allocate", "touch"} and line["block"] == block for line in lines[:at]
        )

    run = changed(trace_of("finish"), free_in_the_middle)

    kinds = {violation.kind for violation in run.violations}
    assert run.outcome is Outcome.VIOLATION
    assert {ViolationKind.USE_AFTER_FREE, ViolationKind.DOUBLE_FREE} <= kinds
    assert min(violation.step for violation in run.violations) == 4


def test_blocks_that_nobody_gives_back_are_a_leak(trace_of: Callable[[str], Path]) -> None:
    def keep_one(lines: Lines) -> None:
        lines.remove(next(line for line in reversed(lines) if line["kind"] == "free"))

    run = changed(trace_of("finish"), keep_one)

    [leak] = run.violations
    assert leak.kind is ViolationKind.LEAK
    assert run.outcome is Outcome.VIOLATION


def test_a_later_segment_is_checked_from_what_was_held_at_its_start(
    trace_of: Callable[[str], Path],
) -> None:
    run = checked(trace_of("long"))

    assert run.violations == ()
    assert run.outcome is Outcome.FINISHED
    assert "are in an earlier segment, or cut off" in run.why
    assert run.steps[0].number > 100


def test_a_trace_that_is_cut_in_the_middle_of_a_line_tells_the_rest(
    trace_of: Callable[[str], Path],
) -> None:
    whole = trace_of("segv").read_bytes()

    run = check_trace(whole[:-40].splitlines(keepends=True), "a trace")

    assert len(run.steps) == LAST_STEP
    assert "1 line cannot be read" in run.why


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}\n",
        b'{"kind": "run", "schema": "forensics.sandbox_events/1"}\n',
        b'{"kind": "allocate", "block": 1}\n',
        b"\x00\xff\n" * 3,
    ],
)
def test_what_is_no_trace_is_refused(damage: bytes) -> None:
    with pytest.raises(EvidenceError, match="does not begin as the trace of a live vLLM"):
        check_trace(damage.splitlines(keepends=True), "file")


@pytest.mark.parametrize("blocks", [0, -1, 1 << 40])
def test_a_pool_that_nobody_runs_is_refused(blocks: int, trace_of: Callable[[str], Path]) -> None:
    def large(lines: Lines) -> None:
        lines[0]["parameters"]["gpu_blocks"] = blocks

    with pytest.raises(EvidenceError, match="parameters that nobody runs"):
        changed(trace_of("finish"), large)


def test_the_command_tells_all_traces_of_a_folder(trace_of: Callable[[str], Path]) -> None:
    folder = trace_of("segv").parent

    ended = forensics("sandbox", "show", str(folder))
    answer = forensics("sandbox", "show", str(folder), "--format", "json")

    found = json.loads(answer.out)
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert (ended.status, answer.status) == (1, 1)
    assert ended.out.startswith(f"cut at step {LAST_STEP}   0 of 6 requests done")
    assert found["outcome"] == "cut"
    assert found["unfinished"] == [spec.id for spec in LOAD]


def test_the_command_is_content_with_a_healthy_trace(trace_of: Callable[[str], Path]) -> None:
    ended = forensics("sandbox", "show", str(trace_of("finish")))

    assert ended.status == 0
    assert ended.out.startswith("finishes   6 of 6 requests done")


def test_a_folder_without_traces_says_how_to_get_one(tmp_path: Path) -> None:
    ended = forensics("sandbox", "show", str(tmp_path))

    assert ended.status == 2
    assert "VLLM_FORENSICS_TRACE=" in ended.err
