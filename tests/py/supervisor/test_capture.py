"""The right process, the right thread, and the first signal."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.py.supervisor.support import Supervisor

SEGV_MAPERR = 1
SI_KERNEL = 0x80
NULL_READ = (signal.SIGSEGV, SEGV_MAPERR, 0)


@pytest.mark.parametrize("where", range(5), ids=["parent", "fork", "spawn", "grandchild", "thread"])
def test_the_process_that_crashed_is_the_one_that_is_written(
    supervisor: Supervisor, victim: Path, where: int
) -> None:
    ended = supervisor.run(victim, "tree", str(where))

    assert ended.core.signal == NULL_READ
    [fault] = ended.named("fault")
    [written] = ended.named("core")
    crashed = [event["pid"] for event in ended.named("exit") if event["signal"] == signal.SIGSEGV]
    assert crashed == [fault["pid"]] == [written["pid"]]
    assert ended.core.threads[0] == fault["tid"]
    assert len(ended.core.threads) == (5 if where == 4 else 1)
    assert written["bytes"] == ended.core.path.stat().st_size
    assert ended.core.path.stat().st_mode & 0o777 == 0o600
    assert ended.status == 128 + signal.SIGSEGV


@pytest.mark.parametrize(
    "handler",
    ["raise", "raise-later", "raise-same-stack", "abort", "fault", "remove", "reset", "elsewhere"],
)
def test_the_first_signal_is_told_whatever_its_handler_does(
    supervisor: Supervisor, victim: Path, handler: str
) -> None:
    ended = supervisor.run(victim, "handler", handler)

    assert ended.core.signal == NULL_READ
    [fault] = ended.named("fault")
    assert ended.core.threads[0] == fault["tid"] == fault["pid"]
    assert ended.core.selection["memory_later_than_registers"] is (
        handler not in {"remove", "reset"} or fault["handled"]
    )


def test_a_handler_that_exits_leaves_no_core(supervisor: Supervisor, victim: Path) -> None:
    ended = supervisor.run(victim, "handler", "exit")

    assert (ended.status, ended.cores) == (5, ())


def test_thousands_of_survived_faults_are_passed_in_silence(
    supervisor: Supervisor, victim: Path
) -> None:
    ended = supervisor.run(victim, "survive", "5000")

    assert (ended.status, ended.cores) == (7, ())
    assert [event["event"] for event in ended.events] == ["start", "exec", "exit"]


def test_a_survived_fault_is_not_blamed_for_a_later_abort(
    supervisor: Supervisor, victim: Path
) -> None:
    ended = supervisor.run(victim, "survive-then-abort")

    assert ended.core.signal[0] == signal.SIGABRT
    assert ended.core.selection["memory_later_than_registers"] is False


def test_faulthandler_prints_and_the_core_has_the_address(supervisor: Supervisor) -> None:
    code = "import ctypes; ctypes.memset(0x4321, 1, 8)"

    ended = supervisor.run(sys.executable, "-X", "faulthandler", "-c", code)

    assert ended.core.signal == (signal.SIGSEGV, SEGV_MAPERR, 0x4321)
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert 'File "<string>", line 1 in <module>' in ended.stderr
    note = ended.core.selection
    assert note["first_signal"]["address"] == "0x4321"
    assert (note["last_signal"]["code"], note["memory_later_than_registers"]) == (-6, True)


def test_a_fault_without_an_address_has_none(supervisor: Supervisor) -> None:
    code = "import ctypes; ctypes.string_at(0x4141414141414141)"  # a general protection fault

    [fault] = supervisor.run(sys.executable, "-c", code).named("fault")

    assert (fault["code"], fault["address"]) == (SI_KERNEL, None)
    assert "sender_pid" not in fault


def test_a_death_without_a_stop_before_it_is_written_at_the_last_moment(
    supervisor: Supervisor, victim: Path
) -> None:
    ended = supervisor.run(victim, "seccomp")

    assert ended.status == 128 + signal.SIGSYS
    assert ended.core.signal[0] == signal.SIGSYS


def test_all_threads_are_stopped_and_written(supervisor: Supervisor, victim: Path) -> None:
    ended = supervisor.run(victim, "threads", "200")

    assert len(set(ended.core.threads)) == 201
    assert ended.core.selection["missing_threads"] == 0
    assert ended.core.path.stat().st_size < 8 << 20


def test_a_folder_that_cannot_be_written_is_an_error_event_and_no_more(
    supervisor: Supervisor, victim: Path
) -> None:
    supervisor.cores.rmdir()
    supervisor.cores.touch()

    done = subprocess.run(supervisor.command(victim, "crash"), check=False)

    assert done.returncode == 128 + signal.SIGSEGV
    assert "no minicore was written" in supervisor.events.read_text()
