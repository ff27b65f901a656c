"""Memory operands out of the text of instructions."""

import pytest

from vllm_forensics.evidence.instructions import decode
from vllm_forensics.evidence.plain_operands import plain_instruction
from vllm_forensics.model.process import Architecture


@pytest.mark.parametrize(
    ("mnemonic", "operands", "expected"),
    [
        ("c.ld", "a0, 8(a5)", ("a5", None, 8, 8, False)),
        ("c.sdsp", "ra, 8(sp)", ("sp", None, 8, 8, True)),
        ("sb", "a0, -1(a5)", ("a5", None, -1, 1, True)),
        ("ld", "r3, -0x80(r1)", ("r1", None, -0x80, 8, False)),
        ("stw", "r3, 0x10(r9)", ("r9", None, 0x10, 4, True)),
        ("lwz", "r3, 8(r0)", (None, None, 8, 4, False)),
        ("lg", "%r2, 8(%r1,%r15)", ("r15", "r1", 8, 8, False)),
        ("stg", "%r2, 0(%r15)", ("r15", None, 0, 8, True)),
    ],
)
def test_a_load_or_store_has_its_operand(
    mnemonic: str, operands: str, expected: tuple[object, ...]
) -> None:
    (found,) = plain_instruction(0, 4, mnemonic, operands).operands

    assert (found.base, found.index, found.displacement, found.size, found.writes) == expected


@pytest.mark.parametrize("text", ["addi a0, sp, 8", "la %r3, 8(%r15)", "mvc 0(8,%r1), 0(%r2)"])
def test_what_accesses_no_memory_or_an_unknown_width_has_none(text: str) -> None:
    mnemonic, _, operands = text.partition(" ")

    assert plain_instruction(0, 4, mnemonic, operands).operands == ()


@pytest.mark.parametrize(
    ("architecture", "code", "text"),
    [
        (Architecture.I386, "8b 40 04", "mov eax, dword ptr [eax + 4]"),
        (Architecture.RISCV64, "88 67", "c.ld a0, 8(a5)"),
        (Architecture.PPC64LE, "08 00 69 e8", "ld r3, 8(r9)"),
        (Architecture.S390X, "e3 10 10 08 00 04", "lg %r1, 8(%r1)"),
    ],
)
def test_every_architecture_is_decoded(architecture: Architecture, code: str, text: str) -> None:
    (found,) = decode(bytes.fromhex(code), 0x1000, architecture)

    assert found.text == text


def test_a_return_and_a_call_are_known() -> None:
    assert plain_instruction(0, 4, "blr", "").is_return
    assert plain_instruction(0, 6, "brasl", "%r14, 0x1000").is_call
