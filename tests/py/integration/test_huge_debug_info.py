"""Debug information that gdb would read for long: left out and said, or read when asked for."""

import shlex
from pathlib import Path

import pytest
from tests.py.integration.crashes import FALLING, FALLING_LINE, compile_program, leave_core
from tests.py.integration.tool import Json, triage_in_process

from vllm_forensics.investigate import gdb_budget
from vllm_forensics.investigate.triage import TriageOptions
from vllm_forensics.model.answer import Depth

pytestmark = pytest.mark.gdb


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("huge")
    program = compile_program(FALLING, folder / "falling")
    return leave_core([program], folder / "crash")


def innermost(crash: Json) -> Json:
    frame = crash["threads"][0]["frames"][0]
    assert isinstance(frame, dict)
    return frame


def crash_of(core: Path, depth: Depth | None = None) -> Json:
    [crash] = triage_in_process(core, TriageOptions(depth=depth))["crashes"]
    assert isinstance(crash, dict)
    return crash


def test_values_that_take_long_are_left_out_and_said(
    core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gdb_budget, "_SMALL", 0)
    monkeypatch.setattr(gdb_budget, "_UNITS", 0)

    crash = crash_of(core)

    assert innermost(crash)["line"] == FALLING_LINE
    assert innermost(crash)["arguments"] is None
    [gap] = [gap for gap in crash["gaps"] if "left out" in gap["what"]]
    assert "planted::fall" in gap["what"]
    assert gap["remedy"].startswith(f"forensics core --depth full {shlex.quote(str(core))}    # ")
    assert crash["next_steps"][0] == gap["remedy"]


@pytest.mark.parametrize(("units", "depth"), [(1 << 20, None), (0, Depth.FULL)])
def test_values_are_read_through_an_index_of_the_stack(
    core: Path, monkeypatch: pytest.MonkeyPatch, units: int, depth: Depth | None
) -> None:
    usual = crash_of(core)
    monkeypatch.setattr(gdb_budget, "_SMALL", 0)
    monkeypatch.setattr(gdb_budget, "_UNITS", units)

    crash = crash_of(core, depth)

    assert innermost(crash)["arguments"] == innermost(usual)["arguments"]
    assert "where" in innermost(crash)["arguments"]
    assert crash["objects"] == usual["objects"]
    assert not any("left out" in gap["what"] for gap in crash["gaps"])
