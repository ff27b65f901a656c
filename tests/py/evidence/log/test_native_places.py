"""Where native programs died, in the stacks of Wine, folly, TVM, backtraces with marks, Erlang."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import Death


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def has_death(log: str) -> bool:
    return explain_incident(parse_incident_log([log.encode()]), "log") is not None


@pytest.mark.parametrize(
    ("frame", "function"),
    [
        (r"=>0 0x01fc9328 take+0x304() [Z:\src\pool.c:88] in pool (0x0021ee1c)", "take"),
        ("=>0 0x01fc9328 take+0x304bf() in pool (0x0021ee1c)", "take"),
        ("=>0 0x006fffff1b31ac in pool (+0x31ac) (0x006fffffa40298)", None),
    ],
)
def test_wines_debugger_marks_the_innermost_frame(frame: str, function: str | None) -> None:
    first = death(
        "Unhandled exception: page fault on read access to 0x00000000 in 32-bit code (0x01fc93).\n"
        f"Backtrace:\n{frame}\n  1 0x01d7e59d serve+0x36f6d() in app (0x0021ee3c)\n"
    )

    assert (first.module, first.function) == ("pool", function)


def test_what_threw_since_a_check_failed_is_no_place() -> None:
    first = death(
        "*** Signal 6 (SIGABRT) (0x61f0) received by PID 4242 (pthread TID 0x7), stack trace: ***\n"
        "    @ 000000000002c432 abort\n"
        "    @ 00000000000a1ba4 std::terminate()\n"
        "    @ 00000000000a1e6f __cxa_throw\n"
        "    @ 000000000000a41a void ns::detail::nsCheckFail<ns::Error>(ns::Arguments const&)\n"
        "    @ 0000000000341a7d ns::take(int)\n"
    )

    assert (first.signal, first.pid, first.function) == ("SIGABRT", 4242, "ns::take")


def test_boosts_throw_is_no_place() -> None:
    first = death(
        "Program received signal SIGABRT, Aborted.\n"
        "#0  0x0000000802a32dc9 in abort () at abort.c:65\n"
        "#1  0x0000000000419493 in boost::throw_exception<ns::Error> (e=...) at throw.hpp:69\n"
        "#2  0x0000000000420218 in ns::take (a0=1) at src/pool.cpp:88\n"
    )

    assert first.function == "ns::take"


def test_tvm_writes_the_innermost_call_last_or_first() -> None:
    last = death(
        "!!!!!!! TVM FFI encountered a Segfault !!!!!!!\n"
        '  File "<unknown>", in ns::serve(int)\n'
        '  File "<unknown>", in ns::take(int)\n'
    )
    first = death(
        "!!!!!!! Segfault encountered !!!!!!!\n"
        '  File "src/backtrace.cc", line 154, in TVMFFISegFaultHandler(int)\n'
        '  File "<unknown>", line 0, in __aarch64_ldadd8_rel\n'
        '  File "src/object.h", line 409, in ns::take(int)\n'
        '  File "src/serve.cc", line 88, in ns::serve(int)\n'
    )

    assert (last.function, first.function) == ("ns::take", "ns::take")


def test_frames_may_be_marked_like_comments() -> None:
    first = death(
        "# serve has received signal 11\n\nserve has received signal 11 (Segmentation fault).\n"
        "===== Backtrace =====\n"
        "# 1 /lib/x86_64-linux-gnu/libc.so.6(+0x3bfd0) [0x7f5dcc92afd0]\n"
        "# 2 serve(take_block+0x225) [0x561170739225]\n"
        "# 3 serve(main+0x1b24) [0x561170731c64]\n"
    )

    assert (first.signal, first.name, first.function) == ("SIGSEGV", "serve", "take_block")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[1]+  Segmentation fault      (core dumped) /opt/bin/serve", "serve"),
        ("take ... ./r.sh: line 41: 4242 Segmentation fault      (core dumped) A=1 serve", "serve"),
        ("Segmentation fault (core dumped) when I start it", None),
    ],
)  # fmt: skip
def test_a_shell_names_what_it_ran(line: str, name: str | None) -> None:
    assert death(line + "\n").name == name


def test_erlangs_assertions_and_its_dump_that_a_fault_ended() -> None:
    failed = death("beam/pool.c:88:take_block() Assertion failed: block != ((void *)0)\n")
    faulted = death(
        "Crash dump is being written to: erl_crash.dump.../opt/build: line 125: 4242 "
        "Segmentation fault      (core dumped) erl -noshell\n"
    )

    assert (failed.signal, failed.function) == ("SIGABRT", "take_block")
    assert (faulted.signal, faulted.pid, faulted.name) == ("SIGSEGV", 4242, "erl")


def test_what_is_refuted_is_no_death() -> None:
    assert not has_death(
        'The sandbox reports "Execution killed with signal 11.", which is not the case.\n'
    )
