"""One bug has one signature in every log of it; another bug has another."""

import re
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.py.evidence.sanitizer.exam import EXPECTED, SAMPLES

from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.diagnosis.sanitizer.signature import signature_of, signature_parts
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport
from vllm_forensics.model.sanitizer_sieve import SIGNATURE

NUMBERS = st.integers(min_value=1, max_value=1 << 20)


def reports_of(text: str) -> tuple[PrintedReport, ...]:
    return parse_sanitizer_log([text.encode()]).reports


def printed(text: str) -> PrintedReport:
    (report,) = reports_of(text)
    return report


def sample(name: str) -> str:
    return (SAMPLES / "raw" / name).read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, kw_only=True)
class Uaf:
    """A use after free; what counts has names, what does not has numbers."""

    use: tuple[str, ...] = ("q::look(int)", "q::turn()", "q::step()", "main")
    freed: str = "q::drop()"
    made: str = "q::make()"
    access: str = "READ"
    kind: str = "heap-use-after-free"
    pid: int = 7
    base: int = 0x6000
    thread: int = 0
    size: int = 64
    line: int = 10

    def text(self) -> str:
        use = "\n".join(
            f"    #{at} 0x{self.base + at:x} in {name} /w/q.cc:{self.line + at}:3"
            for at, name in enumerate(self.use)
        )
        return (
            f"=={self.pid}==ERROR: AddressSanitizer: {self.kind} on address 0x{self.base:x} "
            f"at pc 0x1 bp 0x2 sp 0x3\n"
            f"{self.access} of size 8 at 0x{self.base:x} thread T{self.thread}\n{use}\n\n"
            f"0x{self.base:x} is located 0 bytes inside of {self.size}-byte region "
            f"[0x{self.base:x},0x{self.base + self.size:x})\n"
            f"freed by thread T{self.thread} here:\n"
            f"    #0 0x{self.base + 50:x} in free (/w/a+0x{self.base:x})\n"
            f"    #1 0x{self.base + 51:x} in {self.freed} /w/q.cc:{self.line + 90}:3\n\n"
            f"previously allocated by thread T{self.thread} here:\n"
            f"    #0 0x{self.base + 60:x} in operator new(unsigned long) (/w/a+0x{self.base:x})\n"
            f"    #1 0x{self.base + 61:x} in {self.made} /w/q.cc:{self.line + 99}:3\n\n"
            f"SUMMARY: AddressSanitizer: {self.kind} /w/q.cc:{self.line}:3 in {self.use[0]}\n"
        )

    def signature(self) -> str:
        return signature_of(printed(self.text()))


@given(pid=NUMBERS, base=NUMBERS, thread=st.integers(0, 99), size=NUMBERS, line=NUMBERS)
def test_process_address_thread_size_and_lines_do_not_count(
    pid: int, base: int, thread: int, size: int, line: int
) -> None:
    other = Uaf(pid=pid, base=base, thread=thread, size=size, line=line)

    assert other.signature() == Uaf().signature()


@pytest.mark.parametrize(
    "other",
    [
        Uaf(freed="q::erase()"),
        Uaf(made="q::build()"),
        Uaf(access="WRITE"),
        Uaf(kind="heap-buffer-overflow"),
        Uaf(use=("q::peek(int)", "q::turn()", "q::step()", "main")),
        Uaf(use=("q::look(int)", "q::spin()", "q::step()", "main")),
        Uaf(use=("q::look(int)", "q::turn()", "q::leap()", "main")),
    ],
)
def test_every_part_that_is_kept_counts(other: Uaf) -> None:
    assert other.signature() != Uaf().signature()


def test_the_fourth_frame_and_runtime_frames_do_not_count() -> None:
    one = Uaf()

    assert replace(one, use=(*one.use[:3], "other_main")).signature() == one.signature()
    assert replace(one, use=("memcpy", *one.use)).signature() == one.signature()


def test_gcc_and_clang_spell_one_bug() -> None:
    gcc = Uaf(
        use=(
            "q::go(int)::{lambda(int)#1}::operator()(int) const",
            "(anonymous namespace)::turn(std::__cxx11::basic_string<char>) [clone .isra.0]",
            "void q::step<int>(std::vector<int, std::allocator<int> >&)",
        ),
        freed="q::drop(char*) [clone .part.0]",
        made="q::make[abi:cxx11]()",
    )
    clang = Uaf(
        use=(
            "q::go(int)::$_0::operator()(int) const",
            "(anonymous namespace)::turn(std::__1::basic_string<char>)",
            "void q::step<int>(std::__1::vector<int, std::__1::allocator<int>>&)",
        ),
        freed="q::drop(char*)",
        made="q::make()",
    )

    assert gcc.signature() == clang.signature()


@given(first=st.booleans(), pid=NUMBERS, line=NUMBERS)
def test_a_race_has_no_first(first: bool, pid: int, line: int) -> None:
    def race(one: str, two: str, pid: int, line: int) -> str:
        return (
            f"WARNING: ThreadSanitizer: data race (pid={pid})\n"
            f"  Write of size 4 at 0x{pid:x} by thread T1:\n    #0 {one} /w/a.cc:{line} (p+0x1)\n\n"
            f"  Previous read of size 4 at 0x{pid:x} by main thread:\n"
            f"    #0 {two} /w/a.cc:{line} (p+0x2)\n\n"
            f"SUMMARY: ThreadSanitizer: data race /w/a.cc:1 in {one}\n"
        )

    names = ("f()", "g()") if first else ("g()", "f()")

    assert signature_of(printed(race(*names, pid, line))) == signature_of(
        printed(race("f()", "g()", 1, 1))
    )
    assert signature_of(printed(race("f()", "h()", pid, line))) != signature_of(
        printed(race("f()", "g()", 1, 1))
    )


def test_a_cycle_of_locks_has_no_beginning() -> None:
    text = sample("tsan_clang_lock_inversion.txt")
    turned = text.replace("lock12", "LOCKA").replace("lock21", "lock12").replace("LOCKA", "lock21")

    assert turned != text
    assert signature_of(printed(turned)) == signature_of(printed(text))


@given(turn=st.integers(0, 2), depth=st.integers(3, 60), top=st.booleans())
def test_a_recursion_is_its_cycle(turn: int, depth: int, top: bool) -> None:
    def overflow(turn: int, depth: int, *, top: bool) -> str:
        cycle = ["q::a(int)", "q::b(int)", "q::c(int)"]
        names = ["q::leaf()"] * top + [cycle[(turn + at) % 3] for at in range(3 * depth)]
        frames = "\n".join(f"    #{at} 0x{at} in {n} /w/q.cc:{at}" for at, n in enumerate(names))
        return (
            "==7==ERROR: AddressSanitizer: stack-overflow on address 0x7 (pc 0x1 bp 0x2 T0)\n"
            f"{frames}\n\nSUMMARY: AddressSanitizer: stack-overflow /w/q.cc:1 in q::a(int)\n"
        )

    parts = signature_parts(printed(overflow(turn, depth, top=top)))

    assert parts == signature_parts(printed(overflow(0, 5, top=False)))
    assert parts[-1].value == "q::a < q::b < q::c"


def test_an_uninitialized_value_has_its_origin() -> None:
    text = sample("msan_clang_heap_uninit.txt")

    here, there = printed(text), printed(text.replace("make_buf", "other_maker"))

    assert {part.name: part.value for part in signature_parts(here)}["origin frame"] == "make_buf"
    assert signature_of(here) != signature_of(there)


def test_undefined_behaviour_has_its_check_and_its_line() -> None:
    def overflow(line: int, column: int, values: str, check: str) -> PrintedReport:
        return printed(f"/w/src/q.cc:{line}:{column}: runtime error: {check}: {values}\n")

    kept = overflow(
        8, 3, "1 + 2147483647 cannot be represented in type 'int'", "signed integer overflow"
    )
    again = overflow(
        8, 9, "9 + 2147483647 cannot be represented in type 'int'", "signed integer overflow"
    )
    other = overflow(
        9, 3, "1 + 2147483647 cannot be represented in type 'int'", "signed integer overflow"
    )

    assert signature_parts(kept)[-1].value == "q.cc:8"
    assert signature_of(kept) == signature_of(again)
    assert signature_of(kept) != signature_of(other)


def test_without_names_it_is_module_offset_and_build_id() -> None:
    def bare(build: str, offset: str, pc: str = "0x5") -> str:
        return (
            "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x1\n"
            "READ of size 8 at 0x60 thread T0\n"
            f"    #0 {pc}  (/w/q.so+{offset}) (BuildId: {build})\n"
        )

    one = signature_of(printed(bare("ab12", "0x47")))

    assert one == signature_of(printed(bare("ab12", "0x47", "0x99")))
    assert one != signature_of(printed(bare("ab12", "0x48")))
    assert one != signature_of(printed(bare("cd34", "0x47")))


def test_each_leak_has_its_own_signature_wherever_it_is_reported() -> None:
    text = sample("lsan_gcc_leaks.txt")
    (report,) = map(explain_report, reports_of(text))
    alone = re.sub(r"(?s)Indirect leak.*?\n\n", "", text)
    (other,) = map(explain_report, reports_of(alone))

    assert len(report.leaks) == 8
    assert len({leak.signature for leak in report.leaks}) == 2
    assert [leak.signature for leak in other.leaks] == [leak.signature for leak in report.leaks[:2]]
    assert other.signature == report.signature


def test_a_report_of_one_leak_has_the_leaks_signature() -> None:
    (report,) = map(explain_report, reports_of(sample("fuzz_leak.txt")))

    assert [leak.signature for leak in report.leaks] == [report.signature]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_signature_is_well_formed_and_says_its_version(name: str) -> None:
    for report in reports_of(sample(name)):
        match = SIGNATURE.fullmatch(signature_of(report))

        assert match is not None
        assert match["version"] == "1"
        assert match["kind"] == report.kind
