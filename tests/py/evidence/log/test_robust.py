"""No input makes the reader raise, and its work grows with the size of the input, not faster."""

import gc
import itertools
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.steps import steps

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.book import FAMILIES
from vllm_forensics.evidence.log.scan import parse_incident_log

SAMPLES = Path(__file__).parents[2] / "data" / "log"
RAW = [path.read_bytes() for path in sorted(SAMPLES.glob("*/*.log"))]
EXAMPLES = [phrase.example.encode() for family in FAMILIES for phrase in family.phrases]
ALPHABET = [
    *EXAMPLES, b"\n", b"\r", b"\0", b"\x1b[1m", b"Traceback (most recent call last):\n",
    b'  File "a.py", line 1, in f\n', b"ValueError: x\n", b"Fatal Python error: Aborted\n",
    b"Current thread 0x1 (most recent call first):\n", b"(W pid=1) ", b"(EngineCore pid=2) ",
    b"ERROR 01-15 08:12:45 [core.py:1] ", b"    @     0x10 (unknown)\n",
    b"frame #0: f + 0x1 (0x2 in a.so)\n",
    b"\nDuring handling of the above exception, another exception occurred:\n", b'{"log": "',
    b"ExceptionGroup: x (2 sub-exceptions)\n", b"    what():  x\n", b"\xff", b" ", b"(", b")",
]  # fmt: skip


def read(data: bytes) -> None:
    explain_incidents(parse_incident_log([data]), "log")


@given(st.binary(max_size=2000))
def test_random_bytes(data: bytes) -> None:
    read(data)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(ALPHABET) | st.binary(max_size=4), max_size=40))
def test_random_pieces_of_texts(parts: list[bytes]) -> None:
    read(b"".join(parts))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_samples(data: st.DataObject) -> None:
    log = bytearray(data.draw(st.sampled_from(RAW))[:4000])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, max(0, len(log) - 1)))
        log[at : at + data.draw(st.integers(0, 20))] = data.draw(
            st.sampled_from(ALPHABET) | st.binary(max_size=6)
        )

    read(bytes(log))


@given(st.sampled_from(RAW), st.floats(0, 1))
def test_a_log_cut_anywhere(log: bytes, where: float) -> None:
    read(log[: int(len(log) * where)])


HOSTILE = {
    "tracebacks": b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nE: x\n',
    "exceptions": b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: %d\n',
    "members": b'  | Traceback (most recent call last):\n  |   File "a", line 1\n  | OSError: x\n',
    "lives": b"[INFO] Booting worker with pid: %d\nFatal Python error: Aborted\n\n",
    "gdb": b"#0  0x00007f1be0001234 in f (a=1) at a.c:1\n#1  0x00007f1be0001238 in g () at a.c:2\n",
    "terminals": b"\x1b]" * 60 + b"Segmentation fault\n",
    "boxes": "\u2502".encode() + b" " * 60 + b"Segmentation fault (core dumped)\n",
    "unknown letters": "字".encode() + b" Segmentation fault (core dumped)\n",
    "open tracebacks": b"Traceback (most recent call last):\n",
    "frames": b'  File "a.py", line 1, in f\n',
    "dumps": b"Fatal Python error: Aborted\nCurrent thread 0x1 (most recent call first):\n",
    "streams": b"(W pid=%d) Fatal Python error: Aborted\n",
    "native frames": b"    @     0x7f1be0001234  (unknown)  ns::f()\n",
    "signals": b"*** SIGSEGV received at time=1 on cpu 1 ***\n",
    "exits": b"Worker VllmWorkerProcess pid %d died, exit code: -11\n",
    "echoes": b"BrokenPipeError: [Errno 32] Broken pipe\n",
    "chains": b"The above exception was the direct cause of the following exception:\n",
    "groups": b"  + Exception Group Traceback (most recent call last):\n",
    "mentions": b"a Segmentation fault, or so, number %d\n",
    "shapes": b"noise of shape %d and more\n",
    "kernel": b"python[%d]: segfault at 48 ip 01 sp 02 error 4 in a.so[1000+2000]\n",
    "brackets": b"CUDA error: " + b"[" * 200 + b"\n",
    "hashes": b"#1 0x1 in " + b"f(" * 90 + b"\n",
    "commas": b"oom-kill:constraint=" + b"a," * 100 + b"\n",
    "JSON": b'{"log":"Fatal Python error: Aborted\\n"}\n',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_work_grows_with_size_only(kind: str) -> None:
    unit = HOSTILE[kind]
    header = b"Fatal Python error: Segmentation fault\n"

    def log(count: int) -> bytes:
        return header + b"".join(unit % at if b"%d" in unit else unit for at in range(count))

    small, large = log(300), log(2400)
    read(small)

    few = steps(lambda: read(small))
    many = steps(lambda: read(large))

    assert many < 8 * few * 1.6 + 2000


@pytest.mark.parametrize("line", [b"INFO step %d done\n", b"a Segmentation fault, number %d\n"])
def test_memory_does_not_grow_with_noise(line: bytes) -> None:
    def peak(lines: int) -> int:
        pieces = (
            b"".join(line % at for at in range(first, first + 500))
            for first in range(0, lines, 500)
        )
        gc.collect()
        tracemalloc.start()
        try:
            parse_incident_log(pieces)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1_000)

    assert peak(10_000) < 1.5 * peak(2_000) + 100_000


def test_half_a_pair_of_utf_16_in_json_is_read() -> None:
    line = rb'{"log":"\ud800 Out of memory: Killed process 42 (serve) \udfff\n"}'

    reading = parse_incident_log([line + b"\n"])

    assert [clue.pid for clue in reading.clues] == [42]


def test_clues_are_kept_up_to_a_bound() -> None:
    reading = parse_incident_log([b"Worker W pid 1 died, exit code: -11\n" * 9_000])

    assert len(reading.clues) < 5_000
    assert reading.clues[-1].line == 9_000
    assert len(reading.clues) + reading.left_out == 9_000


def test_a_line_without_end_is_read_in_bounded_memory() -> None:
    reading = parse_incident_log(itertools.repeat(b"x" * (1 << 20), 20))

    assert reading.size_bytes == 20 << 20
