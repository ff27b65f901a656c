"""Signal frames of i386, riscv64, ppc64le and s390x: real ones, changed ones, and none at all."""

import lzma
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.other_signal_frames import FoundFrame, other_frames_in
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.process import Architecture

DATA = Path(__file__).parent.parent / "data" / "foreign_cores" / "handled"
CASES = ["i386", "i386-plain", "ppc64le", "riscv64", "s390x", "s390x-plain"]
RT_CODE = bytes.fromhex("b8ad000000cd8000")
OLD_CODE = bytes.fromhex("58b877000000cd80")


def stack_of(case: str) -> tuple[Architecture, bytes, int]:
    """The crashing thread's stack from its stack pointer on, and where that is."""
    core = lzma.decompress((DATA / case / "core.xz").read_bytes())
    image = CoreImage(memoryview(core), lambda module: Gap(what=module.path))
    sp = image.threads[0].sp
    mapping = image.mapping_at(sp)
    assert isinstance(mapping, Known)
    stack = image.read(sp, mapping.value.end - sp)
    assert isinstance(stack, Known)
    return image.process.architecture, stack.value, sp


def the_frame(case: str) -> FoundFrame:
    [found] = other_frames_in(*stack_of(case))
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_kernels_frame_is_found_and_no_other(case: str) -> None:
    found = the_frame(case)

    assert found.number == 11
    assert found.address % 4 == 0
    assert bool(found.siginfo) == ("plain" not in case)


def test_i386_tells_the_processors_reason() -> None:
    for case in ("i386", "i386-plain"):
        found = the_frame(case)

        assert (found.trap, found.error, found.fault_address) == (14, 4, 4)
        assert found.registers["eax"] == 0
        assert found.registers["cs"] == 0x23


@pytest.mark.parametrize("case", CASES)
def test_a_stack_that_is_cut_anywhere_is_no_error(case: str) -> None:
    architecture, stack, low = stack_of(case)
    at = the_frame(case).address - low

    for end in range(at, at + 2200, 8):
        other_frames_in(architecture, stack[:end], low)
    for start in range(0, at + 1200, 8):
        other_frames_in(architecture, stack[start : start + 4096], low + start)


def test_an_i386_frame_whose_pointers_lead_elsewhere_is_none() -> None:
    architecture, stack, low = stack_of("i386")

    assert other_frames_in(architecture, stack, low + 16) == ()


def test_code_alone_is_no_frame() -> None:
    for code in (RT_CODE, OLD_CODE):
        for at in (0, 100, 800):
            assert other_frames_in(Architecture.I386, bytes(at) + code + bytes(64), 0x1000) == ()


def test_a_signal_that_does_not_exist_is_none() -> None:
    architecture, stack, low = stack_of("i386-plain")
    at = the_frame("i386-plain").address - low
    changed = stack[: at + 4] + struct.pack("<I", 99) + stack[at + 8 :]

    assert other_frames_in(architecture, changed, low) == ()


def test_x86_64_is_anothers_work() -> None:
    assert other_frames_in(Architecture.X86_64, bytes(4096), 0x1000) == ()


@given(
    st.sampled_from([*Architecture]),
    st.lists(
        st.sampled_from([RT_CODE, OLD_CODE, bytes(8), struct.pack("<ii", 11, 0), b"\0\0\0\x0b"])
        | st.binary(max_size=64),
        max_size=40,
    ),
    st.integers(0, 1 << 48),
)
def test_nothing_raises(architecture: Architecture, pieces: list[bytes], low: int) -> None:
    for found in other_frames_in(architecture, b"".join(pieces), low):
        assert 0 < found.number < 65
