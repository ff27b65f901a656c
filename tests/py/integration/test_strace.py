"""`forensics run --strace`: real deaths, explained by the calls before them."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.integration.tool import COMMAND, Answer, forensics
from tests.py.integration.traced_cases import (
    CASES,
    DATA,
    TracedCase,
    built_victim,
    reason_to_skip,
    trace,
    without_numbers,
)
from tests.py.integration.victim_cases import core_pattern_for_cwd

FALL = "import ctypes; ctypes.string_at(0x48)"


@pytest.fixture(autouse=True)
def _strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")


@pytest.fixture(scope="module")
def victim() -> Iterator[Path]:
    with built_victim() as path:
        yield path


def run(folder: Path, *arguments: str, limit: str = "0:") -> Answer:
    return forensics(
        "run", "--strace", *arguments, cwd=folder, before=("prlimit", f"--core={limit}")
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.way)
def test_the_calls_explain_the_death(case: TracedCase, victim: Path, tmp_path: Path) -> None:
    reason = reason_to_skip(case)
    if reason is not None:
        pytest.skip(reason)

    done = trace(case, victim, tmp_path)

    assert done.returncode == case.status, done
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert tuple(found["kind"] for found in report["syscalls"]) == case.kinds, report
    assert case.words in report["syscalls"][0]["sentence"]
    assert all(found["proof"] for found in report["syscalls"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.way)
def test_a_trace_of_today_says_what_the_recorded_one_says(
    case: TracedCase, victim: Path, tmp_path: Path
) -> None:
    reason = reason_to_skip(case)
    if reason is not None:
        pytest.skip(reason)
    recorded = json.loads((DATA / case.way / "expected.json").read_text(encoding="utf-8"))

    trace(case, victim, tmp_path)

    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    today = [without_numbers(found["sentence"]) for found in report["syscalls"]]
    assert today == [without_numbers(found["sentence"]) for found in recorded["findings"]]


def test_the_limit_is_traced_to_who_set_it(victim: Path, tmp_path: Path) -> None:
    answer = run(tmp_path, "--", "sh", "-c", f"ulimit -v 200000; {victim} memory")

    words = " ".join(answer.stderr.split())
    assert "had set RLIMIT_AS to 195.3 MiB" in words


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_program_notices_nothing(tmp_path: Path, status: int) -> None:
    answer = run(tmp_path, "--", "sh", "-c", f"echo out; echo err >&2; exit {status}")

    assert (answer.status, answer.stdout, answer.stderr) == (status, "out\n", "err\n")
    assert list((tmp_path / ".forensics" / "run").glob("*")) == []


def test_it_says_which_evidence_was_given_up(tmp_path: Path) -> None:
    answer = run(tmp_path, "--", sys.executable, "-c", FALL)

    words = " ".join(answer.stderr.split())
    assert answer.status == 128 + signal.SIGSEGV
    assert "no minicore was written" in words
    assert list(tmp_path.rglob("core*")) == []


def test_a_core_that_the_kernel_wrote_is_explained_too(tmp_path: Path) -> None:
    with core_pattern_for_cwd():
        answer = run(tmp_path, "--", sys.executable, "-c", FALL, limit="unlimited:")

    assert "null object" in " ".join(answer.stderr.split())
    assert len(list(tmp_path.glob("core*"))) == 1


@pytest.mark.parametrize("options", [("--full",), ("--budget", "8"), ("--stall", "5")])
def test_strace_and_the_supervisors_evidence_exclude_each_other(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    answer = run(tmp_path, *options, "--", "touch", "started")

    assert answer.status == 2
    assert "one tracer" in answer.stderr
    assert not (tmp_path / "started").exists()


def test_a_machine_without_strace_says_what_to_install(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()

    answer = forensics("run", "--strace", "--", "true", environment={"PATH": str(empty)})

    assert answer.status == 2
    assert "apt-get install strace" in answer.stderr


@pytest.mark.parametrize(("program", "status"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_start(tmp_path: Path, program: str, status: int) -> None:
    answer = run(tmp_path, "--", program)

    assert answer.status == status
    assert program in answer.stderr


def test_a_signal_to_the_command_reaches_the_program(tmp_path: Path) -> None:
    script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        (COMMAND, "run", "--strace", "--", "sh", "-c", script),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        rest = child.stdout.read()

    assert (rest, child.returncode) == ("asked\n", 5)


def test_no_argument_is_written_into_the_log(tmp_path: Path) -> None:
    run(tmp_path, "--folder", "f", "--", "sh", "-c", "kill -9 $$", "c4n4ry")

    assert "c4n4ry" not in (tmp_path / "f" / "strace.log").read_text(encoding="utf-8")
