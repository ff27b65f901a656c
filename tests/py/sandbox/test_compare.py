"""Where two runs part: real engines, recordings that are changed on purpose, the pictures."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.cli.test_main import Ended, forensics
from tests.py.sandbox.test_recording import SWAP_STORY, in_memory, written
from tests.py.support.vllm_trees import CURRENT, OLD, TEXTBOOK, a_tree, opener

from vllm_forensics.model.event import Event, EventKind
from vllm_forensics.model.sandbox import Parameters, RequestSpec
from vllm_forensics.model.sandbox_diff import DifferenceKind, SandboxDiff, Verdict
from vllm_forensics.model.sandbox_recording import RecordedStep, Recording
from vllm_forensics.render.clean import clean
from vllm_forensics.render.sandbox_diff import render_diff
from vllm_forensics.render.sandbox_picture import render_picture
from vllm_forensics.render.terminal import TerminalStyle
from vllm_forensics.sandbox.block_lives import BlockLives
from vllm_forensics.sandbox.collector import recorded
from vllm_forensics.sandbox.compare import compare
from vllm_forensics.sandbox.engine.interface import Engine
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.run import run
from vllm_forensics.sandbox.snapshots import SnapshotsWanted

pytestmark = pytest.mark.xdist_group("vllm-trees")
SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schemas" / "forensics.sandbox_diff.1.json"
SQUEEZED = Parameters(gpu_blocks=30)


def diff(*arguments: str) -> Ended:
    return forensics("sandbox", "diff", *arguments)


def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
    ended = diff(*arguments, "--format", "json")
    found: dict[str, Any] = json.loads(ended.out)
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return ended.status, found


def small() -> Recording:
    """A run with preemption, a cache and shared blocks."""
    load = tuple(
        RequestSpec(id=str(n), arrival=n, prompt_len=60, max_tokens=60, prefix=32) for n in range(8)
    )
    return in_memory("reference", replace(SQUEEZED, prefix_caching=True), load)


def renumbered(recording: Recording, numbers: dict[int, int]) -> Recording:
    def event(old: Event) -> Event:
        source = None if old.source is None else numbers[old.source]
        return replace(old, block=numbers[old.block], source=source)

    steps = tuple(
        replace(step, events=tuple(event(old) for old in step.events)) for step in recording.steps
    )
    return replace(recording, steps=steps)


def test_the_swap_story_parts_from_its_healthy_run_at_the_first_fork() -> None:
    a_tree(OLD)

    status, found = answer("--vllm", OLD, *SWAP_STORY, "best-of=3", "best-of=1")

    assert status == 1
    assert found["verdict"] == "different"
    first = found["first_difference"]
    assert (first["step"], first["kind"], first["request"]) == (0, "forked", "0")
    assert first["left"] == "forks blocks 20, 21, 22, 23, 8 times in all"
    assert first["right"] == "does not"
    assert found["left"]["error"].startswith("RuntimeError: Aborted due to the lack of CPU swap")
    assert (found["left"]["steps"], found["right"]["outcome"]) == (5, "finished")
    assert found["parameters"] == [{"name": "best_of", "left": "3", "right": "1"}]


def test_a_failing_run_says_where_it_parts_from_the_healthy_one() -> None:
    a_tree(OLD)
    options = ("sandbox", "run", "--vllm", OLD, *SWAP_STORY, "--best-of", "3")

    as_json = json.loads(forensics(*options, "--format", "json").out)
    as_text = forensics(*options).out

    assert as_json["healthy_parts"] == {"step": 0, "kind": "forked", "request": "0"}
    assert "They part at step 0, blocks are forked: request 0" in as_text
    healthy = json.loads(forensics("sandbox", "run", "--format", "json").out)
    assert healthy["healthy_parts"] is None


def test_a_recording_is_compared_with_a_change_of_itself(tmp_path: Path) -> None:
    a_tree(OLD)
    file = tmp_path / "failing.jsonl"
    written(file, "--vllm", OLD, *SWAP_STORY)

    same = answer(str(file), "")[1]
    changed = answer(str(file), "best_of=1")[1]

    assert same["verdict"] == "identical"
    assert changed["first_difference"]["kind"] == "forked"
    assert changed["right"]["version"] == OLD
    assert changed["parameters"] == [{"name": "best_of", "left": "3", "right": "1"}]


def test_two_versions_differ_in_the_order_of_the_free_list_alone() -> None:
    a_tree(CURRENT)
    a_tree("0.14.0")

    status, found = answer("--vllm", CURRENT, "", "vllm=0.14.0")
    text = diff("--vllm", CURRENT, "", "vllm=0.14.0").out

    assert status == 0
    assert found["verdict"] == "same-but-order"
    assert found["first_difference"] is None
    order = found["free_list_order"]
    assert (order["step"], order["left_block"], order["right_block"]) == (16, 92, 99)
    assert order["left"] == "takes block 92, which was freed in step 15 by request 7"
    assert found["left"]["before"]["step"] == 15
    assert found["left"]["before"]["pools"][0]["free"][:3] == [92, 93, 94]
    assert "99 of 99 GPU blocks free, in this order: 92-99 91-89" in text


def test_a_run_without_reuse_is_the_same_up_to_the_numbers_of_its_blocks() -> None:
    load = uniform(3, 170, 16)
    ours = in_memory("reference", Parameters(), load)
    theirs = in_memory(CURRENT, Parameters(), load)

    found = compare(ours, theirs)

    assert found.verdict is Verdict.SAME_UP_TO_NUMBERING
    assert (found.first, found.order) == (None, None)


def test_two_notes_of_what_is_taken_are_shown_to_part_long_before_the_run_dies() -> None:
    options = ("--gpu-blocks", "23", "--requests", "2", "--max-tokens", "40", "--cpu-blocks", "23")

    status, found = answer(*options, "plant=second-occupancy", "")

    assert status == 1
    first, then = found["first_difference"], found["first_decision"]
    assert (first["kind"], first["step"]) == ("state", 7)
    assert first["left"] == "notes as taken what it counts as free: blocks 11-21"
    assert first["right"] == "counts and notes the same"
    assert (then["kind"], then["step"]) == ("raised", found["left"]["steps"])
    assert "is free and cannot be had: it is noted as taken" in then["left"]
    assert then["right"] == "goes on"


def test_a_double_free_that_changes_no_decision_is_another_state() -> None:
    def meddle(step: int, engine: Engine) -> None:
        if step == 4:
            inside: Any = engine
            inside.pool.free_blocks([inside.pool.blocks[50]])

    every = SnapshotsWanted(every=1)
    healthy = in_memory(CURRENT, Parameters(), uniform(2, 40, 10), every)
    freed, _ = recorded(
        lambda recorder: run(
            opener(CURRENT), Parameters(), uniform(2, 40, 10), recorder=recorder, meddle=meddle
        ),
        "freed",
        every,
    )
    # The event itself is left out: what is left is the state.
    silent = replace(
        freed,
        steps=tuple(replace(s, events=healthy.steps[s.number].events) for s in freed.steps),
    )

    found = compare(silent, healthy)

    assert found.first is not None
    assert (found.first.step, found.first.kind) == (4, DifferenceKind.STATE)
    assert found.first.left == "GPU blocks: 1 held -1 times, 6 held 1 times"
    assert found.first.right == "GPU blocks: 6 held 1 times"


def test_why_a_request_waits_is_told_in_blocks() -> None:
    left, right = (
        in_memory("reference", Parameters(gpu_blocks=blocks), TEXTBOOK) for blocks in (88, 120)
    )

    first = compare(left, right).first

    assert first is not None
    assert (first.step, first.kind, first.request) == (0, DifferenceKind.ADMITTED, "8")
    assert first.left == "does not schedule it"
    assert first.right == "admits it and computes tokens 0 to 169"
    assert first.why is not None
    assert "its prompt of 170 tokens is 11 blocks" in first.why
    assert "88 of 88 and 120 of 120" in first.why


def test_why_a_request_loses_its_place_is_told_in_blocks() -> None:
    load = uniform(2, 64, 40)
    left, right = (
        in_memory("reference", Parameters(gpu_blocks=blocks), load) for blocks in (8, 10)
    )

    found = compare(left, right)

    assert found.first is not None
    assert found.first.kind is DifferenceKind.PREEMPTED
    assert (found.first.step, found.first.request) == (1, "1")
    assert found.first.left == "takes its place away"
    assert found.first.why == "free when the step began: 0 of 8 and 2 of 10"
    kinds = [other.kind for other in found.others]
    assert kinds == sorted(kinds, key=list(DifferenceKind).index)
    assert DifferenceKind.FREED in kinds


def test_what_is_cached_is_told_as_found_in_the_cache() -> None:
    load = tuple(
        RequestSpec(id=str(n), arrival=n * 3, prompt_len=80, max_tokens=4, prefix=64)
        for n in range(2)
    )
    left, right = (
        in_memory("reference", Parameters(prefix_caching=caching), load)
        for caching in (True, False)
    )

    found = compare(left, right)

    assert found.first is not None
    assert (found.first.step, found.first.kind) == (3, DifferenceKind.TOKENS)
    assert found.first.left == "admits it and computes tokens 64 to 79"
    hit = next(other for other in found.others if other.kind is DifferenceKind.CACHE_HIT)
    assert hit.left == "finds in its cache blocks 0, 1, 2, 3"


def test_one_scenario_of_0_4_frees_in_another_order_each_time_and_that_is_said() -> None:
    load = uniform(4, 60, 200)
    parameters = Parameters(gpu_blocks=24, cpu_blocks=8)
    runs = [in_memory(OLD, parameters, load) for _ in range(2)]

    found = compare(runs[0], runs[1])

    assert found.first is None
    if found.order is not None:  # the order of a set of objects, by their addresses
        assert found.order.why is not None
        assert "in the order of a set" in found.order.why


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_any_renumbering_is_the_same_run_up_to_numbers(chance: random.Random) -> None:
    recording = SMALL
    numbers = list(range(30))
    chance.shuffle(numbers)

    found = compare(recording, renumbered(recording, dict(enumerate(numbers))))

    unchanged = numbers == sorted(numbers)
    assert found.verdict is (Verdict.IDENTICAL if unchanged else Verdict.SAME_UP_TO_NUMBERING)


@settings(deadline=None, max_examples=60)
@given(st.integers(min_value=0, max_value=10**6))
def test_any_event_that_is_missing_is_found_in_its_step(place: int) -> None:
    decisive = [
        (at, number)
        for at, step in enumerate(SMALL.steps)
        for number, event in enumerate(step.events)
        if event.kind in {EventKind.ALLOCATE, EventKind.FREE, EventKind.TOUCH, EventKind.EVICT}
    ]
    at, number = decisive[place % len(decisive)]
    step = SMALL.steps[at]
    shorter = replace(step, events=step.events[:number] + step.events[number + 1 :])
    steps = (*SMALL.steps[:at], shorter, *SMALL.steps[at + 1 :])

    found = compare(SMALL, replace(SMALL, steps=steps))

    assert found.verdict is Verdict.DIFFERENT
    assert found.first is not None
    assert found.first.step == step.number


def test_two_free_blocks_that_change_places_are_told_as_an_order_and_where() -> None:
    at, first, second = two_free_blocks(SMALL)
    names = {**{n: n for n in range(30)}, first: second, second: first}
    later = renumbered(replace(SMALL, steps=SMALL.steps[at:]), names)

    found = compare(SMALL, replace(SMALL, steps=(*SMALL.steps[:at], *later.steps)))

    assert found.verdict is Verdict.SAME_BUT_ORDER
    assert found.order is not None
    assert found.order.step >= SMALL.steps[at].number
    assert {found.order.left_block, found.order.right_block} == {first, second}
    assert "which was freed in step" in found.order.left
    assert found.order.why is not None
    assert "unless PYTHONHASHSEED is set" in found.order.why  # one scenario, twice


def two_free_blocks(recording: Recording) -> tuple[int, int, int]:
    """A place among the steps, and two blocks that were used, are free there and used later."""
    lives = BlockLives()
    for place, step in enumerate(recording.steps):
        lives.step(step.number, step.events)
        later = {
            event.block
            for other in recording.steps[place + 1 :]
            for event in other.events
            if event.kind is EventKind.ALLOCATE
        }
        held = {life.block for life in lives.all_lives() if life.last is None}
        free = sorted({life.block for life in lives.lives} & later - held)
        if len(free) > 1:
            return place + 1, free[0], free[1]
    raise AssertionError("no such step")


def test_a_run_that_is_over_sooner_is_said_to_be() -> None:
    found = compare(SMALL, replace(SMALL, steps=SMALL.steps[:-3]))

    assert found.first is not None
    assert found.first.kind is DifferenceKind.ENDED
    assert found.first.step == SMALL.steps[-3].number
    assert (found.first.left, found.first.right) == ("goes on", "is over: finished")


def test_a_run_that_dies_is_told_before_all_that_follows_from_it() -> None:
    last = SMALL.steps[20]
    dead = replace(
        SMALL,
        steps=(*SMALL.steps[:20], RecordedStep(number=last.number, completed=False)),
        error="ValueError: gone",
    )

    found = compare(SMALL, dead)

    assert found.first is not None
    assert found.first.kind is DifferenceKind.RAISED
    assert (found.first.left, found.first.right) == ("goes on", "dies: ValueError: gone")


def hostile() -> SandboxDiff:
    name = '</text><script>alert(1)</script>"\x1b[31m'
    spec = RequestSpec(id=name, prompt_len=20, max_tokens=3)
    recordings = [
        replace(in_memory("reference", Parameters(), (spec,)), name=text)
        for text in (name, "<b>&amp;")
    ]
    return clean(compare(replace(recordings[0], steps=recordings[0].steps[:-1]), recordings[1]))


@pytest.mark.parametrize("html", [False, True])
def test_a_picture_stands_alone_and_holds_nothing_that_runs(html: bool) -> None:
    picture = render_picture(hostile(), html=html)

    assert "<script" not in picture
    assert "\x1b" not in picture
    assert "href" not in picture
    assert "url(" not in picture
    if html:
        assert "default-src 'none'" in picture
    else:
        root = ElementTree.fromstring(picture)  # noqa: S314 - our own
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = "".join(root.itertext())
        assert "<script>alert(1)</script>" in texts


def test_a_picture_has_both_pools_and_the_step_in_which_they_part() -> None:
    load = uniform(2, 64, 40)
    left, right = (
        in_memory("reference", Parameters(gpu_blocks=blocks), load) for blocks in (8, 10)
    )

    root = ElementTree.fromstring(  # noqa: S314 - our own
        render_picture(compare(left, right), html=False)
    )

    names = "{http://www.w3.org/2000/svg}"
    tooltips = [title.text for title in root.iter(f"{names}title")]
    assert "request 0, steps 0 to 38" in tooltips
    assert len(list(root.iter(f"{names}line"))) == 2
    assert "First difference at step 1: a request loses its place: request 1" in list(
        root.itertext()
    )


def test_the_text_has_no_control_characters_and_fits_its_width() -> None:
    text = render_diff(hostile(), TerminalStyle(width=60, color=False))

    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 60


def test_the_heat_maps_of_both_stand_side_by_side() -> None:
    a_tree(OLD)

    text = diff("--vllm", OLD, *SWAP_STORY, "best-of=3", "best-of=1", "--no-color").out

    assert text.startswith("first difference at step 0   blocks are forked: request 0")
    assert "likewise   requests 1, 2, 3" in text
    assert "GPU blocks in use, 2 blocks a row, a step a column, the first 24 steps" in text
    (row,) = [line for line in text.splitlines() if line.startswith("  22  ")]
    left, right = row[6:30], row[30:].strip()
    assert left.rstrip() == "█" * 6  # what a dead engine held it holds to its last step
    assert right == "█" * 24


def test_a_picture_is_written_by_its_name(tmp_path: Path) -> None:
    svg, html = tmp_path / "two.svg", tmp_path / "two.html"

    statuses = [diff("", "gpu-blocks=88", "--picture", str(file)).status for file in (svg, html)]

    assert statuses == [1, 1]
    assert svg.read_text(encoding="utf-8").startswith("<svg ")
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nonsense", ""), "give a file, or options in one word"),
        (("", "/nowhere/run.jsonl"), "/nowhere/run.jsonl"),
        (("", "best-of"), "best-of"),
        (("", "best-of='3"), "is no scenario"),
        (("", "gpu-blocks=none"), "gpu-blocks"),
        (("", "load=x trigger=exhaustion"), "leave one of them out"),
        (("",), "Missing argument 'B'"),
    ],
)
def test_what_is_no_run_says_what_to_give(arguments: tuple[str, ...], told: str) -> None:
    ended = diff(*arguments)

    assert ended.status == 2
    assert told in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "scenario", ["gpu-blocks=88", "gpu_blocks=88", "--gpu-blocks 88", "gpu-blocks 88"]
)
def test_a_scenario_may_be_spelt_in_any_of_these_ways(scenario: str) -> None:
    status, found = answer("", scenario)

    assert status == 1
    assert found["parameters"] == [{"name": "gpu_blocks", "left": "100", "right": "88"}]


SMALL = small()


def of_events(*steps: tuple[Event, ...]) -> Recording:
    return replace(
        SMALL,
        steps=tuple(RecordedStep(number=n, events=events) for n, events in enumerate(steps)),
    )


def taken(block: int, request: str, kind: EventKind = EventKind.ALLOCATE) -> Event:
    return Event(kind=kind, block=block, pool="gpu", request=request)


def test_a_block_that_comes_back_in_one_run_alone_is_an_order() -> None:
    start = ((taken(1, "a"),), (taken(1, "a", EventKind.FREE),))
    back, fresh = of_events(*start, (taken(1, "b"),)), of_events(*start, (taken(2, "b"),))

    for left, right in ((back, fresh), (fresh, back)):
        found = compare(left, right)

        assert found.verdict is Verdict.SAME_BUT_ORDER
        assert found.order is not None
        assert found.order.step == 2
        told = {found.order.left, found.order.right}
        assert told == {
            "takes block 1, which was freed in step 1 by request a",
            "takes block 2, which nobody had before",
        }


def test_whichever_run_does_more_is_the_one_that_is_told_to() -> None:
    one = of_events((taken(1, "a"),))
    two = of_events((taken(1, "a"), taken(1, "a", EventKind.FORK)))

    left, right = compare(two, one).first, compare(one, two).first

    assert left is not None
    assert right is not None
    assert left.kind is right.kind is DifferenceKind.FORKED
    assert (left.left, left.right) == ("forks block 1", "does not")
    assert (right.left, right.right) == ("does not", "forks block 1")
