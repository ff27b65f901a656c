"""Reports of several processes that alternate, and nothing stands before their lines."""

# ruff: noqa: E501 - a runtime's own lines stay whole

import random

import pytest

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport, StackEvent

FIRST = """\
=================================================================
==101==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000110 at pc 0x55a000000101 bp 0x7ffd00000010 sp 0x7ffd00000008
READ of size 8 at 0x602000000110 thread T0
    #0 0x55a000000100 in one::take(int) /s/one.cc:10:1
    #1 0x55a000000200 in one::run() /s/one.cc:20:1
    #2 0x55a000000300 in main /s/one.cc:30:1

0x602000000110 is located 0 bytes inside of 16-byte region [0x602000000110,0x602000000120)
freed by thread T0 here:
    #0 0x55a000000400 in free (/s/bin/one+0x400)
    #1 0x55a000000500 in one::drop() /s/one.cc:40:1

previously allocated by thread T0 here:
    #0 0x55a000000600 in malloc (/s/bin/one+0x600)
    #1 0x55a000000700 in one::make() /s/one.cc:50:1

SUMMARY: AddressSanitizer: heap-use-after-free /s/one.cc:10:1 in one::take(int)
==101==ABORTING
"""
SECOND = """\
=================================================================
==202==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x603000000230 at pc 0x56b000000101 bp 0x7ffe00000010 sp 0x7ffe00000008
WRITE of size 4 at 0x603000000230 thread T3
    #0 0x56b000000100 in two::put(int) /s/two.cc:11:1
    #1 0x56b000000200 in two::loop() /s/two.cc:21:1
    #2 0x56b000000300 in start_thread (/lib/libc.so.6+0x300)

0x603000000230 is located 0 bytes after 32-byte region [0x603000000210,0x603000000230)
allocated by thread T0 here:
    #0 0x56b000000600 in operator new(unsigned long) (/s/bin/two+0x600)
    #1 0x56b000000700 in two::make() /s/two.cc:51:1

Thread T3 created by T0 here:
    #0 0x56b000000800 in pthread_create (/s/bin/two+0x800)
    #1 0x56b000000900 in main /s/two.cc:61:1

SUMMARY: AddressSanitizer: heap-buffer-overflow /s/two.cc:11:1 in two::put(int)
==202==ABORTING
"""
RACE = """\
==================
WARNING: ThreadSanitizer: data race (pid=303)
  Write of size 4 at 0x7b0400000010 by thread T2:
    #0 three::count() /s/three.cc:7 (three+0x4c1)
    #1 three::work() /s/three.cc:8 (three+0x4c9)

  Previous read of size 4 at 0x7b0400000010 by main thread:
    #0 main /s/three.cc:9 (three+0x4d2)

SUMMARY: ThreadSanitizer: data race /s/three.cc:7 in three::count()
==================
"""


def reports(text: str) -> dict[int | None, PrintedReport]:
    return {report.pid: report for report in parse_sanitizer_log([text.encode()]).reports}


WHOLE = {**reports(FIRST), **reports(SECOND), **reports(RACE)}


def mixed(one: str, two: str, chance: random.Random, *, stay: float) -> str:
    """Both, line by line, in an order that chance decides; each in its own order."""
    sources = [one.splitlines(keepends=True), two.splitlines(keepends=True)]
    lines = []
    while sources[0] or sources[1]:
        if not sources[0] or (sources[1] and chance.random() > stay):
            sources.reverse()
        lines.append(sources[0].pop(0))
    return "".join(lines)


def is_part_of(event: StackEvent, report: PrintedReport) -> bool:
    """Are these the first frames of a stack of that report?"""
    count = len(event.frames)
    return any(
        whole.role is event.role and whole.frames[:count] == event.frames for whole in report.chain
    )


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("one", "two"), [(FIRST, SECOND), (SECOND, RACE), (RACE, FIRST)])
def test_no_line_of_one_process_goes_to_another(one: str, two: str, stay: float) -> None:
    chance = random.Random(7)  # noqa: S311 - a fixed shuffle
    for _ in range(40):
        found = reports(mixed(one, two, chance, stay=stay))

        assert len(found) == 2
        for pid, report in found.items():
            whole = WHOLE[pid]
            assert (report.kind, report.pid) == (whole.kind, whole.pid)
            assert report.address in {whole.address, None}
            assert report.access in {whole.access, None}
            assert report.region in {whole.region, None}
            assert report.summary in {whole.summary, None}
            assert all(is_part_of(event, whole) for event in report.chain)
            assert report.chain == whole.chain or report.truncated


def test_what_names_its_process_is_kept() -> None:
    alternating = mixed(FIRST, SECOND, random.Random(1), stay=0.0)  # noqa: S311

    found = reports(alternating)

    for pid, report in found.items():
        assert report.access == WHOLE[pid].access
        assert report.region == WHOLE[pid].region
        assert report.summary == WHOLE[pid].summary
        assert report.truncated
    assert found[101].chain[-1].frames[0].function == "one::take(int)"


def test_a_report_inside_of_another_is_whole() -> None:
    head, between, tail = FIRST.partition("    #1 0x55a000000200")
    text = head + SECOND + between + tail

    found = reports(text)

    assert found[202].chain == WHOLE[202].chain
    assert found[101].chain == WHOLE[101].chain
    assert found[101].summary == WHOLE[101].summary


def test_a_report_behind_one_that_was_cut_is_whole() -> None:
    cut = FIRST.partition("    #2")[0]

    for text in (cut + SECOND, cut.partition("READ")[0] + SECOND):
        found = reports(text)

        assert found[202].chain == WHOLE[202].chain
        assert not found[202].truncated
        assert found[101].truncated


def test_more_processes_than_can_be_told_apart_end_each_other() -> None:
    headers = "".join(FIRST.replace("101", str(at)).partition("READ")[0] for at in range(900, 930))

    found = parse_sanitizer_log([headers.encode()]).reports

    assert [report.pid for report in found] == list(range(900, 930))
    assert all(report.truncated for report in found)
