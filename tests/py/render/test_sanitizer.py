"""What a person reads, line by line."""

from pathlib import Path

import pytest
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES
from tests.py.support.snapshots import too_wide

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import ExplainedLog, SanitizerAnswer, SanitizerGroup
from vllm_forensics.render.clean import clean
from vllm_forensics.render.sanitizer import render_sanitizer
from vllm_forensics.render.sanitizer_clean import clean_answer
from vllm_forensics.render.terminal import Detail, TerminalStyle

SNAPSHOTS = Path(__file__).parents[1] / "data" / "sanitizer" / "screens"
SHOWN = (
    "asan_gcc_heap_uaf_threads",
    "lsan_gcc_leaks",
    "tsan_clang_lock_inversion",
    "ubsan_gcc_misaligned",
    "msan_clang_stored_chain",
    "noisy_all_in_one",
    "asan_gcc_unsym_uaf",
)


def answer_of(name: str) -> SanitizerAnswer:
    reading = parse_sanitizer_log([(SAMPLES / "raw" / f"{name}.txt").read_bytes()])
    reports = tuple(explain_report(report) for report in reading.reports)
    log = ExplainedLog(
        path=name,
        size_bytes=reading.size_bytes,
        lines=reading.lines,
        truncated=reading.truncated,
        reports=reports,
    )
    groups = dict.fromkeys(report.signature for report in reports)
    return SanitizerAnswer(
        logs=(log,),
        groups=tuple(SanitizerGroup(signature=name, count=1) for name in groups),
        failures=(),
    )


@pytest.mark.parametrize("name", SHOWN)
def test_the_screen_is_the_one_that_was_agreed(name: str) -> None:
    text = render_sanitizer(answer_of(name), TerminalStyle(width=100))

    assert text == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for name in EXPECTED:
        answer = clean(answer_of(name.removesuffix(".txt")))
        for detail in (Detail.SENTENCE, Detail.FULL):
            style = TerminalStyle(width=width, all_frames=width == 160, detail=detail)
            text = render_sanitizer(answer, style)

            assert not too_wide(text, width), name


@pytest.mark.parametrize("include_secrets", [True, False])
def test_cleaning_piece_by_piece_is_cleaning(include_secrets: bool) -> None:
    for name in (*SHOWN, "noisy_nul_bytes", "asan_gcc_odr"):
        answer = answer_of(name)

        cleaned = clean_answer(answer, include_secrets=include_secrets)

        assert cleaned == clean(answer, include_secrets=include_secrets)
