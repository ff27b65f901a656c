"""What a log is read into: windows, streams, prefixes, other clothes for the same text."""

import json
from pathlib import Path

import pytest

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import ClueKind, Follows

SAMPLES = Path(__file__).parents[2] / "data" / "log"
DUMP = b"""Fatal Python error: Segmentation fault

Thread 0x00007f1be0001234 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait

Current thread 0x00007f1be0005678 [python] (most recent call first):
  File "/opt/app/pool.py", line 9 in take
  File "/opt/app/serve.py", line 3 in <module>

Extension modules: numpy._core (total: 1)
"""
CLOTHES = {
    "docker compose": b"api-1  | ",
    "CRI": b"2026-01-15T08:12:45.123456789Z stderr F ",
    "Ray": b"(RayWorkerWrapper pid=42, ip=10.0.0.2) ",
    "vLLM": b"(EngineCore_DP0 pid=42) ERROR 01-15 08:12:45 [core.py:844] ",
    "journald": b"Jan 15 08:12:45 node1 serve[42]: ",
    "GitHub Actions": b"2026-01-15T08:12:45.1234567Z ",
    "quoted": b"> ",
    "torchrun": b"[rank0]: ",
}


@pytest.mark.parametrize("name", CLOTHES)
def test_a_dump_is_read_behind_every_prefix(name: str) -> None:
    log = b"".join(CLOTHES[name] + line + b"\n" for line in DUMP.split(b"\n"))

    (clue,) = parse_incident_log([log]).clues

    assert clue.signal == "SIGSEGV"
    assert [call.function for call in clue.python] == ["take", "<module>"]


def test_a_dump_in_docker_json_is_read() -> None:
    log = b"".join(
        json.dumps({"log": line.decode() + "\n", "stream": "stderr"}).encode() + b"\n"
        for line in DUMP.split(b"\n")
    )

    (clue,) = parse_incident_log([log]).clues

    assert clue.python[0].function == "take"


def test_two_dumps_in_two_streams_are_kept_apart() -> None:
    lines = DUMP.split(b"\n")
    other = DUMP.replace(b"take", b"give").split(b"\n")
    log = b"".join(
        b"(A pid=1) " + one + b"\n(B pid=2) " + two + b"\n"
        for one, two in zip(lines, other, strict=True)
    )

    first, second = parse_incident_log([log]).clues

    assert (first.writer_pid, first.python[0].function) == (1, "take")
    assert (second.writer_pid, second.python[0].function) == (2, "give")


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_pieces_of_any_size_read_the_same(size: int) -> None:
    log = (SAMPLES / "written" / "engine_worker_sigsegv.log").read_bytes()

    whole = parse_incident_log([log])
    pieces = parse_incident_log([log[at : at + size] for at in range(0, len(log), size)])

    assert pieces.clues == whole.clues
    assert pieces.lines == whole.lines == log.count(b"\n")


def test_lines_are_counted_over_noise() -> None:
    noise = b"".join(b"INFO step %d of the worker\n" % at for at in range(30_000))

    (clue,) = parse_incident_log([noise, b"free(): invalid pointer\n", noise]).clues

    assert clue.line == 30_001
    assert clue.kind is ClueKind.HEAP


@pytest.mark.parametrize("size", [10, 1_500_000, 5_000_000])
def test_a_line_counts_once_however_long_it_is(size: int) -> None:
    log = b"x" * size + b"\nready\nfree(): invalid pointer\n"
    pieces = [log[at : at + 100_000] for at in range(0, len(log), 100_000)]

    reading = parse_incident_log(pieces)

    assert [clue.line for clue in reading.clues] == [3]
    assert reading.lines == 3


def test_of_a_long_line_the_part_is_shown_that_says_it() -> None:
    (clue,) = parse_incident_log([b"ok " * 500 + b"worker process 42 exited with code -11\n"]).clues

    assert clue.text.startswith("…")
    assert clue.text.endswith("worker process 42 exited with code -11")
    assert clue.pid == 42


def test_a_progress_bar_before_the_last_words_is_not_shown_as_a_whole() -> None:
    bar = b"".join(b"\rloading shards: %d%%" % at for at in range(100))

    (clue,) = parse_incident_log([b"start\n" + bar + b"free(): invalid pointer\nend\n"]).clues

    assert (clue.line, clue.text) == (2, "loading shards: 99%free(): invalid pointer")


def test_a_hole_in_a_line_hides_nothing_of_it() -> None:
    (clue,) = parse_incident_log([b"start\n" + bytes(600_000) + b"free(): invalid pointer\n"]).clues

    assert (clue.line, clue.text) == (2, "free(): invalid pointer")


@pytest.mark.parametrize(
    "noise",
    [
        'INFO:     10.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK',
        "ERROR: 10.1.1.1 client disconnected",
        "WARNING: retrying",
        "DEBUG: step 3",
    ],
)
def test_a_level_is_no_exception_in_whose_traceback_another_writes(noise: str) -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/app/pool.py", line 22, in take',
        noise,
        "    raise ValueError(name)",
        noise,
        "ValueError: block 7 is not free",
    )

    (clue,) = parse_incident_log([f"{line}\n".encode() for line in lines]).clues

    assert (clue.detail, clue.line) == ("ValueError: block 7 is not free", 6)


def test_utf_16_is_read() -> None:
    (clue,) = parse_incident_log(["free(): invalid pointer\r\n".encode("utf-16")]).clues

    assert clue.kind is ClueKind.HEAP


def test_a_sanitizer_report_is_read_by_its_own_reader() -> None:
    report = (SAMPLES.parent / "sanitizer" / "raw" / "asan_gcc_heap_uaf_threads.txt").read_bytes()

    clues = parse_incident_log([b"INFO start\n" * 10, report]).clues

    assert clues[0].source == "AddressSanitizer"
    assert clues[0].line > 10
    assert clues[0].native


def test_chained_exceptions_say_how_they_hang_together() -> None:
    log = (SAMPLES / "died" / "python3.11_chained.log").read_bytes()

    clues = parse_incident_log([log]).clues

    assert [clue.follows for clue in clues] == [None, Follows.CAUSED]


def test_prose_about_crashes_is_no_clue() -> None:
    log = b"A Segmentation fault is seldom, rather the OOM killer; exit code 137 is retried.\n"

    reading = parse_incident_log([log])

    assert {clue.kind for clue in reading.clues} == {ClueKind.MENTION}
    assert len(reading.seen_instead) == 1


def test_a_warning_of_full_shared_memory_is_no_clue() -> None:
    line = b"Cannot attach shared memory segment 'No space left on device'\n"

    assert parse_incident_log([b"Error: " + line]).clues
    assert not parse_incident_log([b"PHP Warning: " + line]).clues


def test_a_traceback_without_its_indentation_is_read() -> None:
    log = (
        b"Traceback (most recent call last):\n"
        b'File "/opt/app/a.py", line 3, in run\n'
        b"self.pool.take(block)\n"
        b"KeyError: 7\n"
    )

    (clue,) = parse_incident_log([log]).clues

    assert clue.detail == "KeyError: 7"
    assert clue.python[0].function == "run"


def test_lives_are_noted_up_to_the_death() -> None:
    log = (SAMPLES / "written" / "engine_worker_sigsegv.log").read_bytes()

    seen = {one.pid: one.name for one in parse_incident_log([log]).processes}

    assert seen == {4100: "APIServer", 4176: "EngineCore_DP0", 4210: "Worker_TP0"}
