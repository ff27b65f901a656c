"""Terminals, job control and signals work as if the supervisor were not there."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.py.supervisor.support import Supervisor

PATIENCE_S = 60.0


class Terminal:
    """A pseudo terminal with an interactive bash, and the supervisor's command at hand."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.environ |= {"PS1": "READY> ", "TERM": "dumb"}
            os.execvp(command[0], command)  # noqa: S606 the child of a fork
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def expect(self, pattern: str) -> str:
        """Wait for a pattern and drop all up to its end."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self._text)) is None:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, left))
            assert ready, f"{pattern!r} did not come: {self._text!r}"
            try:
                self._text += os.read(self._terminal, 4096).decode()
            except OSError:  # the other end is closed
                raise AssertionError(f"{pattern!r} did not come: {self._text!r}") from None
        self._text = self._text[found.end() :]
        return found[0]

    def finish(self) -> int:
        """Wait until the program ended by itself and let go of the terminal; how it ended."""
        deadline = time.monotonic() + PATIENCE_S
        while select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                os.read(self._terminal, 4096)
            except OSError:  # the other end is closed
                break
        return self.close()

    def close(self) -> int:
        """Hang up and return how the shell ended."""
        os.close(self._terminal)
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)


BASH = ("bash", "--norc", "--noprofile", "-i")


@pytest.fixture
def shell() -> Iterator[Terminal]:
    terminal = Terminal(BASH)
    terminal.expect("READY> ")
    yield terminal
    terminal.close()


def quoted(supervisor: Supervisor, *command: str) -> str:
    return " ".join(f"'{part}'" for part in supervisor.command(*command))


def test_ctrl_c_ends_the_program_once_and_gives_the_prompt_back(
    supervisor: Supervisor, shell: Terminal
) -> None:
    shell.type(quoted(supervisor, "sh", "-c", "echo started; exec sleep 60") + "\n")
    shell.expect("\r\nstarted")
    shell.type("\x03")
    shell.expect("READY> ")
    shell.type("echo status $?\n")

    assert shell.expect(r"\r\nstatus \d+").endswith(str(128 + signal.SIGINT))


def test_a_program_that_counts_sees_each_ctrl_c_once(
    supervisor: Supervisor, shell: Terminal, victim: Path
) -> None:
    shell.type(quoted(supervisor, str(victim), "count", str(int(signal.SIGINT))) + "\n")
    shell.expect(r"\r\nready \d+")
    shell.type("\x03")
    shell.expect("READY> ")
    shell.type("echo status $?\n")

    assert shell.expect(r"\r\nstatus \d+").endswith("status 1")


def test_ctrl_z_stops_the_job_and_fg_goes_on_with_it(
    supervisor: Supervisor, shell: Terminal
) -> None:
    shell.type(quoted(supervisor, "sh", "-c", "echo started; read line; echo got $line") + "\n")
    shell.expect("\r\nstarted")
    for _ in range(3):
        time.sleep(0.3)  # the shell names the job first, and gives it the terminal then
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect("READY> ")
        shell.type("fg\n")
        shell.expect("forensics-supervisor.*\r\n")
    shell.type("word\n")
    shell.expect("got word")
    shell.expect("READY> ")


def test_a_job_in_the_background_that_reads_is_stopped_as_any_other(
    supervisor: Supervisor, shell: Terminal
) -> None:
    shell.type(quoted(supervisor, "sh", "-c", "read line; echo got $line") + " &\n")
    shell.expect("READY> ")
    time.sleep(0.5)
    shell.type("jobs\n")
    shell.expect(r"Stopped \(tty input\)|Stopped")
    shell.expect("READY> ")
    shell.type("fg\n")
    shell.expect("forensics-supervisor.*\r\n")
    shell.type("word\n")
    shell.expect("got word")


def test_an_interactive_shell_runs_under_it_with_jobs_of_its_own(supervisor: Supervisor) -> None:
    terminal = Terminal(supervisor.command(*BASH))
    terminal.expect("READY> ")
    # What it prints itself tells that it has the terminal; the echo of what is typed does not.
    terminal.type("sh -c 'echo run''ning; exec cat'\n")
    terminal.expect("running\r\n")
    terminal.type("\x1a")
    terminal.expect("Stopped")
    terminal.expect("READY> ")
    terminal.type("fg\n")
    terminal.expect("cat'\r\n")
    terminal.type("here\n")
    terminal.expect("here\r\nhere\r\n")  # it has the terminal again, which the shell gives late
    terminal.type("\x03")
    terminal.expect("READY> ")
    terminal.type("exit 5\n")

    assert terminal.finish() == 5


def test_a_python_prompt_under_a_terminal_survives_ctrl_c(supervisor: Supervisor) -> None:
    terminal = Terminal(supervisor.command(sys.executable, "-q", "-i"))
    terminal.expect(">>> ")
    terminal.type("import time; time.sleep(60)\n")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.expect("KeyboardInterrupt")
    terminal.type("raise SystemExit(4)\n")

    assert terminal.finish() == 4


def start_counting(
    supervisor: Supervisor, victim: Path, number: int, *, own_group: bool
) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        supervisor.command(victim, "count", str(number)),
        stdout=subprocess.PIPE,
        text=True,
        process_group=0 if own_group else None,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline().split()[1])


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1],
)
def test_a_signal_to_the_supervisor_reaches_the_program_once(
    supervisor: Supervisor, victim: Path, number: int
) -> None:
    process, _ = start_counting(supervisor, victim, number, own_group=True)
    with process:
        process.send_signal(number)

    assert process.returncode == 1


def test_a_signal_to_the_whole_group_reaches_the_program_once(
    supervisor: Supervisor, victim: Path
) -> None:
    process, _ = start_counting(supervisor, victim, signal.SIGTERM, own_group=True)
    with process:
        os.killpg(process.pid, signal.SIGTERM)

    assert process.returncode == 1


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@pytest.mark.parametrize("run", range(5))
def test_the_program_runs_on_when_the_supervisor_is_killed(
    supervisor: Supervisor, run: int
) -> None:
    code = (
        "import os\n"
        "print(os.getpid(), flush=True)\n"
        "while True: os.waitpid(os.fork() or os._exit(0), 0)"
    )
    busy = (sys.executable, "-c", code)  # most likely in the middle of a ptrace event
    with subprocess.Popen(supervisor.command(*busy), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            time.sleep(0.05 * run)
            process.kill()
            process.wait()

            time.sleep(0.1)
            before = Path(f"/proc/{pid}/stat").read_text().split()[13]
            time.sleep(0.3)
            after = Path(f"/proc/{pid}/stat").read_text().split()[13]
            assert state_of(pid) in "RSD"
            assert before != after or state_of(pid) != "t"
        finally:
            os.kill(pid, signal.SIGKILL)


def test_a_stopped_program_is_seen_to_be_stopped_and_goes_on(supervisor: Supervisor) -> None:
    with subprocess.Popen(
        supervisor.command("sh", "-c", "echo $$; while :; do :; done"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.2)
            stopped = state_of(pid)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.2)
            resumed = state_of(pid)
        finally:
            os.kill(pid, signal.SIGKILL)

    assert (stopped in "tT", resumed) == (True, "R")
    assert process.returncode == 128 + signal.SIGKILL
