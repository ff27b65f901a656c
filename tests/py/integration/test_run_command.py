"""`forensics run` on real programs: what it explains, and what the program never notices."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.tool import COMMAND, REPOSITORY, Answer, forensics

from vllm_forensics.capture.supervisor import SupervisedResult
from vllm_forensics.investigate.run import explain_run
from vllm_forensics.investigate.triage import TriageOptions

PYTHON = sys.executable
FALL = "import ctypes; ctypes.string_at(0x48)"
FORKING = """\
import faulthandler, multiprocessing, ctypes
faulthandler.enable()
def work():
    ctypes.string_at(0x48)
if __name__ == "__main__":
    child = multiprocessing.get_context(METHOD).Process(target=work)
    child.start()
    child.join()
    print("child", child.exitcode)
"""


def run(folder: Path, *arguments: str | Path, **options: Any) -> Answer:
    """Run in the folder, with a core limit of 0: the supervisor does not need the kernel."""
    return forensics("run", *arguments, cwd=folder, before=("prlimit", "--core=0:0"), **options)


def run_for_json(folder: Path, *arguments: str | Path) -> tuple[Answer, dict[str, Any]]:
    report = folder / "report.json"
    answer = run(folder, "--format", "json", "--output", report, *arguments)
    value = json.loads(report.read_text(encoding="utf-8"))
    schema = json.loads(
        (REPOSITORY / "docs/schemas/forensics.run.1.json").read_text(encoding="utf-8")
    )
    jsonschema.validate(value, schema)
    return answer, value


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_status_is_the_programs(tmp_path: Path, status: int) -> None:
    answer = run(tmp_path, "--", "sh", "-c", f"echo out; echo err >&2; exit {status}")

    assert (answer.status, answer.stdout, answer.stderr) == (status, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGABRT])
def test_the_status_of_a_signal_is_that_of_a_shell(tmp_path: Path, number: int) -> None:
    assert run(tmp_path, "--", "sh", "-c", f"kill -{number} $$").status == 128 + number


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("no-such-program", 127, "No such file or directory"),
        ("/etc/passwd", 126, "Permission denied"),
    ],
)
def test_a_program_that_cannot_start_is_said_as_a_shell_says_it(
    tmp_path: Path, program: str, status: int, words: str
) -> None:
    answer = run(tmp_path, "--", program)

    assert answer.status == status
    assert program in answer.stderr
    assert words in answer.stderr


@pytest.mark.parametrize("dashes", [("--",), ()])
def test_options_after_the_program_are_the_programs(
    tmp_path: Path, dashes: tuple[str, ...]
) -> None:
    answer = run(tmp_path, *dashes, "printf", "%s\n", "--folder", "--", "--help")

    assert answer.stdout == "--folder\n--\n--help\n"


def test_without_a_program_it_says_what_to_type(tmp_path: Path) -> None:
    answer = run(tmp_path, "--")

    assert answer.status == 2
    assert "forensics run -- python serve.py" in answer.stderr


def test_json_on_standard_output_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    answer = run(tmp_path, "--format", "json", "--", "touch", "started")

    assert answer.status == 2
    assert "--output report.json" in answer.stderr
    assert not (tmp_path / "started").exists()


def test_an_uneventful_run_leaves_nothing(tmp_path: Path) -> None:
    answer = run(tmp_path, "--", "true")

    assert (answer.status, answer.stdout, answer.stderr) == (0, "", "")
    left = [path for path in tmp_path.rglob("*") if not path.is_dir()]
    assert left == []
    assert list((tmp_path / ".forensics" / "run").glob("*")) == []


def test_a_crash_is_explained_on_standard_error(tmp_path: Path) -> None:
    answer = run(tmp_path, "--", PYTHON, "-c", f"print('mine', flush=True); {FALL}")

    assert answer.status == 128 + signal.SIGSEGV
    assert answer.stdout == "mine\n"
    assert "SIGSEGV" in answer.stderr
    assert "0x48" in answer.stderr
    [core] = tmp_path.glob(".forensics/run/*/core.*")
    assert core.stat().st_size < 64 << 20
    assert "\x1b" not in answer.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_that_crashes_under_faulthandler_is_explained(tmp_path: Path, method: str) -> None:
    script = tmp_path / "parent.py"
    script.write_text(FORKING.replace("METHOD", repr(method)), encoding="utf-8")

    answer, report = run_for_json(tmp_path, "--", PYTHON, str(script))

    assert (answer.status, answer.stdout) == (0, "child -11\n")
    [crash] = report["crashes"]
    [dead] = [process for process in report["processes"] if process["exit"] == -11]
    assert crash["pid"] == dead["pid"]
    assert crash["signal"]["name"] == "SIGSEGV"
    assert crash["signal"]["code"] == "SEGV_MAPERR"
    assert crash["fault"]["kind"] == "null-dereference"
    assert crash["fault"]["address"] == "0x48"
    assert report["endings"] == []


def test_the_json_has_the_names_of_the_contract(tmp_path: Path) -> None:
    _, report = run_for_json(tmp_path, "--", PYTHON, "-c", FALL)

    assert report["schema"] == "forensics.run/1"
    assert set(report) >= {"command", "status", "processes", "crashes", "reports", "failures"}
    assert report["status"] == 128 + signal.SIGSEGV
    assert report["command"].endswith("'import ctypes; ctypes.string_at(0x48)'")
    [process] = report["processes"]
    assert set(process) == {"pid", "parent", "command", "exit"}
    assert process["exit"] == -signal.SIGSEGV


def test_a_kill_is_told_from_a_crash(tmp_path: Path) -> None:
    answer = run(tmp_path, "--", "sh", "-c", "kill -9 $$")

    words = " ".join(answer.stderr.split())
    assert answer.status == 137
    assert "was killed with SIGKILL" in words
    assert "out-of-memory" in words


def test_a_kill_by_the_kernel_for_want_of_memory_is_told() -> None:
    events = "\n".join(
        json.dumps(event)
        for event in (
            {"event": "start", "pid": 7, "parent": 1, "command": "python"},
            {"event": "exit", "pid": 7, "signal": 9, "oom_kills_before": 0, "oom_kills_after": 1},
        )
    )

    report = explain_run(
        ("python", "serve.py"), SupervisedResult(status=137, events=events), TriageOptions()
    )

    [sentence] = report.endings
    assert "the kernel killed it for want of memory" in sentence


def test_evidence_goes_to_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "evidence"

    run(tmp_path, "--folder", folder, "--", PYTHON, "-c", FALL)

    assert len(list(folder.glob("core.*"))) == 1
    assert not (tmp_path / ".forensics").exists()


def test_the_report_may_lie_in_the_folder_that_the_run_makes(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"

    run(tmp_path, "--folder", folder, "--output", folder / "report.txt", "--", PYTHON, "-c", FALL)

    assert "SIGSEGV" in (folder / "report.txt").read_text(encoding="utf-8")


def test_a_file_that_was_asked_for_tells_of_a_quiet_run_too(tmp_path: Path) -> None:
    answer = run(tmp_path, "--output", tmp_path / "report.txt", "--", "sh", "-c", "exit 3")

    assert answer.stderr == ""
    assert (tmp_path / "report.txt").read_text() == "Nothing crashed; the status was 3.\n"


def test_what_an_earlier_run_left_stays_where_none_is_started(tmp_path: Path) -> None:
    run(tmp_path, "--folder", "evidence", "--", PYTHON, "-c", FALL)
    before = sorted((tmp_path / "evidence").iterdir())
    wrong = ("--output", "nowhere/report.txt")

    answers = [run(tmp_path, "--folder", name, *wrong, "--", "true") for name in ("evidence", "n")]

    assert [answer.status for answer in answers] == [2, 2]
    assert sorted((tmp_path / "evidence").iterdir()) == before
    assert not (tmp_path / "n").exists()


def test_a_folder_that_cannot_be_made_stops_before_the_program(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    answer = run(tmp_path, "--folder", tmp_path / "file" / "x", "--", "touch", "started")

    assert answer.status == 2
    assert "give another --folder" in answer.stderr
    assert not (tmp_path / "started").exists()


def test_the_report_goes_to_a_file_that_was_asked_for(tmp_path: Path) -> None:
    answer = run(tmp_path, "--output", "report.txt", "--", PYTHON, "-c", FALL)

    assert answer.stderr == ""
    assert "SIGSEGV" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_told_before_the_program_runs(tmp_path: Path) -> None:
    answer = run(tmp_path, "--output", "no/such/report.txt", "--", "touch", "started")

    assert answer.status == 2
    assert "give another --output" in answer.stderr
    assert not (tmp_path / "started").exists()


def test_in_a_folder_that_may_not_be_written_evidence_goes_elsewhere(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # Root may write everywhere but into /proc.
    done = subprocess.run(
        (COMMAND, "run", "--", PYTHON, "-c", FALL),
        cwd="/proc",
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 128 + signal.SIGSEGV
    assert "null object" in done.stderr
    assert len(list(scratch.glob("forensics-run-*/core.*"))) == 1


SECRETS = ("--token=c4n4ry", "--password", "c4n4ry with blanks", "API_KEY=c4n4ry")


@pytest.mark.parametrize("command", [(PYTHON, "-c", FALL), ("sh", "-c", "kill -9 $$")])
def test_secrets_of_the_command_line_are_masked(tmp_path: Path, command: tuple[str, ...]) -> None:
    _, report = run_for_json(tmp_path, "--folder", "f", "--", *command, *SECRETS)
    text = run(tmp_path, "--", *command, *SECRETS).stderr

    assert "c4n4ry" not in json.dumps(report)
    assert "with blanks" not in json.dumps(report)
    assert "c4n4ry" not in text
    assert report["command"].count("********") == 3


def test_secrets_are_shown_when_they_are_asked_for(tmp_path: Path) -> None:
    _, report = run_for_json(tmp_path, "--include-secrets", "--", PYTHON, "-c", FALL, *SECRETS)

    assert "c4n4ry with blanks" in report["command"]


def test_a_signal_to_the_command_reaches_the_program(tmp_path: Path) -> None:
    script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        (COMMAND, "run", "--", "sh", "-c", script), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        rest = child.stdout.read()

    assert (rest, child.returncode) == ("asked\n", 5)


UNDER_TRACER = ("strace", "-f", "-o", os.devnull)


@pytest.mark.parametrize("status", [0, 3])
def test_where_ptrace_is_forbidden_the_program_runs_all_the_same(
    tmp_path: Path, status: int
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: it stands in for what forbids ptrace")

    answer = forensics(
        "run", "--", "sh", "-c", f"echo out; exit {status}", cwd=tmp_path, before=UNDER_TRACER
    )

    assert (answer.status, answer.stdout) == (status, "out\n")
    assert "ptrace is not permitted here" in " ".join(answer.stderr.split())


def test_runs_side_by_side_do_not_meet(tmp_path: Path) -> None:
    command = (COMMAND, "run", "--", PYTHON, "-c", FALL)
    children = [
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]

    said = [child.communicate(timeout=60)[1] for child in children]

    assert [child.returncode for child in children] == [139] * 4
    assert all("null object" in text for text in said)
    assert len(list(tmp_path.glob(".forensics/run/*/core.*"))) == 4


def test_a_tree_of_processes_is_told_apart(tmp_path: Path) -> None:
    script = (
        f"{shlex.quote(PYTHON)} -c '{FALL}'; sh -c 'kill -9 $$'; sh -c 'exit 4'; "
        "sh -c 'kill -TERM $$'; exit 0"
    )

    answer, report = run_for_json(tmp_path, "--", "sh", "-c", script)

    exits = sorted(process["exit"] for process in report["processes"])
    assert answer.status == 0
    assert exits == [-15, -11, -9, 0, 4]
    assert len(report["crashes"]) == 1
    assert len(report["endings"]) == 2
