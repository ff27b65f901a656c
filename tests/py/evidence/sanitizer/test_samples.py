"""Every sample, field by field, and the same behind every prefix and mixed with every other."""

import itertools
import json
import random
from collections.abc import Callable

import pytest
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES, differences

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport

CLEAN = [
    name for name in EXPECTED if not name.startswith(("noisy_", "negative_", "asan_gcc_verbose"))
]


def read(name: str) -> bytes:
    return (SAMPLES / "raw" / name).read_bytes()


def facts(reports: tuple[PrintedReport, ...]) -> list[object]:
    """What must not depend on where the lines stand or what is before them."""
    return [
        (
            *(report.sanitizer, report.kind, report.pid, report.thread, report.access),
            *(report.address, report.chain, report.region, report.leaks, report.summary),
            *(report.shadow, report.location, report.message),
        )
        for report in reports
    ]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_is_read_wholly_right(name: str) -> None:
    reading = parse_sanitizer_log([read(name)])

    assert differences(name, reading) == []


Prefix = Callable[[int, str], str]
PREFIXES: dict[str, Prefix] = {
    "docker compose": lambda _, line: f"api-1  | {line}",
    "kubernetes": lambda at, line: f"2026-01-15T08:12:45.{at:09}Z stderr F {line}",
    "kubectl": lambda _, line: f"[pod/engine-7d9c-x2kqp/vllm] {line}",
    "ray": lambda _, line: f"\x1b[36m(EngineCore pid=12)\x1b[0m {line}",
    "journald": lambda at, line: f"Nov 29 12:25:{at % 60:02} host42 engine[3311]: {line}",
    "docker json": lambda at, line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": f"2026-01-15T08:12:45.{at:09}Z"}
    ),
    "logcat": lambda at, line: f"11-29 12:00:{at % 60:02}.001  4321  4321 I wrap.sh : {line}",
    "pytest": lambda _, line: f"E   {line}",
    "ctest": lambda _, line: f"12: {line}",
    "mail": lambda _, line: f"> {line}",
    "github actions": lambda at, line: f"2026-01-15T08:12:45.{at:07}Z {line}",
    "docker build": lambda at, line: f"#12 3.{at:03} {line}",
    "gitlab": lambda at, line: f"2026-01-15T08:12:45.{at:06}Z 00O {line}",
    "torchrun": lambda _, line: f"[rank0]: {line}",
    "mpirun": lambda _, line: f"[1,0]<stderr>: {line}",
    "unknown to every table": lambda at, line: f"<<job 17 @ {at}.{at:03}>> {line}",
    "vllm": lambda at, line: f"INFO 01-15 08:12:{at % 60:02} [worker.py:12] {line}",
    "compose in github actions": lambda at, line: f"2026-01-15T08:12:45.{at:07}Z api-1  | {line}",
}


def behind(prefix: Prefix, name: str) -> bytes:
    lines = read(name).decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return "".join(prefix(at, line) + "\n" for at, line in enumerate(lines)).encode()


@pytest.mark.parametrize("kind", PREFIXES)
def test_a_prefix_changes_nothing(kind: str) -> None:
    wrong = [
        name
        for name in CLEAN
        if facts(parse_sanitizer_log([behind(PREFIXES[kind], name)]).reports)
        != facts(parse_sanitizer_log([read(name)]).reports)
    ]

    assert wrong == []


def test_rsyslog_writes_a_whole_report_in_one_line() -> None:
    for name in CLEAN:
        text = read(name).decode("utf-8", "replace").rstrip("\n").replace("\n", "#012")
        if len(text) > 16_000:
            continue
        line = f"Nov 29 12:25:00 host42 engine[3311]: {text}\n".encode()

        assert facts(parse_sanitizer_log([line]).reports) == facts(
            parse_sanitizer_log([read(name)]).reports
        ), name


def test_two_interleaved_processes_are_told_apart_by_their_prefixes() -> None:
    chance = random.Random(5)  # noqa: S311 - a fixed shuffle
    for first, second in itertools.pairwise(CLEAN):
        one = behind(lambda _, line: f"(Worker pid=11) {line}", first).splitlines(keepends=True)
        two = behind(lambda _, line: f"(Worker pid=12) {line}", second).splitlines(keepends=True)
        mixed = []
        while one or two:
            source = one if one and (not two or chance.random() < 0.5) else two
            mixed.append(source.pop(0))

        found = facts(parse_sanitizer_log([b"".join(mixed)]).reports)

        wanted = [
            *facts(parse_sanitizer_log([read(first)]).reports),
            *facts(parse_sanitizer_log([read(second)]).reports),
        ]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (first, second)


def test_lines_of_another_program_between_change_nothing() -> None:
    noise = ["GET /health 200 3ms", "WARN  slow query 1.2s", "# heartbeat 12", "ERROR: timed out"]
    for name in CLEAN:
        if name.startswith("ubsan"):  # one line is a whole report there: nothing says what follows
            continue
        lines = read(name).decode("utf-8", "replace").splitlines()
        mixed = [part for at, line in enumerate(lines) for part in (line, noise[at % len(noise)])]

        found = facts(parse_sanitizer_log(["\n".join(mixed).encode()]).reports)

        assert found == facts(parse_sanitizer_log([read(name)]).reports), name


def test_one_report_never_swallows_the_next() -> None:
    for first, second in itertools.pairwise(CLEAN):
        log = read(first).rstrip(b"\n") + b"\n" + read(second)

        found = facts(parse_sanitizer_log([log]).reports)

        assert found == [
            *facts(parse_sanitizer_log([read(first)]).reports),
            *facts(parse_sanitizer_log([read(second)]).reports),
        ], (first, second)


def test_a_repeat_is_counted_and_not_listed() -> None:
    log = read("asan_gcc_heap_uaf_read.txt")

    (report,) = parse_sanitizer_log([log, b"retrying\n", log]).reports

    assert report.occurrences == 2
    assert report.lines[0] == 2


def test_the_pieces_of_a_stream_may_end_anywhere() -> None:
    log = b"noise\n" * 50 + read("asan_clang_heap_uaf_threads.txt") + read("tsan_clang_uaf.txt")
    whole = parse_sanitizer_log([log])

    for size in (1, 2, 7, 64, 1000):
        pieces = (log[at : at + size] for at in range(0, len(log), size))

        assert parse_sanitizer_log(pieces) == whole


def test_utf_16_is_read() -> None:
    text = read("asan_gcc_heap_uaf_read.txt").decode()

    reading = parse_sanitizer_log([text.encode("utf-16")])

    assert facts(reading.reports) == facts(
        parse_sanitizer_log([read("asan_gcc_heap_uaf_read.txt")]).reports
    )
