"""Reports, Python stacks and cores of several processes, joined."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.py.support.reports import null_crash
from tests.py.support.sanitized import PLAN

from vllm_forensics.investigate.sanitized_run import with_sanitizer
from vllm_forensics.model.run import RunReport
from vllm_forensics.model.sanitized import Method

NOTHING = RunReport(command="python", status=134, processes=(), crashes=(), failures=(), endings=())
ADDRESS = """\
=================================================================
=={pid}==ERROR: AddressSanitizer: heap-use-after-free on address 0x60b0 at pc 0x7f bp 0x7f sp 0x7f
READ of size 1 at 0x60b0 thread T0
    #0 0x7f01 in work /src/cache.cpp:{line}
SUMMARY: AddressSanitizer: heap-use-after-free /src/cache.cpp:{line} in work
"""
UNDEFINED = """\
/src/cache.cpp:{line}:3: runtime error: signed integer overflow: 7 + 2147483647 cannot be \
represented in type 'int'
    #0 0x7f01 in add /src/cache.cpp:{line}
"""
STACK = """\
== {who} 1
Current thread 0x1 (most recent call first):
  File "/srv/t.py", line {line} in step
"""


def told(folder: Path, report: RunReport = NOTHING) -> dict[tuple[str, int | None], int | None]:
    """For each report its kind and process, with the line that Python was in."""
    plan = replace(PLAN, reports=str(folder / "sanitizer"))
    sanitized = with_sanitizer(report, plan).sanitized
    assert sanitized is not None
    return {
        (found.report.printed.kind, found.pid): found.python.frames[0].line
        if found.python is not None
        else None
        for found in sanitized.reports
    }


def test_each_process_has_its_own_python_stack(tmp_path: Path) -> None:
    for pid in (21, 22):
        (tmp_path / f"sanitizer.{pid}").write_text(ADDRESS.format(pid=pid, line=pid))
        (tmp_path / f"sanitizer.{pid}.python").write_text(STACK.format(who="death", line=pid))

    assert told(tmp_path) == {("heap-use-after-free", 21): 21, ("heap-use-after-free", 22): 22}


def test_the_stacks_of_two_sanitizers_in_one_process_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "sanitizer.21").write_text(ADDRESS.format(pid=21, line=1))
    (tmp_path / "sanitizer.ubsan.21").write_text(UNDEFINED.format(line=2))
    (tmp_path / "sanitizer.21.python").write_text(
        STACK.format(who="UndefinedBehaviorSanitizer", line=2)
        + STACK.format(who="AddressSanitizer", line=1)
    )

    assert told(tmp_path) == {
        ("heap-use-after-free", 21): 1,
        ("signed-integer-overflow", 21): 2,
    }


def test_the_stack_that_was_written_at_death_belongs_to_the_fatal_report(tmp_path: Path) -> None:
    (tmp_path / "sanitizer.21").write_text(ADDRESS.format(pid=21, line=1))
    (tmp_path / "sanitizer.ubsan.21").write_text(UNDEFINED.format(line=2))
    (tmp_path / "sanitizer.21.python").write_text(STACK.format(who="death", line=1))

    assert told(tmp_path) == {
        ("heap-use-after-free", 21): 1,
        ("signed-integer-overflow", 21): None,
    }


def test_where_a_report_was_repeated_no_stack_is_guessed(tmp_path: Path) -> None:
    first, second = UNDEFINED.format(line=2), UNDEFINED.format(line=3)
    (tmp_path / "sanitizer.21").write_text(first + second + first)
    (tmp_path / "sanitizer.21.python").write_text(
        "".join(STACK.format(who="UndefinedBehaviorSanitizer", line=line) for line in (2, 3, 2))
    )

    assert set(told(tmp_path).values()) == {None}


def test_the_core_of_the_same_process_is_joined_and_no_other(tmp_path: Path) -> None:
    crash = null_crash()
    for pid in (crash.pid, crash.pid + 1):
        (tmp_path / f"sanitizer.{pid}").write_text(ADDRESS.format(pid=pid, line=pid))
    plan = replace(PLAN, reports=str(tmp_path / "sanitizer"))

    sanitized = with_sanitizer(replace(NOTHING, crashes=(crash,)), plan).sanitized

    assert sanitized is not None
    assert {found.pid: found.core for found in sanitized.reports} == {
        crash.pid: crash.core,
        crash.pid + 1: None,
    }


def test_a_log_with_the_words_of_a_trap_names_its_fix(tmp_path: Path) -> None:
    words = "==5==Shadow memory range interleaves with an existing memory mapping. ASan cannot"
    (tmp_path / "sanitizer.5").write_text(words + " proceed correctly. ABORTING.\n")

    report = with_sanitizer(NOTHING, replace(PLAN, reports=str(tmp_path / "sanitizer")))

    [failure] = report.failures
    assert failure.error.startswith("process 5 could not be watched: ")
    assert "sysctl vm.mmap_rnd_bits=28" in failure.remedy


@pytest.mark.parametrize(
    ("module", "kept"), [("/usr/lib/libpython3.11.so.1.0", False), ("/srv/_C.so", True)]
)
def test_what_the_interpreter_does_to_itself_under_valgrind_is_left_out(
    tmp_path: Path, module: str, *, kept: bool
) -> None:
    (tmp_path / "sanitizer.5").write_text(
        '<?xml version="1.0"?>\n<valgrindoutput>\n<protocolversion>4</protocolversion>\n'
        "<protocoltool>memcheck</protocoltool>\n<pid>5</pid>\n<tool>memcheck</tool>\n"
        "<error>\n  <unique>0x1</unique>\n  <tid>1</tid>\n  <kind>UninitCondition</kind>\n"
        "  <what>Conditional jump or move depends on uninitialised value(s)</what>\n  <stack>\n"
        f"    <frame>\n      <ip>0x1</ip>\n      <obj>{module}</obj>\n      <fn>work</fn>\n"
        "    </frame>\n  </stack>\n</error>\n</valgrindoutput>\n"
    )
    plan = replace(PLAN, method=Method.VALGRIND, reports=str(tmp_path / "sanitizer"))

    sanitized = with_sanitizer(NOTHING, plan).sanitized

    assert sanitized is not None
    assert (len(sanitized.reports), "Left out: 1" in sanitized.plan.notes[-1]) == (kept, not kept)
