"""The explanation of each kind, keyed on what its report prints."""

import pytest
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import ExplainedReport, Severity


def explained(text: str) -> ExplainedReport:
    (report,) = parse_sanitizer_log([text.encode()]).reports
    return explain_report(report)


def sample(name: str) -> ExplainedReport:
    reading = parse_sanitizer_log([(SAMPLES / "raw" / f"{name}.txt").read_bytes()])
    return explain_report(reading.reports[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("asan_clang_alloc_dealloc_mismatch", "frees by operator delete what malloc allocated"),
        ("asan_clang_new_delete_type_mismatch", "deletes an object of 64 bytes as one of 8 bytes"),
        ("asan_gcc_alloc_too_big", "asks for 1,152,921,504,606,846,976 bytes in T0"),
        ("asan_clang_bad_free_interior", "frees an address 16 bytes into a 64-byte heap block"),
        ("asan_clang_bad_free_stack", "frees the stack variable 'b' (line 36)"),
        ("asan_gcc_double_free", "frees a 24-byte block for the second time"),
        ("asan_clang_memcpy_overlap", "gives memcpy two ranges that share 16 of 20 bytes"),
        ("asan_gcc_negative_size", "passes a size of -5"),
        ("asan_clang_dyn_stack_bof", "writes 1 byte beyond an array of variable length"),
        ("asan_clang_odr", "is defined twice, of different sizes: 64 bytes at src/odr_a.cpp:1:5"),
        ("asan_clang_rss_limit", "uses 102 MB, above its limit of 100 MB"),
        ("asan_gcc_segv_null_read", "reads memory at 0x000000000000 in T0: a null pointer"),
        ("asan_gcc_segv_null_field_write", "a field 72 bytes into an object whose pointer is null"),
        ("asan_gcc_segv_wild_read", "an address that is not printed"),
        ("asan_gcc_segv_wild_write", "far from null"),
        ("asan_gcc_segv_jump", "jumps to 0x000000001234, where no code is: a small number"),
        ("asan_gcc_bus_mmap", "beyond the end of a file or of /dev/shm"),
        ("asan_gcc_fpe_div", "an integer division by zero"),
        ("asan_gcc_ill_trap", "a trap that the compiler placed"),
        (
            "asan_gcc_stack_overflow",
            "recurse calls itself in T0 (248 of the 248 own frames printed)",
        ),
        ("asan_gcc_init_order", "reads the global 'dependent' (src/initorder_b.cpp:1:17)"),
        ("asan_gcc_pointer_pair", "compares or subtracts pointers into two different objects"),
        (
            "asan_gcc_heap_bof_write",
            "writes 4 bytes, directly past the end of a 40-byte heap block",
        ),
        ("fuzz_malloc_limit", "asks for 1,048,576 bytes, above the limit"),
        ("fuzz_oom", "uses 740 MB, above its limit of 300 MB"),
        ("fuzz_abort", "The program ended itself"),
        ("msan_clang_stack_uninit", "created by an allocation of 'local' in stack_uninit"),
        ("msan_clang_stored_chain", "From there it was stored in copy_val"),
        ("msan_clang_after_free", "it is also a use after free"),
        ("tsan_gcc_thread_leak", "T1 ended and was never joined"),
        ("tsan_clang_destroy_locked", "destroys a mutex that is locked"),
        ("tsan_gcc_unlock_unlocked", "not locked, or that another thread locked"),
        ("tsan_clang_lock_inversion", "T1 takes M1 while it holds M0, in lock12"),
        ("tsan_clang_lock_inversion", "T2 takes M0 while it holds M1, in lock21"),
        ("tsan_clang_uaf", "The other access is the free itself, in uaf"),
        ("tsan_clang_race_free", "This access is a free"),
        ("tsan_gcc_atomic_race", "The other access, an atomic write of size 4"),
        ("tsan_clang_data_race", "Neither thread held a lock that the runtime knows"),
    ],
)
def test_the_explanation_says_what_the_report_prints(name: str, words: str) -> None:
    assert words in sample(name).explanation


@pytest.mark.parametrize("name", EXPECTED)
def test_every_report_has_a_next_step(name: str) -> None:
    for report in parse_sanitizer_log([(SAMPLES / "raw" / name).read_bytes()]).reports:
        result = explain_report(report)

        assert result.next_steps
        assert len(set(result.next_steps)) == len(result.next_steps)
        assert "None" not in result.explanation
        assert "  " not in result.explanation


def race(ours: str, theirs: str) -> str:
    return (
        "WARNING: ThreadSanitizer: data race (pid=1)\n"
        f"  Write of size 4 at 0x10 by thread T1{ours}:\n    #0 f() /w/a.cc:1 (p+0x1)\n\n"
        f"  Previous read of size 4 at 0x10 by main thread{theirs}:\n"
        "    #0 g() /w/a.cc:2 (p+0x2)\n\n"
        "SUMMARY: ThreadSanitizer: data race /w/a.cc:1 in f\n"
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ("", "", "Neither thread held a lock"),
        (" (mutexes: write M1)", "", "T1 held M1, main thread held none: no lock in common"),
        (
            " (mutexes: write M1, read M2)",
            " (mutexes: write M3)",
            "T1 held M1, M2, main thread held M3: no lock in common",
        ),
        (" (mutexes: read M1)", " (mutexes: read M1)", "Both held M1"),
    ],
)
def test_the_locks_of_a_race_are_compared(ours: str, theirs: str, words: str) -> None:
    assert words in explained(race(ours, theirs)).explanation


def segv(address: str, pc: str, frames: str = "    #1 0x5 in q::go() /w/q.cc:7\n") -> str:
    return (
        f"==7==ERROR: AddressSanitizer: SEGV on unknown address {address} "
        f"(pc {pc} bp 0x2 sp 0x3 T0)\n"
        "==7==The signal is caused by a READ memory access.\n"
        f"    #0 {pc} (<unknown module>)\n{frames}\n"
        "SUMMARY: AddressSanitizer: SEGV (<unknown module>)\n"
    )


def test_a_call_of_null_and_a_wild_jump_are_told_apart() -> None:
    null = explained(segv("0x000000000000", "0x000000000000"))
    wild = explained(segv("0x7f4141414141", "0x7f4141414141"))

    assert "q::go (/w/q.cc:7) in T0 calls or jumps to 0x000000000000" in null.explanation
    assert "a null function pointer" in null.explanation
    assert null.severity is Severity.LOW
    assert "a wild function pointer" in wild.explanation
    assert wild.severity is Severity.HIGH


def test_other_runtimes_names_of_a_fault_have_its_next_steps() -> None:
    minimal = explained("ubsan: add-overflow by 0x000000000001\n")
    full = explained("/w/q.cc:7:3: runtime error: signed integer overflow: 1 + 2 cannot\n")

    assert minimal.next_steps[0] == full.next_steps[0]
    assert any("minimal-runtime" in step for step in minimal.next_steps)
    assert any("print_stacktrace=1" in step for step in full.next_steps)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("__assert_fail", "by a failed assert()"),
        ("std::terminate()", "std::terminate: an exception that nothing caught"),
        ("__cxa_pure_virtual", "a call of a pure virtual function"),
        ("Py_FatalError", "the Python interpreter's fatal error"),
    ],
)
def test_an_abort_says_which_check_ended_the_program(frame: str, words: str) -> None:
    text = (
        "==7==ERROR: AddressSanitizer: ABRT on unknown address 0x000000000007 (pc 0x1 bp 0x2 T0)\n"
        f"    #0 0x1 in raise (/lib/libc.so.6+0x1)\n    #1 0x2 in {frame} (/lib/x.so+0x2)\n"
        "    #2 0x3 in q::go() /w/q.cc:7\n\nSUMMARY: AddressSanitizer: ABRT in raise\n"
    )

    explanation = explained(text).explanation

    assert words in explanation
    assert "q::go (/w/q.cc:7)" in explanation


def test_a_stack_overflow_without_a_cycle_is_no_recursion() -> None:
    text = (
        "==7==ERROR: AddressSanitizer: stack-overflow on address 0x7 (pc 0x1 bp 0x2 sp 0x3 T0)\n"
        "    #0 0x1 in q::big() /w/q.cc:7\n    #1 0x2 in q::go() /w/q.cc:9\n\n"
        "SUMMARY: AddressSanitizer: stack-overflow /w/q.cc:7 in q::big()\n"
    )

    explanation = explained(text).explanation

    assert "none of the 2 own frames that are printed repeats" in explanation
    assert "itself" not in explanation


def test_a_size_that_went_negative_is_shown_as_such() -> None:
    text = (
        "==7==ERROR: AddressSanitizer: requested allocation size 0xffffffffffffffff (0x800 after "
        "adjustments) exceeds maximum supported size of 0x10000000000 (thread T0)\n"
        "    #0 0x1 in malloc (/w/a+0x1)\n    #1 0x2 in q::go() /w/q.cc:9\n"
    )

    assert "which is -1 as a signed number" in explained(text).explanation


def leaks(*stacks: str) -> str:
    records = "".join(
        f"Direct leak of {size} byte(s) in 1 object(s) allocated from:\n{stack}\n"
        for size, stack in zip((100, 20, 3), stacks, strict=False)
    )
    return f"==7==ERROR: LeakSanitizer: detected memory leaks\n\n{records}"


MALLOC = "    #0 0x1 in malloc (/w/libasan.so.8+0x1)\n"
OF_PYTHON = MALLOC + "    #1 0x2 in PyMem_RawMalloc Objects/obmalloc.c:99\n"


def test_leaks_in_the_interpreter_alone_are_said_to_be_its_own() -> None:
    report = explained(leaks(OF_PYTHON, MALLOC + "    #1 0x3 in q::make() /w/q.cc:9\n"))

    assert [leak.interpreter_only for leak in report.leaks] == [True, False]
    assert "1 leak (100 bytes) only in CPython: not yours" in report.explanation
    assert "the largest, 20 bytes, was allocated by q::make" in report.explanation


@pytest.mark.parametrize(
    "frame",
    [
        "q::make() /w/q.cc:9",
        "std::vector<int>::reserve(int) /usr/include/c++/12/bits/vector.tcc:9",
        "pybind11::cpp_function::dispatcher(_object*, _object*, _object*) /w/pybind11.h:9",
        "(/w/ext.cpython-311.so+0x77)",
    ],
)
def test_a_leak_through_an_extension_is_not_the_interpreters(frame: str) -> None:
    report = explained(leaks(f"{OF_PYTHON}    #2 0x3 in {frame}\n".replace(" in (", " (")))

    assert not report.leaks[0].interpreter_only
