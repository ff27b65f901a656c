"""Which rule leaves out which report: the runtimes' own rules, on their own reports."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.evidence.sanitizer.exam import SAMPLES

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.diagnosis.suppressed import matches_pattern, suppresses, suppresses_leak
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import ExplainedReport
from vllm_forensics.model.sanitizer_sieve import Suppression


def rule(text: str) -> Suppression:
    kind, _, pattern = text.partition(":")
    return Suppression(type=kind, pattern=pattern, line=1)


def sample(name: str) -> ExplainedReport:
    reading = parse_sanitizer_log([(SAMPLES / "raw" / f"{name}.txt").read_bytes()])
    return explain_report(reading.reports[0])


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("foo", "a::foo(int)", True),
        ("^foo", "a::foo", False),
        ("^foo", "foobar", True),
        ("foo$", "a::foo", True),
        ("foo$", "foobar", False),
        ("^foo$", "foo", True),
        ("^foo$", "foofoo", False),
        ("f*r", "foobar", True),
        ("^f*r$", "foobarbaz", False),
        ("^a*b*c$", "aXbYc", True),
        ("^a*a$", "a", False),
        ("*", "anything", True),
        ("foo", "", False),
    ],
)
def test_a_pattern(pattern: str, text: str, *, matches: bool) -> None:
    assert matches_pattern(pattern, text) is matches


@given(
    pattern=st.text(alphabet="ab*", min_size=1, max_size=12),
    text=st.text(alphabet="ab", min_size=1, max_size=30),
    ends=st.tuples(st.booleans(), st.booleans()),
)
def test_patterns_agree_with_a_regular_expression(
    pattern: str, text: str, ends: tuple[bool, bool]
) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*")
    wanted = re.search(f"{'^' if ends[0] else ''}{expression}{'$' if ends[1] else ''}", text)
    anchored = f"{'^' if ends[0] else ''}{pattern}{'$' if ends[1] else ''}"

    assert matches_pattern(anchored, text) is (wanted is not None)
    assert matches_pattern(f"^{pattern}$", text) is fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("race:bump_counter", "tsan_clang_data_race", True),
        ("race:^bump_counter$", "tsan_clang_data_race", True),
        ("race:tsan_cases.cpp", "tsan_clang_data_race", True),
        ("race:tsan_clang", "tsan_clang_data_race", True),
        ("race:^counter$", "tsan_clang_data_race", True),
        ("race:elsewhere", "tsan_clang_data_race", False),
        ("race_top:bump_counter", "tsan_clang_data_race", True),
        ("race_top:main", "tsan_clang_data_race", False),
        ("deadlock:lock12", "tsan_clang_data_race", False),
        ("deadlock:lock21", "tsan_clang_lock_inversion", True),
        ("race:lock12", "tsan_clang_lock_inversion", False),
        ("mutex:destroy_locked", "tsan_clang_destroy_locked", True),
        ("thread:thread_leak", "tsan_gcc_thread_leak", True),
        ("race:uaf", "tsan_clang_uaf", True),
        ("race:Cache", "asan_gcc_heap_uaf_read", False),
        ("signed-integer-overflow:ubsan_cases.cpp", "ubsan_gcc_signed_overflow", True),
        ("signed-integer-overflow:signed_overflow", "ubsan_gcc_signed_overflow", True),
        ("signed-integer-overflow:main", "ubsan_gcc_signed_overflow", False),
        ("integer:ubsan_cases.cpp", "ubsan_gcc_signed_overflow", True),
        ("shift:ubsan_cases.cpp", "ubsan_gcc_signed_overflow", False),
        ("undefined:*", "ubsan_gcc_signed_overflow", True),
        (
            "signed-integer-overflow:^src/ubsan_cases.cpp$",
            "ubsan_nostack_gcc_signed_overflow",
            True,
        ),
        ("vptr_check:Base", "ubsan_gcc_bad_vptr", True),
        ("vptr_check:Other", "ubsan_gcc_bad_vptr", False),
        ("interceptor_name:memcpy", "asan_clang_memcpy_overlap", True),
        ("interceptor_name:strcpy", "asan_clang_memcpy_overlap", False),
        ("interceptor_via_fun:memcpy_overlap", "asan_clang_memcpy_overlap", True),
        ("interceptor_via_lib:asan_clang", "asan_clang_memcpy_overlap", True),
        ("interceptor_via_fun:lookup", "asan_gcc_heap_uaf_read", False),
        ("alloc_dealloc_mismatch:alloc_dealloc", "asan_clang_alloc_dealloc_mismatch", True),
        ("odr_violation:*", "asan_clang_odr", True),
        ("kind:heap-use-after-free", "asan_gcc_heap_uaf_read", True),
        ("kind:heap-*", "asan_gcc_heap_uaf_read", True),
        ("kind:heap", "asan_gcc_heap_uaf_read", False),
        ("culprit:Cache::lookup", "asan_gcc_heap_uaf_read", True),
        ("culprit:asan_cases.cpp:25$", "asan_gcc_heap_uaf_read", True),
        ("culprit:Cache::insert", "asan_gcc_heap_uaf_read", False),
        ("kind:memory-leak", "lsan_gcc_leaks", True),
        ("leak:lose_buf", "lsan_gcc_leaks", False),
        ("culprit:lose_buf", "lsan_gcc_leaks", False),
    ],
)
def test_a_rule_and_a_report(text: str, name: str, *, matches: bool) -> None:
    assert suppresses(rule(text), sample(name)) is matches


def test_a_signature_is_matched_whole_or_by_wildcards() -> None:
    report = sample("asan_gcc_heap_uaf_read")
    masked = report.signature.replace("Cache::lookup", "***")

    assert suppresses(rule(f"signature:{report.signature}"), report)
    assert suppresses(rule(f"signature:{masked}"), report)
    assert suppresses(rule("signature:v1:heap-*:Cache::lookup:*"), report)
    assert not suppresses(rule("signature:v1:heap-use-after-free:Cache::lookup"), report)


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("leak:lose_buf", 1),
        ("leak:make_tree", 7),
        ("leak:asan_cases.cpp", 8),
        ("culprit:make_tree", 7),
        ("leak:elsewhere", 0),
        ("race:lose_buf", 0),
    ],
)
def test_leaks_go_one_by_one(text: str, left_out: int) -> None:
    report = sample("lsan_gcc_leaks")

    hidden = [n for n in range(len(report.leaks)) if suppresses_leak(rule(text), report, n)]

    assert len(hidden) == left_out
