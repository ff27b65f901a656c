"""The picture of one run fits a terminal, and shows which blocks were held when."""

from dataclasses import replace

import pytest

from vllm_forensics.model.sandbox import Life, Parameters, SandboxRun
from vllm_forensics.render.sandbox import render_sandbox
from vllm_forensics.render.sandbox_heat_map import heat_map_parts
from vllm_forensics.render.terminal import TerminalStyle, render_parts
from vllm_forensics.sandbox.block_lives import lives_of
from vllm_forensics.sandbox.engine.reference import opened_reference
from vllm_forensics.sandbox.load import uniform
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.run import run


def a_run(*, blocks: int = 10, requests: int = 2, prompt: int = 64, tokens: int = 4) -> SandboxRun:
    recorder = Recorder()
    load = uniform(requests, prompt, tokens)
    result = run(opened_reference, Parameters(gpu_blocks=blocks), load, recorder=recorder)
    return replace(result, lives=lives_of(recorder))


def picture(result: SandboxRun, width: int = 80) -> list[str]:
    style = TerminalStyle(width=width, color=False)
    return render_parts(heat_map_parts(result, style), style).splitlines()


def test_each_block_has_a_row_and_each_step_a_column_where_there_is_room() -> None:
    lines = picture(a_run())

    assert lines[1] == "  GPU blocks in use, a block a row, a step a column"
    # Two prompts of four blocks; the fifth of each comes with its first token. In the step in which
    # a block is given back it counts as free.
    assert lines[2:] == [f"  {block}  ███" for block in range(8)] + ["  8   ██", "  9   ██"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_large_run_fits_the_terminal(width: int) -> None:
    lines = picture(a_run(blocks=700, requests=20, prompt=500, tokens=300), width)

    assert max(map(len, lines)) <= width
    assert len(lines) <= 17
    assert "blocks a row" in " ".join(lines)
    assert "steps a column" in " ".join(" ".join(lines).split())


def test_a_run_whose_lives_are_not_known_has_no_picture() -> None:
    assert "".join(picture(replace(a_run(), lives=()))) == ""


def test_a_recorder_that_forgot_the_beginning_knows_no_lives() -> None:
    recorder = Recorder(kept=5)

    run(opened_reference, Parameters(), uniform(2, 64, 4), recorder=recorder)

    assert lives_of(recorder) == ()


def test_the_first_broken_rule_is_marked_under_its_step() -> None:
    recorder = Recorder()

    def leak(step: int, engine: object) -> None:
        if step == 2:
            engine.pool.allocate(1)  # type: ignore[attr-defined]

    result = run(opened_reference, Parameters(), uniform(1, 64, 6), recorder=recorder, meddle=leak)
    lines = picture(replace(result, lives=lives_of(recorder)))

    assert lines[-1].strip() == "▲ step 2"
    assert lines[-1].index("▲") == len("  99  ") + 2


def test_the_picture_is_part_of_the_report() -> None:
    text = render_sandbox(a_run(), TerminalStyle(width=80, color=False))

    assert "GPU blocks in use" in text


def test_a_block_that_is_held_to_the_end_is_held_to_the_end() -> None:
    result = replace(a_run(), lives=(Life(pool="gpu", block=0, request="0", first=1, last=None),))

    assert picture(result)[2] == "  0   ███"
