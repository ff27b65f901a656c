"""strace's log: calls, resumed calls, signals, ends; damage and time."""

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.strace import parse_strace_log

DATA = Path(__file__).resolve().parents[1] / "data" / "strace"
CASES = sorted(folder.name for folder in DATA.iterdir())


def one_call(text: str) -> tuple[str, tuple[str, ...], int | None, str | None]:
    [call] = parse_strace_log(f"7 1.5 {text}\n").calls
    return call.name, call.arguments, call.result, call.error


@pytest.mark.parametrize("case", CASES)
def test_every_line_of_a_real_log_is_read(case: str) -> None:
    text = (DATA / case / "input.log").read_text(encoding="utf-8")

    trace = parse_strace_log(text)

    lines = text.splitlines()
    calls = sum(" --- " not in line and " +++ " not in line for line in lines)
    # Each call that was interrupted stands on two lines.
    assert len(trace.calls) == calls - sum("resumed>" in line for line in lines)
    assert len(trace.signals) == sum(" --- SIG" in line for line in lines)
    assert len(trace.ends) == sum(" +++ " in line for line in lines)


@pytest.mark.parametrize("case", CASES)
def test_a_trace_without_times_tells_the_same_in_the_same_order(case: str) -> None:
    text = (DATA / case / "input.log").read_text(encoding="utf-8")
    trace = parse_strace_log(text)

    bare = parse_strace_log(re.sub(r"(?m)^(\d+ +)[\d:.]+ ", r"\1", text))

    assert [call.text for call in bare.calls] == [call.text for call in trace.calls]
    assert [event.text for event in bare.signals] == [event.text for event in trace.signals]
    assert [end.text for end in bare.ends] == [end.text for end in trace.ends]
    done = [call.time_s for call in bare.calls if call.result is not None]
    assert done == sorted(done)
    assert max(done) < 1e-6


@pytest.mark.parametrize("case", CASES)
def test_the_version_stands_beside_the_log(case: str) -> None:
    expected = json.loads((DATA / case / "expected.json").read_text(encoding="utf-8"))

    assert expected["tool"].startswith("strace -- version ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE, 3</a/b>, 0) = 0x7f00",
            ("mmap", ("NULL", "8192", "PROT_READ|PROT_WRITE", "MAP_PRIVATE", "3</a/b>", "0"),
             0x7F00, None),
        ),
        (
            "mprotect(0x10, 4096, PROT_NONE)    = -1 ENOMEM (Cannot allocate memory)",
            ("mprotect", ("0x10", "4096", "PROT_NONE"), -1, "ENOMEM"),
        ),
        ("exit_group(3) = ?", ("exit_group", ("3",), None, None)),
        ("brk(NULL) = 0x55d15d110000", ("brk", ("NULL",), 0x55D15D110000, None)),
        ("vfork() = 8", ("vfork", (), 8, None)),
        (
            'openat(AT_FDCWD</w>, "/dev/shm/a, b)", O_RDWR) = 3</dev/shm/a, b)>',
            ("openat", ("AT_FDCWD</w>", '"/dev/shm/a, b)"', "O_RDWR"), 3, None),
        ),
        (
            'openat(AT_FDCWD</w>, "a\\"b", O_RDWR) = -1 ENOENT (No such file or directory)',
            ("openat", ("AT_FDCWD</w>", '"a\\"b"', "O_RDWR"), -1, "ENOENT"),
        ),
        (
            "clone3({flags=CLONE_VM, stack=0x7} => {parent_tid=[9]}, 88) = 9",
            ("clone3", ("{flags=CLONE_VM, stack=0x7} => {parent_tid=[9]}", "88"), 9, None),
        ),
        (
            "ftruncate(3</dev/shm/a), (b>, 8192) = 0",
            ("ftruncate", ("3</dev/shm/a), (b>", "8192"), 0, None),
        ),
        ("munmap(0x10", ("munmap", ("0x10",), None, None)),
        ("munmap(", ("munmap", (), None, None)),
    ],
)  # fmt: skip
def test_a_call_is_taken_apart(text: str, expected: object) -> None:
    assert one_call(text) == expected


def test_a_call_that_another_line_interrupted_is_joined() -> None:
    trace = parse_strace_log(
        "7 1.0 munmap(0x10, 4096 <unfinished ...>\n"
        "8 1.1 munmap(0x20, 4096) = 0\n"
        "7 1.2 <... munmap resumed>) = 0\n"
    )

    assert [(call.tid, call.time_s, call.arguments[0]) for call in trace.calls] == [
        (8, 1.1, "0x20"),
        (7, 1.2, "0x10"),
    ]


def test_a_call_that_never_returned_has_no_result() -> None:
    trace = parse_strace_log("7 1.0 munmap(0x10, 4096 <unfinished ...>\n")

    assert [(call.name, call.result) for call in trace.calls] == [("munmap", None)]


def test_a_resumed_call_of_another_name_is_passed_over() -> None:
    trace = parse_strace_log("7 1.0 munmap(0x10 <unfinished ...>\n7 1.2 <... brk resumed>) = 0\n")

    assert trace.calls == ()


@pytest.mark.parametrize(
    ("stamp", "seconds"), [("1795968714.608582", 1795968714.608582), ("01:02:03.5", 3723.5)]
)
def test_times_of_both_kinds_are_read(stamp: str, seconds: float) -> None:
    [call] = parse_strace_log(f"7  {stamp} brk(NULL) = 0x1").calls

    assert call.time_s == pytest.approx(seconds)


def test_signals_have_their_address_and_sender() -> None:
    trace = parse_strace_log(
        "7 1.0 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x48} ---\n"
        "7 1.1 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL} ---\n"
        "7 1.2 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=5, si_uid=0} ---\n"
        "7 1.3 --- stopped by SIGSTOP ---\n"
    )

    assert [(event.name, event.code, event.address, event.sender) for event in trace.signals] == [
        ("SIGSEGV", "SEGV_MAPERR", 0x48, None),
        ("SIGSEGV", "SEGV_MAPERR", 0, None),
        ("SIGTERM", "SI_USER", None, 5),
    ]


def test_ends_are_statuses_and_signals() -> None:
    trace = parse_strace_log(
        "7 1.0 +++ exited with 3 +++\n"
        "8 1.0 +++ killed by SIGSEGV (core dumped) +++\n"
        "9 1.0 +++ killed by SIGRT_3 +++\n"
        "9 1.0 +++ killed by SIGNOTHING +++\n"
        "9 1.0 +++ superseded by execve in pid 10 +++\n"
    )

    assert [(end.tid, end.status, end.dumped_core) for end in trace.ends] == [
        (7, 3, False),
        (8, -11, True),
        (9, -35, False),
    ]


PIECES = st.sampled_from(
    ["7 ", "8 ", "1.5 ", "munmap(", "clone3(", "0x10, ", "4096", ")", " = 0", " = -1 ENOMEM (x)",
     " <unfinished ...>", "<... munmap resumed>", "--- SIGSEGV {", "si_addr=0x", "} ---",
     "+++ killed by ", "SIGSEGV", " +++", "\n", '"', "\\", "<", ">", "{", "[", "12:61:99 "]
)  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "result"),
    [("022", 0o22), ("0", 0), ("-1", -1), ("0x7f00", 0x7F00), ("42", 42), ("069", 69)],
)
def test_a_result_is_read_in_its_base(printed: str, result: int) -> None:
    trace = parse_strace_log(f"7 1.0 umask(077) = {printed}\n")

    assert trace.calls[0].result == result


@given(st.lists(PIECES | st.text(max_size=6)).map("".join))
def test_no_input_raises(text: str) -> None:
    parse_strace_log(text)


@given(st.sampled_from(CASES), st.integers(0, 20_000), st.binary(max_size=4))
def test_a_damaged_log_loses_no_more_than_it_must(case: str, at: int, damage: bytes) -> None:
    text = (DATA / case / "input.log").read_text(encoding="utf-8")
    at %= len(text)
    whole = parse_strace_log(text)

    trace = parse_strace_log(text[:at] + damage.decode("latin-1") + text[at + len(damage) :])

    assert len(trace.calls) >= len(whole.calls) - 3


@pytest.mark.parametrize("letter", ["<", '"', "(", ",", "{", '"\\', "<a", "= "])
def test_time_grows_with_the_length(letter: str) -> None:
    def seconds(lines: int) -> float:
        text = f"7 1.0 mmap({letter * 8000}\n" * lines
        started = time.process_time()
        parse_strace_log(text)
        return time.process_time() - started

    assert seconds(40) < 40 * max(seconds(4), 0.002)
