"""What /proc says of living threads."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from vllm_forensics.capture.live import (
    cpu_of_tree,
    parse_shared_mappings,
    parse_system_call,
    tree_of,
    watch_tree,
)
from vllm_forensics.capture.stall import written_by
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.hang import Call, LiveProcess

FUTEX = "{} 0x7f01 0x189 0x2 0x0 0x0 0xffffffff 0x7ffe 0x7f02\n"


@pytest.mark.parametrize(
    ("machine", "number", "call"),
    [
        ("x86_64", 0, Call.READ),
        ("x86_64", 1, Call.WRITE),
        ("x86_64", 61, Call.WAIT4),
        ("x86_64", 202, Call.FUTEX),
        ("x86_64", 247, Call.WAITID),
        ("x86_64", 63, Call.OTHER),
        ("aarch64", 63, Call.READ),
        ("aarch64", 64, Call.WRITE),
        ("aarch64", 95, Call.WAITID),
        ("aarch64", 98, Call.FUTEX),
        ("aarch64", 260, Call.WAIT4),
        ("aarch64", 0, Call.OTHER),
        ("riscv64", 63, Call.OTHER),
    ],
)
def test_a_number_is_the_call_that_it_is_on_this_machine(
    machine: str, number: int, call: Call
) -> None:
    found = parse_system_call(FUTEX.format(number), machine)

    assert found is not None
    assert found.call is call
    assert found.arguments == (0x7F01, 0x189, 2, 0, 0, 0xFFFFFFFF)


@pytest.mark.parametrize("text", ["", "running\n", "-1 0x7ffe 0x7f02\n", "202 0x1\n"])
def test_outside_of_a_call_there_is_none(text: str) -> None:
    assert parse_system_call(text, "x86_64") is None


def test_shared_mappings_keep_their_range_name_and_identity() -> None:
    text = """\
5600-5700 rw-p 00000000 08:01 11                         /srv/program
7f00-7f10 rw-s 00000000 00:19 42                         /mnt/a ring (deleted)
7f10-7f20 rw-s 00000000 00:01 43
broken
"""

    ring, unnamed = parse_shared_mappings(text)

    assert (ring.start, ring.end, ring.identity) == (0x7F00, 0x7F10, "00:19:42")
    assert ring.name == "/mnt/a ring (deleted)"
    assert unnamed.name == "unnamed shared memory"


@pytest.fixture
def pipeline() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with two children, the second of which reads from the first."""
    shell = subprocess.Popen(["sh", "-c", "sleep 60 | cat; :"], start_new_session=True)
    try:
        while len(tree_of(shell.pid)) < 3:
            pass
        yield shell
    finally:
        for pid in reversed(tree_of(shell.pid)):
            os.kill(pid, 9)
        shell.wait()


def named(name: str, processes: tuple[LiveProcess, ...]) -> LiveProcess:
    [found] = [process for process in processes if process.command.endswith(name)]
    return found


def test_a_tree_is_watched_parents_first(pipeline: subprocess.Popen[bytes]) -> None:
    watch_tree(pipeline.pid, 0.2)  # until all have become what they will be

    shell, *children = watch_tree(pipeline.pid, 0.3)

    assert shell.pid == pipeline.pid
    assert {child.parent for child in children} == {shell.pid}
    cat = named("cat", tuple(children))
    [thread] = cat.threads
    assert thread.still
    assert thread.system_call is not None
    assert thread.system_call.call is Call.READ
    assert thread.state == "S"
    assert any(pipe.descriptor == 0 and pipe.reads and not pipe.writes for pipe in cat.pipes)


def test_who_holds_the_other_end_is_found_outside_of_the_tree(
    pipeline: subprocess.Popen[bytes],
) -> None:
    watch_tree(pipeline.pid, 0.2)
    cat = named("cat", watch_tree(pipeline.pid, 0.1))

    first, *peers = watch_tree(cat.pid, 0.3)

    assert first.pid == cat.pid
    assert first.in_tree
    assert [(peer.command, peer.in_tree) for peer in peers] == [("sleep", False)]


def test_a_busy_thread_is_not_still() -> None:
    spin = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        watch_tree(spin.pid, 0.5)
        [process] = watch_tree(spin.pid, 0.5)
    finally:
        spin.kill()
        spin.wait()

    assert process.threads[0].cpu_share > 0.01  # of a crowded machine it may get little
    assert process.threads[0].state == "R"


def test_there_is_no_such_process() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()

    with pytest.raises(EvidenceError, match=f"there is no process {ended.pid}"):
        tree_of(ended.pid)


def test_the_id_of_a_thread_is_no_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(EvidenceError):
            tree_of(thread.native_id or 0)
    finally:
        done.set()
        thread.join()


def test_processor_time_and_output_are_counted() -> None:
    before = cpu_of_tree([os.getpid()])
    while cpu_of_tree([os.getpid()]) < before + 0.05:
        pass
    written = written_by(os.getpid())
    with open(os.devnull, "wb", buffering=0) as nowhere:  # noqa: PTH123 - unbuffered
        nowhere.write(b"12345")

    assert written_by(os.getpid()) >= written + 5
    assert cpu_of_tree([]) == 0
    assert written_by(1 << 30) == 0
