"""Lines that are read many at a time say what they say one by one."""

from collections.abc import Iterator

import pytest
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES

from vllm_forensics.evidence.sanitizer import asan, tsan, ubsan
from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.lines import logical_lines
from vllm_forensics.evidence.sanitizer.rules import Runtime
from vllm_forensics.evidence.sanitizer.runs import Run, read_run
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport

HEADER = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010"
FRAMES = b"    #0 0x10 in a a.c:1\n    #1 0x20 in b a.c:2\n"


def runs(data: bytes) -> Iterator[Run]:
    """Every run of a log, wherever a line begins."""
    position = 0
    while position < len(data):
        run = read_run(data, position, len(data), after=-1)
        if run is not None:
            yield run
        position = data.find(b"\n", position) + 1 or len(data)


SAMPLE_RUNS = [run for name in EXPECTED for run in runs((SAMPLES / "raw" / name).read_bytes())]


def begun(runtime: Runtime) -> ReportBuilder:
    return ReportBuilder(runtime, None, 1, HEADER)


def at_once(runtime: Runtime, run: Run) -> PrintedReport | None:
    report = begun(runtime)
    return report.build() if report.take_run(run, 1 + len(run.lines) + run.blank) else None


def one_by_one(runtime: Runtime, run: Run) -> PrintedReport:
    report = begun(runtime)
    for number, line in enumerate((*run.lines, *[""] * run.blank), 2):
        assert report.feed(line, number)
    return report.build()


@pytest.mark.parametrize("runtime", [asan.RUNTIME, tsan.RUNTIME, ubsan.RUNTIME])
def test_every_run_of_the_samples_is_the_same_either_way(runtime: Runtime) -> None:
    taken = [(run, report) for run in SAMPLE_RUNS if (report := at_once(runtime, run)) is not None]

    assert [run.lines for run, report in taken if report != one_by_one(runtime, run)] == []
    assert len(taken) > 200


def test_no_line_of_a_run_has_anything_before_it() -> None:
    lines = [line for run in SAMPLE_RUNS for line in run.lines]

    assert [x for x in lines if logical_lines(x.encode()) != [("", x)]] == []


@pytest.mark.parametrize(
    "next_line",
    [
        b"    #1 0x20 in b a.c:2",
        b"    #0 0x10 in a a.c:1",
        b"    #012 0x20 in b a.c:2",
        b"   #2 0x30 in std::vector<int>::at(int) a.c:2",
        b"2026-01-15T08:12:45Z     #2 0x30 in c a.c:3",
        b"    #2 0x30 in c a.c:3\r",
    ],
)
def test_a_run_ends_before_a_line_that_needs_a_closer_look(next_line: bytes) -> None:
    data = FRAMES + next_line + b"\n"

    run = read_run(data, 0, len(data), after=-1)

    assert run is not None
    assert run.size == len(FRAMES)


def test_an_empty_line_belongs_to_the_stack_above_it_and_is_no_line_of_the_report() -> None:
    run = read_run(FRAMES + b"\n\n", 0, len(FRAMES) + 2, after=-1)

    assert run is not None
    assert (run.size, run.blank, len(run.lines)) == (len(FRAMES) + 1, 1, 2)


def test_a_run_ends_with_the_last_whole_line_that_may_be_read() -> None:
    run = read_run(FRAMES, 0, len(FRAMES) - 1, after=-1)

    assert run is not None
    assert run.lines == ["    #0 0x10 in a a.c:1"]


def test_a_very_long_stack_is_cut_as_it_is_line_by_line() -> None:
    frames = b"".join(b"    #%d 0x10 in f%d a.c:1\n" % (at, at) for at in range(6000))

    (plain,) = parse_sanitizer_log([HEADER.encode() + b"\n" + frames]).reports
    tagged = (HEADER.encode() + b"\n" + frames).replace(b"\n", b"\napi-1  | ")
    (careful,) = parse_sanitizer_log([b"api-1  | " + tagged]).reports

    assert plain.chain == careful.chain
    assert plain.truncated
    assert careful.truncated
