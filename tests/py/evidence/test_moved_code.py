"""Code that was decoded before is told as the decoder would tell it at its new place."""

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.instructions import decode
from vllm_forensics.evidence.moved_code import DecodedCode
from vllm_forensics.model.process import Address, Architecture
from vllm_forensics.model.stack import Instruction

HERE, THERE = 0x5555_5555_4123, 0x7FFF_F7D0_0123
CODE = {
    Architecture.X86_64: (
        "55 48 89 e5",  # push, mov
        "e8 10 00 00 00",  # call beyond
        "74 f0",  # je back
        "48 8b 05 34 12 00 00",  # mov rax, [rip + 0x1234]
        "c7 05 10 00 00 00 20 00 00 00",  # a displacement and a number in one instruction
        "ff 25 00 01 00 00",  # jmp through a slot
        "0f 0b c3",
    ),
    Architecture.AARCH64: (
        "20 00 40 f9",  # ldr x0, [x1]
        "00 00 00 b0",  # adrp
        "00 10 00 10",  # adr
        "05 00 00 94",  # bl
        "40 00 00 b4",  # cbz
        "c0 03 5f d6",  # ret
    ),
}


class Counting:
    """A decoder that knows how often it was asked."""

    def __init__(self, architecture: Architecture) -> None:
        self.asked = 0
        self._decode = partial(decode, architecture=architecture)

    def __call__(self, code: bytes, address: Address) -> Sequence[Instruction]:
        self.asked += 1
        return self._decode(code, address)


@pytest.mark.parametrize("architecture", CODE)
def test_moved_code_is_what_the_decoder_says_of_it_and_is_not_decoded(
    architecture: Architecture,
) -> None:
    code = bytes.fromhex(" ".join(CODE[architecture]))
    decoder = Counting(architecture)
    known = DecodedCode(decoder)
    here = HERE & ~3 if architecture is Architecture.AARCH64 else HERE
    there = THERE & ~3 if architecture is Architecture.AARCH64 else THERE
    first = known.decode(code, here)
    before = decoder.asked

    second = known.decode(code, there)

    assert decoder.asked == before
    assert first == tuple(decode(code, here, architecture))
    assert second == tuple(decode(code, there, architecture))
    assert first != second


@settings(deadline=None, max_examples=300)
@example(b"p\x00", Architecture.I386, 3 << 32 | 8, 2 << 32)  # a target that wraps around
@given(
    st.binary(max_size=48),
    st.sampled_from(list(Architecture)),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 64) - 1),
)
def test_any_bytes_are_told_as_the_decoder_tells_them(
    code: bytes, architecture: Architecture, here: int, there: int
) -> None:
    known = DecodedCode(partial(decode, architecture=architecture))
    known.decode(code, here)
    there = there & ~0xFFF | here & 0xFFF

    found = known.decode(code, there)

    assert found == tuple(decode(code, there, architecture))


def test_what_is_kept_has_an_end() -> None:
    decoder = Counting(Architecture.X86_64)
    known = DecodedCode(decoder, most=20)
    known.decode(b"\x90", HERE)
    for number in range(20):
        known.decode(b"\x90" * (2 + number), HERE)
    before = decoder.asked

    known.decode(b"\x90", HERE)

    assert decoder.asked > before
