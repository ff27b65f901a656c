"""What handlers of native programs print in forms of their own, and who ran them."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import CauseClass, Death


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def has_death(log: str) -> bool:
    return explain_incident(parse_incident_log([log.encode()]), "log") is not None


@pytest.mark.parametrize(
    "heading",
    [
        "*** SIGSEGV STACK OVERFLOW (see go/overflow) received by PID 4242 (TID 4300) on cpu 2; ",
        "*** SIGSEGV (@0x48), see go_____3#s15 received by PID 4242 (TID 4242) on cpu 1; ",
    ],
)
def test_a_handler_may_say_where_to_read_more(heading: str) -> None:
    first = death(
        f"{heading}stack trace: ***\nPC: @     0x7f6e3c6420e9  (unknown)  (unknown)\n"
        "    @     0x7f6f90a1c090  (unknown)  (unknown)\n"
        "    @     0x7f6e3aa72127        176  take_block\n"
    )

    assert (first.signal, first.pid, first.function) == ("SIGSEGV", 4242, "take_block")


def test_a_proxys_logger_tells_its_signal_and_its_frames() -> None:
    before = "[2026-01-15 08:12:45.123][17][critical][backtrace] [./server/backtrace.h"
    first = death(
        f"{before}:104] Caught Aborted, suspect faulting address 0x48\n"
        f"{before}:91] Backtrace (use tools/stack_decode.py to get line numbers):\n"
        f"{before}:98] #0: [0x7f5331217090]\n"
        f"{before}:96] #1: ns::Pool::take() [0xb78bd5]\n"
    )

    assert (first.signal, first.function) == ("SIGABRT", "ns::Pool::take")


def test_a_stack_that_overflowed_is_that_of_the_program_that_the_line_names() -> None:
    first = death(
        "serve[4242]: thread 'pool/worker' (4300) has overflowed its stack\n"
        "serve[4242]: fatal runtime error: stack overflow, aborting\n"
    )

    assert (first.name, first.pid) == ("serve", 4242)


@pytest.mark.parametrize(
    ("line", "name", "signal"),
    [
        ("serve: 4242: potentially unexpected fatal signal 11.", "serve", "SIGSEGV"),
        ("serve/4242: potentially unexpected fatal signal 6.", "serve", "SIGABRT"),
        ("potentially unexpected fatal signal 6.", None, "SIGABRT"),
    ],
)
def test_the_kernel_may_print_fatal_signals(line: str, name: str | None, signal: str) -> None:
    first = death(f"[  321.123456] {line}\n")

    assert (first.name, first.signal) == (name, signal)


def test_the_c_librarys_own_source_is_no_place() -> None:
    first = death(
        "==4242==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000000 (pc 0x7f0029e7fa74"
        " bp 0x7ffe7df0c910 sp 0x7ffe7df0c070 T0)\n"
        "==4242==The signal is caused by a READ memory access.\n"
        "    #0 0x7f0029e7fa74 in _IO_fgets libio/iofgets.c:47\n"
        "    #1 0x7f002a9d860d in __interceptor_fgets "
        "../../../../src/libsanitizer/sanitizer_common/sanitizer_common_interceptors.inc:1324\n"
        "    #2 0x562f56d8916c in take_line(char const*) src/lines.cc:88\n"
    )

    assert first.function == "take_line"


def test_neither_operator_new_nor_what_throws_is_a_place() -> None:
    first = death(
        "*** SIGABRT (@0x3e80007dfb9) received by PID 4242 (TID 0x7f445ff2da40) from PID 4242; "
        "stack trace: ***\n"
        "    @     0x7f44642c6859 abort\n"
        "    @     0x7f446433e419 __libc_malloc\n"
        "    @     0x7f4464558c29 operator new()\n"
        "    @     0x7f4464f880b1 boost::asio::detail::do_throw_error()\n"
        "    @     0x7f4464fbbeac ns::take<>()\n"
    )

    assert first.function == "ns::take<>"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("./run: line 1: 4242 Abort trap: 6           serve serve.in", "serve"),
        ("run.sh: line 9:  4242 Abort trap: 6         ./bin/take -n 2", "take"),
    ],
)
def test_macos_shells_name_what_they_ran(line: str, name: str) -> None:
    assert death(f"{line}\n").name == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("`somewhere:folder USER$ ./serve pool.in 12", "serve"),
        ("$ make check\ncd ../tests && cc -o take ./take.c && ./take", "take"),
    ],
)
def test_what_a_page_or_make_shows_was_run(command: str, name: str) -> None:
    assert death(f"{command}\nfree(): invalid pointer\nAborted (core dumped)\n").name == name


def test_go_names_a_program_after_its_folder_of_commands() -> None:
    first = death(
        "panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.take(0x77d1c0)\n"
        "\t/go/src/example.test/somebody/pool/cli/serve-metrics/main.go:88 +0x8e3\n"
    )

    assert first.name == "serve-metrics"


def test_an_assertion_may_be_told_in_capitals() -> None:
    first = death(
        "src/pool.cc:88:void ns::Pool::take(void*, unsigned): ASSERTION 'r == 0' FAILED:\n"
    )

    assert (first.signal, first.cause.kind) == ("SIGABRT", CauseClass.ABORT_EXCEPTION)


def test_javas_report_may_stand_behind_marks_that_keep_a_page_from_it() -> None:
    report = (
        "#",
        "# A fatal error has been detected by the Java Runtime Environment:",
        "#",
        "#  SIGSEGV (0xb) at pc=0x00007f10723327a4, pid=4242, tid=139708605572864",
        "#",
        "# Problematic frame:",
        "# C  [libpool.so.6+0x1e7a4]  take_block+0x584",
        "#",
    )

    first = death("\n".join(f"//{line}" for line in report))

    assert (first.signal, first.module, first.function) == (
        "SIGSEGV",
        "libpool.so.6",
        "take_block",
    )


def test_whoever_handles_a_signal_has_not_died_of_it() -> None:
    assert not has_death(
        "SIGSEGV handling in pool mode\n\n"
        "A segmentation fault seems to sometimes occur in the last stage. Instead, handle it.\n"
    )


def test_a_launchers_words_may_be_typed() -> None:
    first = death(
        "mpirun says: your application terminated with the exit string: segmentation fault "
        "(signal 11)\n"
    )

    assert first.signal == "SIGSEGV"


def test_a_compilers_driver_names_itself() -> None:
    first = death(
        "[Crash] clang: error: unable to execute command: Segmentation fault (core dumped)"
    )

    assert (first.name, first.signal) == ("clang", "SIGSEGV")


def test_what_node_ends_a_process_with_is_no_place() -> None:
    first = death(
        "FATAL ERROR: v8::FromJust Maybe value is Nothing.\n"
        " 1: 0x10415a260 node::Abort() [/opt/bin/node]\n"
        " 2: 0x10415a3e8 node::errors::TryCatchScope::~TryCatchScope() [/opt/bin/node]\n"
        " 3: 0x10415a3e9 node::FatalError(char const*, char const*) [/opt/bin/node]\n"
        " 4: 0x1042aabc8 v8::V8::FromJustIsNothing() [/opt/bin/node]\n"
        " 5: 0x104203174 node::Pool::Take(node::Request*, int) [/opt/bin/node]\n"
    )

    assert first.function == "node::Pool::Take"
