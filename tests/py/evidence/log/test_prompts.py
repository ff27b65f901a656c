"""Who died, told away from the death: at a prompt, before a verb, in a core's record."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.prompts import started_at_prompt
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death


def incident(log: str) -> Death | None:
    found = explain_incident(parse_incident_log([log.encode()]), "log")
    return found.first_death if found is not None else None


def death(log: str) -> Death:
    first = incident(log)
    assert first is not None
    return first


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ",
        "(env) $ ",
        "root@serve:/opt/app# ",
        "[me@serve pool]$ ",
        "bash-4.2$ ",
        "serve:~ me$ ",
        "Mac-Pro-2% ",
        "C:\\pool>",
        "PS C:\\pool> ",
        "[pool-shell:~/pool]$ ",
        "[08:12:45] me@serve:~$ ",
        "~/pool(branch:main) » ",
        "└─$ ",
        "➜  pool git:(main) ✗ ",
    ],
)
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("strace -f -o trace.txt ollama serve", "ollama"),
        ("xvfb-run -a serve --port 1", "serve"),
        ("gdb --args python3 serve.py", "python3"),
        ("timeout 60 ./serve", "serve"),
        ("python3 serve.py --port 80", "python3"),
        ("./dist/pool -v", "pool"),
        ("POOL=1 env TAKE=2 /usr/bin/pool", "pool"),
        ("ulimit -c unlimited; pytest tests", "pytest"),
        ("uv run pytest", "pytest"),
        ("sudo -u me ./pool", "pool"),
        ("bash -c 'take --all'", "take"),
        ("wine pool.exe", "pool.exe"),
        ("flatpak run --verbose org.pool.View", "org.pool.View"),
        ("nix run nixpkgs#poolview", "poolview"),
        ("nix-shell -p pool --run 'take --all'", "take"),
        ("bundle exec rake", "rake"),
        ("yarn start", None),
        ("dmesg | tail", None),
        ("docker pull pool", None),
    ],
)
def test_a_command_names_its_program(prompt: str, command: str, name: str | None) -> None:
    log = f"{prompt}{command}\nloading\nSegmentation fault (core dumped)\n"

    assert started_at_prompt(log.split("\n"), 2) == name
    assert death(log).name == name


def test_who_names_himself_is_believed_before_the_prompt() -> None:
    log = "$ ./run.sh\nworker: cache.cpp:88: int get(int): Assertion `id < size' failed.\n"

    assert death(log).name == "worker"


def test_in_a_log_of_several_processes_the_command_names_none() -> None:
    log = (
        "$ vllm serve pool\n(EngineCore_DP0 pid=42) INFO 01-15 08:12:45 [core.py:12] starting\n"
        "(APIServer pid=41) ERROR 01-15 08:12:46 [core.py:12] Engine core died unexpectedly\n"
        "Fatal Python error: Segmentation fault\n"
    )

    assert death(log).name != "vllm"


@pytest.mark.parametrize("verb", ["crashed with", "killed by", "exited with"])
def test_the_subject_of_a_parents_verb_died(verb: str) -> None:
    assert death(f"# poold {verb} SIGSEGV\n").name == "poold"
    assert death(f"The job {verb} SIGSEGV\n").name is None


def test_coredumpctl_names_the_process_above_its_signal() -> None:
    first = death(
        "           PID: 4242 (poold)\n           UID: 1000 (me)\n        Signal: 11 (SEGV)\n"
    )

    assert (first.pid, first.name, first.signal) == (4242, "poold", "SIGSEGV")


def test_who_gets_it_himself_is_believed_below_any_title() -> None:
    title = "# Test all that is called by name\n\n"

    assert death(f"{title}Since today I'm getting segfaults.\n").signal == "SIGSEGV"
    assert incident(f"{title}It should catch segfaults.\n") is None


def test_values_of_a_debugger_are_none_to_be_filled_in() -> None:
    frame = (
        "#86 0x0000000000465bf4 in take (pool=<pool at remote 0x7ffff7fa1b08>, n=<optimized out>)"
    )

    assert (
        death(f"# Segmentation fault when taking\n\n```\n{frame} at src/p.c:8\n").signal
        == "SIGSEGV"
    )


def test_frozen_programs_hang_no_more_than_others() -> None:
    log = "# Crash of the frozen app\n\nWhat I have frozen under Windows crashes at once.\n"

    assert death(log).cause.kind is CauseClass.UNKNOWN


def test_a_file_that_pytest_cannot_import_ends_the_run() -> None:
    first = death("ImportError while importing test module '/opt/app/test_pool.py'.\n")

    assert first.cause.kind is CauseClass.PYTHON_EXCEPTION


@pytest.mark.parametrize(
    "title",
    [
        "`import pool` terminates poold with SIGSEGV",
        "importing it kills my poold with a segfault",
        "pool.take() causing poold to crash",
        "the new pool makes poold segfault",
        "Upgrading makes poold crash",
    ],
)
def test_who_was_ended_stands_before_the_death(title: str) -> None:
    assert death(f"# {title}\n").name == "poold"


def test_lokys_executor_and_a_panic_in_a_title_tell_of_an_end() -> None:
    broken = "The executor is broken as at least one process terminated abruptly"

    assert incident(f"# Failure ([DEBUG:MainProcess:QueueManager] {broken})\n") is not None
    assert death("# PanicException when taking\n").cause.kind is CauseClass.UNKNOWN
    assert incident("# Expose `PanicException`\n") is None


def test_what_raises_an_exception_of_objective_c_is_no_place() -> None:
    first = death(
        "python[42:4300] *** Terminating app due to uncaught exception 'NSInvalidArgument', "
        "reason: 'no such selector'\n*** First throw call stack:\n(\n"
        "\t0   CoreFoundation     0x00007fff2d52523b __exceptionPreprocess + 171\n"
        "\t1   libobjc.A.dylib    0x00007fff547a4c76 objc_exception_throw + 48\n"
        "\t2   CoreFoundation     0x00007fff2d49b700 ___forwarding___ + 1456\n"
        "\t3   libpool.dylib      0x00000001243e131d take_block + 413\n"
    )

    assert (first.module, first.function) == ("libpool.dylib", "take_block")
    assert first.cause.kind is CauseClass.ABORT_EXCEPTION


@pytest.mark.parametrize(
    "words",
    [
        "# take() terminating with uncaught exception of type NSException",
        "OpenCV: terminate handler is called! The last OpenCV error is:",
    ],
)
def test_a_terminate_handler_aborts(words: str) -> None:
    assert death(f"{words}\n").cause.kind is CauseClass.ABORT_EXCEPTION


def test_a_title_names_whom_the_log_leaves_unnamed() -> None:
    log = "Program received signal SIGSEGV, Segmentation fault.\n#0  0x0000000000568af8 in ?? ()\n"

    assert death(f"# pool-view segfaults upon exiting\n\n{log}").name == "pool-view"
    assert death(f"# custom all reduce crashing\n\n{log}").name is None


def test_a_report_of_macos_that_was_cut_off_still_names_its_process() -> None:
    log = "# Random SIGSEGVs on exit\n\nProcess:         Python [4242]\nPath:            /opt/P\n"

    first = death(log)

    assert (first.pid, first.name) == (4242, "Python")


def test_windbgs_stack_without_arguments_is_read() -> None:
    first = death(
        "# It crashed\n\nChild-SP          RetAddr           Call Site\n"
        "00000094`6d9eb6e0 00007ffd`9380d2cf ucrtbase!abort+0x4e\n"
        "00000094`6d9eb710 00007ffd`73d62483 VCRUNTIME140!_CxxThrowException+0xc2\n"
        "00000094`6d9ec8f0 00007ffd`604d9c29 pool!ns::take+0x4f6\n"
    )

    assert (first.signal, first.module, first.function) == ("SIGABRT", "pool", "ns::take")


def test_what_is_odd_is_no_daemon() -> None:
    assert death("I'm getting an odd segfault.\n").name is None
    assert death("# python.exe hard-crashes on take()\n").name == "python.exe"


def test_what_was_ignored_in_a_finalizer_killed_nobody() -> None:
    first = death(
        "Exception ignored in: <function Image.__del__ at 0x7f65>\n"
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.12/tkinter/__init__.py", line 4, in __del__\n'
        "RuntimeError: main thread is not in main loop\n"
        "Tcl_AsyncDelete: async handler deleted by the wrong thread\n"
    )

    assert (first.cause.kind, first.signal) == (CauseClass.ABORT_EXCEPTION, "SIGABRT")


def test_an_exception_of_the_texts_own_example_is_only_likely() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/srv/a.py", line 4, in bad\n'
        "    raise ValueError('bad value')\nValueError: bad value\n"
    )
    listing = "async def bad():\n    raise ValueError('bad value')\n"

    assert death(f"# Where does it go?\n\n{listing}\n{trace}").cause.certainty is Certainty.LIKELY
    assert death(trace).cause.certainty is Certainty.PROVED


def test_the_first_place_of_a_title_is_where_it_was() -> None:
    first = death("# Segfault on take_block_fast triggered by pool.view\n")

    assert first.function == "take_block_fast"


def test_lldbs_first_thread_bears_its_programs_name() -> None:
    stop = "name = 'python', stop reason = signal SIGSEGV\n"

    assert death(f"* thread #1: tid = 4242, 0x7f29 libpool.so`take + 5, {stop}").name == "python"
    assert death(f"* thread #7, {stop}").name is None


def test_windows_message_names_the_program_that_stopped_working() -> None:
    log = "# take() crashes python 3.4.\n\nWindows message: python.exe has stopped working.\n"

    assert death(log).name == "python.exe"


def test_an_address_alone_is_no_function() -> None:
    first = death(
        "Thread 0 Crashed:: Dispatch queue: com.apple.main-thread\n"
        "0   libsystem_c.dylib               0x00007fff81c0abba abort + 125\n"
        "1   org.python.python               0x0000000103fd1ec1 Py_FatalError + 49\n"
        "2   libsystem_platform.dylib        0x00007fff8b4465aa _sigtramp + 26\n"
        "3   ???                             0x0000000104085a00 0 + 4362623488\n"
        "4   libpool.dylib                   0x00007fff83b6e681 take_block + 237\n"
    )

    assert (first.module, first.function) == ("libpool.dylib", "take_block")


def test_a_status_that_was_asked_for_is_that_of_the_command_above() -> None:
    first = death("$ uv run python take.py\n\n$ echo $?\n139\n")

    assert (first.name, first.signal) == ("python", "SIGSEGV")


def test_an_extension_of_pythons_tells_whose_stack_it_is() -> None:
    log = (
        "It segfaults:\n(gdb) bt\n"
        "#0  0x00007f1b2c3d4e5f in take (at=0x0) from /opt/pool.cpython-312-x86_64-linux-gnu.so`\n"
        "#1  0x00007f1b2c3d4e6f in pool_main () from /opt/libpool.so\n"
    )

    first = death(log)

    assert (first.name, first.module) == ("python", "pool.cpython-312-x86_64-linux-gnu.so")


def test_cargo_says_which_program_it_starts() -> None:
    log = (
        "$ while true; do cargo run; done\n     Running `target/debug/pool --all`\n"
        "thread 'main' panicked at src/take.rs:4:2:\nno block\n"
    )

    assert death(log).name == "pool"


def test_a_thread_that_a_title_quotes_is_no_process() -> None:
    title = "# Bug: \"thread 'pool-worker' panicked at 'no block', src/take.rs:4\"\n\nIt does.\n"

    assert death(title).name is None


def test_color_eyres_panic_tells_its_message_and_its_place() -> None:
    log = "The application panicked (crashed).\nMessage:  no block\nLocation: /src/take.rs:42\n"

    first = death(log)

    assert first.cause.kind is CauseClass.ABORT_EXCEPTION
    assert first.cause.detail.endswith("no block")
    assert (first.file, first.line) == ("/src/take.rs", 42)


def test_a_fatal_message_of_glibs_is_no_fault() -> None:
    log = (
        "Process 42 (pool) of user 1000 terminated abnormally with signal 5/TRAP, processing...\n"
        "                Stack trace of thread 42:\n"
        "           #0  0x00007f240bff02b7 g_log_structured_array (libglib-2.0.so.0 + 0x5b2b7)\n"
        "           #1  0x00007f240bff06c5 g_log_default_handler (libglib-2.0.so.0 + 0x5b6c5)\n"
        "           #2  0x0000559dabcf4cda take (pool + 0x2cda)\n"
    )

    first = death(log)

    assert (first.signal, first.function) == ("SIGTRAP", "take")
    assert first.cause.kind is CauseClass.ABORT_EXCEPTION


def test_gos_panic_over_a_null_pointer_is_a_fault_of_the_outermost_repository() -> None:
    log = (
        "panic: runtime error: invalid memory address or nil pointer dereference\n"
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x77e8e6]\n\n"
        "goroutine 184 [running]:\n"
        "github.com/else/lib.Take(0x0)\n\t/go/pkg/mod/github.com/else/lib/take.go:200 +0x1f6\n"
        "github.com/some/pool/cache.(*Cache).Run(0xc4)\n\t/src/cache/run.go:151 +0xbe\n"
    )

    first = death(log)

    assert (first.name, first.function) == ("pool", "github.com/else/lib.Take")
    assert first.cause.kind is CauseClass.NATIVE_FAULT


def test_a_title_may_leave_out_where_an_assertion_stands() -> None:
    first = death("# take: Assertion `id < size' failed.\n\nIt does so on each start.\n")

    assert (first.function, first.cause.kind) == ("take", CauseClass.ABORT_EXCEPTION)
    assert first.cause.certainty is Certainty.LIKELY


@pytest.mark.parametrize("labels", ["enhancement", "good first issue, kind/feature"])
def test_a_wish_that_a_tracker_labels_tells_no_death(labels: str) -> None:
    wish = f"some/pool · issue #3 · open\nlabels: {labels}\n# Tracing\n\nSegfaults happen here.\n"

    assert incident(wish) is None
    assert incident(wish.replace(labels, f"{labels}, bug")) is not None


def test_a_childs_name_may_have_several_words() -> None:
    log = (
        "Process take block function:\nTraceback (most recent call last):\n"
        '  File "/opt/pool.py", line 4, in take\n    raise ValueError(1)\nValueError: 1\n'
    )

    assert death(log).name == "take block function"


def test_whoever_opened_an_issue_reports_whatever_others_explain() -> None:
    page = (
        "some/pool · issue #3 · open · C\n# Segmentation fault when taking a block\n\n"
        "Are you getting this each time when you take one? In case of a crash the pool leaves a\n"
        "core. You can enable cores by running ulimit -c unlimited before you start it. Make sure\n"
        "that you have debug symbols installed. You can install them using the command below.\n"
    )

    assert death(page).cause.certainty is Certainty.LIKELY
    assert incident(page.replace("issue", "pull request")) is None


@pytest.mark.parametrize(
    "text",
    [
        "# No core dump generated when the pool or other process crashes\n\nHow is it enabled?\n",
        "# Bug: no cores\n\n- Make pool segfault.\n- Look for a core.\n",
    ],
)
def test_what_is_missing_after_a_crash_is_none(text: str) -> None:
    assert incident(text) is None


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (
            "Received signal 11\npool(+0x1234) [0x55d0c2e80048]\npool(main+0x12) [0x55d0c2e8014]\n",
            "pool",
        ),
        (
            "Crash: signal 11\n 0   pool        0x000000010a4e0f42 take + 18\n"
            " 1   libdyld.dylib   0x00007fff204e0f42 start + 1\n",
            "pool",
        ),
        (
            "Reading symbols from ./pool...done.\n[New LWP 42]\n"
            "Program terminated with signal 11, Segmentation fault.\n",
            "pool",
        ),
        (
            "    lastState:\n      terminated:\n        exitCode: 139\n        reason: Error\n"
            "    name: pool\n",
            "pool",
        ),
        (
            "# A fatal error has been detected by the Java Runtime Environment:\n#\n"
            "#  SIGSEGV (0xb) at pc=0x00007f1b2c3d4e5f, pid=4242, tid=4243\n",
            "java",
        ),
    ],
)
def test_records_and_stacks_name_the_program(log: str, name: str) -> None:
    assert death(log).name == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[pool-3]: process has died [pid 42, exit code -11, cmd '/opt/take -v'].", "take"),
        ("    [ERROR] [pool-3]: process has died [pid 42, exit code -11, cmd", "pool"),
        ("REQUIRED process [pool-3] has died!", "pool"),
    ],
)
def test_ros_names_who_died(line: str, name: str) -> None:
    assert death(f"{line}\n").name == name


def test_backward_cpp_tells_the_signal_last() -> None:
    first = death("3: [pool-1] Aborted (Signal sent by tkill() 4242 1000)\n")

    assert (first.pid, first.signal) == (4242, "SIGABRT")


def test_a_machines_name_in_a_title_is_believed() -> None:
    title = (
        "# [Bug]: [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, "
        "shutting down client.\n\n[pip3] pool==2.2.6\n"
    )

    assert death(title).name == "EngineCore_DP0"


@pytest.mark.parametrize(
    ("around", "name", "certainty"),
    [
        ("The server got a core dump, whatever we did:\n", "server", Certainty.LIKELY),
        ("2026-01-15 08:12:45 serve[42]: loading\n", "serve", Certainty.PROVED),
        ("", None, None),
    ],
)
def test_a_name_is_as_sure_as_who_tells_it(
    around: str, name: str | None, certainty: Certainty | None
) -> None:
    own = "terminate called after throwing an instance of 'std::bad_alloc'\n"
    prefix = around[: around.find(": ") + 2] if certainty is Certainty.PROVED else ""

    found = explain_incident(parse_incident_log([f"{around}{prefix}{own}".encode()]), "log")

    assert found is not None
    first = found.first_death
    assert (first.name, first.name_certainty) == (name, certainty)
    assert first.is_name_guessed is (certainty is Certainty.LIKELY)
    assert ("(most likely server)" in found.explanation) is first.is_name_guessed


def test_a_message_behind_which_a_sentence_goes_on_is_told() -> None:
    told = "RuntimeError: CUDA error: an illegal memory access was encountered\uff0c已经训练了\n"

    assert death(told).cause.certainty is Certainty.LIKELY


def test_macos_exceptions_are_read_in_titles() -> None:
    assert death("# Crash with EXC_BAD_ACCESS in Poolview\n\nIt does.\n").signal == "SIGSEGV"


@pytest.mark.parametrize(
    ("report", "name"),
    [
        (
            "FATAL EXCEPTION: main\nProcess: com.example.pool, PID: 4242\n"
            "java.lang.NullPointerException: it is null\n",
            "com.example.pool",
        ),
        (
            "ExceptionAddress: 00007ff6a0012f42 (pool!take+0x12)\n"
            "   ExceptionCode: c0000005 (Access violation)\nPROCESS_NAME:  pool.exe\n",
            "pool.exe",
        ),
        ("core.exception.RangeError@pool.d(42): Range violation\n", None),
        ("thread 4242 panic: index out of bounds: index 4, len 3\n", None),
        ("---- Crash Report ----\n\njava.lang.NullPointerException: a block is null\n", None),
        ("Unhandled exception thrown: read access violation.\n", None),
    ],
)
def test_reports_of_other_runtimes(report: str, name: str | None) -> None:
    first = death(report)

    assert first.name == name
    assert first.cause.kind in {CauseClass.ABORT_EXCEPTION, CauseClass.NATIVE_FAULT}


def test_a_step_of_a_runner_names_what_it_runs() -> None:
    assert death("Run python3 -m pytest\n1 item\n\nSegmentation fault (core dumped)\n").name == (
        "python3"
    )
    assert death("Run the tests\n1 item\n\nSegmentation fault (core dumped)\n").name is None


def test_a_command_behind_a_prompt_may_be_called_like_an_adjective() -> None:
    log = "$ surreal start -b 0.0.0.0:8008\nAborted (core dumped)\n"

    assert death(log).name == "surreal"
