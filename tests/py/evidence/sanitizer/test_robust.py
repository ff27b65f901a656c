"""No input makes the reader raise, and its work grows with the size of the input, not faster."""

import gc
import itertools
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES
from tests.py.support.steps import steps

from vllm_forensics.evidence.sanitizer.frames import parse_frame
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log

RAW = {name: (SAMPLES / "raw" / name).read_bytes() for name in EXPECTED}
ALPHABET = [
    b"==1==ERROR: AddressSanitizer: ", b"WARNING: ThreadSanitizer: ", b" (pid=1)\n", b"    #0 ",
    b"0x10 in f ", b"a.c:1:2", b": runtime error: ", b"SUMMARY: ", b"\n", b"\r", b"\0", b"\x1b[1m",
    b"{\"log\": \"", b"#012", b"Direct leak of 9 byte(s) in 1 object(s) allocated from:\n", b"(",
    b")", b"<", b"  0x0c: ", b"[", b"]", b"\xff", b"freed by thread T0 here:\n", b" ", b"\\n",
    b"==1== ERROR: libFuzzer: ", b"0x10 is located 0 bytes inside of 1-byte region [0x10,0x11)\n",
]  # fmt: skip


@given(st.binary(max_size=2000))
def test_random_bytes(data: bytes) -> None:
    parse_sanitizer_log([data])


@given(st.lists(st.sampled_from(ALPHABET) | st.binary(max_size=4), max_size=60))
def test_random_pieces_of_reports(parts: list[bytes]) -> None:
    parse_sanitizer_log([b"".join(parts)])


@settings(max_examples=300)
@given(st.data())
def test_mutated_samples(data: st.DataObject) -> None:
    log = bytearray(RAW[data.draw(st.sampled_from(sorted(RAW)))][:6000])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, max(0, len(log) - 1)))
        log[at : at + data.draw(st.integers(0, 20))] = data.draw(
            st.sampled_from(ALPHABET) | st.binary(max_size=6)
        )

    parse_sanitizer_log([bytes(log)])


@given(st.sampled_from(sorted(RAW)), st.floats(0, 1))
def test_a_log_cut_anywhere(name: str, where: float) -> None:
    log = RAW[name]

    reading = parse_sanitizer_log([log[: int(len(log) * where)]])

    assert len(reading.reports) <= EXPECTED[name]["n_reports"]


@given(st.text(max_size=200))
def test_frames_of_random_text(text: str) -> None:
    parse_frame("#0 " + text)
    parse_frame("#0 0x10 in " + text)


HEADER = "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1\n"
HOSTILE = {
    "headers": b"==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x10\n",
    "frames": b"    #0 0x10 in f a.c:1\n",
    "mentions": b"Sanitizer\n",
    "processes": b"==%d==ERROR: AddressSanitizer: heap-use-after-free on address 0x1 at pc 0x2\n",
    "halves of a frame": b"#0 0x10 in f(a<\n" + b"b<c,(\n" * 9,
    "halves of a header": b"==1==ERROR: AddressSanitizer: heap-use-after-free on\n" + b"x\n" * 4,
    "frames on a line": b"Sanitizer: x" + b" #1 0x10203040 in f a.c:1" * 9 + b"\n",
    "marked up": b"<span>&amp;lt;=3D</span><br>" * 9 + b"\n",
    "learned prefixes": b"x%d ==1==ERROR: AddressSanitizer: SEGV on unknown address 0x1 (pc 0x1)\n",
    "streams": b"(W pid=%d) ==1==ERROR: AddressSanitizer: SEGV on unknown address (pc 0x1)\n",
    "races": b"WARNING: ThreadSanitizer: data race (pid=1)\n",
    "leaks": b"Direct leak of 9 byte(s) in 1 object(s) allocated from:\n",
    "no newline": b"runtime error: Sanitizer ",
    "a process a line": b"==%d==ERROR: AddressSanitizer: SEGV on unknown address 0x1 (pc 0x1 T0)\n",
    "JSON": b'{"log":"==%d==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\\n"}\n',
    "a report in a line": b"Nov 29 12:25:00 h e[1]: ==%d==ERROR: AddressSanitizer: x#012"
    b"    #0 0x1 in f a.c:1#012    #1 0x2 in g a.c:2#012SUMMARY: AddressSanitizer: x#012\n",
    "shadow rows": b"  0x0c047fff8000: fa fa 00[fa]fd fd 00 00 00 00 00 00 00 00 00 00\n",
    "pytest's prefixes": b"E   E   E   E   E   E   E   E   E       #0 0x10 in f a.c:1\n",
    "colours": b"\x1b[1m\x1b[31m\x1b[0m\x1b[1m    #0 0x10 in f\x1b[0m a.c:1\x1b[0m\n",
    "half frames": b"    #%d 0x10 in f<a<b<(\n",
    "halves of lines": b"READ of size 4 at\n 0x10 thread T0\n",
    "interleaved": b"(W pid=1)     #0 0x10 in f a.c:1\n(W pid=2) ==2==ERROR: AddressSanitizer: x\n",
    "valgrind": b"==%d== Invalid read of size 4\n==1==    at 0x10: f (a.c:1)\n",
    "words that come late": b"== pid: 1, tid: 2\n*** *** *** ***\nCause: [MTE]: x\n",
    "XML": b"<valgrindoutput><error><unique>0x%d</unique>\n",
    "race ends": b"==================\nWARNING: DATA RACE\nRead at 0x1 by goroutine %d:\n",
    "Scudo": b"Scudo ERROR: corrupted chunk header at address 0x%d\n",
    "noise": b"2026-01-15T08:12:01Z INFO worker %d did a step, and another one\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_work_grows_with_size_only(kind: str) -> None:
    unit = HOSTILE[kind]
    header = b"==1==ERROR: LeakSanitizer: detected memory leaks\n"

    def log(count: int) -> bytes:
        lines = (unit % at if b"%d" in unit else unit for at in range(count))
        return header + b"".join(lines)

    small, large = log(300), log(2400)
    parse_sanitizer_log([small])

    few = steps(lambda: parse_sanitizer_log([small]))
    many = steps(lambda: parse_sanitizer_log([large]))

    assert many < 8 * few * 1.6 + 2000


@pytest.mark.parametrize(
    "line",
    [
        b"2026-01-15 08:12:01 INFO worker did a step, KV cache usage: 4 %%, number %d\n",
        b"the option -fsanitize=address of AddressSanitizer, number %d: runtime error: no\n",
        b"    #0 0x10 in nothing_that_is_open, number %d\n",
    ],
)
def test_memory_does_not_grow_with_what_is_no_report(line: bytes) -> None:
    def peak(lines: int) -> int:
        pieces = (
            b"".join(line % at for at in range(first, first + 500))
            for first in range(0, lines, 500)
        )
        gc.collect()
        tracemalloc.start()
        try:
            reading = parse_sanitizer_log(pieces)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            assert reading.reports == ()

    peak(1_000)

    assert peak(10_000) < 1.5 * peak(2_000) + 100_000


def test_a_line_without_end_is_read_in_bounded_memory() -> None:
    piece = b"x" * (1 << 20)

    reading = parse_sanitizer_log(itertools.repeat(piece, 40))

    assert reading.size_bytes == 40 << 20
    assert reading.reports == ()


UNITS = (
    *(
        "(",
        "()",
        "<",
        ":1",
        "  ",
        "\t",
        ") const ",
        "[a] ",
        "> ",
        "12: ",
        "\\n",
        "\\_",
        "{",
        "#012",
    ),
    *("\x1b[", "[1m", "0x1", "+0x1)", "a.b", "operator<", "aA", "std::", "==1==", "::~a", "/", "é"),
    *("Sanitizer: ", "runtime error: ", "Scudo ERROR: ", "by thread T1 ", "\\", " in "),
)
SHAPES = (
    "{}\n",
    "    #0 0x10 in {} a.c:1\n",
    "    #0 {} (m+0x1)\n",
    "{}: runtime error: x\n",
    "a.c:1:2: runtime error: {}\n",
    "SUMMARY: AddressSanitizer: {}\n",
    "  Thread T1 {} created by main thread at:\n",
)


def test_long_lines_cost_no_more_than_their_length() -> None:
    def cost(size: int) -> float:
        start = time.process_time()
        for unit, shape in itertools.product(UNITS, SHAPES):
            line = shape.format(unit * (size // len(unit)))
            parse_sanitizer_log([f"{HEADER}{line}".encode()])
        return time.process_time() - start

    cost(100)

    small, large = cost(10_000), cost(80_000)

    assert large < 8 * 3 * small + 1
