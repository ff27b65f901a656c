"""Who died first, of what: every sample, the rules one by one, and what must not be claimed."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ClueKind, ProcessRole

SAMPLES = Path(__file__).parents[2] / "data" / "log"
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8"))


def told(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("told", SAMPLES / "write_expected.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.told(path)


def test_every_sample_has_its_answer() -> None:
    found = {f"{path.parent.name}/{path.name}" for path in SAMPLES.glob("*/*.log")}

    assert found == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_is_explained(name: str) -> None:
    assert told(SAMPLES / name) == EXPECTED[name]


def test_names_decide_nothing() -> None:
    """Other functions, files and numbers: the same kind of death."""
    log = (SAMPLES / "written" / "ray_actor_sigsegv.log").read_text(encoding="utf-8")
    renamed = re.sub(r"example::Transport::send", "other::Thing::work", log).replace("4501", "77")

    incident = explain_incident(parse_incident_log([renamed.encode()]), "log")

    assert incident is not None
    assert incident.first_death.pid == 77
    assert incident.first_death.function == "other::Thing::work"
    assert incident.first_death.cause.kind is CauseClass.NATIVE_FAULT


def test_a_parents_word_alone_gives_no_cause() -> None:
    incident = incident_of(
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
    )

    assert incident.first_death.cause.kind is CauseClass.UNKNOWN
    assert incident.first_death.cause.certainty is Certainty.UNKNOWN
    assert incident.first_death.role is ProcessRole.ENGINE_CORE
    assert incident.visible_error_is_echo


def test_an_echo_alone_gives_neither_process_nor_cause() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 3, in send',
        "BrokenPipeError: [Errno 32] Broken pipe",
    )

    assert incident.first_death.role is ProcessRole.UNKNOWN
    assert incident.first_death.python_function is None
    assert incident.first_death.cause.kind is CauseClass.UNKNOWN
    assert "only where others noticed" in incident.explanation


def test_an_exit_by_137_is_only_likely_a_lack_of_memory() -> None:
    incident = incident_of("command terminated with exit code 137")

    assert incident.first_death.cause.kind is CauseClass.OOM_KILLED
    assert incident.first_death.cause.certainty is Certainty.LIKELY


def test_the_kernels_word_proves_a_lack_of_memory() -> None:
    incident = incident_of(
        "Worker VllmWorkerProcess pid 42 died, exit code: -9",
        "[ 1.000000] Out of memory: Killed process 42 (python) total-vm:1kB",
    )

    assert incident.first_death.pid == 42
    assert incident.first_death.cause.certainty is Certainty.PROVED


def test_being_asked_to_end_is_no_first_death() -> None:
    incident = incident_of(
        "Worker VllmWorkerProcess pid 41 died, exit code: -15",
        "Worker VllmWorkerProcess pid 42 died, exit code: -11",
        "Worker VllmWorkerProcess pid 43 died, exit code: -15",
    )

    assert incident.first_death.pid == 42
    assert [echo.line for echo in incident.echoes] == [1, 3]
    assert all("asked to end" in echo.why for echo in incident.echoes)


def test_the_first_of_many_that_die_alike_is_named() -> None:
    incident = incident_of(
        "(Worker_TP1 pid=42) Fatal Python error: Segmentation fault",
        "(Worker_TP0 pid=41) Fatal Python error: Segmentation fault",
    )

    assert incident.first_death.pid == 42
    assert [echo.line for echo in incident.echoes] == [2]


def test_a_crash_at_exit_does_not_hide_the_exception_before_it() -> None:
    incident = incident_of(
        "(EngineCore pid=7) Traceback (most recent call last):",
        '(EngineCore pid=7)   File "/opt/app/a.py", line 3, in load',
        "(EngineCore pid=7) ValueError: no such model",
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "Segmentation fault (core dumped)",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert incident.first_death.pid == 7


def test_an_exception_that_was_survived_is_not_the_death() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 3, in optional',
        "ImportError: no module named extra",
        *["INFO going on"] * 50,
        "Fatal Python error: Segmentation fault",
    )

    assert incident.first_death.cause.kind is CauseClass.NATIVE_FAULT


def test_an_exception_raised_while_one_was_handled_ended_the_process() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 3, in get',
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 9, in load',
        "OSError: disk gone",
    )

    assert incident.first_death.cause.detail == "OSError: disk gone"
    assert not incident.visible_error_is_echo


def test_a_gpu_error_names_no_module() -> None:
    name = SAMPLES / "written" / "gpu_illegal_access.log"

    incident = explain_incident(parse_incident_log([name.read_bytes()]), "log")

    assert incident is not None
    assert incident.first_death.cause.kind is CauseClass.GPU_ASYNC
    assert incident.first_death.module is None
    assert "where the error was noticed" in incident.explanation


def test_nobody_died() -> None:
    log = (SAMPLES / "written" / "asked_to_end.log").read_bytes()

    assert explain_incident(parse_incident_log([log]), "log") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a[1]: segfault at 48 ip 10 sp 2 error 4 in x.so[10+20]", "a read of address 0x48"),
        ("a[1]: segfault at 48 ip 10 sp 2 error 6 in x.so[10+20]", "a write to address 0x48"),
        ("a[1]: segfault at 7f0000 ip 10 sp 2 error 7 in x.so[10+20]", "its protection forbids"),
        ("a[1]: segfault at 0 ip 0 sp 2 error 14", "a call of a null function pointer"),
        ("a[1]: segfault at 0 ip           (null) sp 2 error 14 in x[1+2]", "a call of a null fun"),
        ("*** SIGSEGV (@0x88) received by PID 7 (TID 0x7f1) from PID 136; ***", "0x88: a null"),
        ("*** SIGSEGV (@0x0) received by PID 7 (TID 0x7f1) from PID 0; ***", "it may not touch"),
        ("a[1]: segfault at 7f0000 ip 7f0000 sp 2 error 15", "an instruction was fetched"),
    ],
)
def test_a_page_faults_bits_are_told_in_words(line: str, words: str) -> None:
    assert words in incident_of(line).first_death.cause.detail


def test_the_process_tree_names_roles_parents_and_ends() -> None:
    name = SAMPLES / "written" / "engine_worker_sigsegv.log"

    incident = explain_incident(parse_incident_log([name.read_bytes()]), "log")

    assert incident is not None
    first, *others = incident.processes
    assert (first.pid, first.role, first.end) == (4210, ProcessRole.WORKER, "SIGSEGV")
    assert {one.pid: one.role for one in others} == {
        4100: ProcessRole.API_SERVER,
        4176: ProcessRole.ENGINE_CORE,
    }


def test_a_kill_that_the_runtime_calls_no_lack_of_memory_is_not_called_one() -> None:
    docker = incident_of('    "OOMKilled": false,', '    "ExitCode": 137,')
    kubernetes = incident_of("      Reason:       Error", "      Exit Code:    137")

    for death in (docker.first_death, kubernetes.first_death):
        assert death.signal == "SIGKILL"
        assert death.cause.kind is CauseClass.UNKNOWN
        assert "does not call it a lack of memory" in death.cause.detail


def test_a_crash_handler_that_names_no_signal_makes_a_fault_likely() -> None:
    incident = incident_of(
        "PLEASE submit a bug report to https://example.org/ and include the crash backtrace.",
        "Stack dump:",
        "0.\tProgram arguments: opt --convert pool.mlir",
        " #0 0x00005581c0de1234 llvm::sys::PrintStackTrace(llvm::raw_ostream&) (/usr/bin/opt+0x12)",
        " #1 0x00007f1be0003c05 (/lib/libc.so.6+0x3c050)",
        " #2 0x00005581c0de5678 ns::convert(ns::Op*) (/usr/bin/opt+0x5678)",
    )

    assert incident.first_death.cause.kind is CauseClass.NATIVE_FAULT
    assert incident.first_death.cause.certainty is Certainty.LIKELY
    assert (incident.first_death.function, incident.first_death.module) == ("ns::convert", "opt")


LONE = (
    "#0  0x00007f1be0001234 in take (pool=0x0) at pool.c:12",
    "#1  0x00007f1be0001334 in run () at pool.c:40",
)


def test_a_lone_stack_says_where_and_not_of_what() -> None:
    incident = incident_of("(gdb) bt", *LONE)

    assert incident.first_death.function == "take"
    assert incident.first_death.cause.kind is CauseClass.UNKNOWN


def test_a_sentence_about_a_crash_makes_a_lone_stacks_fault_likely() -> None:
    incident = incident_of("it segfaults in the second step", "(gdb) bt", *LONE)

    assert incident.first_death.function == "take"
    assert incident.first_death.cause.kind is CauseClass.NATIVE_FAULT
    assert incident.first_death.cause.certainty is Certainty.LIKELY


def test_a_lone_stack_below_abort_is_of_giving_up() -> None:
    incident = incident_of(
        "#0  __pthread_kill_implementation (threadid=1, signo=6) at pthread_kill.c:44",
        "#1  0x00007f1be0001234 in __GI_raise (sig=sig@entry=6) at raise.c:26",
        "#2  0x00007f1be0001334 in __GI_abort () at abort.c:79",
        "#3  0x00007f1be0001434 in take (pool=0x0) at pool.c:12",
    )

    assert incident.first_death.signal == "SIGABRT"
    assert incident.first_death.function == "take"
    assert incident.first_death.cause.kind is CauseClass.ABORT_EXCEPTION


def test_a_dead_process_gets_its_place_from_a_stack_pasted_below() -> None:
    incident = incident_of("Segmentation fault (core dumped)", "(gdb) bt", *LONE)

    assert incident.first_death.function == "take"
    assert incident.first_death.cause.certainty is Certainty.PROVED


@pytest.mark.parametrize(
    ("line", "kind", "signal"),
    [
        ("exit code -1073741819 (0xC0000005)", CauseClass.NATIVE_FAULT, "SIGSEGV"),
        ("returned non-zero exit status 3221225477.", CauseClass.NATIVE_FAULT, "SIGSEGV"),
        ("the process exited with code 0xc0000374", CauseClass.HEAP_CORRUPTION, None),
        ("exit code 3221226505", CauseClass.ABORT_EXCEPTION, "SIGABRT"),
        ("exit code 3221225781", CauseClass.ENVIRONMENT, None),
    ],
)
def test_windows_statuses_name_their_causes(line: str, kind: CauseClass, signal: str) -> None:
    death = incident_of(line).first_death

    assert (death.cause.kind, death.signal) == (kind, signal)


@pytest.mark.parametrize(
    "line",
    [
        "A pod that uses more is `OOMKilled`, and its exit code is 137.",
        "exit code 139 means that the process was ended by SIGSEGV (128 + 11)",
        "This change adds the signal's name (e.g., SIGSEGV) to the message.",
        'There were reports of "corrupted double-linked list" followed by an abort.',
        "The status 0xC0000005 is STATUS_ACCESS_VIOLATION.",
        "Error code 3221225477 stands for an access violation.",
        "consistent with segfault, os._exit, or external SIGKILL",
        "Use `faulthandler` to see where a Segmentation fault happens.",
        "#0 building with the default instance using docker driver",
        "We handle SIGTERM and exit with code 143; gunicorn sends SIGKILL after the timeout.",
        "When a worker dies, one cannot tell a kill (exit code -9) from a fault (-11).",
        "INFO: client 10.0.0.7: Connection reset by peer",
        "OOMKilled (exit code 137) means that the kernel ended the container.",
        "  \u2022 Pod status: OOMKilled",
        "Ever been stopped by an 'Illegal instruction (core dumped)' error on an old machine?",
        'Understanding "Segmentation fault (core dumped)" in Linux',
        'The dreaded "Segmentation fault (core dumped)" message has many causes.',
        'The system may print a line like "Segmentation fault (core dumped)" to the terminal.',
        "Our guide to \u201cSegmentation fault (core dumped)\u201d on small boards",
        "# [BUG] Segmentation fault handling should be documented",
        'If you see "Program crashed with signal 11", report it.',
        "Workers would have started to exit with code 139.",
        "* thread #1, stop reason = signal SIGSTOP",
        "Such a container is usually listed as stopped with exit code 137.",
        "# NCCL error when I run the example, what can I do?",
        "Version 0.1.92 seems to cause a segmentation fault.",
        "# [Bugfix] Prevent a server crash on empty input",
        "# Debugging an engine that crashes",
        "# Fix a segmentation fault in the block manager",
        "# [Bugfix] The server segfaults on empty input",
        "# Handle a server that crashes with SIGSEGV",
        "# How to debug a segmentation fault in Python",
        "If you get a segmentation fault, update the driver.",
        "When the pool is freed twice, the program segfaults.",
        "It should no longer crash with a segmentation fault.",
        "I ran it for a day and did not get a segfault.",
        "The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors.",
        "- Fixed: the process crashed with signal 11 after a restart",
        "- the engine no longer crashes with signal 11",
        "The worker exits with code 7 if the configuration is wrong.",
        "all workers exited with code 0",
        "# Upload aborted by the user",
        "# Connection was killed after the restart",
        "# Collect and publish crash report data",
        "# Things that can make the pool crash",
        "ld: error: undefined symbol: take_block",
        "ld.lld: error: undefined symbol: take_block",
        "# Connection aborts after a minute",
        "(poolview:4242): Gtk-CRITICAL **: 08:12:45.123: gtk_widget_show: assertion failed",
    ],
)
def test_prose_about_deaths_is_no_death(line: str) -> None:
    assert explain_incident(parse_incident_log([line.encode()]), "log") is None


@pytest.mark.parametrize(
    "line",
    [
        'When I start it I get "Segmentation fault (core dumped)".',
        "Crash when importing the module: `Segmentation fault (core dumped)`",
        'Sometimes it ends with "Segmentation fault (core dumped)".',
        "bash reported `Illegal instruction (core dumped)` and ended",
        "Segmentation fault (core dumped)",
        "Since the upgrade the workers started to exit with code 139.",
        "# Segmentation fault when loading the second adapter",
        "# [Bug]: server segfaults with two GPUs",
        "# Illegal Instruction (Core Dumped)",
        "# Pool server crashes with Signal (11)",
        "Hello, I'm getting a segmentation fault. How do I go on?",
        "When I load the second adapter I get a segfault.",
        "In the cloud, i got signal 11 error after the first request.",
        "After the update a segmentation fault is raised at the first request.",
        "It worked for an hour and then the server segfaulted.",
        "Server side: `[1]    4242 segmentation fault  ./serve --port 80`",
    ],
)
def test_somebody_who_saw_a_death_is_believed(line: str) -> None:
    assert explain_incident(parse_incident_log([line.encode()]), "log") is not None


def test_a_date_before_the_kernels_line_is_no_part_of_the_name() -> None:
    incident = incident_of(
        "[Thu Jan 15 08:12:45 2026] serve[4242]: segfault at 48 ip 00007f1be0001234 sp "
        "00007ffeb9e32ac0 error 4 in libx.so[7f1be0000000+6000]"
    )

    assert (incident.first_death.name, incident.first_death.module) == ("serve", "libx.so")


def test_a_process_that_writes_through_journald_keeps_its_own_number() -> None:
    incident = incident_of(
        "Jan 15 08:12:45 node1 run.sh[77]: [2026-01-15 08:12:45,123 E 4242 4300] logging.cc:108: "
        "*** SIGSEGV received at time=1768464765 on cpu 1 ***",
        "Jan 15 08:12:45 node1 run.sh[77]: [2026-01-15 08:12:45,124 E 4242 4300] logging.cc:108: "
        "    @     0x7f1be0001234        192  ns::take()",
    )

    assert (incident.first_death.pid, incident.first_death.function) == (4242, "ns::take")


def test_a_tombstone_tells_process_and_place() -> None:
    incident = incident_of(
        "pid: 4242, tid: 4300, name: pool  >>> com.example.serve <<<",
        "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x48",
        "    x0  0000000000000000  x1  7000000000001000",
        "backtrace:",
        "    #00 pc 000000000001e020  /system/lib64/libc.so (memcpy+232)",
        "    #01 pc 000000000002f130  /data/app/lib/arm64/libx.so (ns_take+32)",
    )

    death = incident.first_death
    assert (death.pid, death.signal) == (4242, "SIGSEGV")
    assert (death.function, death.module) == ("ns_take", "libx.so")


def test_rubys_extension_is_the_place_and_not_ruby() -> None:
    incident = incident_of(
        "/opt/app/serve.rb:41: [BUG] Segmentation fault at 0x0000000000000048",
        "-- Control frame information -----------------------------------------------",
        *("c:0001 p:0000 s:0002 (none) [FINISH]",) * 40,
        "-- C level backtrace information -------------------------------------------",
        "/opt/ruby/lib/libruby.so.3.4(rb_vm_bugreport+0x5f) [0x7f6746cb135f] vm_dump.c:684",
        "/opt/ruby/lib/libruby.so.3.4(sigsegv+0x5f) [0x7f6746cb235f] signal.c:907",
        "/lib64/libpthread.so.0 [0x3ebf20f7e0]",
        "/opt/gems/x/libx.so(take+0x6a) [0x7ff50967258a] pool.c:288",
    )

    death = incident.first_death
    assert (death.signal, death.cause.certainty) == ("SIGSEGV", Certainty.PROVED)
    assert (death.function, death.module) == ("take", "libx.so")


def test_v8s_own_record_is_read_and_its_last_functions_are_no_place() -> None:
    incident = incident_of(
        "#",
        "# Fatal error in , line 0",
        "# Check failed: blocks->IsFree().",
        "#",
        "#FailureMessage Object: 0x7ffd1be0f230",
        "==== C stack trace ===============================",
        "    /opt/app/serve(+0x9c0a1e) [0xdc0a1e]",
        "    /opt/app/serve(v8::internal::V8_Fatal(char const*, ...)+0x172) [0x1cd5a22]",
        "    /opt/app/serve(ns::Pool::take(unsigned long*) const+0x1c) [0x1066d3c]",
    )

    death = incident.first_death
    assert (death.cause.kind, death.function) == (CauseClass.ABORT_EXCEPTION, "ns::Pool::take")
    assert death.module == "serve"


def test_a_death_while_importing_names_the_file_that_imports() -> None:
    incident = incident_of(
        "Fatal Python error: Illegal instruction",
        "",
        "Current thread 0x00007f1be0001000 (most recent call first):",
        '  File "<frozen importlib._bootstrap>", line 219 in _call_with_frames_removed',
        '  File "<frozen importlib._bootstrap_external>", line 1101 in create_module',
        '  File "/opt/app/basin/core/take.py", line 7 in <module>',
    )

    assert incident.first_death.python_function == "import in core/take.py"


def test_a_node_that_ended_by_itself_died_of_what_is_not_told() -> None:
    incident = incident_of(
        "[ERROR] [serve-3]: process has died [pid 4242, exit code 255, cmd 'x']."
    )

    assert (incident.first_death.pid, incident.first_death.exit) == (4242, 255)
    assert incident.first_death.cause.kind is CauseClass.UNKNOWN


def test_the_only_library_of_a_nameless_stack_is_the_place() -> None:
    incident = incident_of(
        "Program terminated with signal SIGSEGV, Segmentation fault.",
        "#0  0x00007f5bd160c896 in ?? () from /lib/ld-musl-x86_64.so.1",
        "#1  0x00007f5bd160cc2f in ?? () from /lib/ld-musl-x86_64.so.1",
    )

    assert incident.first_death.module == "ld-musl-x86_64.so.1"


def test_an_exception_whose_traceback_lost_its_beginning_is_read() -> None:
    incident = incident_of(
        '  File "/opt/app/a.py", line 3, in load',
        "    return self.weights[name]",
        "KeyError: 'x'",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert incident.first_death.python_function == "load"


def test_a_failed_check_that_was_raised_in_python_is_an_exception() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 3, in load',
        "ValueError: [08:12:45] /src/pool.cc:12: Check failed: block != nullptr",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION


@pytest.mark.parametrize(
    ("lines", "role", "pid", "signal", "kind"),
    [
        (
            ("# ChildProcessError: worker died (-9) in the benchmark",),
            ProcessRole.WORKER,
            None,
            "SIGKILL",
            CauseClass.OOM_KILLED,
        ),
        (
            ("Child process unexpectedly failed with an exit code 134. pid=547",),
            ProcessRole.MAIN,
            547,
            "SIGABRT",
            CauseClass.ABORT_EXCEPTION,
        ),
        (
            (
                "Process:             Python [4242]",
                "Parent Process:      launchd [1]",
                "Exception Type:    EXC_CRASH (SIGABRT)",
            ),
            ProcessRole.MAIN,
            4242,
            "SIGABRT",
            CauseClass.ABORT_EXCEPTION,
        ),
        (
            (
                "Process 4242 stopped",
                "* thread #1, queue = 'main', stop reason = EXC_BAD_ACCESS (code=1, address=0x48)",
            ),
            ProcessRole.MAIN,
            4242,
            "SIGSEGV",
            CauseClass.NATIVE_FAULT,
        ),
        (
            ("Signal: `EXC_BAD_ACCESS (SIGSEGV) KERN_INVALID_ADDRESS at 0x48`",),
            ProcessRole.MAIN,
            None,
            "SIGSEGV",
            CauseClass.NATIVE_FAULT,
        ),
        (
            (
                "*** Terminating app due to uncaught exception 'NSRangeException', reason:",
                "'*** -[__NSArray0 objectAtIndex:]: index 0 beyond bounds for empty array'",
            ),
            ProcessRole.MAIN,
            None,
            "SIGABRT",
            CauseClass.ABORT_EXCEPTION,
        ),
        (
            (
                "WorkerLostError: Worker exited prematurely: signal 11 (SIGSEGV) Job: 7.",
                'Process "ForkPoolWorker-2" pid:4242 exited with "signal 11 (SIGSEGV)"',
            ),
            ProcessRole.WORKER,
            4242,
            "SIGSEGV",
            CauseClass.NATIVE_FAULT,
        ),
        (
            ("slurmstepd: error: Detected 2 oom-kill event(s) in step 42.batch cgroup.",),
            ProcessRole.MAIN,
            None,
            "SIGKILL",
            CauseClass.OOM_KILLED,
        ),
        (
            ('the error is "Floating point exception\uff08core dumped\uff09',),
            ProcessRole.MAIN,
            None,
            "SIGFPE",
            CauseClass.NATIVE_FAULT,
        ),
        (
            ("SIGABRT(6), PID: 4242, Thread 4300: ", "[0] ???(0x7fb5808c16a9) in /lib/libx.so"),
            ProcessRole.MAIN,
            4242,
            "SIGABRT",
            CauseClass.ABORT_EXCEPTION,
        ),
        (
            ("Job pool (1/3): Exited with code 137",),
            ProcessRole.MAIN,
            None,
            "SIGKILL",
            CauseClass.OOM_KILLED,
        ),
        (
            ("Engine process (pid 76) died.",),
            ProcessRole.ENGINE_CORE,
            76,
            None,
            CauseClass.UNKNOWN,
        ),
        (
            ("ERROR 01-15 08:12:45 [core.py:515] EngineCore failed to start.",),
            ProcessRole.ENGINE_CORE,
            None,
            None,
            CauseClass.UNKNOWN,
        ),
        (
            (
                "mpiexec noticed that process rank 0 with PID 4242 on node n1 exited on ",
                "signal 6 (Aborted).",
            ),
            ProcessRole.WORKER,
            4242,
            "SIGABRT",
            CauseClass.ABORT_EXCEPTION,
        ),
        (
            ("# serve.sh: line 3: 10 Illegal instruction (core dumped) ./serve",),
            ProcessRole.MAIN,
            10,
            "SIGILL",
            CauseClass.ENVIRONMENT,
        ),
        (
            ("[CRITICAL] WORKER TIMEOUT (pid:4242)", "[ERROR] Worker (pid:4242) was sent SIGKILL!"),
            ProcessRole.WORKER,
            4242,
            "SIGKILL",
            CauseClass.HANG,
        ),
        (
            ("worker 'gw0' crashed while running 'tests/test_pool.py::test_take'",),
            ProcessRole.WORKER,
            None,
            None,
            CauseClass.UNKNOWN,
        ),
        (
            ("段错误 (核心已转储)",),
            ProcessRole.MAIN,
            None,
            "SIGSEGV",
            CauseClass.NATIVE_FAULT,
        ),
        (
            ("g++: fatal error: Killed signal terminated program cc1plus",),
            ProcessRole.MAIN,
            None,
            "SIGKILL",
            CauseClass.OOM_KILLED,
        ),
    ],
)
def test_other_tellers_words(
    lines: tuple[str, ...], role: ProcessRole, pid: int, signal: str, kind: CauseClass
) -> None:
    death = incident_of(*lines).first_death

    assert (death.role, death.pid, death.signal, death.cause.kind) == (role, pid, signal, kind)


def test_a_record_without_newlines_tells_its_death_before_its_traceback() -> None:
    incident = incident_of(
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 4 "
        "(pid: 4242) of binary: /usr/bin/python      Traceback (most recent call last):   File "
        '"/usr/bin/torchrun", line 33, in <module>'
    )

    assert incident.first_death.pid == 4242
    assert incident.first_death.signal == "SIGKILL"


def test_a_handlers_dump_that_names_its_process_once_is_one_dump() -> None:
    incident = incident_of(
        "[node1:4242:0:4300] Caught signal 11 (Segmentation fault: address not mapped)",
        "==== backtrace ====",
        "    0  /lib64/libucs.so.0(+0x194a3) [0x7f0b015bf4a3]",
        "    1  /opt/app/libpool.so.0(take+0x1b) [0x7f0b018a572b]",
    )

    assert incident.first_death.pid == 4242
    assert incident.first_death.module == "libpool.so.0"


def test_threads_that_terminate_into_each_other_are_read_for_what_they_say() -> None:
    incident = incident_of(
        "terminate called after throwing an instance of 'c10::DistBackendErrorterminate called "
        "after throwing an instance of ''",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "c10::DistBackendError'",
        "  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)",
    )

    assert incident.first_death.cause.kind is CauseClass.HANG


def test_an_exception_whose_message_was_cut_off_is_named_by_the_line_that_raises_it() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 3, in load',
        "    raise RuntimeError(error_m",
    )

    assert incident.first_death.cause.detail == "RuntimeError, whose message is cut off"


def test_an_exception_whose_name_was_cut_off_is_named_by_the_line_that_raises_it() -> None:
    log = (
        b"Traceback (most recent call last):\n"
        b'  File "/opt/app/a.py", line 3, in load\n'
        b"    raise EngineDeadError()\n"
        b"app.exceptions.Engin\n"
    )

    (clue,) = parse_incident_log([log]).clues
    assert (clue.kind, clue.detail) == (ClueKind.ECHO, "EngineDeadError")


def test_waiting_for_the_others_is_no_cause_where_one_of_them_died() -> None:
    incident = incident_of(
        "DEBUG [shm.py:456] No available shared memory broadcast block found in 60 second.",
        "ERROR [multiproc_executor.py:140] Worker proc VllmWorker-1 died unexpectedly, stopping.",
        "DEBUG [shm.py:456] No available shared memory broadcast block found in 60 second.",
    )

    death = incident.first_death
    assert (death.role, death.cause.kind) == (ProcessRole.WORKER, CauseClass.UNKNOWN)


def test_a_nameless_libc_below_a_thread_is_not_what_handled_the_signal() -> None:
    incident = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        "#0  0x00007ffff6ca435e in take_fast () from /opt/app/libpool.so.0",
        "#1  0x00007ffff618c4f9 in serve () from /opt/app/libpool.so.0",
        "#2  0x00007ffff5ca339d in ?? () from /usr/lib/libc.so.6",
        "#3  0x00007ffff5d2849c in ?? () from /usr/lib/libc.so.6",
    )

    assert incident.first_death.function == "take_fast"


def test_torchrun_says_which_of_many_failures_was_the_first() -> None:
    incident = incident_of(
        "Failures:",
        "[1]:",
        "  time      : 2026-01-15_08:12:45",
        "  exitcode  : -11 (pid: 4243)",
        "  traceback : Signal 11 (SIGSEGV) received by PID 4243",
        "------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-01-15_08:12:45",
        "  exitcode  : -11 (pid: 4242)",
        "  traceback : Signal 11 (SIGSEGV) received by PID 4242",
    )

    assert incident.first_death.pid == 4242


def test_the_stack_of_who_noticed_is_not_that_of_the_dead() -> None:
    incident = incident_of(
        "(APIServer pid=42) ERROR 01-15 08:12:45 [c.py:5] Engine core proc EngineCore_DP0 died "
        "unexpectedly, shutting down client.",
        "(APIServer pid=42) ERROR 01-15 08:12:45 [a.py:5] Traceback (most recent call last):",
        '(APIServer pid=42) ERROR 01-15 08:12:45 [a.py:5]   File "/opt/app/a.py", line 3, in take',
        "(APIServer pid=42) ERROR 01-15 08:12:45 [a.py:5]     outputs = await core.get()",
    )

    death = incident.first_death
    assert (death.role, death.pid) == (ProcessRole.ENGINE_CORE, None)
    assert death.python_function is None


def test_windows_names_the_library_above_the_code() -> None:
    incident = incident_of(
        "Faulting application name: python.exe, version: 3.12.1",
        "Faulting module name: example.dll, version: 1.2.3, time stamp: 0x5fa9a827",
        "Exception code: 0xc0000005",
    )

    assert (incident.first_death.signal, incident.first_death.module) == ("SIGSEGV", "example.dll")


def test_llvms_handler_on_windows_prints_a_code_and_a_stack() -> None:
    incident = incident_of(
        "Exception Code: 0xC0000005",
        r"  #0 0x00007fffa4650000 (C:\app\lib\example_hip.dll+0x0)",
        "  #1 0x00007fffa6c8f287 ns::take(class ns::Pool const &, class ns::R",
    )

    assert incident.first_death.module == "example_hip.dll"


def test_a_debugger_that_only_read_the_process_names_no_place() -> None:
    incident = incident_of(
        "src/pool.cpp:3504: GGML_ASSERT(cell.has_seq_id(seq_id)) failed",
        "0x00007fc3a7c490ca in __waitpid (pid=27347, options=0) at ../sysdeps/waitpid.c:30",
    )

    assert incident.first_death.function is None
    assert incident.first_death.cause.kind is CauseClass.ABORT_EXCEPTION


def test_a_library_named_by_a_link_lacks_a_symbol() -> None:
    incident = incident_of(
        "ImportError: [/opt/app/_C.so](https://example.org/opt/app/_C.so): undefined symbol: _Z1fv"
    )

    assert incident.first_death.module == "_C.so"


def test_a_title_is_read_and_a_bare_word_above_a_lesson_is_none() -> None:
    told = incident_of("# Segmentation fault (Address not mapped to object [0x48])")
    bare = incident_of("# Segmentation fault", "", "since the upgrade")
    lesson = parse_incident_log([b"# Segmentation fault\n\nHow to find it\n"])

    assert told.first_death.signal == bare.first_death.signal == "SIGSEGV"
    assert bare.first_death.cause.certainty is Certainty.LIKELY
    assert explain_incident(lesson, "log") is None


def test_a_debuggers_stops_are_no_deaths() -> None:
    log = (
        b"* thread #1, stop reason = breakpoint 1.1\n"
        b"    frame #0: 0x0000000103165a14 pool.so`init + 4 at pool.cpp:38\n"
        b"(lldb) s\n"
        b"    frame #0: 0x0000000103165a18 pool.so`init + 8 at pool.cpp:39\n"
    )

    assert explain_incident(parse_incident_log([log]), "log") is None


def test_the_kernels_module_is_named_even_where_it_is_libc() -> None:
    incident = incident_of("a[1]: segfault at 0 ip 10 sp 2 error 4 in libc-2.31.so[10+20]")

    assert incident.first_death.module == "libc-2.31.so"


def test_openmp_is_the_place_where_nothing_else_is_on_the_stack() -> None:
    incident = incident_of(
        "Thread 0 Crashed:: Dispatch queue: com.apple.main-thread",
        "0   libsystem_kernel.dylib  0x00007fff9262c286 __pthread_kill + 10",
        "1   libsystem_c.dylib  0x00007fff8b0edb53 abort + 129",
        "2   libomp.dylib  0x0000000103c390e8 __kmp_register_library_startup() + 1136",
    )

    assert incident.first_death.module == "libomp.dylib"
    assert incident.first_death.signal == "SIGABRT"


def test_ray_names_the_process_that_it_killed_for_memory() -> None:
    incident = incident_of(
        "Memory on the node (IP: 10.0.0.1) where the task (actor ID: 0dab4a, name=Pool.__init__, "
        "pid=308, memory used=11.15GB) was running was 12.49GB / 13.15GB (0.95), which exceeds the "
        "memory usage threshold of 0.95. Ray killed this worker (ID: 79a5)"
    )

    assert incident.first_death.pid == 308
    assert incident.first_death.role is ProcessRole.RAY_ACTOR
    assert incident.first_death.cause.kind is CauseClass.OOM_KILLED


def test_a_stack_at_a_breakpoint_is_no_death() -> None:
    log = (
        b'Thread 6 "pool" hit Breakpoint 2, take (pool=0x48) at pool.c:9\n'
        b"#0  take (pool=0x48) at pool.c:9\n"
        b"#1  0x00007f1be0001334 in run () at pool.c:40\n"
    )

    assert explain_incident(parse_incident_log([log]), "log") is None


def test_a_traceback_without_its_end_tells_who_and_where_and_no_more() -> None:
    incident = incident_of(
        '(VllmWorker rank=0 pid=114) ERROR 01-15 08:12:45 [a.py:5]   File "/opt/app/a.py", line 3, '
        "in load",
        "(VllmWorker rank=0 pid=114) ERROR 01-15 08:12:45 [a.py:5]     self.pool.take(7)",
    )

    death = incident.first_death
    assert (death.pid, death.role) == (114, ProcessRole.WORKER)
    assert death.python_function == "load"
    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert death.cause.certainty is Certainty.LIKELY
    assert death.cause.detail == "an exception, which the text is cut off before"
    assert "names the exception" in incident.next_steps[0]


def test_a_cut_traceback_out_of_a_wait_may_tell_of_anothers_end() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/a.py", line 9, in start',
        "    self.wait_for_children()",
        '  File "/opt/app/a.py", line 30, in wait_for_children',
        "    select(fds)",
    )

    assert incident.first_death.cause.kind is CauseClass.UNKNOWN


def test_a_lack_of_gpu_memory_is_an_exception_even_without_its_traceback() -> None:
    incident = incident_of("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.")

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION


def test_what_only_a_sentence_tells_is_likely() -> None:
    told = incident_of('When it leaves it says "free(): invalid pointer" and ends.')
    printed = incident_of(
        'When it leaves it says "free(): invalid pointer".', "free(): invalid pointer"
    )

    assert told.first_death.cause.certainty is Certainty.LIKELY
    assert printed.first_death.cause.certainty is Certainty.PROVED


def test_what_somebody_says_makes_the_cause_of_an_echo_likely() -> None:
    incident = incident_of(
        "# Engine segfaults after a day",
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    )

    assert incident.first_death.role is ProcessRole.ENGINE_CORE
    assert incident.first_death.signal == "SIGSEGV"
    assert incident.first_death.cause.kind is CauseClass.NATIVE_FAULT
    assert incident.first_death.cause.certainty is Certainty.LIKELY
    assert incident.visible_error_is_echo


def test_in_the_text_of_a_change_nobody_is_believed() -> None:
    log = b"# Fix the pool's teardown\n\nI got a segmentation fault at exit.\n"

    assert explain_incident(parse_incident_log([log]), "log") is None


def test_the_last_line_of_a_dump_tells_of_a_death_whose_head_is_cut_off() -> None:
    death = incident_of("(Worker pid=42) Extension modules: numpy.random._pcg64 (total: 1)")
    assert (death.first_death.pid, death.first_death.role) == (42, ProcessRole.WORKER)
    assert death.first_death.cause.kind is CauseClass.NATIVE_FAULT
    assert death.first_death.cause.certainty is Certainty.LIKELY


def test_a_dump_that_a_healthy_process_was_asked_for_is_no_death() -> None:
    dump = (
        "Current thread 0x00007f1be0001234 (most recent call first):",
        '  File "/opt/app/pool.py", line 12 in take',
        "",
    )
    log = "\n".join(dump).encode()

    assert explain_incident(parse_incident_log([log]), "log") is None
    heard = incident_of("# Segmentation fault in take", *dump).first_death
    assert (heard.python_function, heard.signal) == ("take", "SIGSEGV")
    assert heard.cause.certainty is Certainty.LIKELY


def test_a_stack_of_open_mpi_that_lost_its_head_is_of_a_fatal_signal() -> None:
    death = incident_of(
        "[node1:04242] [ 4] /opt/lib/libexample.so.9(+0x104e7a2)[0x7f6f0d6d97a2]",
        "[node1:04242] [ 5] /opt/lib/libexample.so.9(+0x10512a7)[0x7f6f0d6dc2a7]",
        "[node1:04242] [ 6] python(_PyObject_MakeTpCall+0x25b)[0x562fbb1f15eb]",
    ).first_death

    assert (death.pid, death.module) == (4242, "libexample.so.9")
    assert death.cause.kind is CauseClass.NATIVE_FAULT
    assert death.cause.certainty is Certainty.LIKELY


def test_a_process_number_of_nought_is_none() -> None:
    death = incident_of(
        "mpirun noticed that process rank 0 with PID 0 on node n1 exited on signal 11",
        "    [n1:00116] *** Process received signal ***",
        "    [n1:00116] Signal: Segmentation fault (11)",
        "    [n1:00116] [ 0] /lib/libc.so.6(+0x42520)[0x7f287b38d520]",
        "    [n1:00116] [ 1] /opt/lib/libucs.so.0(ucs_arbiter_dispatch+0x72)[0x7f284a553862]",
    ).first_death

    assert (death.pid, death.module, death.function) == (116, "libucs.so.0", "ucs_arbiter_dispatch")


def test_what_is_left_of_an_error_of_the_gpu_is_likely_one() -> None:
    death = incident_of(
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Exception raised from check at /src/c10/cuda/CUDAException.cpp:43:",
        "frame #0: c10::Error::Error(std::string) + 0x96 (0x7fe043152446 in /lib/libc10.so)",
        "frame #1: ns::wait() + 0x56 (0x7fe04447e486 in /lib/libtorch_cuda.so)",
    ).first_death

    assert death.cause.kind is CauseClass.GPU_ASYNC
    assert death.cause.certainty is Certainty.LIKELY
    assert death.function is None


def test_a_message_that_goes_on_with_what_the_machine_lacks_tells_the_cause() -> None:
    death = incident_of(
        "[rank4]: Traceback (most recent call last):",
        '[rank4]:   File "/opt/app/pool.py", line 12, in load',
        "[rank4]: RuntimeError: the module cannot be imported because of the following error:",
        "[rank4]: /opt/app/_pool.so: undefined symbol: _ZN2at4_ops4zeroE",
    ).first_death

    assert death.cause.kind is CauseClass.ENVIRONMENT
    assert (death.role, death.module, death.python_function) == (
        ProcessRole.WORKER,
        "_pool.so",
        "load",
    )


@pytest.mark.parametrize(
    "end", [(), ("", "ImportError: cannot import name 'take' from 'pool'")], ids=["cut", "whole"]
)
def test_a_notebooks_traceback_is_read(end: tuple[str, ...]) -> None:
    death = incident_of(
        "ImportError                               Traceback (most recent call last)",
        "Cell In[3], line 1",
        "----> 1 import serve",
        "",
        "File /opt/app/serve.py:12, in load(name)",
        "     11 def load(name):",
        "---> 12     from pool import take",
        "",
        "File <frozen importlib._bootstrap>:1027, in _find_and_load(name, import_)",
        *end,
    ).first_death

    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert death.cause.detail.startswith("ImportError")
    assert death.python_function == "load"


def test_a_debugger_that_ggml_called_names_who_threw() -> None:
    death = incident_of(
        "#0  0x00007077fc4ea42f in __GI___wait4 (pid=822100) at wait4.c:30",
        "#1  0x00007077fd4b292b in ggml_print_backtrace () from /opt/lib/libggml-base.so.0",
        "#2  0x00007077fc8ae277 in std::terminate() () from /lib/libstdc++.so.6",
        "#3  0x00007077fcc75c77 in accept_token(int) () from /opt/lib/libexample.so.0",
    ).first_death

    assert (death.signal, death.function) == ("SIGABRT", "accept_token")


def test_gos_own_words_for_a_signal_in_c_are_read() -> None:
    death = incident_of(
        "SIGABRT: abort",
        "PC=0x7f4e354d800b m=8 sigcode=18446744073709551610",
        "goroutine 43 gp=0xc000002000 m=8 mp=0xc000500008 [syscall]:",
        "runtime.cgocall(0x564b54b12c30, 0xc0000a1c00)",
        "example.org/serve/pool._Cfunc_pool_take(0x7f4dc8000b60)",
    ).first_death

    assert (death.signal, death.function) == ("SIGABRT", "example.org/serve/pool._Cfunc_pool_take")


def test_a_box_that_a_terminal_drew_around_a_log_is_no_part_of_it() -> None:
    death = incident_of(
        "\u2502 Signal (11) received.                                   \u2502",
        "\u2502  0# 0x000055E2DF079299 in serve                          \u2502",
        "\u2502  1# 0x00007F6CFA5A3210 in /lib/libc.so.6                 \u2502",
        "\u2502  2# ns::take(int) in /opt/lib/libexample.so              \u2502",
    ).first_death

    assert (death.signal, death.module) == ("SIGSEGV", "libexample.so")


def test_who_asked_a_worker_tells_of_the_workers_error() -> None:
    lines = (
        "(EngineCore pid=7) Traceback (most recent call last):",
        '(EngineCore pid=7)   File "/opt/app/executor.py", line 12, in get_response',
        "(EngineCore pid=7) RuntimeError: Worker failed with error",
    )
    bare = incident_of(*lines).first_death
    quoted = incident_of(
        *lines[:2], f"{lines[2]} 'CUDA error: an illegal memory access was encountered'"
    ).first_death

    assert (bare.role, bare.pid, bare.cause.kind) == (ProcessRole.WORKER, None, CauseClass.UNKNOWN)
    assert (quoted.role, quoted.pid) == (ProcessRole.WORKER, None)
    assert quoted.cause.kind is CauseClass.GPU_ASYNC


def test_who_says_that_it_failed_is_who_died_where_a_title_tells_of_what() -> None:
    death = incident_of(
        "# [Bug]: crashes with CUDA error: misaligned address",
        "(EngineCore pid=7) ERROR 01-15 08:12:45 [core.py:1138] EngineCore encountered a fatal "
        "error.",
        "(EngineCore pid=7) ERROR 01-15 08:12:45 [core.py:1138] Traceback (most recent call last):",
    ).first_death

    assert (death.pid, death.role) == (7, ProcessRole.ENGINE_CORE)
    assert death.cause.kind is CauseClass.GPU_ASYNC


def test_the_kernel_cuts_a_process_name_to_fifteen_letters() -> None:
    death = incident_of(
        "VLLM::EngineCor[4242]: segfault at 0 ip 0000000000000000 sp 00007ffec640f458 error 14"
    ).first_death

    assert (death.pid, death.role) == (4242, ProcessRole.ENGINE_CORE)


def test_a_sentence_names_the_process_that_crashed() -> None:
    death = incident_of("# The worker crashes (SIGSEGV) while the model is loaded").first_death

    assert (death.role, death.signal) == (ProcessRole.WORKER, "SIGSEGV")


def test_a_data_base_of_errors_holds_no_death() -> None:
    log = (
        b'{\n  "signature": "RuntimeError: a worker (pid 12345) received signal 11 (Segmentation '
        b'fault).",\n  "root_cause": "the workers crash with a segmentation fault."\n}\n'
    )

    assert explain_incident(parse_incident_log([log]), "log") is None


def test_a_stack_of_ray_that_lost_its_head_is_of_giving_up() -> None:
    death = incident_of(
        "(RayWorkerWrapper pid=42) /lib/libstdc++.so.6(+0xaa37c) [0x7f177f31437c]",
        "(RayWorkerWrapper pid=42) /opt/lib/libexample.so(+0xe321ca) [0x7ef097a461ca] ns::watch()",
        "(RayWorkerWrapper pid=42) /lib/libstdc++.so.6(+0xd6df4) [0x7f177f340df4]",
    ).first_death

    assert (death.pid, death.role, death.function) == (42, ProcessRole.RAY_ACTOR, "ns::watch")
    assert death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert death.cause.certainty is Certainty.LIKELY


def test_frames_of_ucx_that_lost_their_newlines_are_parted() -> None:
    death = incident_of(
        " Caught signal 11 (Segmentation fault: not mapped)    ==== backtrace (tid: 7) ====",
        " 0 0x0000000000042520 __sigaction()  ???:0    1 0x0000000000049b8a take<Pool>()  /p.c:1",
    ).first_death

    assert (death.signal, death.function) == ("SIGSEGV", "take<Pool>")


def test_the_only_process_that_writes_is_who_died_where_a_title_tells_of_what() -> None:
    frames = (
        '(Wrapper pid=685)   File "/opt/app/a.py", line 13 in all_reduce',
        '(Wrapper pid=685)   File "/opt/app/b.py", line 421 in forward',
    )
    actor = incident_of("# Segmentation fault with two cards", *frames).first_death
    server = incident_of(
        "# Segmentation fault with two cards",
        *(one.replace("Wrapper", "APIServer") for one in frames),
    ).first_death

    assert (actor.pid, actor.role) == (685, ProcessRole.RAY_ACTOR)
    assert server.pid is None


def test_the_handler_of_a_tpu_names_the_process() -> None:
    incident = incident_of(
        "*** SIGABRT received by PID 8562 (TID 8562) on cpu 236 from PID 8562; stack trace: ***",
        "*** SIGABRT received by PID 8563 (TID 8563) on cpu 219 from PID 8563; stack trace: ***",
    )

    assert (incident.first_death.pid, incident.first_death.signal) == (8562, "SIGABRT")
    assert [echo.line for echo in incident.echoes] == [2]


def test_threads_that_wait_are_those_of_a_living_process() -> None:
    log = (
        b'Thread 110 (Thread 0x7fe9a1fff640 (LWP 92818) "scheduler"):\n'
        b"#0  __futex_abstimed_wait_common64 (private=0, cancel=true) at futex-internal.c:57\n"
        b"#1  do_futex_wait (sem=0x5555609a7368, abstime=0x0) at sem_waitcommon.c:111\n"
        b"#2  0x00007ffdb5507452 in ?? () from /lib/libexample.so.1\n"
    )

    assert explain_incident(parse_incident_log([log]), "log") is None


def test_a_rank_that_was_killed_comes_before_those_that_noticed() -> None:
    incident = incident_of(
        "[0]<stderr>:Killed",
        "[1]<stderr>:terminate called after throwing an instance of 'ns::IoException'",
        "[1]<stderr>:  what():  Connection reset by peer",
        "[1]<stderr>:Aborted (core dumped)",
    )

    assert incident.first_death.signal == "SIGKILL"
    assert [echo.line for echo in incident.echoes][:1] == [2]


def test_an_outer_traceback_without_its_end_says_less_than_the_echo_of_an_inner_death() -> None:
    incident = incident_of(
        "(EngineCore pid=51) ERROR 01-15 08:12:45 [core.py:1136] Exception: WorkerProc "
        "initialization failed due to an exception in a background process.",
        "(EngineCore pid=51) Traceback (most recent call last):",
        '(EngineCore pid=51)   File "/opt/vllm/v1/engine/core.py", line 1110, in run_engine_core',
        "(EngineCore pid=51)     engine_core = EngineCoreProc(*args)",
    )

    assert (incident.first_death.role, incident.first_death.pid) == (ProcessRole.WORKER, None)
    assert incident.visible_error_is_echo


def test_a_daemon_of_ray_is_told_by_its_name_in_front_of_a_line() -> None:
    death = incident_of(
        "(pid=raylet, ip=10.0.0.7) F0505 18:21:58.604787  7485 node.cc:3094]  Check failed: a == b",
        "(pid=raylet, ip=10.0.0.7) *** Check failure stack trace: ***",
        "(pid=raylet, ip=10.0.0.7)     @     0x556cdfaa142d  google::LogMessage::Fail()",
        "(pid=raylet, ip=10.0.0.7)     @     0x556cdf514a74  ns::Node::forward()",
    ).first_death

    assert (death.cause.kind, death.function) == (CauseClass.ABORT_EXCEPTION, "ns::Node::forward")


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("(raylet) Raylet is terminated. Termination is unexpected.", ProcessRole.UNKNOWN),
        ("Stub process is unhealthy and it will be restarted.", ProcessRole.WORKER),
        ("failed to load 'pool': Stub process 'pool_0' is not healthy.", ProcessRole.WORKER),
    ],
)
def test_a_helper_process_that_is_gone_is_named(line: str, role: ProcessRole) -> None:
    death = incident_of(line).first_death

    assert (death.role, death.cause.kind) == (role, CauseClass.UNKNOWN)


def test_a_traceback_that_was_moved_to_the_right_is_read_to_its_end() -> None:
    death = incident_of(
        '      File "/opt/app/a.py", line 12, in load',
        "        raise ValueError(name)",
        "    ValueError: no such pool",
    ).first_death

    assert death.cause.detail == "ValueError: no such pool"
    assert death.python_function == "load"


@pytest.mark.parametrize(
    ("title", "role", "signal"),
    [
        ("# [Bug]: Worker Process Crash with two adapters", ProcessRole.WORKER, None),
        ("# EngineCore crashes when the cache is full", ProcessRole.ENGINE_CORE, None),
        ("# llama-server keeps crashing", ProcessRole.MAIN, None),
        ("# Keeps failing: an empty sequence, then SIGABRT", ProcessRole.MAIN, "SIGABRT"),
    ],
)
def test_a_title_that_says_who_ended_tells_a_death_of_unknown_cause(
    title: str, role: ProcessRole, signal: str | None
) -> None:
    death = incident_of(title, "", "Here is what I did.").first_death

    assert (death.role, death.signal) == (role, signal)
    assert death.cause.certainty is not Certainty.PROVED


def test_a_worker_that_exited_with_a_status_is_the_dead_one_and_not_who_noticed() -> None:
    death = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/train.py", line 12, in handler',
        "RuntimeError: DataLoader worker (pid 80064) exited unexpectedly with exit code 1.",
    ).first_death

    assert (death.pid, death.role, death.exit) == (80064, ProcessRole.WORKER, 1)
    assert death.cause.kind is CauseClass.UNKNOWN


def test_a_wait_for_a_workers_answer_is_no_exception_of_its_own() -> None:
    death = incident_of(
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.11/multiprocessing/queues.py", line 108, in get',
        "    raise Empty",
        "_queue.Empty",
    ).first_death

    assert death.cause.kind is CauseClass.UNKNOWN
