"""`forensics demo` crashes programs for real, explains each crash, and puts the machine back."""

import fcntl
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.py.integration.tool import COMMAND, REPOSITORY, Answer, forensics
from tests.py.integration.victim_cases import CORE_PATTERN, core_pattern_locked

from vllm_forensics.capture import host
from vllm_forensics.investigate.demo import list_demos, run_demos
from vllm_forensics.investigate.triage import TriageOptions

pytestmark = pytest.mark.gdb

# A user other than root. Where the checkout or its Python lie in root's home, nobody could start
# anything; that capability opens files, but not the kernel's settings (proc_sys_permission).
AS_USER = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
)
ELSEWHERE = "/nonexistent/core.%e.%p"
# Those whose end does not depend on compiler, allocator or luck.
ENDINGS = {
    "NullDereference.ResetThenCopy": "SIGSEGV, null dereference",
    "DoubleFree.BorrowedBytesAdopted": "SIGABRT, double free",
    "IdShift.EraseMovesNeighbours": "wrong values, no signal",
    "UncaughtException.CopyOutOfRange": "SIGABRT, uncaught exception",
    "StackOverflow.EvictionAllocates": "SIGSEGV, stack overflow",
    "DivideByZero.NoHeadsOnThisRank": "SIGFPE, integer divide by zero",
    "Abort.FreedTwiceFailsTheCheck": "SIGABRT, assertion failure",
}


PLAYGROUND = REPOSITORY / "build" / "demo-tests"


@pytest.fixture
def playground() -> Iterator[Path]:
    """Where the demos are built once and run, by one test at a time.

    The command changes the machine's core pattern where it has to: meanwhile nobody may need it.
    """
    with core_pattern_locked(fcntl.LOCK_EX):
        PLAYGROUND.mkdir(parents=True, exist_ok=True)
        before = CORE_PATTERN.read_text()
        yield PLAYGROUND
        assert CORE_PATTERN.read_text() == before


@contextmanager
def machine_pattern(pattern: str) -> Iterator[None]:
    before = CORE_PATTERN.read_text()
    try:
        CORE_PATTERN.write_text(pattern)
    except OSError as error:  # /proc/sys is read-only in most containers
        pytest.skip(f"the core pattern cannot be changed here: {error.strerror}")
    try:
        yield
    finally:
        CORE_PATTERN.write_text(before)


def demo(playground: Path, *names: str, before: tuple[str, ...] = ()) -> Answer:
    environment = {"HOME": str(playground), "COLUMNS": "100"}
    return forensics(
        "demo", *names, cwd=playground, before=before, environment=environment, timeout_s=300
    )


def endings(answer: Answer) -> dict[str, str]:
    """The summary at the end: demo and what became of it."""
    found = re.findall(r"^✔ +(\S+) +(\S.*?) *$", answer.stdout, re.MULTILINE)
    return dict(found)


def test_every_demo_is_explained(playground: Path) -> None:
    listed = demo(playground, "--list")
    answer = demo(playground)

    names = listed.stdout.split()
    assert answer.status == 0
    assert list(endings(answer)) == names
    assert re.findall(r"^✖", answer.stdout, re.MULTILINE) == []
    assert f"{len(names)} of {len(names)} explained" in answer.stdout
    assert {name: endings(answer).get(name) for name in ENDINGS} == ENDINGS
    assert [path.name for path in playground.iterdir() if "core" in path.name] == []


def test_core_and_sanitizer_lead_to_one_conclusion(playground: Path) -> None:
    late = demo(playground, "HeapOverflow").stdout
    silent = demo(playground, "StalePointer").stdout
    plain = demo(playground, "StalePointer", "--plain").stdout

    assert "The core shows only where it was noticed" in late
    assert "heap-buffer-overflow" in late
    for role in ("allocate ●", "free     ●", "use      ✖"):
        assert role in silent
    assert "Nothing died without the sanitizer, which shows a heap-use-after-free" in silent
    assert "use      ✖" not in plain


def test_one_demo_is_explained_in_full(playground: Path) -> None:
    answer = demo(playground, "Null")

    assert answer.status == 0
    assert list(endings(answer)) == ["NullDereference.ResetThenCopy"]
    assert "SIGSEGV · vllm::PagedKVCache::copy_blocks read address 0x" in answer.stdout
    assert "cache.cpp:" in answer.stdout
    for part in ("Where ", "Machine ", "Signal ", "Proof ", "Core ", "Next "):
        assert f"\n{part}" in answer.stdout


def test_a_demo_that_does_not_exist_is_refused(playground: Path) -> None:
    answer = demo(playground, "Nonsense")

    assert answer.status == 2
    assert "NullDereference.ResetThenCopy" in answer.stderr


@pytest.mark.root
def test_the_pattern_is_changed_where_it_must_be_and_put_back(playground: Path) -> None:
    with machine_pattern(ELSEWHERE):
        answer = demo(playground, "Null", "Abort")

        assert CORE_PATTERN.read_text().strip() == ELSEWHERE
    assert answer.status == 0
    assert len(endings(answer)) == 2


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_demo_that_is_interrupted_puts_the_pattern_back(
    playground: Path, number: signal.Signals
) -> None:
    demo(playground, "--list")  # so that nothing is left to be built

    with (
        machine_pattern(ELSEWHERE),
        subprocess.Popen(
            (COMMAND, "demo"),
            cwd=playground,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        deadline = time.monotonic() + 30
        while CORE_PATTERN.read_text().strip() == ELSEWHERE and time.monotonic() < deadline:
            time.sleep(0.002)
        changed = CORE_PATTERN.read_text().strip()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        after = CORE_PATTERN.read_text().strip()

    assert changed != ELSEWHERE
    assert process.returncode in {128 + number, 130}
    assert "Traceback" not in errors
    assert after == ELSEWHERE


@pytest.mark.root
def test_a_user_whose_cores_go_to_a_pipe_gets_them_from_gdb(playground: Path) -> None:
    demo(playground, "--list")
    with machine_pattern("|/bin/false"):
        answer = demo(playground, before=AS_USER)

    assert answer.status == 0
    assert {name: endings(answer).get(name) for name in ENDINGS} == ENDINGS


@pytest.mark.parametrize("limit", ["0:", "0:0"], ids=["soft", "hard"])
def test_a_core_limit_of_nothing_is_no_obstacle(playground: Path, limit: str) -> None:
    """The soft limit is raised before the demo starts; under a hard one, gdb writes the core."""
    answer = demo(playground, "Null", "Abort", before=("prlimit", f"--core={limit}"))

    assert answer.status == 0
    assert list(endings(answer).values()) == [
        "SIGSEGV, null dereference",
        "SIGABRT, assertion failure",
    ]


def test_where_the_pattern_cannot_be_changed_gdb_writes_the_core(
    playground: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo(playground, "--list")
    program = playground / ".forensics/debug/minimal_demo"
    # A file of /proc that nobody can write to; it does not read like a name in the own folder.
    monkeypatch.setattr(host, "CORE_PATTERN", Path("/proc/self/mountinfo"))
    wanted = [name for name in list_demos(program) if name.startswith(("Null", "IdShift"))]

    outcomes = list(run_demos(program, wanted, tmp_path / "demo", TriageOptions()))

    crashed, silent = outcomes
    assert crashed.crash is not None
    assert crashed.crash.fault.kind.value == "null-dereference"
    assert crashed.status == -signal.SIGSEGV
    assert silent.crash is None
    assert silent.status == 1
    assert shutil.which("gdb") is not None


def test_the_report_in_the_readme_is_what_the_demo_says(playground: Path) -> None:
    """Its places are in the sources as they are now."""
    shown = (REPOSITORY / "README.md").read_text().partition("<!-- report:begin -->")[2]
    places = re.findall(r"csrc/\w+\.\w+:\d+$", shown.partition("<!-- report:end -->")[0], re.M)
    assert places

    printed = demo(playground, "--plain", "NullDereference").stdout

    assert places == re.findall(r"csrc/\w+\.\w+:\d+$", printed, re.M)
