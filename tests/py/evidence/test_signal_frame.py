"""The kernel's signal frames on a stack, found, believed or not."""

import struct
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.py.support.core_builder import siginfo
from tests.py.support.images import (
    C_LIBRARY,
    CODE,
    HEAP,
    LIBC,
    PID,
    RODATA,
    SP,
    STACK,
    STACK_END,
    FakeImage,
    crash_image,
    sent_by_self,
)

from vllm_forensics.evidence.elf import PF_R, PF_X, PT_LOAD, Header
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.evidence.signal_frame import find_signal_frames, parse_siginfo
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Architecture, Module, Signal, SignalFrame

RESTORER = bytes.fromhex("48c7c00f0000000f05")
RESTORE = 0x420
ORDER = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "eflags",
)  # fmt: skip
NO_SIGINFO = bytes(128)
PAGE_FAULT = siginfo(11, 1, address=0x48)


@dataclass(frozen=True, kw_only=True)
class FramedImage(FakeImage):
    """Also hands over the C library's file, in which handlers return through a restorer."""

    files: dict[str, ModuleFile] = field(default_factory=dict)

    def module_file(self, module: Module) -> Answer[ModuleFile]:
        file = self.files.get(module.path)
        return Known(value=file) if file else Gap(what="not here")


def c_library(at: int = RESTORE) -> ModuleFile:
    header = Header(type=3, machine=62, phoff=64, phnum=1, shoff=0, shnum=0, shstrndx=0)
    raw = bytearray(0x1000)
    executable = (PT_LOAD, PF_R | PF_X, 0, 0, 0, len(raw), len(raw), 4096)
    header.layout.segment.pack_into(raw, header.phoff, *executable)
    raw[at : at + len(RESTORER)] = RESTORER
    return ModuleFile(data=memoryview(bytes(raw)), header=header)


def frame_bytes(
    info: bytes = PAGE_FAULT,
    *,
    registers: dict[str, int] | None = None,
    error: int = 4,
    trap: int = 14,
    cr2: int = 0x48,
    selector: int = 0x33,
    restorer: int = LIBC + RESTORE,
) -> bytes:
    """What the kernel pushes (arch/x86/include/asm/sigframe.h, struct rt_sigframe)."""
    known = {"rip": CODE, "rsp": SP + 0x800} | (registers or {})
    values = [known.get(name, 0) for name in ORDER]
    context = struct.pack("<18Q4HQQQQ", *values, selector, 0, 0, 0x2B, error, trap, 0, cr2)
    return (struct.pack("<Q", restorer) + bytes(40) + context).ljust(312, b"\0") + info


def image_with(
    *frames: tuple[int, bytes],
    code: bytes = b"\x48\x8b\x47\x48",
    sp: int = SP,
    registers: dict[str, int] | None = None,
) -> FramedImage:
    stack = bytearray(STACK_END - STACK)
    for at, raw in frames:
        stack[at - STACK : at - STACK + len(raw)] = raw
    image = crash_image(
        code.hex(), pc=LIBC + 0x300, registers={"rsp": sp} | (registers or {}),
        signal=sent_by_self(6), memory={STACK: bytes(stack)},
    )  # fmt: skip
    return FramedImage(**vars(image), files={C_LIBRARY.path: c_library()})


def frames_of(image: FramedImage) -> tuple[SignalFrame, ...]:
    return find_signal_frames(image, image.threads[0])


def only(image: FramedImage) -> SignalFrame:
    (frame,) = frames_of(image)
    return frame


# parse_siginfo


@pytest.mark.parametrize(
    ("raw", "signal"),
    [
        (siginfo(11, 1, address=0x48), Signal(number=11, code=1, address=0x48)),
        (siginfo(11, 128), Signal(number=11, code=128, address=0)),
        (siginfo(6, -6, sender=42), Signal(number=6, code=-6, sender_pid=42)),
        (siginfo(11, 0, sender=7), Signal(number=11, code=0, sender_pid=7)),
        (siginfo(17, 1, address=0x99), Signal(number=17, code=1)),
    ],
)
def test_a_siginfo_holds_an_address_or_a_sender(raw: bytes, signal: Signal) -> None:
    assert parse_siginfo(raw) == signal


def test_a_short_siginfo_is_an_error_of_struct() -> None:
    with pytest.raises(struct.error):
        parse_siginfo(bytes(23))


# Frames.


def test_a_frame_gives_back_the_interrupted_state() -> None:
    frame = only(image_with((SP + 0x100, frame_bytes(registers={"rdi": 0, "rax": 9}))))

    assert (frame.address, frame.pc, frame.sp) == (SP + 0x100, CODE, SP + 0x800)
    assert (frame.registers["rax"], frame.trap_number, frame.error_code) == (9, 14, 4)
    assert frame.signal == Signal(number=11, code=1, address=0x48)


def test_the_most_recent_frame_is_first() -> None:
    older, newer = (SP + 0x700, frame_bytes()), (SP + 0x100, frame_bytes(cr2=0x50))

    assert [frame.address for frame in frames_of(image_with(older, newer))] == [
        SP + 0x100, SP + 0x700,
    ]  # fmt: skip


def test_a_frame_that_was_just_left_restores_this_very_place() -> None:
    left = frame_bytes(registers={"rip": LIBC + 0x300, "rsp": SP})

    assert only(image_with((SP - 0x400, left))).pc == LIBC + 0x300


@pytest.mark.parametrize(
    "registers", [{"rip": CODE, "rsp": SP}, {"rip": LIBC + 0x300, "rsp": SP + 8}]
)
def test_a_stale_frame_below_the_stack_pointer_is_not_believed(registers: dict[str, int]) -> None:
    assert frames_of(image_with((SP - 0x400, frame_bytes(registers=registers)))) == ()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(frame_bytes(selector=0), id="no user code selector"),
        pytest.param(frame_bytes(restorer=LIBC + RESTORE + 1), id="no restorer"),
        pytest.param(frame_bytes()[:400], id="cut off"),
    ],
)
def test_a_stale_word_is_no_frame(raw: bytes) -> None:
    at = STACK_END - len(raw) & -8

    assert frames_of(image_with((at, raw))) == ()


def test_without_the_c_librarys_file_no_frame_is_found() -> None:
    image = replace(image_with((SP + 0x100, frame_bytes())), files={})

    assert frames_of(image) == ()


def test_a_stack_pointer_in_no_mapping_has_no_frames() -> None:
    image = image_with((SP + 0x100, frame_bytes()), sp=0x10)

    assert frames_of(image) == ()


def test_another_architecture_has_none_that_are_read() -> None:
    image = image_with((SP + 0x100, frame_bytes()))
    process = replace(image.process, architecture=Architecture.S390X)

    assert frames_of(replace(image, process=process)) == ()


# Without SA_SIGINFO the kernel writes no siginfo_t.


@pytest.mark.parametrize(
    ("error", "cr2", "signal"),
    [
        (4, 0x48, Signal(number=11, code=1, address=0x48)),
        (6, RODATA, Signal(number=11, code=2, address=RODATA)),
        (0x14, HEAP, Signal(number=11, code=2, address=HEAP)),
        (4, HEAP, Signal(number=7, code=2, address=HEAP)),
    ],
    ids=["unmapped", "a write to read-only", "a fetch of data", "a page that has no backing"],
)
def test_a_page_fault_tells_its_signal_by_error_code_and_cr2(
    error: int, cr2: int, signal: Signal
) -> None:
    raw = frame_bytes(NO_SIGINFO, error=error, cr2=cr2)

    assert only(image_with((SP + 0x100, raw))).signal == signal


@pytest.mark.parametrize(
    ("trap", "signal"),
    [
        (6, Signal(number=4, code=2, address=CODE)),
        (13, Signal(number=11, code=128, address=0)),
        (12, Signal(number=7, code=128, address=0)),
        (17, Signal(number=7, code=1, address=CODE)),
    ],
)
def test_a_vector_tells_its_signal(trap: int, signal: Signal) -> None:
    raw = frame_bytes(NO_SIGINFO, trap=trap)

    assert only(image_with((SP + 0x100, raw))).signal == signal


def test_vector_0_counts_only_at_a_division() -> None:
    raw = frame_bytes(NO_SIGINFO, trap=0)

    division = only(image_with((SP + 0x100, raw), code=b"\xf7\xf9"))
    anything = only(image_with((SP + 0x100, raw)))

    assert division.signal == Signal(number=8, code=1, address=CODE)
    assert anything.signal.number == 0


@pytest.mark.parametrize(
    ("registers", "signal"),
    [
        ({"rdi": PID, "rsi": PID, "rdx": 6}, Signal(number=6, code=-6, sender_pid=PID)),
        ({"rdi": PID, "rsi": 11}, Signal(number=11, code=0, sender_pid=PID)),
        ({"rdi": 7, "rsi": 7, "rdx": 6}, Signal(number=0, code=0)),
    ],
    ids=["tgkill", "kill", "a system call of another kind"],
)
def test_a_signal_to_itself_is_read_from_the_system_calls_arguments(
    registers: dict[str, int], signal: Signal
) -> None:
    raw = frame_bytes(NO_SIGINFO, registers=registers | {"rip": CODE + 2}, trap=14)

    assert only(image_with((SP + 0x100, raw), code=b"\x0f\x05\x90")).signal == signal


def test_a_siginfo_that_contradicts_the_processor_is_not_believed() -> None:
    stale = siginfo(10, 0, sender=7)

    frame = only(image_with((SP + 0x100, frame_bytes(stale))))

    assert frame.signal == Signal(number=11, code=1, address=0x48)


def test_a_siginfo_is_believed_where_the_processor_tells_nothing() -> None:
    usr1 = siginfo(10, 0, sender=7)

    frame = only(image_with((SP + 0x100, frame_bytes(usr1, trap=0))))

    assert frame.signal == Signal(number=10, code=0, sender_pid=7)


@pytest.mark.parametrize("bias", [-(1 << 40), (1 << 64) - 16])
def test_a_module_at_no_possible_address_is_passed_over(bias: int) -> None:
    image = image_with((SP + 0x100, frame_bytes()))
    lying = replace(image, modules=(replace(C_LIBRARY, bias=bias),))

    assert frames_of(lying) == ()


@settings(deadline=None, max_examples=100)
@given(st.binary(min_size=440, max_size=440), st.integers(0, 40))
def test_no_stack_raises_anything(noise: bytes, at: int) -> None:
    word = (LIBC + RESTORE).to_bytes(8, "little")
    raw = word + noise[:152] + b"\x33\0" + noise[154:]

    frames_of(image_with((SP + 8 * at, raw)))
