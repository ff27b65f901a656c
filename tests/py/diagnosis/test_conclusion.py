"""What a core and a sanitizer's report of one fault say together."""

from dataclasses import replace

import pytest
from tests.py.support.reports import null_crash

from vllm_forensics.diagnosis.conclusion import conclude
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer import (
    Culprit,
    ExplainedReport,
    PrintedReport,
    Role,
    Severity,
)
from vllm_forensics.model.stack import Frame, Stack


def a_report(kind: str, function: str, file: str = "cache.cpp", line: int = 9) -> ExplainedReport:
    return ExplainedReport(
        printed=PrintedReport(sanitizer="AddressSanitizer", kind=kind),
        culprit=Culprit(function=function, file=file, line=line, role=Role.USE, index=0),
        severity=Severity.HIGH,
        why=(),
        cwe=None,
        signature="",
        explanation="",
        next_steps=(),
    )


def died_in(*functions: str) -> Crash:
    frames = tuple(
        Frame(
            index=at, pc=at + 1, function=name, tier=Tier.GDB, file=f"/src/{name}.cpp", line=at + 1
        )
        for at, name in enumerate(functions)
    )
    crash = null_crash()
    thread = replace(crash.threads[0], stack=Stack(tid=1, frames=frames))
    return replace(crash, culprit=frames[0], threads=(thread, *crash.threads[1:]))


def test_a_culprit_on_the_crashing_stack_is_the_same_fault() -> None:
    text = conclude(died_in("work", "main"), a_report("segv", "main(int, char**)"))

    assert text.startswith("Both show the fault itself, a segv: work")


def test_a_lambda_is_the_same_by_its_line() -> None:
    text = conclude(
        died_in("f::{lambda}::operator()"),
        a_report("segv", "operator()", "x/f::{lambda}::operator().cpp", 1),
    )

    assert text.startswith("Both show the fault itself")


def test_a_culprit_elsewhere_means_the_core_shows_a_consequence() -> None:
    text = conclude(died_in("free_all"), a_report("heap-buffer-overflow", "store(int)"))

    assert "noticed, free_all (free_all.cpp:1)" in text
    assert "made, store (cache.cpp:9): a heap-buffer-overflow" in text


def test_a_stack_that_is_used_up_is_one_fault_wherever_it_ended() -> None:
    died = died_in("allocate", "main")
    died = replace(died, fault=replace(died.fault, kind=FaultKind.STACK_OVERFLOW))

    text = conclude(died, a_report("stack-overflow", "lookup(int)"))

    assert text.startswith("Both show the fault itself, a stack-overflow: allocate")


@pytest.mark.parametrize(
    ("kind", "named"),
    [("fpe", "an fpe"), ("segv", "a segv"), ("use-after-poison", "a use-after-poison")],
)
def test_a_kind_has_its_article(kind: str, named: str) -> None:
    assert f"which shows {named} in" in conclude(None, a_report(kind, "store"))


def test_a_silent_fault_is_the_sanitizers_alone() -> None:
    text = conclude(None, a_report("data-race", "store"))

    assert (
        text
        == "Nothing died without the sanitizer, which shows a data-race in store (cache.cpp:9)."
    )


def test_what_no_sanitizer_sees_is_said() -> None:
    assert "core alone" in conclude(died_in("work"), None)
    assert "only the values" in conclude(None, None)
