"""What is concluded from a report rests on its lines, never on a demo's names."""

import re

import pytest
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.diagnosis.sanitizer.signature import signature_of
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import ExplainedReport, PrintedReport, Severity


def printed(text: str) -> PrintedReport:
    (report,) = parse_sanitizer_log([text.encode()]).reports
    return report


def sample(name: str) -> str:
    return (SAMPLES / "raw" / f"{name}.txt").read_text(encoding="utf-8", errors="replace")


def explained(name: str) -> ExplainedReport:
    return explain_report(parse_sanitizer_log([sample(name).encode()]).reports[0])


def use_after_free(*free: str, free_thread: str = "T0") -> str:
    frames = "\n".join(f"    #{at} 0x2{at} in {frame}" for at, frame in enumerate(free))
    return (
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1\n"
        "READ of size 8 at 0x60 thread T0\n"
        "    #0 0x10 in q::look(int) /w/q.cc:88:3\n"
        "    #1 0x11 in q::turn() /w/q.cc:70:3\n\n"
        "0x60 is located 0 bytes inside of 128-byte region [0x60,0xe0)\n"
        f"freed by thread {free_thread} here:\n{frames}\n\n"
        "previously allocated by thread T0 here:\n"
        "    #0 0x30 in operator new(unsigned long) (/w/a+0x1)\n"
        "    #1 0x31 in q::make() /w/q.cc:31:3\n\n"
        "SUMMARY: AddressSanitizer: heap-use-after-free /w/q.cc:88:3 in q::look(int)\n"
    )


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            "void std::vector<q::B, q::A<q::B> >::_M_realloc_insert<q::B>(int) /x/v.tcc:1",
            "a container that grew",
        ),
        ("std::__1::vector<int, std::__1::allocator<int>>::reserve(unsigned long) /x/v:1", "grew"),
        ("realloc (/w/a+0x5)", "a realloc"),
        (
            "std::unique_ptr<q::B, std::default_delete<q::B> >::reset(q::B*) /x/unique_ptr.h:1",
            "a unique_ptr",
        ),
        ("std::_Sp_counted_base<2>::_M_release() /x/shared_ptr_base.h:1", "last shared_ptr"),
        ("q::B::~B() /w/q.cc:5:1", "in a destructor (q::B::~B)"),
        ("std::vector<int>::erase(int*) /x/v.h:1", "removal of an element"),
        ("_Py_Dealloc Objects/object.c:1", "Python"),
        ("std::vector<int>::operator=(std::vector<int>&&) /x/v.h:1", "got new contents"),
        ("std::vector<int>::operator=(std::vector<int>&&) /x/v.h:1", "(std::vector::operator=)"),
        ("pybind11::class_<q::B>::dealloc(pybind11::detail::value_and_holder&) /x/p.h:1", "holder"),
        ("PyBuffer_Release Objects/abstract.c:1", "the end of a Python buffer"),
    ],
)
def test_the_way_of_the_free_is_read_from_its_frames(frame: str, words: str) -> None:
    text = use_after_free("free (/w/a+0x9)", frame, "q::drop() /w/q.cc:44:3")

    assert words in explain_report(printed(text)).explanation


def test_another_threads_free_is_said() -> None:
    text = use_after_free("free (/w/a+0x9)", "q::drop() /w/q.cc:44:3", free_thread="T2")

    report = explain_report(printed(text))

    assert "T2 freed it while T0 still held the pointer" in report.explanation
    assert any("--tsan" in step for step in report.next_steps)


def test_the_common_caller_is_named_with_both_lines() -> None:
    text = use_after_free("free (/w/a+0x9)", "q::drop() /w/q.cc:44:3", "q::turn() /w/q.cc:69:3")

    explanation = explain_report(printed(text)).explanation

    assert (
        "below q::turn: line 69 leads to the free, line 70 to the use, 1 line apart" in explanation
    )


def test_a_container_is_named_by_the_call_that_the_own_code_made() -> None:
    text = use_after_free(
        "operator delete(void*) (/w/a+0x9)",
        "std::vector<int>::_M_realloc_insert<int>(int) /x/v.tcc:1",
        "std::vector<int>::push_back(int&&) /x/v.h:1",
        "q::drop() /w/q.cc:44:3",
    )

    assert (
        "a container that grew (std::vector::push_back)"
        in explain_report(printed(text)).explanation
    )


def test_a_stack_that_ends_in_a_library_is_said_to() -> None:
    text = use_after_free(
        "operator delete(void*) (/w/a+0x9)",
        "std::basic_string<char>::_M_mutate(unsigned long) (/lib/libstdc++.so.6+0x5)",
    )

    report = explain_report(printed(text))

    assert "freed below std::basic_string::_M_mutate (its callers are not printed)" in (
        report.explanation
    )
    assert any("fast_unwind_on_malloc=0" in step for step in report.next_steps)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("std::basic_string_view<char>::operator[](unsigned long) const /x/s.h:1", "a view"),
        ("__gnu_cxx::__normal_iterator<int*>::operator*() const /x/i.h:1", "an iterator"),
        ("std::function<int ()>::operator()() const /x/f.h:1", "a callback"),
    ],
)
def test_what_the_use_goes_through_is_said(frame: str, words: str) -> None:
    text = use_after_free("free (/w/a+0x9)", "q::drop() /w/q.cc:44:3").replace(
        "    #1 0x11 in", f"    #1 0x12 in {frame}\n    #2 0x11 in"
    )

    assert words in explain_report(printed(text)).explanation
    assert words not in explain_report(printed(use_after_free("free (/w/a+0x9)"))).explanation


def test_a_destructor_in_the_line_of_the_use_looks_like_a_temporarys_end() -> None:
    text = use_after_free("free (/w/a+0x9)", "q::S::~S() /w/q.cc:9", "q::look(int) /w/q.cc:88:3")

    assert "in the same line /w/q.cc:88: a temporary of that line would end so" in (
        explain_report(printed(text)).explanation
    )


@pytest.mark.parametrize("name", [name.removesuffix(".txt") for name in EXPECTED])
def test_every_report_has_an_explanation_and_a_severity_with_reasons(name: str) -> None:
    for report in parse_sanitizer_log([sample(name).encode()]).reports:
        result = explain_report(report)

        assert len(result.explanation) > 20
        assert result.why
        assert result.signature.startswith(f"v1:{report.kind}:")


def test_renamed_symbols_give_the_same_conclusions() -> None:
    for name in ("asan_gcc_heap_uaf_read", "asan_gcc_double_free", "tsan_clang_data_race"):
        text = sample(name)
        renamed = re.sub(r"\b(Cache|Node|heap_uaf_read|release_buf|racer)\b", r"Zq\1x", text)

        one, two = explain_report(printed(text)), explain_report(printed(renamed))

        assert (one.severity, one.cwe, one.why) == (two.severity, two.cwe, two.why)
        assert one.culprit is not None
        assert two.culprit is not None
        assert one.culprit.line == two.culprit.line


def test_the_signature_ignores_what_differs_between_two_runs() -> None:
    text = sample("asan_gcc_heap_uaf_read")
    other = (
        text.replace("==1028==", "==77==")
        .replace("0x606000000028", "0x606000000a28")
        .replace("asan_cases.cpp:25", "asan_cases.cpp:27")
        .replace("Cache::lookup(int)", "Cache::lookup(int) [clone .isra.0]")
    )

    one, two = printed(text), printed(other)

    assert signature_of(one) == signature_of(two)


def test_two_compilers_give_one_signature() -> None:
    pairs = (("asan_gcc_heap_uaf_realloc", "asan_clang_heap_uaf_realloc"),
             ("asan_gcc_stack_overflow", "asan_clang_stack_overflow"))  # fmt: skip
    for one, two in pairs:
        assert explained(one).signature == explained(two).signature


def test_a_race_is_an_unordered_pair() -> None:
    text = (
        "WARNING: ThreadSanitizer: data race (pid=1)\n"
        "  Write of size 4 at 0x10 by thread T1:\n    #0 {} /w/a.cc:1 (p+0x1)\n\n"
        "  Previous read of size 4 at 0x10 by main thread:\n    #0 {} /w/a.cc:2 (p+0x2)\n\n"
        "SUMMARY: ThreadSanitizer: data race /w/a.cc:1 in f\n"
    )

    one, two = printed(text.format("f()", "g()")), printed(text.format("g()", "f()"))

    assert signature_of(one) == signature_of(two)


def test_a_null_field_is_low_and_a_wild_write_is_high() -> None:
    assert explained("asan_gcc_segv_null_field_write").severity is Severity.LOW
    assert explained("asan_gcc_segv_wild_write").severity is Severity.HIGH


def test_the_interpreter_is_not_the_culprit() -> None:
    report = explained("py_gcc_uaf")

    assert report.culprit is not None
    assert report.culprit.function == "tensor_sum"
    assert {report.printed.chain[at].frames[index].function for at, index in report.own} == {
        "tensor_new",
        "tensor_free",
        "tensor_sum",
    }
