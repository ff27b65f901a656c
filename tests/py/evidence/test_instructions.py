"""Machine code of both architectures into instructions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.images import CODE, FakeImage, crash_image, segv

from vllm_forensics.evidence.instructions import decode, decode_function
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Architecture
from vllm_forensics.model.stack import Instruction, OperandKind

X86, ARM = Architecture.X86_64, Architecture.AARCH64


def one(code: str, architecture: Architecture = X86) -> Instruction:
    (found,) = decode(bytes.fromhex(code), CODE, architecture)
    return found


def function(image: FakeImage, start: int, pc: int) -> Answer[tuple[Instruction, ...]]:
    return decode_function(image, X86, start, pc)


def test_a_load_has_its_operands() -> None:
    found = one("48 8b 44 f7 10")

    register, memory = found.operands
    assert (found.text, found.end) == ("mov rax, qword ptr [rdi + rsi*8 + 0x10]", CODE + 5)
    assert (register.kind, register.register, register.writes) == (
        OperandKind.REGISTER, "rax", True,
    )  # fmt: skip
    assert (memory.base, memory.index, memory.scale, memory.displacement) == ("rdi", "rsi", 8, 16)
    assert (memory.size, memory.reads, memory.writes) == (8, True, False)


@pytest.mark.parametrize(
    ("code", "calls", "jumps", "returns"),
    [
        ("e8 00 00 00 00", True, False, False),
        ("ff d0", True, False, False),
        ("74 00", False, True, False),
        ("ff e0", False, True, False),
        ("c3", False, False, True),
        ("90", False, False, False),
    ],
)
def test_what_changes_the_flow_is_marked(
    code: str, calls: bool, jumps: bool, returns: bool
) -> None:
    found = one(code)

    assert (found.is_call, found.is_jump, found.is_return) == (calls, jumps, returns)


def test_implicit_registers_are_among_the_written() -> None:
    assert {"rdi", "rsi", "rcx"} <= set(one("f3 a4").written)


def test_the_extension_that_it_needs_is_named() -> None:
    assert one("62 f1 7c 48 58 c1").features == ("avx512",)
    assert one("90").features == ()


@pytest.mark.parametrize(
    ("code", "text", "size", "writes"),
    [
        ("20 00 40 f9", "ldr x0, [x1]", 8, False),
        ("20 00 40 b9", "ldr w0, [x1]", 4, False),
        ("20 00 40 39", "ldrb w0, [x1]", 1, False),
        ("20 00 00 79", "strh w0, [x1]", 2, True),
        ("20 00 c0 3d", "ldr q0, [x1]", 16, False),
    ],
)
def test_an_aarch64_access_has_its_width(code: str, text: str, size: int, writes: bool) -> None:
    found = one(code, ARM)

    memory = found.operands[1]
    assert (found.text, memory.kind, memory.base) == (text, OperandKind.MEMORY, "x1")
    assert memory.size == size
    assert memory.writes is writes


def test_bytes_that_are_no_instruction_end_the_list() -> None:
    assert [found.mnemonic for found in decode(b"\x90\x06\x90", CODE, X86)] == ["nop"]


def test_a_function_is_decoded_from_its_start() -> None:
    image = crash_image("55 48 89 e5 48 8b 07", signal=segv(0))

    answer = function(image, CODE, CODE + 4)

    assert isinstance(answer, Known)
    assert [found.address - CODE for found in answer.value[:3]] == [0, 1, 4]


@pytest.mark.parametrize("start", [CODE + 1, CODE - (1 << 20), CODE + 100])
def test_a_start_that_does_not_lead_to_the_pc_is_not_used(start: int) -> None:
    # From the second byte, the first instruction would swallow the pc.
    image = crash_image("48 b8 90 90 90 90 48 8b 07 90 90", signal=segv(0))

    answer = function(image, start, CODE + 6)

    assert isinstance(answer, Known)
    assert answer.value[0].address == CODE + 6 or start == CODE + 1
    assert any(found.address == CODE + 6 for found in answer.value)


def test_code_that_ends_with_its_mapping_is_read_to_the_end() -> None:
    image = crash_image(signal=segv(0), memory={CODE: bytes.fromhex("48 8b 07")})

    answer = function(image, CODE, CODE)

    assert isinstance(answer, (Known, Gap))


def test_bytes_that_are_none_are_shown() -> None:
    answer = function(crash_image("06", signal=segv(0)), CODE, CODE)

    assert isinstance(answer, Gap)
    assert answer.what.startswith(f"the bytes at {CODE:#x} are no instruction: 06")


def test_code_that_cannot_be_read_is_a_gap() -> None:
    assert isinstance(function(crash_image(signal=segv(0)), CODE, CODE), Gap)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=64), st.sampled_from([X86, ARM]), st.integers(0, (1 << 64) - 1))
def test_no_bytes_raise_anything(code: bytes, architecture: Architecture, address: int) -> None:
    for found in decode(code, address, architecture):
        assert found.size > 0


@pytest.mark.parametrize(
    "code",
    [
        "00 00 80 f9",  # prfm pldl1keep, [x0]: its first operand is no register
        "00 04 00 4c",  # st4 {v0.8h, ...}, [x0]
        "20 00 00 08",  # stxrb w0, w0, [x1]
        "00 00 00 14",  # b
        "1f 20 03 d5",  # nop
    ],
)
def test_odd_forms_of_aarch64_are_decoded(code: str) -> None:
    assert decode(bytes.fromhex(code), CODE, ARM)
