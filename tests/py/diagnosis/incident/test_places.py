"""Where somebody died: no function that only gives up, no other thread's, and how sure it is."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.machinery import (
    ends_a_program,
    handles_a_signal,
    is_called_to_fail,
    is_wait,
)
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Death
from vllm_forensics.render.incident import headline


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


@pytest.mark.parametrize(
    ("function", "is_end"),
    [
        ("ns::internal::LogMessageFatal::~LogMessageFatal()", True),
        ("ns::RayLog::~RayLog()", True),
        ("ns::CheckError::~CheckError()", True),
        ("ns::ParseError::ParseError(std::string const&)", True),
        ("ns::PoolException<int>::PoolException", True),
        ("core::result::unwrap_failed", True),
        ("ns::detail::LogFatal::Entry::Finalize()", True),
        ("v8::Utils::ReportOOMFailure(v8::internal::Isolate*, char const*, bool)", True),
        ("ns::Logger::~Logger()", False),
        ("ns::Pool::~Pool()", False),
        ("ns::Error::message() const", False),
        ("std::panicking::try::do_call", False),
        ("take", False),
    ],
)
def test_what_ends_a_program_is_known_by_its_form(function: str, is_end: bool) -> None:
    assert ends_a_program(function) is is_end


@pytest.mark.parametrize(
    ("function", "fails"),
    [
        ("ns::report_fatal_error(char const*)", True),
        ("ns::throw_out_of_range", True),
        ("rb_raise", True),
        ("mongo::invariantFailed", True),
        ("error_exit", True),
        ("log.(*Logger).Fatalf", True),
        ("System.Environment.FailFast", True),
        ("ns::throwOutOfRange", True),
        ("js::ReportOutOfMemory", True),
        ("WTFCrashWithInfo(int, char const*)", True),
        ("PetscError", True),
        ("abortTransaction", False),
        ("ns::throttle", False),
        ("ns::take_debug", False),
        ("ns::bloom", False),
        ("ns::error_count", False),
        ("ns::check_lint_name", False),
        ("ns::errors_seen", False),
        ("ns::failover", False),
        ("ns::take", False),
    ],
)
def test_what_is_called_to_fail_says_so(function: str, fails: bool) -> None:
    assert is_called_to_fail(function) is fails


@pytest.mark.parametrize(
    ("function", "handles"),
    [
        ("sigabrt_handler", True),
        ("ns::CrashHandler::handle(int)", True),
        ("ns::FaultManager::HandleFault(int)", True),
        ("print_trace", True),
        ("ns::show_stackframe", True),
        ("ns::os::signal::handler", True),
        ("signal_emit", False),
        ("dsp::SignalFilter::process", False),
        ("vm_handle_page_fault", False),
        ("handle_signal_strength", False),
        ("ns::default_handler", False),
        ("ns::print_stack_size", False),
        ("request_handler", False),
    ],
)
def test_what_handles_a_signal_is_called_so(function: str, handles: bool) -> None:
    assert handles_a_signal(function) is handles


@pytest.mark.parametrize(
    ("function", "waits"),
    [
        ("__GI___poll", True),
        ("pthread_cond_wait@@GLIBC_2.3.2", True),
        ("epoll_wait", True),
        ("ns::poll_pool", False),
        ("readBlock", False),
    ],
)
def test_the_systems_waits(function: str, waits: bool) -> None:
    assert is_wait(function) is waits


CHECKED = """F0412 10:11:12.131415  4242 pool.cc:88] Check failed: block != nullptr
*** Aborted at 1681234567 (unix time) try "date -d @1681234567" ***
*** SIGABRT (@0x1f4) received by PID 4242 (TID 0x7f29) from PID 4242; stack trace: ***
    @     0x7f2950042d4f google::(anonymous namespace)::FailureSignalHandler()
    @     0x7f2952b4cf35 abort
    @     0x7f289b18b650 ns::internal::LogMessageFatal::~LogMessageFatal()
    @     0x7f2895e350bd ns::Pool::take()
    @     0x7f2896327783 ns::serve()
"""


def test_a_fatal_loggers_destructor_is_no_place() -> None:
    assert death(CHECKED).function == "ns::Pool::take"


def test_what_stands_above_an_errors_constructor_is_no_place() -> None:
    first = death(
        "terminate called after throwing an instance of 'ns::PoolError'\n"
        "  what():  no block\n"
        "/lib/libpool.so(_ZN2ns9PoolError6ToJSONEi+0x51) [0x7e99da76e4b1]\n"
        "/lib/libpool.so(_ZN2ns9PoolErrorC1ERKSs+0x11) [0x7e99da78b1e1]\n"
        "/lib/libpool.so(_ZN2ns4Pool4takeEi+0x1f) [0x7e99dab5b70f]\n"
    )

    assert (first.module, first.function) == ("libpool.so", "ns::Pool::take")


def test_a_fault_in_a_function_with_such_a_name_is_its_own() -> None:
    first = death(
        "Program received signal SIGSEGV, Segmentation fault.\n"
        "#0  0x00007f1be0001234 in ns::abort_transaction (t=0x0) at src/pool.c:88\n"
        "#1  0x00007f1be0005678 in ns::serve () at src/serve.c:12\n"
    )

    assert first.function == "ns::abort_transaction"


def test_a_handler_that_gave_up_is_no_reason() -> None:
    first = death(
        "Program received signal SIGABRT, Aborted.\n"
        "#0  0x00007f1be0001111 in raise () from /lib64/libc.so.6\n"
        "#1  0x00007f1be0001112 in abort () from /lib64/libc.so.6\n"
        "#2  0x00007f1be0001113 in ns::crash_handler (s=11) at src/handler.c:9\n"
        "#3  <signal handler called>\n"
        "#4  0x00007f1be0001234 in ns::parse_error (t=0x0) at src/pool.c:88\n"
        "#5  0x00007f1be0005678 in ns::take () at src/serve.c:12\n"
    )

    assert first.function == "ns::parse_error"


def test_below_abort_it_is_none() -> None:
    first = death(
        "Program received signal SIGABRT, Aborted.\n"
        "#0  0x00007f1be0001111 in raise () from /lib64/libc.so.6\n"
        "#1  0x00007f1be0001112 in abort () from /lib64/libc.so.6\n"
        "#2  0x00007f1be0001234 in ns::report_fatal (t=0x0) at src/pool.c:88\n"
        "#3  0x00007f1be0005678 in ns::take () at src/serve.c:12\n"
    )

    assert first.function == "ns::take"


def test_a_thread_that_waited_has_not_faulted() -> None:
    first = death(
        "Core was generated by `poold'.\n"
        "Program terminated with signal SIGSEGV, Segmentation fault.\n"
        "#0  0x00007f893e8a84a4 in __pthread_kill_implementation () from /lib64/libc.so.6\n"
        "[Current thread is 1 (Thread 0x7f89214006c0 (LWP 4260))]\n"
        "\n"
        "Thread 5 (Thread 0x7f892ae006c0 (LWP 4253)):\n"
        "#0  0x00007f893e91c67d in poll () at /lib64/libc.so.6\n"
        "#1  0x00007f893dcb7c34 in ns_wait_for_block () at /lib64/libpool.so.0\n"
        "#2  0x00007f893dc57383 in ns_serve () at /lib64/libpool.so.0\n"
    )

    assert (first.name, first.module, first.function) == ("poold", None, None)
    assert first.place_certainty is None


def test_the_cores_own_thread_is_read() -> None:
    first = death(
        "Core was generated by `poold'.\n"
        "Program terminated with signal SIGSEGV, Segmentation fault.\n"
        "#0  0x00007f893e8a84a4 in ns_take () from /lib64/libpool.so.0\n"
        "[Current thread is 1 (Thread 0x7f89214006c0 (LWP 4260))]\n"
        "(gdb) bt\n"
        "#0  0x00007f893e8a84a4 in ns_take () from /lib64/libpool.so.0\n"
        "#1  0x00007f893e8a84a5 in ns_serve () from /lib64/libpool.so.0\n"
    )

    assert (first.function, first.place_certainty) == ("ns_take", Certainty.PROVED)


def test_the_nearest_symbol_far_away_is_no_function() -> None:
    first = death(
        "Exception Type:  EXC_BAD_ACCESS (SIGSEGV)\n"
        "Thread 0 Crashed:\n"
        "0   poold     0x000000010170195f main + 24114399\n"
        "1   poold     0x0000000101701c84 main + 24115204\n"
    )

    assert (first.module, first.function) == ("poold", None)


def test_clickhouses_frames_are_numbered() -> None:
    first = death(
        "2026.01.15 08:12:45.123456 [ 42 ] {} <Error> BaseDaemon: (version 19.9.3.31) "
        "(from thread 8443) Received signal Segmentation fault (11).\n"
        "2026.01.15 08:12:45.123460 [ 42 ] {} <Error> BaseDaemon: 0. "
        "/opt/bin/poold(memcpy+0x193) [0x6bf0d43]\n"
        "2026.01.15 08:12:45.123461 [ 42 ] {} <Error> BaseDaemon: 1. "
        "/opt/bin/poold(void ns::writeBlock<(char)39>(char const*, ns::Buffer&)+0x77) [0x662]\n"
    )

    assert (first.module, first.function) == ("poold", "ns::writeBlock<(char)39>")


@pytest.mark.parametrize(
    ("frame", "module"),
    [
        ("#5  0x00007f59977ca8f6 in  () at /usr/lib/qt/libpool.so", "libpool.so"),
        ("#1  0x7fbbc53a2c90 in vtable for ns::Pool from /opt/lib/libpool.so+0x10", "libpool.so"),
    ],
)
def test_a_frame_without_a_functions_name(frame: str, module: str) -> None:
    first = death(f"Program received signal SIGSEGV, Segmentation fault.\n{frame}\n")

    assert (first.module, first.function) == (module, None)


def test_what_begins_a_process_is_no_place() -> None:
    first = death(
        "(EngineCore_DP0 pid=4242) Process EngineCore_DP0:\n"
        "(EngineCore_DP0 pid=4242) Traceback (most recent call last):\n"
        '(EngineCore_DP0 pid=4242)   File "/usr/lib/python3.12/multiprocessing/process.py", '
        "line 314, in _bootstrap\n"
        "(EngineCore_DP0 pid=4242)     self.run()\n"
        "(EngineCore_DP0 pid=4242) ValueError: no model\n"
    )

    assert (first.name, first.python_function) == ("EngineCore_DP0", None)


def test_a_place_that_only_a_title_tells_is_likely() -> None:
    told = death(
        "# poold segfaults in ns::Pool::take()\n"
        "\n"
        "Program received signal SIGSEGV, Segmentation fault.\n"
    )
    shown = death(
        "Program received signal SIGSEGV, Segmentation fault.\n"
        "#0  0x00007f1be0001234 in ns::Pool::take (t=0x0) at src/pool.c:88\n"
        "#1  0x00007f1be0005678 in ns::serve () at src/serve.c:12\n"
    )

    assert (told.function, told.place_certainty) == ("ns::Pool::take", Certainty.LIKELY)
    assert "likely ns::Pool::take" in headline(told)
    assert (shown.function, shown.place_certainty) == ("ns::Pool::take", Certainty.PROVED)
    assert "likely" not in headline(shown)


@pytest.mark.parametrize(
    ("log", "module", "function"),
    [
        # a check that failed, in a function of its own
        ("Assertion failed: IsValid() [File:D:\\src\\Pool.h] [Line: 1112] \n\n"
         "Pool_Core!FDebug::CheckVerifyFailedImpl2() [D:\\src\\Assertion.cpp:745]\n"
         "Pool_Browser!FPool::Take() [D:\\src\\Pool.cpp:12]\n", "Pool_Browser", "FPool::Take"),
        # who raises an exception of Windows'
        ("Faulting application name: Pool.exe, version: 1.0.0.0, time stamp: 0x5c007ea0\n"
         "Faulting module name: KERNELBASE.dll, version: 10.0, time stamp: 0x5c40c18e\n"
         "Exception code: 0xe0434352\nFault offset: 0x0006aa9b\n", None, None),
        # V8's collector
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
         " 1: 0xb78db3 node::Abort() [node]\n"
         " 2: 0xee8300 v8::internal::Heap::CollectGarbage(v8::internal::AllocationSpace) [node]\n"
         " 3: 0xee8301 EVP_PKEY_take [node]\n", "node", None),
        # a logger's place
        ('time=2026-01-15T19:16:12.565+01:00 level=ERROR source=server.go:449 msg="pool" '
         'error="pool runner process has terminated: GGML_ASSERT(a) failed"\n', None, None),
        # a symbol that is none
        ("* thread #1, stop reason = signal SIGSEGV: address not mapped to object\n"
         "  * frame #0: 0x00000001038b1019 libpool.so`___lldb_unnamed_symbol76 + 25\n",
         "libpool.so", None),
        # Wine, of a module with a blank in its name
        ("Unhandled exception: page fault on read access to 0x00000000 in 64-bit code (0x6fff).\n"
         "Backtrace:\n=>0 0x006ffff9e7f1d8 in pool view (+0x62f1d8) (0000000000000000)\n"
         "  1 0x006ffff9e7e572 in pool view (+0x62e572) (0000000000000000)\n", "pool view", None),
    ],
)  # fmt: skip
def test_a_place_is_whose_fault_it_is(log: str, module: str | None, function: str | None) -> None:
    first = death(log)

    assert (first.module, first.function) == (module, function)
    assert first.file is None or function is not None


def test_what_runs_in_a_threads_function_object_is_the_lambda_that_it_was_given() -> None:
    death = incident_of(
        "[host-1:00042] *** Process received signal ***",
        "[host-1:00042] Signal: Segmentation fault (11)",
        "[host-1:00042] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f1be0042520]",
        "[host-1:00042] [ 1] /opt/pool/libpool.so(_ZNSt17_Function_handlerIFvvEZN4Pool3runEvEUlvE_"
        "E9_M_invokeERKSt9_Any_data+0x12)[0x7f1be0001234]",
        "[host-1:00042] [ 2] /opt/pool/libpool.so(_ZN4Pool9main_loopEv+0x99)[0x7f1be0001299]",
    ).first_death

    assert (death.function, death.module) == ("Pool::run::{lambda()#1}", "libpool.so")
    assert death.place_certainty is Certainty.PROVED
    assert [frame.function for frame in death.frames][-1] == "Pool::main_loop"


def test_in_a_stripped_program_all_seems_to_be_in_main() -> None:
    death = incident_of(
        "Segmentation fault",
        "0  poold             0x000000010170195f main + 24114399",
        "1  libsystem_c.dylib 0x00007fff857f194a _sigtramp + 26",
        "2  poold             0x000000010009b477 main + 626679",
        "3  poold             0x00000001000d30d7 main + 855127",
    ).first_death

    assert (death.module, death.function) == ("poold", None)


def test_rusts_own_start_of_a_backtrace_handles_no_signal() -> None:
    death = incident_of(
        "==42==WARNING: MemorySanitizer: use-of-uninitialized-value",
        "    #0 0x561346a35b2d in std::sync::once::Once::call::h0123456789abcdef (/opt/poold+0x1b)",
        "    #1 0x561346b8dc8b in _$LT$pool..Pool$u20$as$u20$core..default..Default$GT$::default"
        "::h0123456789abcdef (/opt/poold+0x2c8b)",
        "    #2 0x561346aed462 in std::sys::backtrace::__rust_begin_short_backtrace::"
        "h0123456789abcdef (/opt/poold+0xe4462)",
        "    #3 0x561346b2650b in std::rt::lang_start::h0123456789abcdef (/opt/poold+0x11d50b)",
        "SUMMARY: MemorySanitizer: use-of-uninitialized-value in std::sync::once::Once::call",
    ).first_death

    assert death.function == "<pool::Pool as core::default::Default>::default"


def test_the_way_back_from_a_handler_alone_is_no_place() -> None:
    died = death(
        "42:M 03 Jun 2021 02:04:06.846 # Redis 7.0.1 crashed by signal: 11, si_code: 1\n\n"
        "------ STACK TRACE ------\n\nBacktrace:\n"
        "/lib/x86_64-linux-gnu/libpthread.so.0(+0x153c0)[0x7fbdb76423c0]\n"
    )
    assert (died.signal, died.module) == ("SIGSEGV", None)


def test_a_fault_in_libc_that_the_kernel_tells_has_it_for_its_place() -> None:
    died = death(
        "kernel: pool[42]: segfault at 0 ip 00007f0000001234 sp 00007ffc00000000 error 4 "
        "in libc-2.31.so[7f0000000000+5000]\n"
    )
    assert died.module == "libc-2.31.so"
