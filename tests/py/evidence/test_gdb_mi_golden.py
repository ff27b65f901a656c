"""What a real gdb answered, read; and a gdb of this machine asked again."""

import json

import pytest
from tests.py.support.gdb_mi_recorder import CASES, FOLDER, record

from vllm_forensics.evidence.gdb_mi import (
    MiResult,
    parse_frames,
    parse_records,
    parse_thread_ids,
    parse_variables,
)

FRAMES = "-stack-list-frames 0 16"
VARIABLES = "-stack-list-variables --thread 1 --frame {} --all-values"


def kept(case: str) -> dict[str, MiResult]:
    found = json.loads((FOLDER / case / "transcript.json").read_text(encoding="utf-8"))
    return {question: parse_records(lines) for question, lines in found.items()}


def own_calls(result: MiResult) -> list[tuple[str | None, int | None]]:
    """Functions and lines of the case's own source: libraries differ from machine to machine."""
    return [
        (frame.function, frame.line)
        for frame in parse_frames(result)
        if frame.is_signal or (frame.file or "").endswith("case.cpp")
    ]


def names(result: MiResult) -> list[tuple[str, bool]]:
    return [(variable.name, variable.is_argument) for variable in parse_variables(result)]


@pytest.mark.parametrize("case", CASES)
def test_the_version_stands_beside_each_case(case: str) -> None:
    assert "GNU gdb" in (FOLDER / case / "version.txt").read_text(encoding="utf-8")


def test_templates_and_lambdas_have_plain_names() -> None:
    functions = [name for name, _ in own_calls(kept("templates")[FRAMES])]

    assert functions == [
        "vllm::Cache<int>::at",
        "vllm::run<int>::{lambda(unsigned long)#1}::operator()",
        "vllm::run<int>",
        "main",
    ]


def test_this_is_an_argument() -> None:
    assert names(kept("templates")[VARIABLES.format(0)]) == [("this", True), ("row", True)]


def test_a_missing_symbol_is_an_error_with_its_reason() -> None:
    found = kept("templates")["-data-evaluate-expression nothing"]

    assert (found.ok, found.error) == (False, 'No symbol "nothing" in current context.')


def test_the_threads_of_a_live_process() -> None:
    assert list(parse_thread_ids(kept("templates")["-thread-info"]).values()) == ["1"]


def test_a_signal_frame_stands_between_handler_and_main() -> None:
    functions = [name for name, _ in own_calls(kept("handler")[FRAMES])]

    assert functions == [
        "(anonymous namespace)::on_signal", "<signal handler called>", "main",
    ]  # fmt: skip


def test_an_inner_local_hides_the_outer_but_not_an_argument() -> None:
    found = parse_variables(kept("shadowed")[VARIABLES.format(1)])

    counts = [(variable.value, variable.is_argument) for variable in found
              if variable.name == "count"]  # fmt: skip
    assert sorted(counts) == [("1", True), ("42", False)]


@pytest.mark.gdb
@pytest.mark.parametrize("case", CASES)
def test_the_gdb_of_this_machine_answers_alike(case: str) -> None:
    now = {question: parse_records(lines) for question, lines in record(case).items()}
    before = kept(case)

    assert now.keys() == before.keys()
    for question, result in now.items():
        assert (result.ok, result.error) == (before[question].ok, before[question].error)
        assert own_calls(result) == own_calls(before[question])
        assert names(result) == names(before[question])
