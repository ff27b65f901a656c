"""Orders of steps, transfers and aborts: a sound engine breaks in none of them.

Each mutant runs its load to the end without an alarm where things happen in the usual order.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.cli.test_main import Ended, forensics
from tests.py.support.vllm_trees import CURRENT, a_tree, opener, patched

from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.investigate.sandbox_explore import play_sequence
from vllm_forensics.model.sandbox import Outcome, Parameters, ViolationKind
from vllm_forensics.model.sandbox_explore import Action, ActionKind, Bounds, Exploration
from vllm_forensics.sandbox.engine.reference import ReferenceEngine, opened_reference
from vllm_forensics.sandbox.engine.v1 import opened_v1
from vllm_forensics.sandbox.explore import Explorer
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.run import run

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMA = (
    Path(__file__).resolve().parents[3] / "docs" / "schemas" / "forensics.sandbox_explore.1.json"
)
LOAD = uniform(3, 40, 3)
IN_FLIGHT = Parameters(gpu_blocks=6, async_scheduling=True)
MOVING = Parameters(gpu_blocks=6, async_scheduling=True, connector=1)


@pytest.mark.parametrize("version", ["reference", CURRENT])
@pytest.mark.parametrize("parameters", [Parameters(gpu_blocks=6), IN_FLIGHT])
def test_every_order_of_a_small_load_is_tried_and_none_breaks_a_rule(
    version: str, parameters: Parameters
) -> None:
    found = Explorer(opener(version), parameters, LOAD).explore(Bounds())

    assert found.healthy, found.sequence
    assert found.ended_by is None
    assert found.states > 60


@pytest.mark.parametrize(
    "parameters",
    [
        MOVING,
        Parameters(gpu_blocks=6, connector=1),
        Parameters(gpu_blocks=9, connector=1, async_scheduling=True, prefix_caching=False),
        Parameters(gpu_blocks=6, spec_tokens=2),
        Parameters(gpu_blocks=9, hybrid=True, sliding_window=16, async_scheduling=True),
    ],
)
def test_transfers_drafts_and_two_kinds_of_layers_break_no_rule_in_hundreds_of_states(
    parameters: Parameters,
) -> None:
    found = Explorer(opener(CURRENT), parameters, LOAD).explore(Bounds(states=250))

    assert found.healthy, found.sequence
    assert found.states >= 250 or found.ended_by is None


def test_the_same_search_finds_the_same_each_time() -> None:
    first, second = (
        Explorer(opener(CURRENT), MOVING, LOAD).explore(Bounds(states=150)) for _ in range(2)
    )

    assert first == second
    assert first.ended_by == "--states 150"


@dataclass(frozen=True, kw_only=True)
class Race:
    """A patch of the scheduler, and what happens in the order in which alone it breaks."""

    old: str
    new: str
    kind: ViolationKind | None
    """None: the engine raises."""
    needs: ActionKind
    parameters: Parameters = MOVING


RACES = {
    "blocks that are being loaded are freed with their request": Race(
        old="                delay_free_blocks = (\n"
        "                    request.request_id not in self.finished_recving_kv_req_ids\n"
        "                )",
        new="                delay_free_blocks = False",
        kind=ViolationKind.USE_AFTER_FREE,
        needs=ActionKind.ABORT,
    ),
    "blocks are freed while a step in flight writes them": Race(
        old="if multiple_inflight_batches and kv_transfer_config.is_kv_consumer:",
        new="if False:",
        kind=ViolationKind.TWO_WRITERS,
        needs=ActionKind.ABORT,
    ),
    "a request is taken for loaded when another one is": Race(
        old="            if request_id not in self.finished_recving_kv_req_ids:",
        new="            if not self.finished_recving_kv_req_ids:",
        kind=None,
        needs=ActionKind.LOADED,
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_that_the_usual_order_never_meets_is_told_by_its_shortest_order(
    name: str, tmp_path: Path
) -> None:
    race = RACES[name]
    tree = find_tree(
        str(patched(tmp_path, "sched/scheduler.py", race.old, race.new)),
        on_fetch=lambda what: None,
    )

    def opened(*given: Any) -> Any:
        return opened_v1(tree, *given)

    usual = run(opened, race.parameters, LOAD)
    found = Explorer(opened, race.parameters, LOAD).explore(Bounds())

    assert usual.outcome is Outcome.FINISHED
    assert usual.violations == ()
    if race.kind is None:
        assert found.error is not None
    else:
        assert race.kind in {violation.kind for violation in found.violations}
    kinds = [happening.action.kind for happening in found.sequence]
    assert race.needs in kinds
    assert kinds[0] is ActionKind.SCHEDULE
    # Without any one of its actions, what is left of the order breaks nothing.
    actions = tuple(happening.action for happening in found.sequence)
    for place in range(len(actions)):
        shorter = actions[:place] + actions[place + 1 :]
        played = Explorer(opened, race.parameters, LOAD).play(shorter)
        assert (played.violations, played.error) == ((), None)


def test_a_request_that_ends_while_the_next_step_has_it_too_is_an_order_of_its_own(
    tmp_path: Path,
) -> None:
    race = RACES["blocks are freed while a step in flight writes them"]
    tree = find_tree(
        str(patched(tmp_path, "sched/scheduler.py", race.old, race.new)),
        on_fetch=lambda what: None,
    )

    def explored(bounds: Bounds) -> Exploration:
        return Explorer(lambda *given: opened_v1(tree, *given), race.parameters, LOAD).explore(
            bounds
        )

    found = explored(Bounds(aborts=0))
    without = explored(Bounds(aborts=0, stops=0, states=200))

    assert {violation.kind for violation in found.violations} == {ViolationKind.TWO_WRITERS}
    assert Action(kind=ActionKind.STOP, request="0") in [h.action for h in found.sequence]
    assert without.healthy


@pytest.mark.parametrize("version", ["reference", "0.8.5", "0.14.0", CURRENT])
def test_an_output_that_ends_a_request_leaves_nothing_of_it(version: str) -> None:
    schedule = Action(kind=ActionKind.SCHEDULE)
    ends = (Action(kind=ActionKind.STOP, request=name) for name in "120")
    actions = tuple(action for end in ends for action in (schedule, end))

    played = Explorer(opener(version), Parameters(gpu_blocks=12), LOAD).play(actions)

    told = [happening.what for happening in played.happened[1::2]]
    assert told == ["step 0: 1 is done", "step 1: 2 is done", "step 2: 0 is done"]
    assert (played.violations, played.error) == ((), None)


def test_what_an_order_cannot_have_is_passed_over() -> None:
    played = Explorer(opened_reference, Parameters(gpu_blocks=6), LOAD).play(
        (
            Action(kind=ActionKind.COMPLETE),
            Action(kind=ActionKind.SCHEDULE),
            Action(kind=ActionKind.LOADED, request="0"),
        )
    )

    assert [str(happening.action) for happening in played.happened] == ["schedule"]
    assert played.violations == ()


def test_an_engine_that_never_goes_on_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceEngine, "_admit", lambda *given: False)

    found = Explorer(opened_reference, Parameters(gpu_blocks=6), LOAD).explore(Bounds())

    (stall,) = found.violations
    assert stall.kind is ViolationKind.STALL
    assert [happening.action.kind for happening in found.sequence] == [
        *[ActionKind.SCHEDULE, ActionKind.COMPLETE] * 3
    ]


def explore(*arguments: str) -> Ended:
    return forensics("sandbox", "explore", *arguments)


def test_the_command_says_how_much_was_tried() -> None:
    ended = explore("--quiet")

    assert ended.status == 0
    assert ended.out.startswith("nothing breaks")
    assert "all that there are" in ended.out
    assert ended.err == ""


def test_the_command_tells_the_order_and_writes_a_test_that_guards_it(tmp_path: Path) -> None:
    race = RACES["blocks that are being loaded are freed with their request"]
    tree = patched(tmp_path, "sched/scheduler.py", race.old, race.new)
    file = tmp_path / "test_order.py"
    options = ("--connector", "1", "--async-scheduling", "--vllm", str(tree), "--quiet")

    ended = explore(*options, "--emit-test", str(file))
    answer = json.loads(explore(*options, "--format", "json").out)
    broken, mended = (pytest_of(file, vllm) for vllm in ("", a_tree(CURRENT).root))

    jsonschema.validate(answer, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert ended.status == 1
    assert ended.out.startswith("use-after-free after ")
    assert "abort 0" in ended.out
    assert "● allocate" in ended.out
    assert answer["sequence"][0]["kind"] == "schedule"
    assert answer["healthy"] is False
    assert (broken, mended) == (1, 0)


def pytest_of(file: Path, vllm: str) -> int:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=file.parent,
        env={"FORENSICS_VLLM": vllm} if vllm else {},
        capture_output=True,
        check=False,
    )
    return ended.returncode


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--vllm", "0.4.2"), "does one thing after the other"),
        (("--requests", "40"), "32 or fewer"),
        (("--depth", "0"), "depth"),
    ],
)
def test_what_cannot_be_explored_says_what_to_give(arguments: tuple[str, ...], told: str) -> None:
    ended = explore(*arguments)

    assert ended.status == 2
    assert told in ended.err
    assert "Traceback" not in ended.err


def test_a_sequence_is_played_from_its_words() -> None:
    played = play_sequence(None, Parameters(gpu_blocks=6), LOAD, ("schedule", "abort 0"))

    assert [str(happening.action) for happening in played.happened] == ["schedule", "abort 0"]
