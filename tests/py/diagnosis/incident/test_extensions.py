"""Deaths of Python's native extensions, and how the world around them tells of these."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ProcessRole


def test_a_dump_behind_pytests_progress_is_read() -> None:
    incident = incident_of(
        "[2026/01/15 08:12:45.123 GMT+08:00] .....s....sFatal Python error: Aborted",
        "[2026/01/15 08:12:45.123 GMT+08:00] ",
        "[2026/01/15 08:12:45.123 GMT+08:00] Current thread 0x00007f1be0005678 (most recent call "
        "first):",
        '[2026/01/15 08:12:45.123 GMT+08:00]   File "/opt/app/test_pool.py", line 9 in test_take',
    )

    death = incident.first_death
    assert (death.signal, death.python_function) == ("SIGABRT", "test_take")


def test_a_dump_that_lost_its_threads_heading_keeps_its_frames() -> None:
    incident = incident_of(
        "Fatal Python error: Segmentation fault",
        '  File ".../pool.py", line 9 in take',
        '  File ".../serve.py", line 3 in main',
    )

    assert incident.first_death.python_function == "take"


def test_windbgs_stack_below_a_title_gives_the_place() -> None:
    incident = incident_of(
        "# Windows fatal exception: access violation",
        "",
        "[0x0]   pool!ns::take+0x14d0   0x4e3b1eb7f0   0x7ffc3c81e7ca",
        "[0x1]   pool!ns::serve+0x20   0x4e3b1eb850   0x7ffc3cc191da",
    )

    death = incident.first_death
    assert (death.signal, death.module, death.function) == ("SIGSEGV", "pool", "ns::take")


def test_airflow_names_the_signal_of_a_task() -> None:
    incident = incident_of(
        "[2026-01-15, 08:12:45 UTC] {local_task_job.py:102} INFO - Task exited with return code "
        "Negsignal.SIGSEGV"
    )

    assert incident.first_death.signal == "SIGSEGV"
    assert incident.first_death.role is ProcessRole.WORKER


def test_a_thread_that_crashed_is_a_death_even_where_its_frames_were_cut_off() -> None:
    incident = incident_of(
        "5   libomp.dylib   \t0x35021e88c __kmp_launch_thread + 220",
        "",
        "Thread 4 crashed with ARM Thread State (64-bit):",
        "    x0: 0x0000000000000000   x1: 0x0000000352aaab68",
    )

    cause = incident.first_death.cause
    assert (cause.kind, cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)
    assert incident.first_death.module is None


def test_of_two_services_the_first_is_dead_first() -> None:
    incident = incident_of(
        "api-1     | Loading",
        "api-1     | Segmentation fault",
        "worker-1  | Segmentation fault",
        "worker-1 exited with code 139",
    )

    assert incident.first_death.name == "api-1"
    assert [line.line for line in incident.first_death.evidence] == [2]


def test_a_stop_reason_that_was_broken_over_lines_names_the_signal() -> None:
    incident = incident_of(
        "* thread #1, queue = 'main', stop reason = EXC_BAD_ACCESS (code=1,   ",
        "address=0x10)",
        "  * frame #0: 0x0000000100a7cc18 Python`_PyObject_GC_Alloc + 44",
        "    frame #1: 0x00000001000036fc serve`ns::take() at pool.h:12",
    )

    death = incident.first_death
    assert (death.signal, death.function) == ("SIGSEGV", "ns::take")


def test_what_printed_the_stack_is_no_place() -> None:
    incident = incident_of(
        "!!! uWSGI process 4242 got Segmentation Fault !!!",
        "*** backtrace of 4242 ***",
        "/opt/app/bin/uwsgi(uwsgi_backtrace+0x35) [0x55c132a5ae75]",
    )

    assert (incident.first_death.module, incident.first_death.function) == (None, None)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Process SpawnProcess-3:", "SpawnProcess-3"),
        ("`LokyProcess-17 failed with traceback: ", "LokyProcess-17"),
    ],
)
def test_a_childs_traceback_is_the_childs_that_its_heading_names(heading: str, name: str) -> None:
    incident = incident_of(
        heading,
        "-" * 40,
        "Traceback (most recent call last):",
        '  File "/opt/app/pool.py", line 9, in take',
        "    read(block)",
        "ValueError: no block",
    )

    death = incident.first_death
    assert (death.name, death.role) == (name, ProcessRole.WORKER)
    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION


@pytest.mark.parametrize(
    "line",
    [
        "the import intermittently exits 139 on that machine",
        "pool.sh: exit 139",
        "pytest done, rc=139",
        "EXIT: 139",
    ],
)
def test_a_status_without_the_word_code_is_likely_a_fault(line: str) -> None:
    cause = incident_of(line).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)


@pytest.mark.parametrize(
    "line",
    [
        "exited 137 days ago",
        "exits 139 times",
        "if it exits 139 then something is wrong",
        "the query returned 134 rows",
        "arc=139",
    ],
)
def test_other_numbers_are_no_statuses(line: str) -> None:
    assert explain_incident(parse_incident_log([line.encode()]), "log") is None


def test_a_function_of_llvm_that_handles_no_signal_is_a_place() -> None:
    incident = incident_of(
        "*** Error in `python': free(): invalid pointer: 0x00007ffff3b5a4c0 ***",
        "/lib/libc.so.6(+0x76df6)[0x7ffff6b6edf6]",
        "/lib/libLLVM.so(_ZN4llvm3sys14DynamicLibrary19getPermanentLibraryEPKc+0x3d3)[0x7fffe490]",
    )

    assert incident.first_death.module == "libLLVM.so"
    assert incident.first_death.function == "llvm::sys::DynamicLibrary::getPermanentLibrary"


def test_a_workers_unknown_signal_is_a_death_and_the_closed_stream_its_echo() -> None:
    incident = incident_of(
        "distributed.nanny - WARNING - Worker process 4242 was killed by unknown signal",
        "Traceback (most recent call last):",
        '  File "/opt/app/gen.py", line 1133, in run',
        "    value = future.result()",
        "tornado.iostream.StreamClosedError: Stream is closed",
    )

    death = incident.first_death
    assert (death.pid, death.role) == (4242, ProcessRole.WORKER)
    assert death.cause.kind is CauseClass.UNKNOWN
    assert [echo.line for echo in incident.echoes] == [5]


def test_a_panic_whose_frames_have_foreign_names_has_no_place() -> None:
    incident = incident_of(
        r"thread '<unnamed>' panicked at crates\pool\src\lib.rs:101:81:",
        "called `Option::unwrap()` on a `None` value",
        "stack backtrace:",
        "   0:     0x7ffca6ac3907 - exported_for_others",
        "   1:     0x7ffca3e4403b - DecoderVersion",
    )

    assert incident.first_death.function is None
    assert "lib.rs:101:81" in incident.first_death.cause.detail


@pytest.mark.parametrize(
    ("line", "pid", "signal"),
    [
        ("[ERROR] Worker (pid:4242) was sent code 139!", 4242, "SIGSEGV"),
        ("[pid 1] AH00052: child pid 4242 exit signal Segmentation fault (11)", 4242, "SIGSEGV"),
        ("ERROR PythonRunner: Python worker exited unexpectedly (crashed)", None, None),
        ("BrokenProcessPool: A child process terminated abruptly, the process pool is not usable "
         "anymore", None, None),
        ("ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: "
         "Container exited. Exit status: 134.", None, "SIGABRT"),
    ],
)  # fmt: skip
def test_parents_of_workers_tell_of_a_worker(
    line: str, pid: int | None, signal: str | None
) -> None:
    death = incident_of(line).first_death

    assert (death.pid, death.signal) == (pid, signal)
    assert death.role is ProcessRole.WORKER


def test_somebodys_title_in_the_present_tells_a_likely_fault() -> None:
    cause = incident_of("# Serving crashes with exit code 139").first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)


@pytest.mark.parametrize(
    "line",
    [
        "A container exits with code 137 where its memory ran out.",
        "Every process that crashes with exit code 139 leaves a core.",
        "If the job fails with exit code 137, give it more memory.",
    ],
)
def test_what_happens_in_general_is_no_death(line: str) -> None:
    assert explain_incident(parse_incident_log([line.encode()]), "log") is None


def test_what_the_parent_raised_after_a_child_had_ended_is_not_first() -> None:
    incident = incident_of(
        "A process in the process pool was terminated abruptly while the future was running.",
        "Traceback (most recent call last):",
        '  File "/opt/python/queues.py", line 83, in put',
        "    raise Full",
        "queue.Full",
    )

    assert incident.first_death.role is ProcessRole.WORKER
    assert incident.first_death.cause.kind is CauseClass.UNKNOWN


def test_the_caller_of_qts_fatal_message_is_the_place() -> None:
    incident = incident_of(
        "Exception Type:        EXC_CRASH (SIGABRT)",
        "Thread 0 Crashed:",
        "0   libsystem_kernel.dylib \t0x7ff8019071f2 0x7ff8018ff000 + 33266",
        "1   QtCore \t0x11c312289 qAbort() + 9",
        "2   QtCore \t0x11c315939 0x11c309000 + 51513",
        "3   QtCore \t0x11c6815ba QMessageLogger::fatal(char const*, ...) const + 172",
        "4   _pool.abi3.so \t0x11c0c2ca6 take_err_print() + 758",
    )

    death = incident.first_death
    assert (death.module, death.function) == ("_pool.abi3.so", "take_err_print")


def test_a_line_of_python_is_no_frame_of_go() -> None:
    incident = incident_of(
        "libc++abi.dylib: terminating with uncaught exception of type NSException",
        "But this runs fine:",
        "plt.plot([1,2,3])",
        "plt.show()",
    )

    assert incident.first_death.function is None


def test_words_behind_a_dumps_signal_do_not_change_it() -> None:
    incident = incident_of("Windows fatal exception: access violation - Cmd.exe exited with code 1")

    assert incident.first_death.cause.kind is CauseClass.NATIVE_FAULT


def test_macos_words_with_their_number_are_believed_in_a_sentence() -> None:
    incident = incident_of('Python crashes with: "_[serve] Segmentation fault: 11_"')

    assert incident.first_death.signal == "SIGSEGV"


def test_apples_log_names_the_process_that_gave_up() -> None:
    incident = incident_of(
        "2026-01-15 08:12:45.165 python[4242:173511] *** Terminating app due to uncaught exception "
        "'NSInvalidArgumentException', reason: 'unrecognized selector'"
    )

    assert (incident.first_death.name, incident.first_death.pid) == ("python", 4242)


def test_frames_without_numbers_and_heading_need_a_witness() -> None:
    frame = "/opt/lib/libpool.so(+0x748be)[0x7f1780c408be]"

    incident = incident_of("# Segfault in the pool", "", "Backtrace:", frame)

    assert incident.first_death.module == "libpool.so"
    assert incident.first_death.cause.certainty is Certainty.LIKELY
    assert explain_incident(parse_incident_log([frame.encode()]), "log") is None


def test_valgrinds_frame_that_was_cut_off_names_its_function() -> None:
    incident = incident_of(
        "==4242== Process terminating with default action of signal 11 (SIGSEGV): dumping core",
        "==4242==  Access not within mapped region at address 0x48",
        "==4242==    at 0x3A8ACB: block_free (pool",
    )

    assert incident.first_death.function == "block_free"


def test_a_title_that_repeats_the_loaders_message_does_not_hide_the_library() -> None:
    incident = incident_of(
        "# ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found",
        "ImportError: /lib/libstdc++.so.6: version GLIBCXX_3.4.29 not found (required by "
        "/opt/app/pool.so)",
    )

    assert incident.first_death.module == "pool.so"


def test_javas_frames_have_a_place_though_the_signal_was_cut_off() -> None:
    incident = incident_of(
        "Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)",
        "C  [_pool.so+0x1ba8a]  _ZN4Pool4takeEi+0x2a",
        "C  [libpython3.11.so+0xb714]  _PyObject_FastCallDict+0xb4",
    )

    death = incident.first_death
    assert (death.module, death.function) == ("_pool.so", "Pool::take")
    assert death.cause.certainty is Certainty.LIKELY


def test_frames_that_do_not_follow_the_dumps_heading_are_not_the_innermost() -> None:
    incident = incident_of(
        "# Fatal Python error: Segmentation fault",
        "here is the rest:",
        '  File "/opt/app/runner.py", line 87 in call',
    )

    assert incident.first_death.python_function is None


def test_the_only_thread_of_a_dump_is_the_one_that_died() -> None:
    incident = incident_of(
        "Fatal Python error: Segmentation fault",
        "",
        "Thread 0x00007fbca3605740 (most recent call first):",
        '  File "/opt/app/core.py", line 322 in _terminate  <<< changed',
    )

    assert incident.first_death.python_function == "_terminate"


@pytest.mark.parametrize(
    "line", ["# Job exit code 139", "I ran into exit code 139 on the second node"]
)
def test_a_status_that_somebody_saw_is_a_likely_fault(line: str) -> None:
    cause = incident_of(line).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)


@pytest.mark.parametrize(
    "line",
    [
        "# Handle exit code 137 in the runner",
        "# What does exit code 139 mean?",
        "# Exit code 137: how to fix it",
        "It returns exit code 137 if memory ran out.",
    ],
)
def test_a_status_in_a_change_or_a_question_is_no_death(line: str) -> None:
    assert explain_incident(parse_incident_log([line.encode()]), "log") is None


def test_a_notebooks_traceback_that_lost_its_heading_is_read() -> None:
    incident = incident_of(
        "File ~\\conda\\pool\\__init__.py:13",
        "     10 ]",
        "---> 13 from pool._libs.interval import Interval",
        "",
        "File ~\\conda\\pool\\_libs\\interval.pyx:1, in init pool._libs.interval()",
        "",
        "ValueError: pool.dtype size changed, may indicate binary incompatibility",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert incident.first_death.python_function == "init pool._libs.interval"


def test_a_signal_that_somebody_sent_by_hand_is_no_lack_of_memory() -> None:
    incident = incident_of(
        "I have tried running `kill -KILL [pid]` on the process, which gave:",
        "DAMN ! worker 1 (pid: 4242) died, killed by signal 9 :( trying respawn ...",
    )

    assert incident.first_death.pid == 4242
    assert incident.first_death.cause.kind is CauseClass.UNKNOWN


def test_the_c_librarys_fast_string_functions_are_no_place() -> None:
    incident = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        "#0  __strlen_avx2 () at ../sysdeps/x86_64/multiarch/strlen-avx2.S:74",
        "#1  0x00007ffff7d14d31 in __vfprintf_internal (s=0x7ffff, format=0x5) at vfprintf.c:15",
        "#2  0x00007ffff7d14d99 in pool_print (pool=0x0) at pool.c:15",
    )

    assert incident.first_death.function == "pool_print"


@pytest.mark.parametrize("words", ["Segment Fault", "Seg fault", "seg-fault"])
def test_other_spellings_of_the_fault_in_a_title(words: str) -> None:
    death = incident_of(f"# {words} of 10.0.1 when parsing a model").first_death

    assert (death.signal, death.cause.certainty) == ("SIGSEGV", Certainty.LIKELY)


def test_a_supervisors_word_in_a_title_names_the_program() -> None:
    death = incident_of("# serve (terminated by SIGKILL)").first_death

    assert (death.name, death.signal) == ("serve", "SIGKILL")


def test_what_was_printed_in_somebodys_folder_happened_to_him() -> None:
    incident = incident_of(
        "If the newest version is used you get the following error:",
        "```",
        "Traceback (most recent call last):",
        '  File "/home/example/decoder/decode.py", line 4, in <module>',
        "    import pool",
        "ValueError: pool.dtype size changed",
        "```",
        "This can be solved by adding it to the list, so you should add this.",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION


def test_what_glibc_printed_stands_in_the_frame_that_printed_it() -> None:
    incident = incident_of(
        "# Segmentation fault in the pool",
        "(gdb) bt",
        "#0  __GI___pthread_kill (threadid=1, signo=signo@entry=6) at ./nptl/pthread_kill.c:89",
        "#1  0x00007ffff7c288ff in __GI_abort () at ./stdlib/abort.c:79",
        '#2  0x00007ffff7ca8ff5 in malloc_printerr (str=str@entry=0x7ff "malloc(): unaligned '
        'tcache chunk detected") at ./malloc/malloc.c:5772',
        "#3  0x00007ffff7cad94c in tcache_get_n (ep=0x0, tc_idx=1) at ./malloc/malloc.c:3183",
        "#4  0x00007fffd09a68cf in pool_take () from /opt/lib/libpool.so",
    )

    death = incident.first_death
    assert death.cause.kind is CauseClass.HEAP_CORRUPTION
    assert (death.module, death.function) == ("libpool.so", "pool_take")


def test_a_traceback_that_is_indented_as_a_whole_ends_where_it_names_its_exception() -> None:
    incident = incident_of(
        "    >>> pool.take()",
        "    Traceback (most recent call last):",
        '    File "<stdin>", line 1, in <module>',
        "    OSError: [Errno -101] no such block",
        "    >>> pool.take()",
        "    *** Error in `python': free(): invalid pointer: 0x00000000013da520 ***",
    )

    assert incident.first_death.cause.kind is CauseClass.HEAP_CORRUPTION


def test_where_a_debugger_stopped_is_the_place_though_it_has_no_number() -> None:
    incident = incident_of(
        'Thread 1 "python" received signal SIGSEGV, Segmentation fault.',
        "__Pyx_take (err=0x0, type=0x1504bd0) at pool/_pool.cpp:27904",
        "27904       if (likely(err)) {",
    )

    assert incident.first_death.function == "__Pyx_take"


def test_valgrinds_stack_alone_needs_a_witness() -> None:
    stack = (
        "==4242==    at 0x6049A60A: pool_check (pool.c:212)",
        "==4242==    by 0x6049EAF2: pool_end (pool.c:375)",
    )

    incident = incident_of("# Segmentation fault in the pool", *stack)

    assert incident.first_death.function == "pool_check"
    assert explain_incident(parse_incident_log(["\n".join(stack).encode()]), "log") is None


def test_rusts_own_frames_are_no_place() -> None:
    incident = incident_of(
        "thread '<unnamed>' panicked at src/lib.rs:86:54:",
        "failed to cast",
        "stack backtrace:",
        "   0:  0x10c94f736 - <std::sys::backtrace::Lock as core::fmt::Display>::fmt::hcaf6",
        "   1:  0x10c9522dc - _rust_begin_unwind",
        "   2:  0x10c61c464 - _take",
    )

    assert incident.first_death.function == "_take"


def test_the_child_of_a_queues_worker_ended_by_its_raw_status() -> None:
    for status, signal in (("139 (signal 11)", "SIGSEGV"), ("6", "SIGABRT"), ("None", None)):
        incident = incident_of(
            f"12:03:11 Moving job (Work-horse terminated unexpectedly; waitpid returned {status}; )"
        )

        assert incident.first_death.role is ProcessRole.WORKER
        assert incident.first_death.signal == signal


def test_a_document_that_was_printed_as_bytes_is_no_program() -> None:
    incident = incident_of(
        'error Unhandled: b\'{"errorMessage":"Runtime exited with error: signal: '
        'segmentation fault (core dumped)","errorType":"Runtime.ExitError"}\''
    )

    assert incident.first_death.signal == "SIGSEGV"


def test_what_a_traceback_without_indentation_quotes_is_no_program() -> None:
    frames = (
        "Traceback (most recent call last):",
        'File "/opt/app/boot.py", line 64, in <module>',
        "main()",
        'File "/opt/app/boot.py", line 60, in main',
        "pool.run(",
    )

    incident = incident_of(
        *frames, "AttributeError: 'Pool' object has no attribute 'next'", *frames
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION


def test_a_glossary_of_statuses_tells_of_no_death() -> None:
    page = b"Exit code 139: what a shell reports for a process that ended from signal 11."

    assert explain_incident(parse_incident_log([page]), "log") is None


def test_the_status_of_a_panic_stands_below_its_stack() -> None:
    incident = incident_of(
        "thread '<unnamed>' panicked at src/lib.rs:55:13:",
        "dimensions cannot be empty",
        "stack backtrace:",
        "libunwind: stepWithCompactEncoding - invalid compact unwind encoding",
        "",
        "Process finished with exit code 134 (interrupted by signal 6: SIGABRT)",
    )

    assert incident.first_death.signal == "SIGABRT"


def test_a_thread_pool_that_refuses_to_fork_or_nest_gives_up() -> None:
    incident = incident_of(
        "Terminating: Nested parallel kernel launch detected, use another layer."
    )

    assert incident.first_death.cause.kind is CauseClass.ABORT_EXCEPTION


def test_a_library_that_windows_cannot_load_is_the_environment() -> None:
    incident = incident_of(
        "Traceback (most recent call last):",
        '  File "serve.py", line 1, in <module>',
        "    import pool",
        "ImportError: DLL load failed while importing _pool: The specified module was not found.",
    )

    assert incident.first_death.cause.kind is CauseClass.ENVIRONMENT
    assert incident.first_death.module == "_pool"
