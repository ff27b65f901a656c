"""`forensics report`: programs really crash, leave a log, a core and more, and are told as one."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.py.integration.crashes import FALLING, compile_program
from tests.py.integration.tool import REPOSITORY, Answer, forensics
from tests.py.integration.victim_cases import core_pattern_for_cwd

pytestmark = pytest.mark.gdb
SCHEMA = json.loads(
    (REPOSITORY / "docs/schemas/forensics.report.1.json").read_text(encoding="utf-8")
)
IN_A_THREAD = """\
#include <pthread.h>
static void *fall(void *at) { *(volatile int *)at = 1; return 0; }
int main() {
  pthread_t thread;
  pthread_create(&thread, 0, fall, (void *)0x48);
  pthread_join(thread, 0);
}
"""
FALL_BELOW_PYTHON = """\
import ctypes, faulthandler
faulthandler.enable()
def step():
    ctypes.string_at(0x18)
step()
"""
HANDLED = """\
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
namespace planted {
__attribute__((noinline)) void fall(int* volatile where) {
  *where = 1;
  asm volatile("");
}
}  // namespace planted
void give_up(int) {
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}
int main() {
  std::fprintf(stderr, "(Worker pid=%d) Fatal Python error: Aborted\\n", getpid());
  std::signal(SIGSEGV, give_up);
  planted::fall(reinterpret_cast<int*>(0x18));
}
"""
STALE = """\
#include <cstdlib>
#include <cstring>
namespace planted {
__attribute__((noinline)) char stale(char* volatile block) { return block[3]; }
}  // namespace planted
int main() {
  char* block = static_cast<char*>(std::malloc(64));
  std::memset(block, 0, 64);
  std::free(block);
  return planted::stale(block);
}
"""
THROWS = """\
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>
void again(int number) {
  std::signal(number, SIG_DFL);
  std::raise(number);
}
int main() {
  stack_t own{};
  own.ss_size = 1 << 16;
  own.ss_sp = std::malloc(own.ss_size);
  sigaltstack(&own, nullptr);
  struct sigaction action{};
  action.sa_handler = again;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigaction(SIGABRT, &action, nullptr);
  throw std::runtime_error("no free block");
}
"""
SERVICE = """\
#include <cstdio>
#include <cstring>
#include <unistd.h>
namespace planted {
__attribute__((noinline)) void take(int* volatile block) { *block = 1; asm volatile(""); }
__attribute__((noinline)) void give(int* volatile block) { *block = 2; asm volatile(""); }
}  // namespace planted
int main(int, char** arguments) {
  std::fprintf(stderr, "INFO 01-15 08:12:40 [api_server.py:9] vLLM API server version 0.11.0\\n");
  std::fprintf(stderr, "(Worker_TP0 pid=%d) INFO 01-15 08:12:41 [worker.py:9] up\\n", getpid());
  std::fprintf(stderr, "(Worker_TP0 pid=%d) Fatal Python error: Segmentation fault\\n", getpid());
  int* nothing = reinterpret_cast<int*>(0x18);
  std::strcmp(arguments[1], "take") == 0 ? planted::take(nothing) : planted::give(nothing);
}
"""


def crash(
    folder: Path, *command: str | Path, dies_of: signal.Signals = signal.SIGSEGV, **environment: str
) -> bytes:
    """Run it in the folder, where its core is left, and return what it said."""
    with core_pattern_for_cwd():
        done = subprocess.run(
            ("prlimit", "--core=unlimited:", *command),
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == -dies_of, done
    assert list(folder.glob("core*")), "no core was left"
    return done.stderr


def told(*evidence: Path) -> dict[str, Any]:
    answer = forensics("report", "--format", "json", *evidence)
    assert answer.status == 1, answer.stderr
    jsonschema.validate(answer.report, SCHEMA)
    return answer.report


def screen(folder: Path) -> Answer:
    return forensics("report", folder)


def sources_of(process: dict[str, Any]) -> set[str]:
    return {Path(fact["source"]).name for fact in process["facts"]}


def agreed(process: dict[str, Any]) -> dict[str, set[str]]:
    return {
        f"{one['what']} {one['value']}": {Path(path).name for path in one["sources"]}
        for one in process["agrees"]
    }


def test_a_log_without_a_pid_its_core_and_its_trace_are_one_death(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = tmp_path / "trace.txt"
    said = crash(
        tmp_path, "strace", "-f", "-ttt", "-o", trace, sys.executable, "-c", FALL_BELOW_PYTHON
    )
    # After the death: what its parent and its client say.
    echo = b"vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    (tmp_path / "serve.log").write_bytes(said + echo)

    report = told(tmp_path)

    death, first = report["first_death"], report["processes"][0]
    [core] = report["crashes"]
    assert death["pid"] == first["pid"] == core["pid"]
    assert (death["signal"], death["cause"]["class"]) == ("SIGSEGV", "native-fault")
    assert death["python_function"] in {"string_at", "step"}
    assert sources_of(first) == {"serve.log", "trace.txt", Path(core["core"]).name}
    assert agreed(first)["signal SIGSEGV"] == sources_of(first)
    assert agreed(first)["address 0x18"] == {"trace.txt", Path(core["core"]).name}
    assert report["visible_error_is_echo"] is True
    assert [Path(echo["source"]).name for echo in report["echoes"]] == ["serve.log"]
    assert report["unattached"] == []


def test_a_dump_of_another_stack_is_said_to_be_one(tmp_path: Path) -> None:
    crash(tmp_path, sys.executable, "-c", FALL_BELOW_PYTHON)
    (tmp_path / "other.log").write_text(
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f1be0001234 (most recent call first):\n"
        '  File "/opt/app/other.py", line 7 in unrelated\n'
    )

    report = told(tmp_path)

    said = [one["sentence"] for one in report["processes"][0]["contradicts"]]
    assert any("Python's unrelated, which is not on the stack" in one for one in said)


def test_a_handlers_abort_and_the_fault_before_it_are_told_apart(tmp_path: Path) -> None:
    program = compile_program(HANDLED, tmp_path / "handled", "-O1")
    folder = tmp_path / "left"
    folder.mkdir()
    said = crash(folder, program, dies_of=signal.SIGABRT)
    (folder / "worker.log").write_bytes(said)

    report = told(folder)

    first = report["processes"][0]
    [differs] = first["contradicts"]
    assert differs["explained"] is True
    assert "SIGSEGV came first" in differs["sentence"]
    assert report["first_death"]["signal"] == "SIGSEGV"
    assert report["first_death"]["function"] == "planted::fall"
    assert "Differ" in screen(folder).stdout


def test_the_report_of_a_sanitizer_is_joined_to_the_core_by_process(tmp_path: Path) -> None:
    program = compile_program(STALE, tmp_path / "stale", "-fsanitize=address")
    folder = tmp_path / "left"
    folder.mkdir()
    options = "abort_on_error=1:disable_coredump=0"
    said = crash(folder, program, dies_of=signal.SIGABRT, ASAN_OPTIONS=options)
    (folder / "what it said").write_bytes(b"2026-01-15 INFO starting\n" + said)

    report = told(folder)

    first = report["processes"][0]
    assert report["first_death"]["cause"]["class"] == "heap-corruption"
    assert report["reports"][0]["kind"] == "heap-use-after-free"
    assert agreed(first)["function planted::stale"] == sources_of(first)
    assert "freed" in report["explanation"]


def test_what_forensics_run_left_is_joined_with_the_programs_own_words(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "falling", "-O1")
    folder = tmp_path / "left"
    folder.mkdir()
    ran = forensics("run", "--folder", folder / "run", "--", program, cwd=folder)
    (folder / "shell.log").write_text("serve.sh: line 3: Segmentation fault (core dumped)\n")

    report = told(folder)

    first = report["processes"][0]
    kinds = {source["kind"] for source in report["sources"]}
    assert ran.status == 128 + signal.SIGSEGV
    assert kinds == {"core", "supervisor", "log"}
    assert report["first_death"]["function"] == "planted::fall"
    assert {"events.jsonl", "shell.log"} < sources_of(first)
    assert len(report["processes"]) == 1


def test_an_old_core_of_the_same_number_is_not_taken_for_this_death(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "falling", "-O1")
    folder = tmp_path / "left"
    folder.mkdir()
    crash(folder, program)
    [core] = folder.glob("core*")
    pid = forensics("core", "--format", "json", core).crash["pid"]
    (folder / "later.log").write_text(
        f"2199-01-15T08:12:45Z (Worker pid={pid}) Fatal Python error: Segmentation fault\n"
    )

    report = told(folder)

    sentences = [one["sentence"] for one in report["processes"][0]["contradicts"]]
    assert any("was written" in one and "used again since" in one for one in sentences)


def test_the_kernel_counts_a_containers_process_otherwise(tmp_path: Path) -> None:
    """The same instruction and stack pointer: one process, whatever number it has outside."""
    program = compile_program(FALLING, tmp_path / "falling", "-O1")
    folder = tmp_path / "left"
    folder.mkdir()
    crash(folder, program)
    [core] = folder.glob("core*")
    seen = forensics("core", "--format", "json", core).crash
    registers = seen["threads"][0]["registers"]
    ip, sp = (int(registers[name], 16) for name in ("rip", "rsp"))
    outside = seen["pid"] + 100_000
    (folder / "dmesg").write_text(
        f"[ 8421.100000] falling[{outside}]: segfault at 18 ip {ip:016x} sp {sp:016x} error 6 in "
        "falling[555555555000+1000]\n"
    )

    report = told(folder)

    [process] = report["processes"]
    [differs] = [one for one in process["contradicts"] if "in a container" in one["sentence"]]
    assert process["pid"] == seen["pid"]
    assert differs["explained"] is True
    assert str(outside) in differs["sentence"]
    assert agreed(process)["address 0x18"] == {"dmesg", core.name}


def test_the_kernel_tells_a_thread_of_the_cores(tmp_path: Path) -> None:
    program = compile_program(IN_A_THREAD, tmp_path / "threaded", "-O1", "-pthread")
    folder = tmp_path / "left"
    folder.mkdir()
    crash(folder, program)
    [core] = folder.glob("core*")
    seen = forensics("core", "--format", "json", core).crash
    thread = seen["threads"][0]
    ip, sp = (int(thread["registers"][name], 16) for name in ("rip", "rsp"))
    (folder / "dmesg").write_text(
        f"[ 8421.100000] threaded[{thread['id']}]: segfault at 48 ip {ip:016x} sp {sp:016x} "
        "error 6 in threaded[555555555000+1000]\n"
    )

    report = told(folder)

    [process] = report["processes"]
    [differs] = process["contradicts"]
    assert process["pid"] == seen["pid"] != thread["id"]
    assert "its thread of that number" in differs["sentence"]
    assert differs["explained"] is True


def test_two_processes_that_died_are_two(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "falling", "-O1")
    for name in ("one", "two"):
        folder = tmp_path / "left" / name
        folder.mkdir(parents=True)
        crash(folder, program)

    report = told(tmp_path / "left")

    assert len(report["processes"]) == len(report["crashes"]) == 2
    assert [one["died_first"] for one in report["processes"]] == [True, False]


def test_a_service_that_was_started_again_is_told_bug_by_bug(tmp_path: Path) -> None:
    program = compile_program(SERVICE, tmp_path / "service", "-O1", "-g")
    folder = tmp_path / "left"
    said = b""
    for name, bug in (("1", "take"), ("2", "take"), ("3", "give")):
        (folder / name).mkdir(parents=True)
        said += crash(folder / name, program, bug)
    (folder / "serve.log").write_bytes(said)

    report = told(folder)
    screen = forensics("report", folder).stdout

    incidents, bugs = report["incidents"], report["bugs"]
    assert [bug["incidents"] for bug in bugs] == [[1, 2], [3]]
    assert bugs[0]["same"] == "signature"
    assert [one["first_death"]["function"] for one in incidents] == [
        *("planted::take", "planted::take", "planted::give"),
    ]
    cores = {one["core"]: one["pid"] for one in report["crashes"]}
    for number, one in enumerate(incidents):
        [core] = one["cores"]
        [of_log] = [part for part in one["sources"] if part["path"].endswith("serve.log")]
        assert Path(core).parent.name == str(number + 1)
        assert one["first_death"]["pid"] == cores[core]
        assert (of_log["first_line"], of_log["last_line"]) == (3 * number + 1, 3 * number + 3)
    assert report["told"] == 1
    assert report["first_death"] == incidents[0]["first_death"]
    assert "The same bug 1× more" in screen
    assert "━━ 2 ━━" in screen


def test_a_loop_that_left_only_cores_is_one_bug_many_times(tmp_path: Path) -> None:
    program = compile_program(FALLING, tmp_path / "falling", "-O1")
    for number in range(3):
        folder = tmp_path / "left" / str(number)
        folder.mkdir(parents=True)
        crash(folder, program)
        [core] = folder.glob("core*")
        os.utime(core, (1_768_464_765 + 30 * number,) * 2)

    report = told(tmp_path / "left")

    [bug] = report["bugs"]
    assert bug["incidents"] == [1, 2, 3]
    assert [one["time"] for one in report["incidents"]] == [
        *("2026-01-15T08:12:45Z", "2026-01-15T08:13:15Z", "2026-01-15T08:13:45Z"),
    ]


@pytest.mark.parametrize(
    "said",
    [
        "[ 8421.1] Out of memory: Killed process {pid} (falling) total-vm:1000kB, anon-rss:1000kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n",
        "    State: Terminated\n      Reason: OOMKilled\n      Exit Code: 137\n",
    ],
    ids=["of the process", "of nobody"],
)
def test_a_killed_process_leaves_no_core(tmp_path: Path, said: str) -> None:
    program = compile_program(FALLING, tmp_path / "falling", "-O1")
    folder = tmp_path / "left"
    folder.mkdir()
    crash(folder, program)
    [core] = folder.glob("core*")
    pid = forensics("core", "--format", "json", "--depth", "notes", core).crash["pid"]
    (folder / "dmesg").write_text(said.format(pid=pid))

    report = told(folder)

    sentences = [one["sentence"] for one in report["processes"][0]["contradicts"]]
    assert report["first_death"]["cause"]["class"] == "native-fault"
    assert any("leaves no core" in sentence for sentence in sentences)


def test_a_core_that_was_cut_short_is_of_the_same_process(tmp_path: Path) -> None:
    crash(tmp_path, sys.executable, "-c", FALL_BELOW_PYTHON)
    [core] = tmp_path.glob("core*")
    (tmp_path / "cut").write_bytes(core.read_bytes()[:300_000])

    report = told(tmp_path)

    assert len(report["crashes"]) == 2
    [incident] = report["incidents"]
    assert len({part["path"] for part in incident["sources"]}) == 2


def test_an_exception_is_found_below_a_handler_on_a_stack_of_its_own(tmp_path: Path) -> None:
    program = compile_program(THROWS, tmp_path / "throws", "-O1")
    folder = tmp_path / "left"
    folder.mkdir()
    said = crash(folder, program, dies_of=signal.SIGABRT)
    (folder / "serve.log").write_bytes(said)

    report = told(folder)

    [core] = report["crashes"]
    assert core["fault"]["kind"] == "uncaught-exception"
    assert core["fault"]["message"] == "std::runtime_error: no free block"
    assert len(report["incidents"]) == 1
