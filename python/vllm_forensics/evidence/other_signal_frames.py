"""The frames that Linux pushes for signal handlers on i386, riscv64, ppc64le and s390x.

Sources: arch/x86/include/asm/sigframe.h and arch/x86/kernel/signal_32.c, and signal.c (signal_64.c)
of arch/riscv, arch/powerpc and arch/s390; uapi/asm/sigcontext.h and ucontext.h of each.

Each is found by what the kernel always writes into it: on i386 the code of its own return, which
nobody runs any more, on ppc64le and s390x's older kind a pointer from the frame to itself, else the
signal's number with a ucontext behind that has no flags and no link. Whoever takes a frame from
here must still see that it goes back to code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from vllm_forensics.evidence.machines import MACHINES, Machine
from vllm_forensics.model.process import Address, Architecture
from vllm_forensics.model.record import dataclass

_SIGINFO: Final = 128
_SIGNALS: Final = (11, 6, 7, 8, 4, 5, 31)
"""Whose handlers are looked for where the signal's number is what a frame is found by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFrame:
    """What one frame holds, not yet believed."""

    address: Address
    registers: dict[str, int]
    siginfo: bytes
    """Empty where the kernel writes none."""
    number: int
    """The signal's, as the frame itself says."""
    trap: int | None = None
    """The processor's number for what happened; None where it is not saved."""
    error: int = 0
    fault_address: Address = 0
    """cr2 on i386, dar on ppc64le; meant for some traps only."""


# i386. A handler with SA_SIGINFO gets pretcode, sig, pinfo, puc, siginfo, ucontext, retcode; one
# without it pretcode, sig, sigcontext, 624 unused bytes, extramask, retcode.
_RT_CODE: Final = bytes.fromhex("b8ad000000cd8000")  # mov $__NR_rt_sigreturn, %eax; int $0x80
_OLD_CODE: Final = bytes.fromhex("58b877000000cd80")  # pop %eax; mov $__NR_sigreturn, …
_RT_CODE_AT: Final = 260
_OLD_CODE_AT: Final = 724
_I386_CONTEXT: Final = struct.Struct("<22I")
_I386_NAMES: Final = (
    "gs", "fs", "es", "ds", "edi", "esi", "ebp", "esp", "ebx", "edx", "ecx", "eax", "trapno",
    "err", "eip", "cs", "eflags", "esp_at_signal", "ss", "fpstate", "oldmask", "cr2",
)  # fmt: skip
_USER_CODE: Final = {0x23, 0x73, 0x1B}
"""%cs of 32-bit code: of a 64-bit kernel, of a 32-bit one, of Xen's."""


def _i386(stack: bytes, low: Address) -> Iterator[FoundFrame]:
    for at in _places(stack, _RT_CODE, -_RT_CODE_AT, 4):
        number, info, context = struct.unpack_from("<3I", stack, at + 4)
        if (info, context) == (low + at + 16, low + at + 16 + _SIGINFO):
            siginfo = stack[at + 16 : at + 16 + _SIGINFO]
            yield from _i386_frame(stack, low + at, at + 16 + _SIGINFO + 20, (number, siginfo))
    for at in _places(stack, _OLD_CODE, -_OLD_CODE_AT, 4):
        (number,) = struct.unpack_from("<I", stack, at + 4)
        yield from _i386_frame(stack, low + at, at + 8, (number, b""))


def _i386_frame(
    stack: bytes, address: Address, context: int, told: tuple[int, bytes]
) -> Iterator[FoundFrame]:
    saved = dict(zip(_I386_NAMES, _I386_CONTEXT.unpack_from(stack, context), strict=True))
    if saved["cs"] & 0xFFFF not in _USER_CODE:
        return
    for name in ("gs", "fs", "es", "ds", "cs", "ss"):
        saved[name] &= 0xFFFF  # the upper half is not written
    number, siginfo = told
    yield FoundFrame(
        address=address,
        registers={name: saved[name] for name in _I386_NAMES if name in _KNOWN_I386},
        siginfo=siginfo,
        number=number,
        trap=saved["trapno"],
        error=saved["err"],
        fault_address=saved["cr2"],
    )


_KNOWN_I386: Final = frozenset(MACHINES[Architecture.I386].registers)

# riscv64: siginfo, then a ucontext whose registers begin 176 bytes in.
_RISCV_REGISTERS: Final = _SIGINFO + 176


def _riscv64(stack: bytes, low: Address) -> Iterator[FoundFrame]:
    machine = MACHINES[Architecture.RISCV64]
    for number in _SIGNALS:
        for at in _places(stack, struct.pack("<ii", number, 0), 0, 16, low):
            if at + _RISCV_REGISTERS + machine.words.size > len(stack):
                continue
            if stack[at + _SIGINFO : at + _SIGINFO + 16] == bytes(16):
                yield _plain_frame(machine, stack, low, at, (at, at + _RISCV_REGISTERS, number))


# ppc64le: a ucontext first; its sigcontext points to its own registers, 8 bytes on.
_PPC_POINTER: Final = 224
_PPC_REGISTERS: Final = 232
_PPC_NUMBER: Final = 200
_PPC_SIGINFO: Final = 1752


def _ppc64le(stack: bytes, low: Address) -> Iterator[FoundFrame]:
    machine = MACHINES[Architecture.PPC64LE]
    for pointer in _pointing_to_itself(stack, low, "<"):
        at = pointer - _PPC_POINTER
        if at < 0 or at + _PPC_REGISTERS + machine.words.size > len(stack):
            continue
        (number,) = struct.unpack_from("<i", stack, at + _PPC_NUMBER)
        found = _plain_frame(
            machine, stack, low, at, (at + _PPC_SIGINFO, at + _PPC_REGISTERS, number)
        )
        yield FoundFrame(
            address=found.address,
            registers=found.registers,
            siginfo=found.siginfo,
            number=number,
            trap=found.registers["trap"],
            error=found.registers["dsisr"],
            fault_address=found.registers["dar"],
        )


# s390x: 160 bytes for the handler's own use, then (an instruction, padded) siginfo and a ucontext;
# without SA_SIGINFO the old mask, a pointer to the registers behind it, these, and the number.
_S390_SIGINFO: Final = 168
_S390_CONTEXT: Final = _S390_SIGINFO + _SIGINFO
_S390_REGISTERS: Final = _S390_CONTEXT + 40
_S390_OLD_POINTER: Final = 168
_S390_OLD_REGISTERS: Final = 176
_S390_OLD_NUMBER: Final = 520
_S390_FLAGS: Final = 3
"""UC_GPRS_HIGH and UC_VXRS may be set."""
_PROBLEM_STATE: Final = 1 << 48
"""Of the PSW's mask: user code (z/Architecture Principles of Operation, chapter 4)."""


def _s390x(stack: bytes, low: Address) -> Iterator[FoundFrame]:
    machine = MACHINES[Architecture.S390X]
    found = []
    for number in _SIGNALS:
        for info in _places(stack, struct.pack(">ii", number, 0), 0, 8, low):
            at = info - _S390_SIGINFO
            if at < 0 or at + _S390_REGISTERS + machine.words.size > len(stack):
                continue
            flags, link = struct.unpack_from(">QQ", stack, at + _S390_CONTEXT)
            if flags <= _S390_FLAGS and link == 0:
                places = (info, at + _S390_REGISTERS, number)
                found.append(_plain_frame(machine, stack, low, at, places))
    for pointer in _pointing_to_itself(stack, low, ">"):
        at = pointer - _S390_OLD_POINTER
        if at >= 0 and at + _S390_OLD_NUMBER + 4 <= len(stack):
            (number,) = struct.unpack_from(">i", stack, at + _S390_OLD_NUMBER)
            places = (len(stack), at + _S390_OLD_REGISTERS, number)
            found.append(_plain_frame(machine, stack, low, at, places))
    yield from (frame for frame in found if frame.registers["psw_mask"] & _PROBLEM_STATE)


_FINDERS: Final[dict[Architecture, Callable[[bytes, Address], Iterator[FoundFrame]]]] = {
    Architecture.I386: _i386,
    Architecture.RISCV64: _riscv64,
    Architecture.PPC64LE: _ppc64le,
    Architecture.S390X: _s390x,
}


def other_frames_in(
    architecture: Architecture, stack: bytes, low: Address
) -> tuple[FoundFrame, ...]:
    """What may be signal frames in a stretch of stack that begins at `low`, by address."""
    finder = _FINDERS.get(architecture)
    if finder is None:
        return ()
    found = (frame for frame in finder(stack, low) if 0 < frame.number < 65)
    return tuple(sorted(found, key=lambda frame: frame.address))


def _plain_frame(
    machine: Machine, stack: bytes, low: Address, at: int, places: tuple[int, int, int]
) -> FoundFrame:
    """A frame at `at` whose registers stand as in a core's note. Places: siginfo, registers."""
    info, registers, number = places
    values = machine.words.unpack_from(stack, registers)
    return FoundFrame(
        address=low + at,
        registers=dict(zip(machine.registers, values, strict=True)),
        siginfo=stack[info : info + _SIGINFO],
        number=number,
    )


def _places(
    stack: bytes, needle: bytes, offset: int, alignment: int, low: Address = 0
) -> Iterator[int]:
    """Where a frame would begin by each occurrence of `needle`, `offset` bytes from it."""
    at = stack.find(needle)
    while at >= 0:
        if at + offset >= 0 and (low + at + offset) % alignment == 0:
            yield at + offset
        at = stack.find(needle, at + 1)


def _pointing_to_itself(stack: bytes, low: Address, order: str) -> Iterator[int]:
    """Words that hold the address right behind themselves."""
    first = -low % 8
    words = stack[first : first + (len(stack) - first) // 8 * 8] if len(stack) > first else b""
    for position, word in enumerate(struct.unpack(f"{order}{len(words) // 8}Q", words)):
        at = first + 8 * position
        if word == low + at + 8:
            yield at
