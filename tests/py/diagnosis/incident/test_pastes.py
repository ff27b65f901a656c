"""What people paste of Python's extensions: whose name, place and cause are read from it."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ProcessRole


@pytest.mark.parametrize(
    "line",
    [
        "*** Error in `/opt/env/bin/python': free(): invalid next size (fast): 0x0000000001fa84f0 "
        "***",
        "*** glibc detected *** /opt/env/bin/python: double free or corruption (out): "
        "0x0000000001fa84f0 ***",
        "*** stack smashing detected ***: /opt/env/bin/python terminated",
        "python: /src/pool.cpp:88: int take(int): Assertion `id < size' failed.",
        '```python: /src/pool.cpp:88: int take(int): Assertion id < size && "no such id"\' failed.',
    ],
)
def test_the_c_library_names_the_program(line: str) -> None:
    assert incident_of(line).first_death.name == "python"


def test_a_level_before_an_assertion_is_no_program() -> None:
    incident = incident_of("ERROR: /src/pool.cpp:88: int take(int): Assertion `id < size' failed.")

    assert incident.first_death.name is None


@pytest.mark.parametrize(
    "line",
    [
        "nbclient.exceptions.DeadKernelError: Kernel died",
        "The kernel appears to have died. It will restart automatically.",
        "[I 08:12:45.123 NotebookApp] KernelRestarter: restarting kernel (1/5), keep random ports",
    ],
)
def test_a_notebook_server_speaks_of_the_kernel(line: str) -> None:
    assert incident_of(line).first_death.name == "Jupyter kernel"


def test_what_a_title_tells_is_no_life_before_the_log() -> None:
    incidents = incidents_of(
        "# Segmentation fault(core dumped) in the arbiter",
        "",
        "[2026-01-15 08:12:45 +0000] [41] [INFO] Booting worker with pid: 4242",
        "[2026-01-15 08:12:46 +0000] [41] [WARNING] Worker with pid 4242 was terminated due to "
        "signal 11",
    )

    (incident,) = incidents
    assert (incident.first_death.pid, incident.first_death.role) == (4242, ProcessRole.WORKER)


@pytest.mark.parametrize(
    "line",
    [
        'Taking twice breaks the pool as well: i get "Segmentation fault (core dumped)" there.',
        "With the handler on I get the message `Windows fatal exception: access violation`.",
    ],
)
def test_who_says_what_he_got_is_believed(line: str) -> None:
    cause = incident_of("# The pool goes away", "", line).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)


@pytest.mark.parametrize(
    "line",
    [
        "E       pyo3_runtime.PanicException: index out of bounds: the len is 3",
        "pyo3_runtime.PanicException: index out of bounds: the len is 3",
    ],
)
def test_a_panic_that_reached_python_is_one_in_a_single_line_too(line: str) -> None:
    assert incident_of(line).first_death.cause.kind is CauseClass.ABORT_EXCEPTION


def test_arrows_cloud_library_names_its_condition_and_its_stack() -> None:
    incident = incident_of(
        "Fatal error condition occurred in /src/event_loop.c:72: launch(&thread) == OP_SUCCESS",
        "Exiting Application",
        "Stack trace:",
        "/opt/env/lib/python3.12/site-packages/pool/libpool.so.900(+0x200af06) [0x7f4346604f06]",
        "/opt/env/lib/python3.12/site-packages/pool/libpool.so.900(+0x20028e5) [0x7f43465fc8e5]",
    )

    death = incident.first_death
    assert (death.cause.kind, death.module) == (CauseClass.ABORT_EXCEPTION, "libpool.so.900")


def test_gdbs_plugins_name_the_signal_and_the_frames() -> None:
    incident = incident_of(
        '[#0] Id 1, Name: "python3", stopped 0x7ffff2803769 in take (), reason: SIGSEGV',
        "[#0] 0x7ffff2803769 \u2192 take(pool=0x0)",
        "[#1] 0x7ffff2803700 \u2192 serve()",
    )

    assert (incident.first_death.signal, incident.first_death.function) == ("SIGSEGV", "take")


@pytest.mark.parametrize(
    "function", ["PyArray_CopyInto", "PyUFunc_FromFuncAndData", "PySide::Signal::take(_object*)"]
)
def test_an_extensions_function_may_begin_like_pythons(function: str) -> None:
    incident = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        f"#0  0x00007ffff2803769 in {function} () from /opt/env/lib/pool.so",
        "#1  0x00007ffff2803700 in PyObject_Call () from /opt/env/lib/libpython3.12.so",
    )

    assert incident.first_death.function == function.partition("(")[0]


def test_macos_and_lldb_name_the_process() -> None:
    told = incident_of(
        "Process:               python3.12 [4242]",
        "Exception Type:        EXC_BAD_ACCESS (SIGSEGV)",
    )
    stopped = incident_of(
        "Process 4242 launched: '/opt/env/bin/python3' (x86_64)",
        "Process 4242 stopped",
        "* thread #1, stop reason = EXC_BAD_ACCESS (code=1, address=0x1)",
    )

    assert (told.first_death.name, told.first_death.pid) == ("python3.12", 4242)
    assert (stopped.first_death.name, stopped.first_death.pid) == ("python3", 4242)


def test_who_tells_a_workers_number_tells_its_name() -> None:
    incident = incident_of(
        "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 11 (SIGSEGV)",
        'Process "ForkPoolWorker-11" pid:4242 exited with "signal 11 (SIGSEGV)"',
    )

    assert (incident.first_death.name, incident.first_death.pid) == ("ForkPoolWorker-11", 4242)


def test_a_lost_worker_is_no_exception_of_who_lost_it() -> None:
    death = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/pool.py", line 634, in _join_exited_workers',
        '    raise WorkerLostError("Worker exited prematurely.")',
        "WorkerLostError: Worker exited prematurely.",
    ).first_death

    assert (death.role, death.cause.kind) == (ProcessRole.WORKER, CauseClass.UNKNOWN)


@pytest.mark.parametrize(("codes", "expected"), [("EXIT(1)", 1), ("SIGSEGV(-11)", None)])
def test_joblib_may_tell_everything_in_one_line(codes: str, expected: int | None) -> None:
    death = incident_of(
        "TerminatedWorkerError: A worker process managed by the executor was unexpectedly "
        "terminated. This could be caused by a segmentation fault while calling the function or "
        "by an excessive memory usage causing the Operating System to kill the worker. The exit "
        f"codes of the workers are {{{codes}}}"
    ).first_death

    assert (death.exit, death.signal) == (expected, None if expected else "SIGSEGV")


def test_a_cores_sleeping_threads_tell_that_something_died_and_not_where() -> None:
    death = incident_of(
        "      Stack trace of thread 4242:",
        "      #0  0x00007f1ff929c3ba __futex_abstimed_wait_common (libc.so.6 + 0x9c3ba)",
        "      #1  0x00007f1fe8b39deb pool_serve (libpool.so + 0x339deb)",
    ).first_death

    assert (death.cause.kind, death.module) == (CauseClass.UNKNOWN, None)


def test_a_title_that_speaks_of_a_crash_is_believed_where_a_witness_saw_it() -> None:
    death = incident_of(
        "# Pool crash on import", "", "I tried to load it, and Python crashed."
    ).first_death

    assert death.cause.kind is CauseClass.UNKNOWN


@pytest.mark.parametrize(
    "lines",
    [
        ("# Better texts with crashes", "", "When there is a crash, the user sees a message."),
        ("# Restart workers on crash", "", "This could be a flag, so that a worker that crashed "),
    ],
)
def test_a_wish_about_crashes_is_none(lines: tuple[str, ...]) -> None:
    assert not incidents_of(*lines)


def test_gdb_names_the_program_of_a_core() -> None:
    death = incident_of(
        "Core was generated by `/opt/env/bin/python test_pool.py'.",
        "Program terminated with signal SIGSEGV, Segmentation fault.",
        "#0  0x00007f8741bb9026 in take (pool=0x0) at pool.c:88",
    ).first_death

    assert (death.name, death.function) == ("python", "take")


def test_gdb_names_the_program_of_a_core_in_a_paste_without_line_breaks() -> None:
    death = incident_of(
        "Core was generated by `python test_pool.py'. Program terminated with signal SIGSEGV, "
        "Segmentation fault."
    ).first_death

    assert (death.name, death.signal) == ("python", "SIGSEGV")


def test_pypys_dump_has_a_stack_of_its_own() -> None:
    death = incident_of(
        "Fatal Python error: Segmentation fault",
        "",
        "Stack (most recent call first, approximate line numbers):",
        '  File "/opt/pool.py", line 40 in take',
        '  File "/opt/serve.py", line 7 in serve',
    ).first_death

    assert death.python_function == "take"


def test_an_older_gdb_on_macos_names_an_exception_and_no_signal() -> None:
    death = incident_of("Program received signal EXC_BAD_ACCESS, Could not access memory.")

    assert death.first_death.signal == "SIGSEGV"


@pytest.mark.parametrize(
    "function", ["free_blocks", "abort_request", "malloc_init_hard", "kill_all"]
)
def test_a_function_of_ones_own_may_begin_like_the_c_librarys(function: str) -> None:
    incident = incident_of(
        "* thread #1, stop reason = EXC_BAD_ACCESS (code=1, address=0x48)",
        f"  * frame #0: 0x00000001077a685e libpool.1.dylib`{function} + 302",
        "    frame #1: 0x00000001006bbb47 dyld`dyld4::prepare + 535",
    )

    place = incident.first_death
    assert (place.module, place.function) == ("libpool.1.dylib", function)


def test_a_titles_class_tells_the_role_before_another_process_does() -> None:
    incident = incident_of(
        "# EngineCore crashes with `realloc(): invalid pointer` at start",
        "",
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/opt/vllm/entrypoints/cli/serve.py", line 122, in cmd',
        "(APIServer pid=1)     uvloop.run(run_server(args))",
    )

    assert incident.first_death.role is ProcessRole.ENGINE_CORE
    assert incident.first_death.cause.kind is CauseClass.HEAP_CORRUPTION


def test_tcmallocs_words_outrank_the_shells() -> None:
    incident = incident_of(
        "# src/tcmalloc.cc:278] Attempt to free invalid pointer 0x2183da8 Aborted (core dumped)",
    )

    assert incident.first_death.cause.kind is CauseClass.HEAP_CORRUPTION


def test_what_a_form_expects_to_be_printed_was_not() -> None:
    dump = ("Fatal Python error: Segmentation fault", "", 'File "pool.py", line 11 in take')

    assert not incidents_of("### Expected Output:", "```", *dump, "```")
    assert incidents_of("### Actual Output:", "```", *dump, "```")
