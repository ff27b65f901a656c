"""Failed assertions in words that no table knows, and where they say that they stand."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.asserted import read_asserted
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Death

PLACES = {
    "Pool assertion 'err == ok' failed in void ns::Pool<T, N>::take(int) [with T = float] at "
    "impl/Pool-inl.cuh:61; details: 77": ("ns::Pool::take", "impl/Pool-inl.cuh", 61),
    "Assertion block != NULL failed at libpool/take.c:88": (None, "libpool/take.c", 88),
    "Assertion 'block != NULL' failed at ../src/pool/take.c:88, function take(). Aborting.": (
        "take",
        "../src/pool/take.c",
        88,
    ),
    'assertion "block != NULL" failed: file "../take.c", line 88, function: take': (
        "take",
        "../take.c",
        88,
    ),
    "assert failed: take pool.c:88 (block != NULL)": ("take", "pool.c", 88),
    "Assertion failed in file src/mpid/take.c at line 88: block != NULL": (
        None,
        "src/mpid/take.c",
        88,
    ),
    "Assertion failed: block != NULL, file c:\\src\\take.c, line 88": (
        None,
        "c:\\src\\take.c",
        88,
    ),
    "Assertion failure: block, at /src/pool/Take.cpp:88": (None, "/src/pool/Take.cpp", 88),
    "ERROR:/src/pool/take.c:88:take:  assertion failed: (block != NULL)": (
        "take",
        "/src/pool/take.c",
        88,
    ),
    "Assertion failed: (block), function operator*, file /src/Take.h, line 88.": (
        "operator*",
        "/src/Take.h",
        88,
    ),
    "/src/pool/Take.cpp:88: failed assertion `block' in Pool::take()": (
        None,
        "/src/pool/Take.cpp",
        88,
    ),
    "ASSERTION FAIL [block != NULL] @ WEST_TOPDIR/kernel/take.c:88": (
        None,
        "WEST_TOPDIR/kernel/take.c",
        88,
    ),
    "take.c:88: INSIST(block != NULL) failed, back trace": (None, "take.c", 88),
}
NO_DEATHS = (
    "RTNL: assertion failed at net/core/dev.c (4822)",
    "###!!! ASSERTION: no block: 'Not Reached', file /src/take.cpp, line 88",
    "take.cpp:88:5: error: static assertion failed: no block",
    "    // the assertion failed in take.c:88 before",
    'puts("Assertion failed: block, file take.c, line 88");',
    "WARNING: assertion failed at take.c:88, going on",
    "We should not ship it while the assertion fails in take.c:88",
    "If the assertion fails at take.c:88, raise the limit.",
    "AssertionError: assertion failed in take.c:88",
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1129)",
    "fix: the assertion failed at take.c:88 when there was no block",
)


def _death(text: str) -> Death:
    incident = explain_incident(parse_incident_log([text.encode()]), "log")
    assert incident is not None
    return incident.first_death


@pytest.mark.parametrize("line", PLACES)
def test_a_failed_assertion_tells_its_place_in_any_words(line: str) -> None:
    death = _death(f"{line}\nAborted (core dumped)\n")

    assert (death.function, death.file, death.line) == PLACES[line]
    assert death.signal == "SIGABRT"
    assert death.cause.certainty is Certainty.PROVED


def test_alone_its_form_makes_an_end_likely() -> None:
    death = _death("Assertion block != NULL failed at libpool/take.c:88\n")

    assert death.cause.certainty is Certainty.LIKELY


@pytest.mark.parametrize("line", NO_DEATHS)
def test_what_warns_or_speaks_of_assertions_is_no_death(line: str) -> None:
    assert read_asserted(LogLine(1, "", line)) is None


def test_the_program_names_itself_with_its_number_before_the_assertion() -> None:
    death = _death(
        "serve[4242]: ../src/take.cc:88:ns::Ref<ns::Block> ns::Pool::take(int, ns::Id<int>): "
        "Assertion `block->ok()' failed.\n"
    )

    assert (death.name, death.pid) == ("serve", 4242)
    assert (death.function, death.file) == ("ns::Pool::take", "../src/take.cc")


def test_the_destructor_of_a_fatal_logger_is_no_place() -> None:
    death = _death(
        "*** SIGABRT (@0x1f4) received by PID 4242 (TID 0x7f1be0000700) from PID 4242; ***\n"
        "    @     0x7f1be0042d4f google::(anonymous namespace)::FailureSignalHandler()\n"
        "    @     0x7f1be00368d7 (unknown)\n"
        "    @     0x7f1bdf18b650 pool::internal::LogMessageFatal::~LogMessageFatal()\n"
        "    @     0x7f1bdf18b999 pool::Pool::take()\n"
    )

    assert death.function == "pool::Pool::take"
    assert [frame.function for frame in death.frames] == ["pool::Pool::take"]


@pytest.mark.parametrize("name", ["ns::MessageQueue::Send", "CheckpointStream::flush", "LogStore"])
def test_a_function_about_messages_may_be_the_place(name: str) -> None:
    death = _death(
        f"Program received signal SIGSEGV\n#0  0x00007f1be0001234 in {name} (this=0x0)\n"
    )

    assert death.function == name


def test_clickhouse_is_named_by_its_report_and_its_frames_are_read() -> None:
    head = "2021.01.15 08:12:45.123456 [ 4300 ] {} <Fatal> BaseDaemon: "
    death = _death(
        f"{head}(version 23.8.1.1) (from thread 4301) (no query) Received signal Segmentation "
        f"fault (11)\n{head}Stack trace: 0xe2d6a01 0xe072832\n"
        f"{head}2. DB::Pool::take(std::__1::basic_string<char, std::__1::allocator<char>\n"
        f" > const&, int) @ 0xe2d6a01 in ?\n"
        f"{head}3. ./src/Pool.cpp:88: DB::serve(int) @ 0x00000000e072832 in /usr/bin/clickhouse\n"
    )

    assert (death.name, death.function) == ("clickhouse", "DB::Pool::take")
    assert [frame.function for frame in death.frames] == ["DB::Pool::take", "DB::serve"]
    assert death.cause.certainty is Certainty.PROVED


def test_an_assertion_that_a_paste_broke_is_joined_again() -> None:
    death = _death(
        "[serve-6] serve: /src/include/ref.hpp:728: typename ns::member<T>::type \n"
        "ns::ref<T>::get() const [with T = ns::Block; \n"
        "typename ns::member<T>::type = ns::Block*]: Assertion `px != 0' failed.\n"
        "Aborted (core dumped)\n"
    )

    assert (death.name, death.function) == ("serve", "ns::ref<T>::get")
    assert (death.file, death.line) == ("/src/include/ref.hpp", 728)


def test_the_source_of_an_assertion_may_stand_below_it() -> None:
    death = _death("> ASSERTION FAILED: !block.is_null()\n> Pool.cpp:159 in void Pool::take()\n")

    assert (death.function, death.file, death.line) == ("Pool::take", "Pool.cpp", 159)
    assert death.cause.certainty is Certainty.LIKELY


def test_a_disassembly_is_no_stack() -> None:
    death = _death(
        "Unhandled exception at 0x00007FF7C29FA463 in serve.exe: 0xC0000005: Access violation "
        "reading location 0x000001DF4480E788.\n"
        "00007FF7C29FA453  mov         r8,0FFFFFFFFFFFFFFFFh  \n"
        "00007FF7C29FA463  cmp         byte ptr [rdx+r8],0\n"
        "00007FF7C29FA474  nop  \n"
    )

    assert (death.name, death.function) == ("serve.exe", None)


def test_a_launcher_ends_the_others_for_the_rank_that_faulted() -> None:
    death = _death(
        "rank 3 in job 1  node1_5 caused collective abort of all ranks\n"
        "  exit status of rank 3: killed by signal 9 \n"
        "rank 2 in job 1  node1_5 caused collective abort of all ranks\n"
        "  exit status of rank 2: killed by signal 11 \n"
    )

    assert death.signal == "SIGSEGV"


def test_gdb_shows_the_source_of_a_failed_assertion_among_arguments() -> None:
    death = _death(
        "#0  0x00007f3bdfc3ccc9 in __GI_raise (sig=sig@entry=6) at ../sysdeps/raise.c:56\n"
        "#1  0x00007f3bdfc400d8 in __GI_abort () at abort.c:89\n"
        "#2  0x00007f3bdfc35c32 in __GI___assert_fail (assertion=0x7f3b96983588 "
        '"left == right", file=0x7f3b969834d8 "db/take.cc", line=321, \n'
        '    function=0x7f3b96985260 "void ns::Pool::take(const ns::Slice&)") at assert.c:101\n'
    )

    assert (death.function, death.file, death.line) == ("ns::Pool::take", "db/take.cc", 321)


def test_the_c_library_speaks_other_languages() -> None:
    death = _death(
        'serve: res_query.c:262: __libc_query: asserzione "(hp != NULL)" non riuscita.\n'
    )

    assert (death.name, death.function, death.file) == ("serve", "__libc_query", "res_query.c")


def test_a_fatal_message_of_gos_loggers_ends_the_program() -> None:
    death = _death(
        "F171122 10:36:45.864086 115 storage/store.go:3662  [n1] while committing: block gone\n"
        "goroutine 115 [running]:\n"
        "example.org/pool/pkg/util/log.getStacks(0x33eef00, 0x14f9621828e10d15)\n"
        "\t/go/src/example.org/pool/pkg/util/log/clog.go:833 +0xcf\n"
        "example.org/pool/pkg/util/log.Fatalf(0x2f27ac0, 0xc420d04000)\n"
        "\t/go/src/example.org/pool/pkg/util/log/log.go:56 +0x8c\n"
    )

    assert death.cause.detail.endswith("block gone")
    assert (death.file, death.line) == ("storage/store.go", 3662)


def test_the_stack_of_a_living_goroutine_is_no_death() -> None:
    reading = parse_incident_log(
        [b"goroutine 1 [running]:\nmain.dump(0x1)\n\t/src/main.go:88 +0xcf\n"]
    )

    assert explain_incident(reading, "log") is None


def test_the_line_of_a_source_may_be_broken_off() -> None:
    death = _death(
        "2026-01-15 08:12:45 0x7f1be0001700  InnoDB: Assertion failure in thread 4242 in file "
        "pool0take.cc\nline 88\nInnoDB: We intentionally generate a memory trap.\n"
    )

    assert (death.file, death.line) == ("pool0take.cc", 88)
