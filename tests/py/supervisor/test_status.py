"""A program that does not crash notices nothing, and its caller sees its own status."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.py.supervisor.support import Supervisor

# The default action of these is not to end the program.
HARMLESS = {
    signal.SIGCHLD,
    signal.SIGCONT,
    signal.SIGURG,
    signal.SIGWINCH,
    signal.SIGSTOP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
}
DUMPING = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGABRT,
    signal.SIGSYS,
}


def test_every_exit_status_is_passed_through(supervisor: Supervisor, victim: Path) -> None:
    seen = [
        subprocess.run(supervisor.command(victim, "exit", str(status)), check=False).returncode
        for status in range(256)
    ]

    assert seen == list(range(256))
    assert not list(supervisor.cores.iterdir())


@pytest.mark.parametrize("number", sorted(set(signal.Signals) - HARMLESS), ids=lambda n: n.name)
def test_a_death_by_a_signal_is_128_and_its_number(
    supervisor: Supervisor, victim: Path, number: signal.Signals
) -> None:
    ended = supervisor.run(victim, "signal", str(int(number)))

    assert ended.status == 128 + number
    [end] = ended.named("exit")
    assert (end["signal"], end["status"]) == (number, None)
    assert len(ended.cores) == (1 if number in DUMPING else 0)


def test_a_command_that_is_not_there_ends_as_in_a_shell(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    not_runnable = tmp_path / "text"
    not_runnable.write_text("no program")
    not_runnable.chmod(0o644)

    missing = supervisor.run("no-such-program")
    forbidden = supervisor.run(not_runnable)

    assert missing.status == 127
    assert "no-such-program: No such file or directory" in missing.stderr
    assert forbidden.status == 126


def test_a_wrong_command_line_says_so_and_runs_nothing(executable: Path) -> None:
    done = subprocess.run([executable, "--budget", "many"], capture_output=True, check=False)

    assert done.returncode == 125
    assert b"--budget many" in done.stderr


def test_standard_streams_and_environment_are_the_programs_own(supervisor: Supervisor) -> None:
    done = subprocess.run(
        supervisor.command("sh", "-c", 'read line; echo "$line $X"; echo problem >&2'),
        input="given\n",
        text=True,
        capture_output=True,
        env={**os.environ, "X": "own"},
        check=False,
    )

    assert (done.stdout, done.stderr) == ("given own\n", "problem\n")


def test_a_reader_sees_the_end_when_the_program_closes_its_output(supervisor: Supervisor) -> None:
    with subprocess.Popen(
        supervisor.command("sh", "-c", "echo out; exec >&- 2>&-; exec sleep 30"),
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        text = process.stdout.read()  # until every writer has closed it
        process.terminate()

    assert text == b"out\n"
    assert process.returncode == 128 + signal.SIGTERM


def test_dispositions_and_mask_are_those_that_the_caller_left(supervisor: Supervisor) -> None:
    show = ("grep", "-E", "^(SigBlk|SigIgn|SigCgt)", "/proc/self/status")
    plain = subprocess.run(("nohup", *show), capture_output=True, text=True, check=True)

    ended = replace(supervisor, before=("nohup",)).run(*show)

    assert ended.stdout == plain.stdout


def run_short_programs(supervisor: Supervisor, number: int) -> None:
    for index in range(number):
        status = index % 4
        done = subprocess.run(
            supervisor.command("sh", "-c", f"true & (exit 3); wait; exit {status}"), check=False
        )
        assert done.returncode == status, index
    ended = supervisor.result(0)
    starts = {event["pid"] for event in ended.named("start")}
    assert {event["pid"] for event in ended.named("exit")} == starts
    for pid in starts:
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or " Z " not in state.read_text()


def test_short_programs_leave_no_zombie_and_keep_their_status(supervisor: Supervisor) -> None:
    run_short_programs(supervisor, 200)


@pytest.mark.slow
def test_a_thousand_short_programs(supervisor: Supervisor) -> None:
    run_short_programs(supervisor, 1000)


def test_arguments_are_counted_and_never_written(supervisor: Supervisor, victim: Path) -> None:
    ended = supervisor.run(victim, "exit", "0", "--token=hunter2-secret")

    [started, executed] = ended.named("start") + ended.named("exec")
    assert (executed["command"], executed["arguments"]) == (str(victim), 3)
    assert started["pid"] == executed["pid"]
    assert "hunter2" not in supervisor.events.read_text()


@pytest.mark.root
def test_as_the_first_process_it_reaps_orphans_and_passes_the_status_on(
    supervisor: Supervisor,
) -> None:
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

    ended = replace(supervisor, before=namespace).run(
        "sh", "-c", "(sleep 0.1 & exec sleep 0.2) & sh -c '(sleep 0.1 &)'; sleep 0.4; ps -e; exit 9"
    )

    assert ended.status == 9
    assert "defunct" not in ended.stdout


def test_where_ptrace_is_forbidden_the_program_runs_plainly(
    supervisor: Supervisor, victim: Path
) -> None:
    # One tracer a process: under strace the supervisor may trace, but the program is taken.
    traced = ("strace", "-f", "-o", str(supervisor.folder / "trace"))

    ended = replace(supervisor, before=traced).run(victim, "exit", "3")

    assert ended.status == 3
    [error] = ended.named("error")
    assert "ptrace is not permitted" in error["message"]
