"""Programs that hang, flood, fork or are not there."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from vllm_forensics.capture.process import (
    Limits,
    find_program,
    plain_environment,
    run_program,
    started,
)
from vllm_forensics.errors import ToolError

SHELL = "/bin/sh"


def is_alive(pid: int) -> bool:
    """Is the process there, and no zombie that only waits to be reaped?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until_gone(pid: int) -> bool:
    for _ in range(200):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_status_and_both_outputs_are_kept() -> None:
    completed = run_program([SHELL, "-c", "echo out; echo err >&2; exit 3"], limits=Limits())

    assert (completed.status, completed.stdout, completed.stderr) == (3, b"out\n", b"err\n")


def test_a_death_by_signal_is_a_negative_status() -> None:
    completed = run_program([SHELL, "-c", "kill -SEGV $$"], limits=Limits())

    assert completed.status == -signal.SIGSEGV


def test_a_missing_program_says_how_to_get_it() -> None:
    with pytest.raises(ToolError, match="no-such-tool could not be started") as caught:
        run_program(["no-such-tool"], limits=Limits())

    assert "apt-get install no-such-tool" in caught.value.remedy
    assert find_program("no-such-tool") is None


def test_a_timeout_ends_grandchildren_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! > {pids}; echo $$ >> {pids}; trap '' TERM; wait"

    with pytest.raises(ToolError, match=r"did not finish within 0\.5 s"):
        run_program([SHELL, "-c", script], limits=Limits(timeout_s=0.5))

    for pid in pids.read_text(encoding="utf-8").split():
        assert wait_until_gone(int(pid))


def test_an_exception_in_the_block_ends_the_group() -> None:
    pid = 0

    def fail_while_it_runs() -> None:
        nonlocal pid
        with started([SHELL, "-c", "sleep 600"], limits=Limits()) as child:
            pid = child.pid
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_while_it_runs()
    assert wait_until_gone(pid)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_megabyte_on_one_pipe_does_not_stop_the_other(stream: int) -> None:
    script = f"head -c 1000000 /dev/zero >&{stream}; echo end >&{3 - stream}"

    completed = run_program([SHELL, "-c", script], limits=Limits(timeout_s=20))

    outputs = {1: completed.stdout, 2: completed.stderr}
    assert len(outputs[stream]) == 1_000_000
    assert outputs[3 - stream] == b"end\n"


def test_more_output_than_allowed_is_cut_and_does_not_block() -> None:
    limits = Limits(output_bytes=1000, timeout_s=20)

    completed = run_program([SHELL, "-c", "head -c 300000 /dev/zero"], limits=limits)

    assert (completed.status, len(completed.stdout)) == (0, 1000)


def test_output_is_seen_as_it_comes() -> None:
    seen: list[bytes] = []

    run_program([SHELL, "-c", "echo a; echo b >&2"], limits=Limits(), on_output=seen.append)

    assert sorted(b"".join(seen)) == sorted(b"a\nb\n")


def test_it_reads_an_empty_input() -> None:
    assert run_program(["cat"], limits=Limits(timeout_s=10)).status == 0


def test_a_child_leaves_no_core_unless_it_may() -> None:
    script = [sys.executable, "-c", "import resource; print(resource.getrlimit(4)[0])"]

    assert run_program(script, limits=Limits()).stdout == b"0\n"
    lifted = run_program(script, limits=Limits(core_bytes=-1)).stdout
    assert lifted != b"0\n" or os.geteuid() != 0


def test_the_users_settings_do_not_reach_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://example.invalid")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    environment = plain_environment({"EXTRA": "1"})

    assert "DEBUGINFOD_URLS" not in environment
    assert (environment["LC_ALL"], environment["EXTRA"]) == ("C.UTF-8", "1")
