"""What each architecture's cores look like: one row a machine, and nobody else asks which it is.

Registers stand in the order of the kernel's ELF_GREGSET_T (arch/*/include/asm/elf.h and
uapi/asm/ptrace.h). DWARF numbers are from each ABI's supplement, as unwind tables use them: System
V psABI for x86-64 (figure 3.36), i386 (table 2.14), z/Architecture (1.2.1) and Power (ELFv2, 2.4),
DWARF for the Arm 64-bit architecture (4.1), RISC-V psABI (DWARF register numbers).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from vllm_forensics.model.process import Architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteOffsets:
    """Where the fields of elf_prstatus, elf_prpsinfo and siginfo_t lie; C's `long` decides."""

    tid: int
    registers: int
    pid: int
    name: int
    arguments: int
    siginfo: int
    """Of siginfo_t's union, which holds si_addr, or si_pid and si_uid."""


_WIDE: Final = NoteOffsets(tid=32, registers=112, pid=24, name=40, arguments=56, siginfo=16)
_NARROW: Final = NoteOffsets(tid=24, registers=72, pid=12, name=28, arguments=44, siginfo=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One architecture, as its cores and programs are written."""

    architecture: Architecture
    number: int
    """e_machine."""
    registers: tuple[str, ...]
    pc: str
    sp: str
    dwarf: Mapping[int, str]
    """DWARF number → register."""
    decoder: tuple[str, str]
    """capstone's names of the architecture and of its mode, with `|` between modes."""
    jump_slot: int
    """The relocation of a PLT's slot (R_*_JUMP_SLOT)."""
    glob_dat: int
    """The relocation of an imported address (R_*_GLOB_DAT)."""
    page_size: int = 4096
    """Where the auxiliary vector does not say it."""
    offsets: NoteOffsets = _WIDE
    order: str = field(init=False)
    """The byte order, as `struct` writes it."""
    word: str = field(init=False)
    """C's unsigned long, as `struct` writes it."""
    words: struct.Struct = field(init=False)
    """All registers."""
    pair: struct.Struct = field(init=False)
    """Two words: an entry of the auxiliary vector, the head of NT_FILE."""
    triple: struct.Struct = field(init=False)
    """Three words: a row of NT_FILE."""
    address: struct.Struct = field(init=False)
    """One word."""
    sender: struct.Struct = field(init=False)
    """A process id, which is an int."""
    ints: struct.Struct = field(init=False)
    """Three ints: si_signo, si_errno, si_code."""

    def __post_init__(self) -> None:
        """Work the layouts out once."""
        order = "<" if self.architecture.byte_order == "little" else ">"
        word = "Q" if self.architecture.word_size == 8 else "I"
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "word", word)
        layouts = {
            "words": f"{len(self.registers)}{word}",
            "pair": f"2{word}",
            "triple": f"3{word}",
            "address": word,
            "sender": "i",
            "ints": "3i",
        }
        for name, layout in layouts.items():
            object.__setattr__(self, name, struct.Struct(order + layout))


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


_X86_64: Final = Machine(
    architecture=Architecture.X86_64,
    number=62,
    registers=(
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx",
        "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base",
        "ds", "es", "fs", "gs",
    ),
    pc="rip",
    sp="rsp",
    dwarf=dict(enumerate((
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
        "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    ))),
    decoder=("CS_ARCH_X86", "CS_MODE_64"),
    jump_slot=7,
    glob_dat=6,
)  # fmt: skip

_I386: Final = Machine(
    architecture=Architecture.I386,
    number=3,
    registers=(
        "ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs", "orig_eax", "eip",
        "cs", "eflags", "esp", "ss",
    ),
    pc="eip",
    sp="esp",
    dwarf=dict(enumerate(("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"))),
    decoder=("CS_ARCH_X86", "CS_MODE_32"),
    jump_slot=7,
    glob_dat=6,
    offsets=_NARROW,
)  # fmt: skip

_AARCH64: Final = Machine(
    architecture=Architecture.AARCH64,
    number=183,
    registers=(*_numbered("x", 31), "sp", "pc", "pstate"),
    pc="pc",
    sp="sp",
    dwarf=dict(enumerate((*_numbered("x", 31), "sp"))),
    decoder=("CS_ARCH_ARM64", "CS_MODE_ARM"),
    jump_slot=1026,
    glob_dat=1025,
)

_RISCV_X: Final = (
    "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
)  # fmt: skip
"""x1 to x31 by their ABI names; x0 is always zero, and the kernel puts the pc into its place."""

_RISCV64: Final = Machine(
    architecture=Architecture.RISCV64,
    number=243,
    registers=("pc", *_RISCV_X),
    pc="pc",
    sp="sp",
    dwarf=dict(enumerate(_RISCV_X, start=1)),
    decoder=("CS_ARCH_RISCV", "CS_MODE_RISCV64|CS_MODE_RISCVC"),
    jump_slot=5,
    glob_dat=2,  # R_RISCV_64: RISC-V has no GLOB_DAT of its own
)

_PPC64LE: Final = Machine(
    architecture=Architecture.PPC64LE,
    number=21,
    registers=(
        *_numbered("r", 32),
        *("nip", "msr", "orig_r3", "ctr", "lr", "xer", "ccr", "softe", "trap", "dar", "dsisr"),
    ),
    pc="nip",
    sp="r1",
    dwarf=dict(enumerate(_numbered("r", 32))) | {65: "lr", 66: "ctr"},
    decoder=("CS_ARCH_PPC", "CS_MODE_64|CS_MODE_LITTLE_ENDIAN"),
    jump_slot=21,
    glob_dat=20,
    page_size=65536,
)

_S390X: Final = Machine(
    architecture=Architecture.S390X,
    number=22,
    registers=("psw_mask", "pc", *_numbered("r", 16)),
    pc="pc",
    sp="r15",
    dwarf=dict(enumerate(_numbered("r", 16))),
    decoder=("CS_ARCH_SYSZ", "CS_MODE_BIG_ENDIAN"),
    jump_slot=11,
    glob_dat=10,
)

MACHINES: Final[Mapping[Architecture, Machine]] = {
    machine.architecture: machine
    for machine in (_X86_64, _I386, _AARCH64, _RISCV64, _PPC64LE, _S390X)
}


def machine_of(number: int, word_size: int, byte_order: str) -> Machine | None:
    """The row of an ELF header, by e_machine, class and byte order; None for any other.

    x32 has x86-64's e_machine in a 32-bit file, and big-endian Power has ppc64le's: neither is one.
    """
    for machine in MACHINES.values():
        architecture = machine.architecture
        if (machine.number, architecture.word_size, architecture.byte_order) == (
            number, word_size, byte_order,
        ):  # fmt: skip
            return machine
    return None
