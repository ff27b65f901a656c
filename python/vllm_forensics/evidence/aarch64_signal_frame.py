"""The frame that Linux pushes for a signal handler on aarch64 (arch/arm64/kernel/signal.c).

A siginfo_t of 128 bytes, then a ucontext whose sigcontext holds fault_address, x0 to x30, sp, pc
and pstate, and then records. The first is always the one of the vector registers, by whose magic
number and size the frame is found. qemu-user writes the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from vllm_forensics.evidence.machines import MACHINES
from vllm_forensics.model.process import Address, Architecture, Signal
from vllm_forensics.model.record import dataclass

SIGINFO_SIZE: Final = 128
_FPSIMD: Final = struct.pack("<II", 0x46508001, 528)
_ESR_MAGIC: Final = 0x45535201
_SIGCONTEXT: Final = SIGINFO_SIZE + 176
"""uc_flags, uc_link, uc_stack and 128 bytes of uc_sigmask, aligned to 16."""
_RECORDS: Final = _SIGCONTEXT + 288
_REGISTERS = struct.Struct("<35Q")
_RECORD = struct.Struct("<IIQ")
_MAX_RECORDS: Final = 16
_ABORTS: Final = {0x20, 0x24}
"""Exception classes of instruction and data aborts in user code (Arm ARM, ESR_EL1.EC)."""
_TRANSLATION, _PERMISSION = 0b0001, 0b0011
"""The upper bits of a fault status code (Arm ARM, ESR_EL1.ISS.DFSC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """What one frame holds."""

    address: Address
    siginfo: bytes
    """Written for handlers with SA_SIGINFO only; else what was there before."""
    registers: dict[str, int]
    fault: Signal | None
    """What the syndrome record says of a fault; the kernel writes one for each."""


def frames_in(stack: bytes, low: Address) -> Iterator[SavedState]:
    """Each frame in a stretch of stack that begins at `low`."""
    machine = MACHINES[Architecture.AARCH64]
    at = stack.find(_FPSIMD)
    while at >= 0:
        start = at - _RECORDS
        if start >= 0 and (low + start) % 16 == 0:
            fault_address, *values = _REGISTERS.unpack_from(stack, start + _SIGCONTEXT)
            yield SavedState(
                address=low + start,
                siginfo=stack[start : start + SIGINFO_SIZE],
                registers=dict(zip(machine.registers, values, strict=True)),
                fault=_fault(stack[at:], fault_address),
            )
        at = stack.find(_FPSIMD, at + 8)


def _fault(records: bytes, address: Address) -> Signal | None:
    at = 0
    for _ in range(_MAX_RECORDS):
        if at + _RECORD.size > len(records):
            return None
        magic, size, syndrome = _RECORD.unpack_from(records, at)
        if magic == _ESR_MAGIC:
            kind = syndrome >> 2 & 15
            if syndrome >> 26 & 63 in _ABORTS and kind in {_TRANSLATION, _PERMISSION}:
                return Signal(number=11, code=1 if kind == _TRANSLATION else 2, address=address)
            return None
        if magic == 0 or size < _RECORD.size:
            return None
        at += size
    return None
