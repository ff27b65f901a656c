"""Signal frames of aarch64, laid out as arch/arm64/kernel/signal.c does."""

import struct

import pytest
from tests.py.support.core_builder import AARCH64, CoreSpec, LoadSegment, R, X, build_core, siginfo

from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.answer import Answer, Gap
from vllm_forensics.model.process import Module, Signal

STACK = 0x7000_0000
CODE = 0x40_0000
FPSIMD = struct.pack("<II", 0x46508001, 528).ljust(528, b"\0")


def no_files(module: Module) -> Answer[ModuleFile]:
    return Gap(what=f"{module.path} is not here")


def esr(syndrome: int) -> bytes:
    return struct.pack("<IIQ", 0x45535201, 16, syndrome)


def frame(
    info: bytes, *, pc: int = CODE + 8, fault_address: int = 0x48, records: bytes = b""
) -> bytes:
    registers = struct.pack("<35Q", fault_address, *range(31), STACK + 0xF00, pc, 0)
    return info.ljust(128, b"\0") + bytes(176) + registers.ljust(288, b"\0") + FPSIMD + records


def image_with(raw: bytes, at: int = 0x100) -> CoreImage:
    stack = (bytes(at) + raw).ljust(4096, b"\0")
    spec = CoreSpec(
        machine=AARCH64,
        threads=((42, {"pc": CODE, "sp": STACK + 0x40}),),
        segments=(
            LoadSegment(address=STACK, contents=stack),
            LoadSegment(address=CODE, contents=bytes(64), flags=R | X),
        ),
    )
    return CoreImage(memoryview(build_core(spec)), no_files)


def test_the_interrupted_state_and_its_signal() -> None:
    image = image_with(frame(siginfo(11, 1, address=0x48)))

    (found,) = image.signal_frames(image.threads[0])

    assert found.signal == Signal(number=11, code=1, address=0x48)
    assert (found.address, found.pc, found.sp) == (STACK + 0x100, CODE + 8, STACK + 0xF00)
    assert found.registers["x30"] == 30


@pytest.mark.parametrize(
    ("syndrome", "signal"),
    [
        (0x24 << 26 | 0b000110, Signal(number=11, code=1, address=0x48)),
        (0x24 << 26 | 0b001111, Signal(number=11, code=2, address=0x48)),
        (0x20 << 26 | 0b000100, Signal(number=11, code=1, address=0x48)),
        (0x3C << 26, Signal(number=0, code=0)),
    ],
    ids=["translation", "permission", "fetch", "a breakpoint"],
)
def test_without_siginfo_the_syndrome_tells(syndrome: int, signal: Signal) -> None:
    image = image_with(frame(b"", records=esr(syndrome)))

    (found,) = image.signal_frames(image.threads[0])

    assert found.signal == signal


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (frame(siginfo(11, 1), pc=0x1234_5678), 0x100),
        (frame(siginfo(11, 1)), 0x108),
        (frame(siginfo(11, 1))[592 - 100 :], 0),
    ],
    ids=["goes back to no code", "is not aligned", "begins before the stack"],
)
def test_what_only_looks_like_a_frame_is_none(raw: bytes, at: int) -> None:
    image = image_with(raw, at)

    assert image.signal_frames(image.threads[0]) == ()


def test_a_record_of_no_size_ends_the_search() -> None:
    image = image_with(frame(b"", records=struct.pack("<IIQ", 7, 0, 0)))

    (found,) = image.signal_frames(image.threads[0])

    assert found.signal.number == 0
