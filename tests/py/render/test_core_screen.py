"""What a person sees, kept as files; UPDATE_SNAPSHOTS=1 writes them anew."""

from dataclasses import replace

import pytest
from tests.py.support.reports import a_report, null_crash, single_report
from tests.py.support.snapshots import compare, too_wide, without_escapes

from vllm_forensics.model.answer import Tier
from vllm_forensics.model.demo import DemoOutcome
from vllm_forensics.model.report import Failure, ParallelCaller, Report
from vllm_forensics.model.stack import Frame, FrameKind
from vllm_forensics.render.core_screen import render_cores
from vllm_forensics.render.demo import render_ending, render_silent, render_title
from vllm_forensics.render.terminal import Detail, TerminalStyle
from vllm_forensics.render.wire import crash_to_wire

OWN = frozenset(
    [(core, index) for core in ("/tmp/core.42", "/tmp/core.43") for index in (0, 1, 2)]  # noqa: S108
    + [("/tmp/core.77", index) for index in range(4)]  # noqa: S108
)
CASES = {
    "single_80": (single_report(), TerminalStyle(width=80)),
    "single_160": (single_report(), TerminalStyle(width=160)),
    "single_80_color": (single_report(), TerminalStyle(width=80, color=True)),
    "single_all_frames": (single_report(), TerminalStyle(width=100, all_frames=True)),
    "single_brief": (single_report(), TerminalStyle(width=80, detail=Detail.BRIEF)),
    "single_sentence": (single_report(), TerminalStyle(width=80, detail=Detail.SENTENCE)),
    "several_80": (a_report(), TerminalStyle(width=80)),
    "several_160": (a_report(), TerminalStyle(width=160)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_report_looks_as_it_did(name: str) -> None:
    report, style = CASES[name]

    compare(name, render_cores(report, style, OWN))


@pytest.mark.parametrize("name", CASES)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    report, style = CASES[name]

    text = without_escapes(render_cores(report, style, OWN))

    assert not too_wide(text, style.width)


def test_a_long_name_leaves_room_for_its_place() -> None:
    [crash] = single_report().crashes
    thread = crash.threads[0]
    frame = thread.stack.frames[0]
    named = replace(frame, function=f"cache<{'block, ' * 20}>::{'read' * 30}", line=12345)
    frames = (named, *thread.stack.frames[1:])
    thread = replace(thread, stack=replace(thread.stack, frames=frames))
    crash = replace(crash, threads=(thread, *crash.threads[1:]))
    report = replace(single_report(), crashes=(crash,))

    text = render_cores(report, TerminalStyle(width=80), OWN)

    [line] = [line for line in text.splitlines() if "cache<…>::read" in line and "#0" in line]
    assert line.endswith(":12345")
    assert len(line) == 80


def test_a_headline_is_told_to_its_end() -> None:
    [crash] = single_report().crashes
    assert crash.culprit is not None
    named = replace(crash.culprit, function=f"cache::{'read_' * 12}block")
    report = replace(single_report(), crashes=(replace(crash, culprit=named),))

    text = render_cores(report, TerminalStyle(width=60), OWN)

    head = " ".join(text.partition("The program")[0].split())
    assert head.endswith("block read address 0x48 ━━")


def test_without_colour_there_is_no_escape() -> None:
    assert "\x1b" not in render_cores(a_report(), TerminalStyle(width=80), OWN)
    assert "\x1b[" in render_cores(a_report(), TerminalStyle(width=80, color=True), OWN)


def test_markup_of_a_value_is_not_obeyed() -> None:
    text = render_cores(single_report(), TerminalStyle(width=160, color=True), OWN)

    assert "[bold]std::vector of length 2[/bold]" in text


def test_a_single_failure_says_what_to_do() -> None:
    failure = Failure(path="a.txt", error="is a text file", remedy="give the core")

    text = render_cores(
        Report(crashes=(), groups=(), failures=(failure,)), TerminalStyle(), frozenset()
    )

    assert text == "error   a.txt: is a text file\n        give the core\n"


def test_demos_are_told_as_they_ended() -> None:
    outcomes = (
        DemoOutcome(name="Heap.UseAfterFree", status=-11, output="", crash=null_crash()),
        DemoOutcome(name="Threads.DataRace", status=0, output="sum 3\n", crash=None),
        DemoOutcome(name="Heap.Leak", status=1, output="", crash=None),
        DemoOutcome(name="Lost.Core", status=-6, output="", crash=None),
    )
    style = TerminalStyle(width=100)

    text = "".join(render_title(o, style) + render_silent(o, style) for o in outcomes[1:])
    text += render_ending(outcomes, style, (1.25, 0.5))

    compare("demos", text)


def test_a_pools_thread_is_told_with_the_python_of_who_opened_its_loop_as_likely() -> None:
    [crash] = single_report().crashes
    calls = tuple(
        Frame(index=at, pc=0, function=f"call{at}", tier=Tier.NOTES, kind=FrameKind.PYTHON,
              file="/app/serve.py", line=at + 1)
        for at in range(6)
    )  # fmt: skip
    crash = replace(crash, parallel_caller=ParallelCaller(tid=41, frames=calls))

    text = render_cores(replace(single_report(), crashes=(crash,)), TerminalStyle(width=80), OWN)
    narrow = render_cores(replace(single_report(), crashes=(crash,)), TerminalStyle(width=30), OWN)
    wire = crash_to_wire(crash).parallel_caller

    assert "      likely in a parallel loop of thread 41, in Python:\n      ◂ call0   " in text
    assert "call4" not in text
    assert "app/serve.py:1\n" in narrow
    assert "        2 older calls (--format json)\n" in text
    assert wire is not None
    assert (wire.thread, wire.certainty, len(wire.frames)) == (41, "likely", 6)
