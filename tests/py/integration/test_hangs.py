"""Living programs that do not get on: the verdict, and that they notice nothing of the look."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.tool import COMMAND, REPOSITORY, forensics
from tests.py.support.namespaces import need_own_mounts

from vllm_forensics.capture.live import tree_of
from vllm_forensics.capture.supervisor import supervisor_path
from vllm_forensics.errors import EvidenceError

Json = dict[str, Any]
Folder = Path
SOURCE = Path(__file__).parent / "hangs" / "hangs.cpp"
PATIENCE_S = 20

BOTH_READ_FIRST = """\
import os
down, up = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(down[1]); os.close(up[0])
    os.read(down[0], 1)
    os.write(up[1], b"x")
    os._exit(0)
os.close(down[0]); os.close(up[1])
print("ready", flush=True)
os.read(up[0], 1)
"""
WAITS_FOR_A_FULL_PIPE = """\
import subprocess
child = subprocess.Popen(["head", "-c", "1000000", "/dev/zero"], stdout=subprocess.PIPE)
print("ready", flush=True)
child.wait()
"""
A_CONVERSATION = """\
import os
down, up = os.pipe(), os.pipe()
if os.fork() == 0:
    while True:
        os.write(up[1], os.read(down[0], 1))
os.close(down[0]); os.close(up[1])
print("ready", flush=True)
while True:
    os.write(down[1], b"x")
    os.read(up[0], 1)
"""
LOCKS_CROSSWISE = """\
import threading
one, two, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(first, second):
    with first:
        both.wait()
        second.acquire()
threads = [threading.Thread(target=take, args=pair) for pair in ((one, two), (two, one))]
for thread in threads:
    thread.start()
print("ready", flush=True)
threads[0].join()
"""
BUSY_PYTHON = """\
def count_forever():
    n = 0
    while True:
        n += 1
print("ready", flush=True)
count_forever()
"""
KEEPS_THE_GIL = """\
import ctypes, sys, threading, time
library = ctypes.PyDLL(sys.argv[1])
def wants_it():
    while True:
        sum(range(1000))
def sleeps_without_it():
    time.sleep(1000)
for work in (wants_it, wants_it, sleeps_without_it):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
getattr(library, sys.argv[2])()
"""
GIL_KEEPER = """\
#include <unistd.h>
volatile unsigned long spins;
void spin_with_the_gil(void) { for (;;) ++spins; }
void sleep_with_the_gil(void) { for (;;) pause(); }
"""
SERVER = """\
import socket
server = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
server.accept()
"""
A_SEMAPHORE = """\
import multiprocessing, time
def work(semaphore):
    semaphore.acquire()
if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    semaphore = fork.Semaphore(0)
    fork.Process(target=work, args=(semaphore,), daemon=True).start()
    print("ready", flush=True)
    time.sleep(1000)
"""
A_ZOMBIE = """\
import os, time
if os.fork() == 0:
    os._exit(0)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="session")
def hangs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ programs, in one executable."""
    target = tmp_path_factory.mktemp("hangs") / "hangs"
    options = ("-std=c++17", "-g", "-O1", "-pthread")
    subprocess.run(["g++", *options, SOURCE, "-o", target], check=True, timeout=120)
    return target


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts programs that say "ready"; each and all of its children are ended by their ids."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            start_new_session=True,
            **options,
        )
        started.append(child)
        return child

    yield begin
    for child in started:
        end_tree(child)


def end_tree(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(EvidenceError):
        for pid in reversed(tree_of(child.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    child.wait(timeout=PATIENCE_S)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def is_ready(child: subprocess.Popen[bytes]) -> int:
    """Its pid, once it said so and had the time to get stuck."""
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    return child.pid


def look(pid: int, folder: Path, *options: str, timeout_s: float = 60) -> tuple[int, Json]:
    answer = forensics(
        "core", "--pid", str(pid), "--format", "json", *options, cwd=folder, timeout_s=timeout_s
    )
    assert answer.stdout, answer.stderr
    report = answer.report
    schema = json.loads((REPOSITORY / "docs/schemas/forensics.hang.1.json").read_text())
    jsonschema.validate(report, schema)
    return answer.status, report


def kinds(report: Json) -> list[str]:
    return [finding["kind"] for finding in report["findings"]]


def state_of(pid: int) -> tuple[str, int]:
    """The state's letter, and who traces it."""
    status = Path(f"/proc/{pid}/status").read_text()
    state = re.search(r"^State:\s*(\w)", status, re.MULTILINE)
    tracer = re.search(r"^TracerPid:\s*(\d+)", status, re.MULTILINE)
    assert state
    assert tracer
    return state.group(1), int(tracer.group(1))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Deadlocks.


@pytest.mark.gdb
@pytest.mark.parametrize("kind", ["mutex", "robust"])
def test_two_mutexes_taken_crosswise(start: Any, hangs: Path, tmp_path: Path, kind: str) -> None:
    pid = is_ready(start(hangs, kind))

    status, report = look(pid, tmp_path)

    assert (status, kinds(report)[0]) == (1, "deadlock")
    cycle = [w for w in report["waits"] if w["resource"].startswith("the mutex")]
    assert {wait["waiter"]["tid"] for wait in cycle} == {wait["holder"]["tid"] for wait in cycle}
    assert len(cycle) == 2
    assert state_of(pid) == ("S", 0)


@pytest.mark.gdb
def test_with_priority_inheritance_the_kernel_names_the_owner(
    start: Any, hangs: Path, tmp_path: Path
) -> None:
    # The kernel refuses to close the circle (EDEADLK); glibc then lets that thread sleep for good.
    _, report = look(is_ready(start(hangs, "priority")), tmp_path)

    [wait] = report["waits"]
    assert wait["resource"].startswith("the mutex")
    assert wait["waiter"] != wait["holder"]


@pytest.mark.gdb
def test_a_mutex_taken_twice(start: Any, hangs: Path, tmp_path: Path) -> None:
    pid = is_ready(start(hangs, "twice"))

    _, report = look(pid, tmp_path)

    assert kinds(report) == ["deadlock"]
    [wait] = report["waits"]
    assert wait["waiter"] == wait["holder"] == {"pid": pid, "tid": pid}


@pytest.mark.gdb
@pytest.mark.parametrize("kind", ["shared_mutex", "condition"])
def test_what_names_no_owner_is_not_called_a_deadlock(
    start: Any, hangs: Path, tmp_path: Path, kind: str
) -> None:
    _, report = look(is_ready(start(hangs, kind)), tmp_path)

    assert kinds(report) == ["idle"]
    assert report["waits"] == []


def test_locks_of_python_say_where_and_that_nobody_is_left_to_wake_them(
    start: Any, tmp_path: Path
) -> None:
    pid = is_ready(start(sys.executable, "-c", LOCKS_CROSSWISE))

    status, report = look(pid, tmp_path)

    assert status == 0
    [finding] = report["findings"]
    assert finding["kind"] == "idle"
    assert "All 3 threads" in finding["summary"]
    assert "nobody goes on" in finding["summary"]
    assert sum("take (<string>:6)" in proof for proof in finding["proof"]) == 2


def test_a_program_with_files_of_its_own_is_named_by_them(
    start: Any, hangs: Path, tmp_path: Path
) -> None:
    need_own_mounts()
    inside = f"mount -t tmpfs tmpfs /mnt && cp {hangs} /mnt/serve && exec /mnt/serve mutex"
    pid = is_ready(start("unshare", "--mount", "sh", "-c", inside))

    _, report = look(pid, tmp_path)

    assert kinds(report) == ["deadlock"]
    assert not Path("/mnt/serve").exists()
    [process] = report["processes"]
    calls = [call for thread in process["threads"] for call in thread["frames"]]
    assert any("(anonymous namespace)" in call for call in calls)
    assert not any(call.startswith("serve+") for call in calls)


def test_parent_and_child_both_read_first(start: Any, tmp_path: Path) -> None:
    pid = is_ready(start(sys.executable, "-c", BOTH_READ_FIRST))

    status, report = look(pid, tmp_path, "--no-gdb")

    assert (status, kinds(report)[0]) == (1, "deadlock")
    child = report["processes"][1]["pid"]
    assert {wait["waiter"]["pid"] for wait in report["waits"]} == {pid, child}


def test_the_cycle_is_found_from_the_child_too(start: Any, tmp_path: Path) -> None:
    pid = is_ready(start(sys.executable, "-c", BOTH_READ_FIRST))
    [child] = tree_of(pid)[1:]

    _, report = look(child, tmp_path, "--no-gdb")

    assert kinds(report)[0] == "waiting-on-peer"
    assert [process["pid"] for process in report["processes"]] == [child, pid]


def test_a_parent_waits_for_the_end_of_a_child_whose_pipe_is_full(
    start: Any, tmp_path: Path
) -> None:
    pid = is_ready(start(sys.executable, "-c", WAITS_FOR_A_FULL_PIPE))
    [child] = tree_of(pid)[1:]

    _, report = look(pid, tmp_path, "--no-gdb")

    assert kinds(report)[0] == "deadlock"
    proof = " ".join(report["findings"][0]["proof"])
    assert f"thread {pid} is in wait() for its child {child}" in proof
    assert f"thread {child} is in write(1) on pipe" in proof


def test_a_conversation_is_no_deadlock(start: Any, tmp_path: Path) -> None:
    _, report = look(is_ready(start(sys.executable, "-c", A_CONVERSATION)), tmp_path, "--no-gdb")

    assert "deadlock" not in kinds(report)


# Busy, waiting, idle.


@pytest.mark.gdb
def test_a_busy_loop_names_its_function(start: Any, hangs: Path, tmp_path: Path) -> None:
    _, report = look(is_ready(start(hangs, "spin")), tmp_path)

    assert kinds(report) == ["busy-loop"]
    assert "spin_forever" in report["findings"][0]["summary"]


@pytest.mark.gdb
def test_a_busy_loop_names_its_python_function(start: Any, tmp_path: Path) -> None:
    program = tmp_path / "busy.py"
    program.write_text(BUSY_PYTHON)

    _, report = look(is_ready(start(sys.executable, program)), tmp_path)

    assert kinds(report) == ["busy-loop"]
    # Stopped at the condition or in the body: either may be.
    assert re.search(r"in count_forever \(.*:[34]\)", report["findings"][0]["summary"])


@pytest.mark.gdb
@pytest.mark.parametrize("keeper", ["spin_with_the_gil", "sleep_with_the_gil"])
def test_the_gil_is_kept_by_a_c_function(start: Any, tmp_path: Path, keeper: str) -> None:
    (tmp_path / "keeper.c").write_text(GIL_KEEPER)
    library = tmp_path / "keeper.so"
    subprocess.run(
        ["cc", "-g", "-shared", "-fPIC", tmp_path / "keeper.c", "-o", library], check=True
    )
    pid = is_ready(start(sys.executable, "-c", KEEPS_THE_GIL, library, keeper))

    _, report = look(pid, tmp_path)

    gil = next(found for found in report["findings"] if found["kind"] == "gil-wait")
    assert gil["summary"].startswith(f"2 threads wait for the GIL, which thread {pid} ")
    assert {wait["holder"]["tid"] for wait in report["waits"]} == {pid}
    holder = report["processes"][0]["threads"][0]
    assert any(keeper in frame for frame in holder["frames"])


def test_a_pipeline_waits_for_its_first_program(start: Any, tmp_path: Path) -> None:
    shell = start("sh", "-c", "sleep 60 | cat; :")
    until(lambda: len(tree_of(shell.pid)) == 3)
    time.sleep(0.3)

    status, report = look(shell.pid, tmp_path, "--no-gdb")

    assert status == 1
    assert set(kinds(report)) == {"waiting-on-peer"}
    said = [finding["summary"] for finding in report["findings"]]
    assert any(re.search(r"\(cat\) waits for data in a pipe from .*\(sleep\)", s) for s in said)


def test_a_server_without_clients_is_idle(start: Any, tmp_path: Path) -> None:
    pid = is_ready(start(sys.executable, "-c", SERVER))

    status, report = look(pid, tmp_path, "--no-gdb")

    assert (status, kinds(report)) == (0, ["idle"])


def test_a_semaphore_in_shared_memory_names_its_file(start: Any, tmp_path: Path) -> None:
    pid = is_ready(start(sys.executable, "-c", A_SEMAPHORE))
    [child] = tree_of(pid)[1:]

    _, report = look(pid, tmp_path, "--no-gdb")

    assert kinds(report) == ["waiting-on-peer"]
    [wait] = report["waits"]
    assert (wait["waiter"]["pid"], wait["holder"]["pid"]) == (child, pid)
    assert "/dev/shm/" in wait["resource"]  # noqa: S108 - where POSIX semaphores are


# Who cannot be looked into.


def test_there_is_no_such_process(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()

    answer = forensics("core", "--pid", str(ended.pid), cwd=tmp_path)

    assert answer.status == 2
    assert f"there is no process {ended.pid}" in answer.stderr


def test_it_ends_meanwhile(start: Any, tmp_path: Path) -> None:
    child = start("sh", "-c", "sleep 0.7")
    looking = subprocess.Popen(
        [COMMAND, "core", "--pid", str(child.pid)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        child.wait(timeout=PATIENCE_S)
        _, said = looking.communicate(timeout=PATIENCE_S)
    finally:
        looking.kill()
        looking.wait()

    assert b"Traceback" not in said
    assert b"there is no process" in said


def test_a_child_that_has_ended_is_said_to_have(start: Any, tmp_path: Path) -> None:
    pid = is_ready(start(sys.executable, "-c", A_ZOMBIE))
    [child] = tree_of(pid)[1:]

    _, report = look(pid, tmp_path, "--no-gdb")

    [gap] = report["gaps"]
    assert gap.startswith(f"process {child} has ended; its parent {pid} has not asked")
    assert len(report["snapshots"]) == 1


def test_threads_of_the_kernel_have_no_memory(tmp_path: Path) -> None:
    name = Path("/proc/2/comm")
    if not name.exists() or name.read_text() != "kthreadd\n":
        pytest.skip("a container hides the kernel's threads")

    _, report = look(2, tmp_path, "--no-gdb")

    assert report["snapshots"] == []
    assert any("of the kernel" in gap for gap in report["gaps"])
    assert len(report["gaps"]) == 1


@pytest.mark.gdb
def test_who_is_in_a_debugger_already_is_a_gap(start: Any, hangs: Path, tmp_path: Path) -> None:
    pid = is_ready(start(hangs, "mutex"))
    debugger = subprocess.Popen(
        ["gdb", "-batch", "-nx", "-p", str(pid), "-ex", "shell sleep 60"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "DEBUGINFOD_URLS": ""},
    )
    try:
        until(lambda: state_of(pid)[1] == debugger.pid)
        _, report = look(pid, tmp_path)
    finally:
        end_tree(debugger)

    [gap] = report["gaps"]
    assert gap.startswith(f"process {pid} is traced by process {debugger.pid} already")
    assert "deadlock" not in kinds(report)


@pytest.mark.root
def test_another_users_process_is_a_gap(start: Any, tmp_path: Path) -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    pid = start(*nobody, "sleep", "60").pid
    until(lambda: "sleep" in Path(f"/proc/{pid}/comm").read_text())
    powerless = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    command = ("core", "--pid", str(pid), "--format", "json")

    answer = forensics(*command, cwd=tmp_path, before=powerless)

    [gap] = answer.report["gaps"]
    assert f"process {pid} cannot be looked into: Operation not permitted" in gap
    assert answer.report["processes"][0]["command"] == "sleep"
    assert kinds(answer.report) == ["idle"]
    assert answer.status == 2, "it could not tell"
    assert state_of(pid) == ("S", 0)


# What the program notices: nothing.


@pytest.mark.gdb
def test_three_hundred_threads_take_seconds(start: Any, hangs: Path, tmp_path: Path) -> None:
    pid = is_ready(start(hangs, "threads", "300"))
    begin = time.monotonic()

    _, report = look(pid, tmp_path)

    assert time.monotonic() - begin < 15
    threads = report["processes"][0]["threads"]
    assert len(threads) == 301
    assert all("pause" in thread["frames"][0] for thread in threads)


def test_a_stopped_process_stays_stopped_and_is_explained(start: Any, tmp_path: Path) -> None:
    pid = is_ready(start(sys.executable, "-c", SERVER))
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid)[0] == "T")

    status, report = look(pid, tmp_path, "--no-gdb")

    assert (status, kinds(report)[0]) == (1, "stopped")
    assert f"kill -CONT {pid}" in report["findings"][0]["summary"]
    assert len(report["snapshots"]) == 1
    assert state_of(pid) == ("T", 0)
    os.kill(pid, signal.SIGCONT)
    until(lambda: state_of(pid)[0] == "S")


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null"])
def test_it_goes_on_when_nothing_can_be_written(start: Any, folder: str) -> None:
    pid = is_ready(start(sys.executable, "-c", SERVER))

    done = subprocess.run(
        [supervisor_path(), "--snapshot", str(pid), "--output", folder],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 125
    assert folder.encode() in done.stderr
    until(lambda: state_of(pid) == ("S", 0))


def test_no_signal_is_lost(start: Any, hangs: Path, tmp_path: Path) -> None:
    child = start(hangs, "signals", "2000")
    pid = is_ready(child)
    looks = subprocess.Popen(
        ["sh", "-c", 'for i in 1 2 3 4 5 6; do "$0" --snapshot "$1" --output "$2"; sleep 0.1; done',
         supervisor_path(), str(pid), str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(2000):
            os.kill(pid, signal.SIGRTMIN)
            time.sleep(0.0005)
        assert child.wait(timeout=PATIENCE_S) == 0
    finally:
        end_tree(looks)


@pytest.mark.gdb
def test_a_process_whose_first_thread_has_ended(start: Any, hangs: Path, tmp_path: Path) -> None:
    _, report = look(is_ready(start(hangs, "without_main")), tmp_path)

    assert kinds(report) == ["busy-loop"]
    assert "spin_forever" in report["findings"][0]["summary"]
    assert len(report["snapshots"]) == 1


# Under the supervisor.


def test_a_stall_is_told_while_the_program_runs(start: Any, tmp_path: Path) -> None:
    script = "import time; print('hello', flush=True); time.sleep(9); raise SystemExit(7)"
    child = start(
        COMMAND, "run", "--stall", "1", "--", sys.executable, "-c", script,
        stderr=subprocess.PIPE,
    )  # fmt: skip

    first = child.stderr.readline()
    runs_still = child.poll() is None
    rest = child.stderr.read().decode()
    status = child.wait(timeout=PATIENCE_S)

    assert first == b"stalled: no processor time for 1 s\n"
    assert runs_still
    assert "━━ idle ━━" in rest
    assert rest.count("stalled:") == 0, "once"
    assert child.stdout.read() == b"hello\n"
    assert status == 7


def test_a_deadlock_is_told_while_the_program_runs(start: Any, tmp_path: Path) -> None:
    child = start(
        COMMAND, "run", "--stall", "1", "--", sys.executable, "-c", BOTH_READ_FIRST,
        stderr=subprocess.PIPE,
    )  # fmt: skip

    lines = [child.stderr.readline().decode() for _ in range(2)]

    assert lines[1].startswith("━━ deadlock ━━")
    assert child.poll() is None


def test_a_probe_that_fails_is_told(start: Any, tmp_path: Path) -> None:
    script = "import os, time\nwhile True: os.write(nowhere, b'.' * sum(range(9)))"
    script = "import os\nnowhere = os.open('/dev/null', os.O_WRONLY)\n" + script
    child = start(
        COMMAND, "run", "--stall", "1", "--probe", "false", "--", sys.executable, "-c", script,
        stderr=subprocess.PIPE,
    )  # fmt: skip

    first = child.stderr.readline()

    assert first == b"stalled: the probe false failed\n"


def test_sigusr2_looks_into_all_and_the_program_goes_on(start: Any, tmp_path: Path) -> None:
    child = start(
        COMMAND, "run", "--folder", tmp_path / "evidence", "--",
        "sh", "-c", "sleep 5 & sleep 5 & wait; echo done; exit 5",
        stderr=subprocess.PIPE,
    )  # fmt: skip
    until(lambda: len(tree_of(child.pid)) == 5)
    time.sleep(0.3)

    child.send_signal(signal.SIGUSR2)

    assert child.wait(timeout=PATIENCE_S) == 5
    assert child.stdout.read() == b"done\n"
    said = child.stderr.read().decode()
    assert said.startswith("looked into: SIGUSR2 asked for it\n━━ idle ━━\n")
    events = [json.loads(line) for line in events_of(tmp_path / "evidence")]
    snapshots = {event["pid"]: event for event in events if event["event"] == "snapshot"}
    assert len(snapshots) == 3
    assert all(Path(event["path"]).stat().st_size > 0 for event in snapshots.values())
    ends = {event["pid"]: event["status"] for event in events if event["event"] == "exit"}
    assert sorted(ends.values()) == [0, 0, 5]


def events_of(folder: Folder) -> Sequence[str]:
    return (folder / "events.jsonl").read_text().splitlines()
