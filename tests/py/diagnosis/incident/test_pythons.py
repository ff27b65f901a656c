"""How Python and its extensions die, as people paste it: cut, escaped, and on every system."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.people.works import is_of_work
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death, ProcessRole

GAVE_UP = "Program received signal SIGSEGV, Segmentation fault.\n"


def death(log: str) -> Death:
    incident = explain_incident(parse_incident_log([log.encode()]), "log")
    assert incident is not None
    return incident.first_death


@pytest.mark.parametrize(
    "region",
    [
        "0x60300000c610 is located 8 bytes to the right of 24-byte region [0x6030,0x6048)",
        "0x60300000c610 is located 0 bytes after 32-byte region [0x60300000c5f0,0x60300000c610)",
        "0x60300000c610 is located 4 bytes inside of 32-byte region [0x60300000c60c,0x603c)",
        "0x60300000c610 is located 2 bytes before global variable 'table' defined in 'pool.c'",
    ],
)
def test_the_end_of_a_sanitizers_report_tells_a_bad_access_and_no_place(region: str) -> None:
    first = death(
        "    #55 0x0001047657cc in Py_RunMain+0x974 (python3.14:arm64+0x1002ad7cc)\n\n"
        f"{region}\nallocated by thread T0 here:\n"
        "    #0 0x000105309330 in malloc+0x78 (libclang_rt.asan_osx_dynamic.dylib+0x3d330)\n"
        "    #1 0x00010eda39f4 in pool_new+0x38 (_pool.so:arm64+0xa79f4)\n"
        "    #2 0x00010eda4000 in pool_init+0x10 (_pool.so:arm64+0xa8000)\n"
    )

    assert first.cause.kind is CauseClass.HEAP_CORRUPTION
    assert (first.module, first.function) == (None, None)


def test_a_sanitizers_own_comparison_is_no_place() -> None:
    source = "../../../../src/libsanitizer/sanitizer_common/sanitizer_common_interceptors.inc"
    first = death(
        "==42==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x603000001234 at pc "
        "0x7ffff7659 bp 0x7fff sp 0x7ffe\nREAD of size 4 at 0x603000001234 thread T0\n"
        f"    #0 0x7ffff7659 in MemcmpInterceptorCommon(void*, void*, unsigned long) {source}:861\n"
        f"    #1 0x7ffff7660 in __interceptor_memcmp {source}:892\n"
        "    #2 0x7fffb38ff in pool::same(char const*) (/opt/app/_pool.so+0x2af321)\n"
    )

    assert (first.module, first.function) == ("_pool.so", "pool::same")


@pytest.mark.parametrize(
    "fast",
    [
        "__strlen_asimd () at ../sysdeps/aarch64/multiarch/strlen_asimd.S:195",
        "__strlen_asimd ()",
        "__memcpy_ssse3_back ()",
        "0x00007f1be0001234 in __strcasecmp_l_avx2 () from /lib/x86_64-linux-gnu/libm.so.6",
        "hidden_helper () at ./nptl/pthread_kill.c:44",
    ],
)
def test_the_c_librarys_functions_for_each_processor_are_no_place(fast: str) -> None:
    first = death(f"{GAVE_UP}#0  {fast}\n#1  0x00007f1be0001534 in take (pool=0x0) at pool.c:88\n")

    assert first.function == "take"


def test_the_beginning_of_an_extension_is_its_own() -> None:
    first = death(
        f"{GAVE_UP}#0  0x0000aaaa0c4c in PyUnicode_New (u=0x0) at Objects/unicodeobject.c:1\n"
        "#1  0x0000fffff7731534 in PyInit__pool () from /opt/app/_pool.so\n"
    )

    assert (first.module, first.function) == ("_pool.so", "PyInit__pool")


def test_pythons_calls_stand_in_the_message_of_a_c_plus_plus_exception() -> None:
    first = death(
        "terminate called after throwing an instance of 'pybind11::error_already_set'\n"
        "  what():  KeyError: 'pool'\n\nAt:\n"
        "  /opt/app/take.py(88): take\n  /opt/app/serve.py(12): run\n\nAborted (core dumped)\n"
    )

    assert (first.signal, first.python_function) == ("SIGABRT", "take")


def test_python_on_windows_hears_of_an_exception_before_who_may_catch_it() -> None:
    dump = (
        "Windows fatal exception: access violation\n\nCurrent thread 0x00001234 (most recent call "
        'first):\n  File "C:\\app\\serve.py", line 8 in take\n'
    )
    alone, ended = death(dump), death(f"{dump}\nProcess finished with exit code -1073741819\n")

    assert (alone.signal, alone.cause.certainty) == ("SIGSEGV", Certainty.LIKELY)
    assert ended.cause.kind is CauseClass.NATIVE_FAULT


@pytest.mark.parametrize(
    "log",
    [
        "# Crash in our service\n\nmacOS 14.2, Python 3.11\n\n$ python serve.py\nBus error\n",
        "$ python serve.py\nBus error: 10\n",
        "Process finished with exit code 138 (interrupted by signal 10: SIGBUS)\n",
        "Exception Type:        EXC_BAD_ACCESS (SIGBUS)\n",
    ],
)
def test_a_bus_error_of_macos_is_a_fault(log: str) -> None:
    first = death(log)

    assert (first.signal, first.cause.kind) == ("SIGBUS", CauseClass.NATIVE_FAULT)


def test_a_bus_error_elsewhere_is_the_machines() -> None:
    log = "Ubuntu 22.04 in docker, built on macOS\n\n$ python serve.py\nBus error (core dumped)\n"

    assert death(log).cause.kind is CauseClass.ENVIRONMENT


@pytest.mark.parametrize(
    ("log", "function"),
    [
        (
            "+ thread \\#1: tid = 4242, 0x00007f1be0001234 libc.so.6\\`\\_\\_GI_raise(sig=6) + 55, "
            "name = 'python', stop reason = signal SIGABRT\n"
            "+ frame \\#0: 0x00007f1be0001234 libc.so.6\\`\\_\\_GI_raise(sig=6) + 55\n"
            "frame \\#1: 0x00007f1be0001334 libc.so.6\\`\\_\\_GI_abort + 362\n"
            "frame \\#2: 0x00007f1be0001434 \\_pool.so\\`take(pool=0x0000000000000000) + 32\n",
            "take",
        ),
        (
            f"{GAVE_UP}#0  0x00007f1be0001234 in ns::Pool&lt;int&gt;::take (this=0x0, "
            "n=&lt;optimized out&gt;) at pool.h:8\n",
            "ns::Pool<int>::take",
        ),
    ],
)
def test_what_a_page_escaped_is_read_as_it_was(log: str, function: str) -> None:
    assert death(log).function == function


def test_a_panics_frames_may_have_lost_their_indentation_and_their_ends() -> None:
    first = death(
        "thread '<unnamed>' panicked at 'called `Option::unwrap()` on a `None` value', "
        "src/pool.rs:8:26\nstack backtrace:\n"
        "0: rust_begin_unwind             at /rustc/77/library/std/src/panicking.rs:584:5   1: "
        "core::\npanicking::panic_fmt             at /rustc/77/library/core/src/panicking.rs:14:3\n"
        "2: pool::take\n3: pool::serve::run\n"
    )

    assert first.function == "pool::take"


@pytest.mark.parametrize("words", ["the kernel restarted after that", "The kernel is restarting"])
def test_a_kernel_that_restarts_had_died(words: str) -> None:
    first = death(f"# Kernel restarting with importing pool\n\nI ran import pool,\n{words}.\n")

    assert first.cause.kind is CauseClass.UNKNOWN


def test_what_is_done_after_a_restart_tells_of_no_death() -> None:
    log = "After the kernel restarted, I have to run all cells again. How can I avoid that?\n"

    assert explain_incident(parse_incident_log([log.encode()]), "log") is None


@pytest.mark.parametrize(
    ("stack", "function"),
    [
        (
            "#0  set_add_entry (so=0x0) at Objects/setobject.c:123\n"
            "#1  0x00007f1be0001534 in PyEval_EvalCode () at Python/ceval.c:12\n",
            "set_add_entry",
        ),
        (
            "#0  _PyEval_EvalFrameDefault (tstate=0x0, frame=0x0) at Python/ceval.c:12\n"
            "#1  0x00007f1be0001534 in PyEval_EvalCode () at Python/ceval.c:12\n",
            "_PyEval_EvalFrameDefault",
        ),
        (
            "#24 0x00007f1be0001234 in PyRun_SimpleFileExFlags () from /lib/libpython3.11.so.1.0\n"
            "#25 0x00007f1be0001534 in Py_RunMain () from /lib/libpython3.11.so.1.0\n",
            None,  # the beginning was cut off
        ),
    ],
)
def test_where_only_the_interpreter_is_on_the_stack_it_is_the_place(
    stack: str, function: str | None
) -> None:
    assert death(f"{GAVE_UP}{stack}").function == function


@pytest.mark.parametrize(
    ("title", "function"),
    [
        ("Segfault in pool.take()", "pool.take"),
        ("`pool.take` throws `Segmentation fault` when `use_cache=False`", "pool.take"),
        ("Segmentation fault when calling pool.Pool().take(3)", "pool.Pool.take"),
        ("Segfault in Makefile.mk", None),
    ],
)
def test_a_title_says_where_what_the_shell_prints_was(title: str, function: str | None) -> None:
    first = death(
        f"# {title}\n\nI run this and get\n\n```\nSegmentation fault (core dumped)\n```\n"
    )

    assert (first.signal, first.function) == ("SIGSEGV", function)


def test_a_printed_stack_outweighs_the_title() -> None:
    first = death(
        "# Segfault in pool.take()\n\n"
        f"{GAVE_UP}#0  0x00007f1be0001534 in give (pool=0x0) at pool.c:88\n"
    )

    assert first.function == "give"


def test_a_fatal_error_that_somebody_quotes_is_told() -> None:
    first = death(
        "# Fatal Python error: Cannot recover from stack overflow.\n\nI have occasional "
        "\u201cFatal Python error: Cannot recover from stack overflow\u201d issues.\n"
    )

    assert (first.signal, first.cause.certainty) == ("SIGABRT", Certainty.LIKELY)


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("[gw1] node down: Not properly terminated\nreplacing crashed worker gw1\n", "gw1"),
        (
            '# Running tests fails with "node down: Not properly terminated"\n\nI see no more.\n',
            None,
        ),
    ],
)
def test_pytest_xdist_tells_of_its_worker(log: str, name: str | None) -> None:
    first = death(log)

    assert (first.role, first.name) == (ProcessRole.WORKER, name)


@pytest.mark.parametrize(
    ("title", "function"),
    [
        ("Segmentation fault when using 'PoolSession' API", "PoolSession"),
        ("Segfault when using PyTorch", None),
    ],
)
def test_a_name_is_a_functions_where_the_title_calls_it_so(
    title: str, function: str | None
) -> None:
    assert death(f"# {title}\n\nHi, I load the model and it crashes.\n").function == function


def test_an_invalid_pointer_is_a_damaged_heap() -> None:
    first = death("# After any program that imports pool I get an invalid pointer error\n\n- 3.2\n")

    assert (first.cause.kind, first.cause.certainty) == (
        CauseClass.HEAP_CORRUPTION,
        Certainty.LIKELY,
    )


def test_what_has_causes_and_fixes_is_a_lesson() -> None:
    assert is_of_work("Windows 10 pool dll exception code 0xc00000fd causes and fixes")
    assert not is_of_work("Segfault in take() causes data loss")


def test_what_happens_on_ones_own_machine_was_seen() -> None:
    first = death("Running `take` on this file will print `Segmentation fault` on my machine.\n")

    assert (first.signal, first.cause.certainty) == ("SIGSEGV", Certainty.LIKELY)


def test_uwsgi_names_its_workers_also_where_no_signal_is_told() -> None:
    first = death("DAMN ! worker 1 (pid: 4242) died :( trying respawn ...\n")

    assert (first.role, first.pid, first.signal) == (ProcessRole.WORKER, 4242, None)


def test_uwsgis_handler_tells_the_signal_and_the_worker() -> None:
    first = death(
        "*** backtrace of 4242 ***\n"
        "uWSGI worker 4(uwsgi_backtrace+0x35) [0x55e235b65d15]\n"
        "uWSGI worker 4(uwsgi_segfault+0x23) [0x55e235b660c3]\n"
        "/lib/x86_64-linux-gnu/libc.so.6(+0x33060) [0x7fe416004060]\n"
        "/opt/app/_pool.so(+0xbab03) [0x7fe3ff2bdb03]\n"
    )

    assert (first.signal, first.role, first.module) == ("SIGSEGV", ProcessRole.WORKER, "_pool.so")


@pytest.mark.parametrize(
    "start",
    ["[INFO] Booting worker with pid: 4242", "Respawned uWSGI worker 1 (new pid: 4242)"],
)
def test_who_was_started_as_a_worker_died_as_one(start: str) -> None:
    first = death(
        f"{start}\nJan 15 08:12:45 host kernel: serve[4242]: segfault at 0 ip 00007fbb87466b16 sp "
        "00007ffd63a35630 error 4 in _pool.so[7fbb87376000+3af000]\n"
    )

    assert (first.role, first.name) == (ProcessRole.WORKER, "serve")


@pytest.mark.parametrize(
    "line",
    [
        "**Your session crashed after using all available RAM.**",
        "I see the message\n**Your session crashed after using all available RAM.**",
    ],
)
def test_a_bold_sentence_is_no_pattern(line: str) -> None:
    assert death(f"# Session crashed again\n\n{line}\n").cause.kind is CauseClass.OOM_KILLED


def test_macos_allocator_names_the_process_also_without_its_thread() -> None:
    first = death("python(4242) malloc: *** error for object 0x48: pointer being freed was not\n")

    assert (first.name, first.pid, first.signal) == ("python", 4242, "SIGABRT")


def test_what_a_title_says_it_crashed_with_is_the_exception() -> None:
    first = death("# Import of pool crashes with KeyError on start\n\nHi, it worked before.\n")

    assert first.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert first.cause.certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    "log", ["WARNING:traitlets:kernel died: 25.000317811\n", "# kernel restarts\n\n### Traceback\n"]
)
def test_a_kernels_death_in_a_loggers_line_or_a_title(log: str) -> None:
    assert death(log).cause.kind is CauseClass.UNKNOWN


def test_the_last_frame_of_a_cores_record_may_be_cut_off() -> None:
    first = death(
        "        Signal: 6 (ABRT)\n"
        "                Stack trace of thread 4242:\n"
        "                #0  0x00007fa08a6a7dd1 __GI_raise (libc.so.6)\n"
        "                #1  0x00007fa08a691549 __GI_abort (libc.so.6)\n"
        "                #2  0x00007fa089ca20dc n/a (/usr/lib64/python2.7/pool/_pool.so\n"
    )

    assert (first.signal, first.module) == ("SIGABRT", "_pool.so")


def test_what_a_status_is_tells_of_no_death() -> None:
    log = "# Fix docs\n\nExit code -9 is SIGKILL, and not SIGTERM.\n"

    assert explain_incident(parse_incident_log([log.encode()]), "log") is None


def test_people_tell_of_an_exception_of_macos_by_its_class() -> None:
    first = death("# GUI crashing on startup\n\nIt crashes with a `NSInvalidArgumentException`.\n")

    assert (first.signal, first.cause.kind) == ("SIGABRT", CauseClass.ABORT_EXCEPTION)


def test_the_arguments_of_a_frame_may_take_more_lines() -> None:
    first = death(
        f"{GAVE_UP}#0  _PyFrame_GetCode (f=0xfffff7fea) at ./Include/internal/pycore_frame.h:94\n"
        "#1  0x000000000076254c in dump_traceback (fd=fd@entry=2,\n"
        "    tstate=tstate@entry=0xaeb528 <_PyRuntime+329832>,\n"
        "    write_header=write_header@entry=0) at Python/traceback.c:1007\n"
        "#2  0x0000000000762710 in take (pool=0x0,\n"
        "    n=3) from /opt/app/_pool.so\n"
    )

    assert [(frame.function, frame.module) for frame in first.frames] == [
        ("_PyFrame_GetCode", None),
        ("dump_traceback", "python"),
        ("take", "_pool.so"),
    ]


def test_the_script_that_somebody_runs_is_who_died() -> None:
    first = death('# It fails\n\nRunning take.py fails with "Segmentation Fault" here.\n')

    assert (first.signal, first.name) == ("SIGSEGV", "take.py")


def test_a_traceback_without_its_end_is_not_where_a_fault_was() -> None:
    frame = '  File "/opt/app/pool.py", line 57, in check_for_failure\n'
    first = death(f"# poold segfaults on startup\n\n```\n{frame}")

    assert (first.signal, first.python_function) == ("SIGSEGV", None)


def test_a_client_that_lost_its_raylet_did_not_die_first() -> None:
    first = death(
        '(pid=42)   File "/opt/ray/worker.py", line 1070, in get_task\n'
        "(pid=42)     task = client.get_task()\n"
        "(pid=42) ray.exceptions.RayletError: The Raylet died with this message: closed.\n"
    )

    assert (first.name, first.cause.kind) == ("Raylet", CauseClass.UNKNOWN)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("`import pool` crashes with SIGSEGV in a container.", None),
        ("XLA commonly aborts here:", None),
        ("> swift run Poolview-Demo", "Poolview-Demo"),
    ],
)
def test_who_is_called_is_not_who_died(words: str, name: str | None) -> None:
    assert death(f"{words}\n```\npure virtual method called\n```\n").name == name


def test_a_client_misses_its_engine_core() -> None:
    first = death(
        "(EngineCore pid=501) INFO 06-22 11:29:08 [executor.py:426] Executor: waiting for worker\n"
        "(APIServer pid=1) ERROR 06-22 11:29:08 [async_llm.py:704] Traceback (most recent call "
        "last):\n"
        '(APIServer pid=1) ERROR 06-22 11:29:08 [async_llm.py:704]   File "/opt/vllm/client.py", '
        "line 1061, in get_output_async\n"
        "(APIServer pid=1) ERROR 06-22 11:29:08 [async_llm.py:704]     raise "
        "self._format_exception(outputs) from None\n"
    )

    assert (first.pid, first.role) == (501, ProcessRole.ENGINE_CORE)
    assert first.cause.kind is CauseClass.UNKNOWN


def test_what_was_typed_is_python() -> None:
    frames = '  File "<stdin>", line 1, in <module>\n  File "/opt/pool.py", line 7, in take\n'
    raised = f"Traceback (most recent call last):\n{frames}    go()\nKeyError: 'x'\n"
    dump = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x0000f1 (most recent call "
    dump += 'first):\n  File "/opt/app/lib/python3.11/site-packages/pool.py", line 7 in take\n'

    assert death(raised).name == "python"
    assert death(dump).name == "python"
    assert death(dump).name_certainty is Certainty.PROVED


def test_a_path_that_a_page_broke_is_no_program() -> None:
    first = death(
        "# It crashes\n\n#0  0x00007fffd73de7e3 in pool::take () from /opt/lib/python3.6/"
        "site-packages/pool_ext-0.1.egg/pool_ext\n/lib/libpool_client.so\n"
        "#1  0x00007fffd73dd24b in pool::release () from /opt/lib/libpool_client.so\n"
    )

    assert (first.name, first.function) == (None, "pool::take")


def test_macos_tells_an_uncaught_exception_also_without_the_stacks_head() -> None:
    first = death(
        "Here is the call stack from the crash report:\n\n"
        "7 libc++abi.dylib 0x00007fff6e660f86 __cxxabiv1::failed_throw(__cxa_exception) + 27\n"
        "8 libc++abi.dylib 0x00007fff6e653f99 __cxa_throw + 113\n"
        "9 libpool_cpu.dylib 0x0000000125ae3a5e pool::Arena::Arena(unsigned long) + 462\n\n"
        "Process: Pool View [42]\nUser ID: 501\n"
    )

    assert (first.cause.kind, first.signal) == (CauseClass.ABORT_EXCEPTION, "SIGABRT")
    assert (first.name, first.function) == ("Pool View", "pool::Arena::Arena")


def test_an_assertions_source_is_not_pythons() -> None:
    incident = explain_incident(
        parse_incident_log(
            [
                b"E0819 04:34:59.521602551 42 pool.cc:42]             assertion failed: !taken\n"
                b"Fatal Python error: Aborted\n\nThread 0x00f1 (most recent call first):\n"
                b'  File "/opt/app/pool.py", line 7 in take\n'
            ]
        ),
        "log",
    )

    assert incident is not None
    assert "pool.cc:42] assertion failed: !taken" in incident.explanation
    assert "Where: pool.cc:42, called by Python's take." in incident.explanation


def test_a_title_may_quote_an_assertion() -> None:
    first = death('# Crash "assertion failed: id < size" in Serve 1.19\n\nSee the log.\n')

    assert (first.cause.kind, first.cause.certainty.value) == (
        CauseClass.ABORT_EXCEPTION,
        "likely",
    )


def test_a_long_frame_of_lldb_is_read() -> None:
    arguments = ", ".join(["pool::Simd<double, 2ul, 0>"] * 30)
    first = death(
        "* thread #1, stop reason = EXC_BAD_ACCESS (code=1, address=0x104000000)\n"
        f"    frame #0: 0x00000001010aace0 _pool.so`bool pool::part<{arguments}>(double*) + 25\n"
    )

    assert first.module == "_pool.so"
    assert (first.function or "").startswith("pool::part<")


def test_gevent_prints_what_a_greenlet_raised_and_goes_on() -> None:
    death = incident_of(
        "Traceback (most recent call last):",
        '  File "src/gevent/greenlet.py", line 912, in gevent._gevent_cgreenlet.Greenlet.run',
        '  File "/opt/pool/job.py", line 2, in job',
        '    raise OSError("disk is gone")',
        "OSError: disk is gone",
        "2026-01-15T08:12:45Z <Greenlet at 0x7f8343df4720: job> failed with OSError",
    ).first_death

    assert death.cause.certainty is Certainty.LIKELY
