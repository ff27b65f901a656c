"""What a debugger's session tells beside the native stack: Python's calls, the program's name."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death

SIGNAL = "Program terminated with signal SIGSEGV, Segmentation fault.\n"
STACK = (
    "#0  0x00007f1be0001234 in pool_take (pool=0x0, n=3) at src/pool.c:88\n"
    "#1  0x00007f1be0001534 in pool_pytake () from /opt/app/_pool.so\n"
)
PY_BT = (
    "(gdb) py-bt\nTraceback (most recent call first):\n"
    "  <built-in method take of module object at remote 0x7f1be0123456>\n"
    '  File "/opt/app/serve.py", line 88, in step\n    block = pool.take(3)\n'
    '  File "/opt/app/serve.py", line 12, in run\n    self.step()\n'
)
FULL = (
    "(gdb) py-bt-full\n"
    "#4 Frame 0x7f1be0123456, for file /opt/app/serve.py, line 88, in step (n=3)\n"
    "    block = pool.take(n)\n"
    "#9 Frame 0x7f1be0123500, for file /opt/app/serve.py, line 12, in run ()\n"
)
ARGUMENT = (
    "#2  0x00000000005a1234 in _PyEval_EvalFrameDefault (f=Frame 0x7f1be0123456, for file "
    "/opt/app/serve.py, line 88, in step (n=3), throwflag=0) at Python/ceval.c:4181\n"
)


def death(log: str) -> Death:
    incident = explain_incident(parse_incident_log([log.encode()]), "log")
    assert incident is not None
    return incident.first_death


@pytest.mark.parametrize("python", [PY_BT, FULL, ARGUMENT, PY_BT + FULL + ARGUMENT])
def test_the_innermost_of_pythons_calls_stands_first(python: str) -> None:
    first, bare = death(SIGNAL + STACK + python), death(SIGNAL + python)

    assert (first.python_function, first.function) == ("step", "pool_take")
    assert bare.python_function == "step"


def test_py_bt_below_a_title_tells_where() -> None:
    first = death(f"# Segfault in our service\n\n{PY_BT}")

    assert (first.signal, first.python_function) == ("SIGSEGV", "step")


def test_py_bt_alone_tells_no_death() -> None:
    assert explain_incident(parse_incident_log([PY_BT.encode()]), "log") is None


@pytest.mark.parametrize(
    "log",
    [
        "(gdb) run\nStarting program: /usr/bin/python3 serve.py\n\n"
        "Program received signal SIGSEGV, Segmentation fault.\n",
        "* thread #1, queue = 'com.apple.main-thread', stop reason = EXC_BAD_ACCESS (code=1)\n"
        "    frame #0: 0x0000000104e95123 _pool.so`ns::take(int) + 12\n"
        "Target 0: (python3) stopped.\n",
        "* thread #1, name = 'python3', stop reason = signal SIGSEGV\n"
        "  * frame #0: 0x00007f1be0001234 _pool.so`ns::take(int) at pool.cpp:88:12\n",
    ],
)
def test_the_program_is_named_where_it_was_started_or_stopped(log: str) -> None:
    first = death(log)

    assert (first.name, first.signal) == ("python3", "SIGSEGV")


def test_mathematics_may_be_the_place_and_copying_memory_is_not() -> None:
    frame = "#0  0x00007f1be0001234 in {} () from /lib/x86_64-linux-gnu/{}.so.6\n"

    maths = death(SIGNAL + frame.format("__exp_fma", "libm") + STACK.replace("#0", "#1"))
    copies = death(SIGNAL + frame.format("memmove", "libc") + STACK.replace("#0", "#1"))

    assert (maths.module, maths.function) == ("libm.so.6", "__exp_fma")
    assert copies.function == "pool_take"


def test_qts_last_words_are_an_abort_unless_a_signal_is_told() -> None:
    words = "QThread: Destroyed while thread is still running\n"

    alone = death(words)
    faulted = death(f"{words}make: *** [run] Segmentation fault\n")

    assert alone.cause.kind is CauseClass.ABORT_EXCEPTION
    assert (faulted.cause.kind, faulted.signal) == (CauseClass.NATIVE_FAULT, "SIGSEGV")


def test_a_title_names_the_exception_that_a_cut_traceback_lacks() -> None:
    cut = 'Traceback (most recent call last):\n  File "/opt/app/a.py", line 8, in f\n    take()\n'

    first = death(f"# KeyError: 'pool' in f()\n\n{cut}")
    change = death(f"# Fix KeyError in f()\n\n{cut}")

    assert (first.cause.kind, first.cause.certainty) == (
        CauseClass.PYTHON_EXCEPTION,
        Certainty.LIKELY,
    )
    assert change.cause.detail == "an exception, which the text is cut off before"


@pytest.mark.parametrize("command", ["kill -SEGV $$", "python -c 'import os; os.abort()'"])
def test_who_dies_on_purpose_proves_nothing(command: str) -> None:
    log = f"root@serve:/# {command}\nFatal Python error: Aborted\n"

    assert death(log).cause.certainty is Certainty.LIKELY


def test_a_worker_of_xdist_may_have_a_letter_for_its_number() -> None:
    first = death("We're facing `worker 'gwN' crashed while running test_take` now and then.\n")

    assert first.name == "gwN"


@pytest.mark.parametrize("word", ["abort", "bus error", "killed", "segmentation fault"])
def test_zsh_names_the_program_of_a_job(word: str) -> None:
    first = death(f"[1]    4242 {word}      POOL=1 /opt/bin/python serve.py --port 80\n")

    assert (first.pid, first.name) == (4242, "python")


def test_a_process_knows_its_name_better_than_the_shell() -> None:
    first = death(
        "python: src/pool.c:88: pool_take: Assertion `block != nullptr' failed.\n"
        "[1]    4242 abort (core dumped)  ./run_server.sh\n"
    )

    assert (first.pid, first.name) == (4242, "python")


@pytest.mark.parametrize("frame", ["libpool.so + 0x52f00", "libpool.so!take [pool.c : 8 + 0x4]"])
def test_breakpad_names_libraries_before_functions(frame: str) -> None:
    first = death(f"Crash reason:  SIGSEGV\n\nThread 0 (crashed)\n 0  {frame}\n    rip = 0x48\n")

    assert first.module == "libpool.so"


def test_a_frame_of_macos_may_be_cut_off_behind_its_library() -> None:
    first = death(
        "Exception Type:        EXC_CRASH (SIGABRT)\n\nThread 0 Crashed:\n"
        "0   libsystem_kernel.dylib        0x00007fff57e03e3e __pthread_kill + 10\n"
        "1   libsystem_c.dylib             0x00007fff57d60312 abort + 127\n2   PoolCore"
    )

    assert (first.module, first.signal) == ("PoolCore", "SIGABRT")


def test_who_quits_unexpectedly_has_crashed() -> None:
    first = death("# A window pops up on exit\n\nIt says that the server quit unexpectedly.\n")

    assert first.cause.kind is CauseClass.UNKNOWN


def test_where_it_stopped_may_be_broken_over_lines() -> None:
    first = death(
        "Program received signal SIGBUS, Bus error.\n0x00007fffec39f443 in take_block (\n"
        "    pool=<synthetic pointer>, n=3)\n   from /opt/app/_pool.so\n"
        "(gdb) up\n#1  pool_pytake (self=0x0) at src/pool.c:12\n"
    )

    assert (first.module, first.function) == ("_pool.so", "take_block")


def test_the_last_line_of_a_sanitizers_report_is_enough() -> None:
    summary = "SUMMARY: AddressSanitizer: heap-use-after-free src/pool.c:88:12 in take_block\n"
    head = "==42==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010\n"

    first = death(summary)

    assert (first.cause.kind, first.function) == (CauseClass.HEAP_CORRUPTION, "take_block")
    assert death(head + summary).cause.detail == "heap-use-after-free"
    assert (
        explain_incident(
            parse_incident_log([b"SUMMARY: AddressSanitizer: 42 byte(s) leaked in 1 place\n"]),
            "log",
        )
        is None
    )


def test_a_trackers_heading_is_a_witness() -> None:
    lesson = (
        "It can result in a segmentation fault if you read twice.\n\n## Examples\n\n"
        "### Reading several times\n\nYou may see it if you use a map. It usually works.\n"
    )

    heading = "# Segfault in take()\n\nsomebody · description · 2026-01-15\n"
    assert death(heading + lesson).signal == "SIGSEGV"
    assert explain_incident(parse_incident_log([lesson.encode()]), "log") is None


def test_a_sanitizers_own_function_is_no_place() -> None:
    reading = parse_incident_log(
        [
            b"#14 0x55e15d7d0587 in take src/pool.c:537\n\n"
            b"SUMMARY: AddressSanitizer: heap-use-after-free (/usr/lib64/libasan.so.8+0xf5675) "
            b"(BuildId: a4ad7eb9) in memcpy\n"
        ]
    )
    incident = explain_incident(reading, "log")

    assert incident is not None
    assert incident.first_death.function != "memcpy"
    assert incident.first_death.module is None
