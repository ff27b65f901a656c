"""Traps, instructions that the processor lacks, divisions."""

import pytest
from tests.py.support.images import CODE, HEAP, FakeImage, context_of, crash_image, sent_by_self

from vllm_forensics.diagnosis.processor import (
    illegal_instruction,
    integer_divide,
    trap_instruction,
)
from vllm_forensics.diagnosis.rules import Rule
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.process import Signal

ILLEGAL = Signal(number=4, code=2, address=CODE)
TRAP = Signal(number=5, code=128)
DIVIDE = Signal(number=8, code=1, address=CODE)
AVX512 = "62 f1 7c 48 58 c1"  # vaddps zmm0, zmm0, zmm1


def ask(rule: Rule, image: FakeImage) -> Finding | None:
    return rule(image, context_of(image))


def found(rule: Rule, image: FakeImage) -> Finding:
    finding = ask(rule, image)
    assert finding is not None
    return finding


def test_ud2_is_the_compilers_own_trap() -> None:
    finding = found(trap_instruction, crash_image("0f 0b", signal=ILLEGAL))

    assert (finding.kind, finding.address) == (FaultKind.TRAP_INSTRUCTION, CODE)
    assert "__builtin_unreachable" in finding.summary


def test_int3_stands_one_byte_before_the_program_counter() -> None:
    image = crash_image("cc 90", at=1, signal=TRAP)

    finding = found(trap_instruction, image)

    assert finding.proof == (f"the instruction at {CODE:#x} is int3",)


def test_ud2_before_the_program_counter_is_no_trap() -> None:
    # Read from the middle, ud2 would be another instruction.
    assert ask(trap_instruction, crash_image("90 0f 0b 90", at=3, signal=ILLEGAL)) is None


def test_a_trap_that_a_process_sent_is_none() -> None:
    assert ask(trap_instruction, crash_image("0f 0b", signal=sent_by_self(4))) is None


def test_the_missing_feature_is_named() -> None:
    finding = found(illegal_instruction, crash_image(AVX512, signal=ILLEGAL))

    assert (finding.kind, finding.message) == (FaultKind.ILLEGAL_INSTRUCTION, "needs AVX512")
    assert finding.summary.startswith("vaddps zmm0, zmm0, zmm1 needs AVX512")
    assert any("cpuinfo" in step for step in finding.advice)


def test_an_instruction_without_a_feature_is_only_refused() -> None:
    finding = found(illegal_instruction, crash_image("f4", signal=ILLEGAL))  # hlt

    assert (finding.summary, finding.message) == ("The processor refused hlt.", None)


def test_bytes_that_are_no_instruction_are_shown() -> None:
    finding = found(illegal_instruction, crash_image("06 ff ff ff", signal=ILLEGAL))

    assert "06 ff ff ff" in finding.summary
    assert "control went astray" in finding.summary


def test_code_that_cannot_be_read_says_so() -> None:
    summary = found(illegal_instruction, crash_image(pc=HEAP, signal=ILLEGAL)).summary

    assert f"what that is, is not known: no bytes at {HEAP:#x}" in summary
    assert "astray" not in summary


def test_another_signal_is_no_illegal_instruction() -> None:
    assert ask(illegal_instruction, crash_image(AVX512, signal=TRAP)) is None


@pytest.mark.parametrize(
    ("code", "registers", "memory"),
    [
        ("f7 f9", {"rcx": 0}, {}),  # idiv ecx
        ("f7 f1", {"rcx": 1 << 32}, {}),  # div ecx: the upper half does not count
        ("f7 3f", {"rdi": HEAP}, {HEAP: bytes(8)}),  # idiv dword ptr [rdi]
    ],
)
def test_a_divisor_of_zero_is_shown(
    code: str, registers: dict[str, int], memory: dict[int, bytes]
) -> None:
    image = crash_image(code, registers=registers, memory=memory, signal=DIVIDE)

    finding = found(integer_divide, image)

    assert finding.kind is FaultKind.INTEGER_DIVIDE_BY_ZERO
    assert finding.proof[-1].startswith("the divisor of ")
    assert finding.summary == "An integer was divided by zero."


def test_a_quotient_that_does_not_fit_is_no_division_by_zero() -> None:
    image = crash_image("f7 f9", registers={"rcx": 0xFFFF_FFFF}, signal=DIVIDE)

    finding = found(integer_divide, image)

    assert (finding.kind, finding.message) == (FaultKind.UNKNOWN, "quotient overflow")


def test_an_unknown_divisor_claims_no_zero() -> None:
    finding = found(integer_divide, crash_image("f7 3f", registers={"rdi": HEAP}, signal=DIVIDE))

    assert finding.proof == (f"SIGFPE with FPE_INTDIV at {CODE:#x}",)
    assert "was divided by zero" not in finding.summary
    assert "was zero, or the quotient did not fit" in finding.summary


@pytest.mark.parametrize("signal", [Signal(number=8, code=3), sent_by_self(8), ILLEGAL])
def test_a_floating_point_fault_is_no_integer_division(signal: Signal) -> None:
    assert ask(integer_divide, crash_image("90", signal=signal)) is None
