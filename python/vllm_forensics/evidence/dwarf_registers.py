"""DWARF numbers of registers, as unwind tables use them, from each architecture's ABI supplement.

x86-64: System V psABI, figure 3.36. AArch64: DWARF for the Arm 64-bit architecture, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vllm_forensics.model.process import Architecture

_X86_64: Final = (
    *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
_AARCH64: Final = (*(f"x{number}" for number in range(31)), "sp")
_NAMES: Final = {Architecture.X86_64: _X86_64, Architecture.AARCH64: _AARCH64}


def dwarf_registers(
    architecture: Architecture, registers: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """The registers that are known, as (DWARF number, value)."""
    names = _NAMES[architecture]
    return tuple(
        (number, registers[name]) for number, name in enumerate(names) if name in registers
    )
