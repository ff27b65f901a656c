"""Planted crashes: every field of every report against what the victim really did."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.py.integration.exam import compare
from tests.py.integration.tool import forensics_core, triage_in_process
from tests.py.integration.victim_cases import (
    CASES,
    Binaries,
    Flavour,
    VictimCase,
    make_core,
)

pytestmark = pytest.mark.gdb

WHOLE = (Flavour.DEBUG_O2, Flavour.STRIPPED)
SAMPLED = (Flavour.DEBUG_O0, Flavour.SYMBOLS)
BY_NAME = {case.name: case for case in CASES}
SAMPLE = (
    "null_this_accessor",
    "null_unique_ptr",
    "null_function_call",
    "wild_read_modify_write",
    "noncanonical_read",
    "write_to_string_literal",
    "stack_overflow_main_thread",
    "truncated_shared_memory_read",
    "divide_by_zero",
    "double_free_small",
    "uncaught_runtime_error",
    "assertion",
    "handler_raises_again",
    "crash_in_inlined_function",
    "plugin_hidden",
)
BY_COMMAND = ("null_read", "double_free_large", "external_sigsegv", "plugin_exported")
Build = Callable[[Flavour], Binaries]


EXAMS = (
    *(
        pytest.param(flavour, case, id=f"{flavour}-{case.name}")
        for flavour in WHOLE
        for case in CASES
    ),
    *(
        pytest.param(flavour, BY_NAME[name], id=f"{flavour}-{name}")
        for flavour in SAMPLED
        for name in SAMPLE
    ),
)


@pytest.mark.parametrize(("flavour", "case"), EXAMS)
def test_the_report_says_what_the_victim_did(
    flavour: Flavour, case: VictimCase, victims: Build, crash_folder: Path
) -> None:
    binaries = victims(flavour)
    made = make_core(case, binaries, crash_folder)

    report = triage_in_process(made.core)

    assert compare(case, binaries, made, report) == []


@pytest.mark.parametrize("flavour", list(Flavour))
@pytest.mark.parametrize("name", BY_COMMAND)
def test_the_command_says_the_same(
    flavour: Flavour, name: str, victims: Build, crash_folder: Path
) -> None:
    binaries = victims(flavour)
    made = make_core(BY_NAME[name], binaries, crash_folder)

    answer = forensics_core(made.core)

    assert answer.status == 1
    assert compare(BY_NAME[name], binaries, made, answer.report) == []
