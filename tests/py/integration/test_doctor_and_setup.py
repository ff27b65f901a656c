"""The doctor's word against what really happens, and a machine that is put back."""

import fcntl
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.tool import COMMAND, REPOSITORY, Answer, forensics
from tests.py.integration.victim_cases import (
    CORE_PATTERN,
    core_pattern_for_cwd,
    core_pattern_locked,
)

from vllm_forensics.capture.core_setup import CORE_FOLDER, STATE_FILE

NO_CORES = ("prlimit", "--core=0:")
CORES = ("prlimit", "--core=unlimited:")


def doctor(folder: Path, *arguments: str, limit: tuple[str, ...]) -> Answer:
    return forensics("doctor", *arguments, cwd=folder, before=limit)


def test_doctor_answers_in_the_published_schema(tmp_path: Path) -> None:
    schema = json.loads(
        (REPOSITORY / "docs/schemas/forensics.doctor.1.json").read_text(encoding="utf-8")
    )

    with core_pattern_locked(fcntl.LOCK_SH):
        answer = doctor(tmp_path, "--format", "json", limit=CORES)

    jsonschema.validate(answer.report, schema)
    assert answer.report["schema"] == "forensics.doctor/1"
    assert answer.status == (0 if answer.report["ready"] else 1)


def test_doctor_proves_a_core_and_leaves_none(tmp_path: Path) -> None:
    with core_pattern_for_cwd():
        answer = doctor(tmp_path, "--format", "json", limit=CORES)

    proof = answer.report["proof"]
    assert answer.status == 0, answer
    assert proof["captured"] is True
    assert proof["core_bytes"] > 1 << 20
    assert proof["core"].startswith("core")
    assert list(tmp_path.iterdir()) == []


def test_doctor_with_a_limit_of_zero_says_that_lifting_it_helps(tmp_path: Path) -> None:
    with core_pattern_for_cwd():
        answer = doctor(tmp_path, "--format", "json", limit=NO_CORES)

    proof = answer.report["proof"]
    assert answer.status == 1
    assert proof["captured"] is False
    assert proof["how"].endswith("with the limit lifted (ulimit -c unlimited) it does")
    [limit] = [check for check in answer.report["checks"] if check["name"] == "core limit"]
    assert (limit["verdict"], limit["remedy"]) == ("bad", "ulimit -c unlimited")


def test_doctor_proves_the_supervisor_where_the_kernel_writes_nothing(tmp_path: Path) -> None:
    answer = doctor(tmp_path, "--format", "json", limit=("prlimit", "--core=0:0"))

    supervised = answer.report["supervised"]
    assert answer.report["ready"] is False
    assert supervised["captured"] is True, supervised
    assert 1 << 16 < supervised["core_bytes"] < 64 << 20
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_why_the_supervisor_cannot_work(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: it stands in for what forbids ptrace")
    tracer = ("strace", "-f", "-o", os.devnull)

    with core_pattern_locked(fcntl.LOCK_SH):
        answer = forensics("doctor", "--format", "json", cwd=tmp_path, before=tracer)

    supervised = answer.report["supervised"]
    assert supervised["captured"] is False
    assert "ptrace is not permitted here" in supervised["how"]


def test_doctor_speaks_plainly_and_into_files(tmp_path: Path) -> None:
    with core_pattern_for_cwd():
        answer = doctor(tmp_path, limit=CORES)
        written = doctor(tmp_path, "--output", "doctor.txt", limit=CORES)

    assert "Cores are written here: a child died of SIGSEGV and left a core" in answer.stdout
    assert "forensics run works here: a child died of SIGSEGV" in answer.stdout
    assert "\x1b" not in answer.stdout
    assert written.stdout == ""
    assert "Cores are written here" in (tmp_path / "doctor.txt").read_text(encoding="utf-8")


@pytest.fixture
def own_limit() -> Iterator[None]:
    """`setup` lifts the core limit of the process that calls it: here, the tests' own."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.fixture
def machine(own_limit: None) -> Iterator[str]:
    """The machine's own pattern, with nobody else looking; put back whatever the test does."""
    with core_pattern_locked(fcntl.LOCK_EX):
        if STATE_FILE.exists():
            pytest.skip("this machine is set up already")
        there = CORE_FOLDER.exists()
        before = CORE_PATTERN.read_text(encoding="utf-8")
        try:
            yield before.rstrip("\n")
        finally:
            CORE_PATTERN.write_text(before, encoding="utf-8")
            STATE_FILE.unlink(missing_ok=True)
            if not there and CORE_FOLDER.exists() and not list(CORE_FOLDER.iterdir()):
                CORE_FOLDER.rmdir()


def pattern() -> str:
    return CORE_PATTERN.read_text(encoding="utf-8").rstrip("\n")


@pytest.mark.root
def test_setup_is_proved_by_the_doctor_and_put_back(machine: str, tmp_path: Path) -> None:
    done = forensics("setup")
    assert done.status == 0, done
    assert f"before  {machine}\n  after   {CORE_FOLDER}/core.%e.%p.%t" in done.stdout

    proved = doctor(tmp_path, "--format", "json", limit=CORES)

    assert proved.report["ready"] is True
    assert proved.report["proof"]["core"].startswith(f"{CORE_FOLDER}/core.")

    restored = forensics("setup", "--restore")

    assert restored.status == 0
    assert pattern() == machine
    again = forensics("setup", "--restore")
    assert (again.status, pattern()) == (2, machine)
    assert "nothing was set up here" in again.stderr


@pytest.mark.root
def test_setup_lifts_the_limit_of_the_shell_that_called_it(machine: str) -> None:
    script = (
        f"ulimit -S -c 0; {shlex.quote(COMMAND)} setup --pattern 'core.%p' >/dev/null; ulimit -S -c"
    )

    done = subprocess.run(("sh", "-c", script), capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "unlimited"
    assert pattern() == "core.%p"


@pytest.mark.root
def test_restore_puts_the_shells_limit_back(machine: str) -> None:
    script = f"""
        ulimit -S -c 7
        {shlex.quote(COMMAND)} setup >/dev/null
        {shlex.quote(COMMAND)} setup --pattern core.%p >/dev/null
        ulimit -S -c
        {shlex.quote(COMMAND)} setup --restore
        ulimit -S -c
        {shlex.quote(COMMAND)} setup >/dev/null
        ulimit -S -c 9
        {shlex.quote(COMMAND)} setup --restore >/dev/null
        ulimit -S -c
    """

    done = subprocess.run(("sh", "-c", script), capture_output=True, text=True, check=True)

    lines = done.stdout.splitlines()
    assert (lines[0], lines[-2:]) == ("unlimited", ["7", "9"])
    assert "core limit of the shell" in done.stdout
    assert pattern() == machine


@pytest.mark.root
def test_restore_leaves_what_somebody_else_set_meanwhile(machine: str) -> None:
    forensics("setup")
    CORE_PATTERN.write_text("somebody.%p", encoding="utf-8")

    answer = forensics("setup", "--restore")

    assert answer.status == 2
    assert "somebody else changed it since" in answer.stderr
    assert pattern() == "somebody.%p"


@pytest.mark.root
@pytest.mark.parametrize("delay_s", [0.02, 0.06, 0.1, 0.14, 0.18, 0.25])
def test_an_interrupted_setup_can_be_put_back(machine: str, delay_s: float) -> None:
    with subprocess.Popen((COMMAND, "setup"), stdout=subprocess.DEVNULL) as child:
        time.sleep(delay_s)
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=30)

    was_set = STATE_FILE.exists()
    answer = forensics("setup", "--restore")

    assert pattern() == machine
    assert answer.status == (0 if was_set else 2)
    assert not STATE_FILE.exists()


@pytest.mark.root
def test_without_root_setup_changes_nothing_and_says_what_works(machine: str) -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run((*nobody, COMMAND, "--version"), check=False).returncode:
        pytest.skip("other users cannot start the command")

    answer = forensics("setup", before=nobody)

    assert answer.status == 2
    assert "nothing was changed" in answer.stderr
    assert "forensics run -- COMMAND" in answer.stderr
    assert pattern() == machine
    assert os.geteuid() == 0
