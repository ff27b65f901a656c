"""Earlier crashes, told by the real commands: also by several at once, and after one was killed."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
from tests.py.integration.crashes import FALLING, compile_program, leave_core
from tests.py.integration.tool import COMMAND, Json, forensics, forensics_core

pytestmark = pytest.mark.gdb


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(FALLING, tmp_path_factory.mktemp("cases") / "falling")


@pytest.fixture(scope="module")
def cores(program: Path) -> list[Path]:
    """Four crashes of one bug."""
    folder = program.parent
    return [leave_core([program], folder / str(number)) for number in range(4)]


def known() -> dict[str, int]:
    answer = forensics("cases", "list", "--format", "json")
    return {case["signature"]: case["count"] for case in answer.report["cases"]}


def start(core: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [COMMAND, "core", "--format", "json", core],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def run(program: Path, folder: Path, *arguments: str) -> Json:
    report = folder.with_suffix(".json")
    forensics(
        "run", "--format", "json", "--output", report, "--folder", folder, *arguments, "--", program
    )
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["failures"] == []
    [crash] = found["crashes"]
    assert isinstance(crash, dict)
    return crash


def test_a_run_and_a_core_of_one_bug_are_one_case(
    program: Path, cores: list[Path], tmp_path: Path
) -> None:
    first = run(program, tmp_path / "a")
    second = run(program, tmp_path / "b")
    unasked = run(program, tmp_path / "c", "--no-store")
    third = forensics_core(cores[0]).report["groups"][0]

    assert [crash["seen"] and crash["seen"]["count"] for crash in (first, second, unasked)] == [
        0, 1, None,
    ]  # fmt: skip
    assert third["seen"]["count"] == 2
    assert known() == {third["signature"]: 3}


def test_commands_at_once_count_every_core_once(cores: list[Path]) -> None:
    children = [start(core) for core in (*cores, *cores)]

    answers = [json.loads(child.communicate()[0]) for child in children]

    assert [answer["failures"] for answer in answers] == [[]] * len(answers)
    assert list(known().values()) == [len(cores)]


def test_a_command_that_is_killed_leaves_a_whole_store(cores: list[Path]) -> None:
    forensics_core(cores[0])
    before = known()
    for pause in (0.2, 0.5, 0.8):
        child = start(cores[1])
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        raw = sqlite3.connect(os.environ["VLLM_FORENSICS_CASES"])
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        raw.close()

    forensics_core(cores[2])

    [count] = known().values()
    assert known().keys() == before.keys()
    assert count in {2, 3}  # the killed ones may have come as far as that
