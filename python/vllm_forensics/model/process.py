"""What a dead or stopped process was made of: threads, registers, mappings, modules, its signal."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from typing import Literal

from vllm_forensics.model.record import dataclass

Address = int


class Architecture(StrEnum):
    """A processor whose cores are understood; the values are what gdb and ELF tools print."""

    X86_64 = "x86-64"
    I386 = "i386"
    AARCH64 = "aarch64"
    RISCV64 = "riscv64"
    PPC64LE = "ppc64le"
    S390X = "s390x"

    @property
    def word_size(self) -> int:
        """Bytes of a pointer, and of C's `long`."""
        return 4 if self is Architecture.I386 else 8

    @property
    def byte_order(self) -> Literal["little", "big"]:
        """How memory holds a word."""
        return "big" if self is Architecture.S390X else "little"

    @property
    def link_register(self) -> str | None:
        """Where a call leaves its return address; None where it is pushed onto the stack."""
        match self:
            case Architecture.X86_64 | Architecture.I386:
                return None
            case Architecture.AARCH64:
                return "x30"
            case Architecture.RISCV64:
                return "ra"
            case Architecture.PPC64LE:
                return "lr"
            case Architecture.S390X:
                return "r14"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A siginfo_t (signal(7), sigaction(2)): what the kernel said when it delivered a signal."""

    number: int
    code: int
    address: Address | None = None
    """si_addr; set for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP that the kernel raised."""
    sender_pid: int | None = None
    """si_pid; set when a process sent the signal (si_code <= 0)."""
    is_recorded: bool = True
    """False where only the number is known: a core without siginfo_t, from qemu-user for one."""

    @property
    def from_kernel(self) -> bool:
        """The processor or kernel noticed a fault: si_code is positive (sigaction(2))."""
        return self.code > 0

    @property
    def may_be_fault(self) -> bool:
        """The same, or nothing is known of where it came from."""
        return self.from_kernel or not self.is_recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One thread at the moment of the dump."""

    tid: int
    crashed: bool
    registers: MappingOf[str, int]
    pc: Address
    sp: Address
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFrame:
    """What the kernel saved when it called a signal handler: the interrupted state, and why."""

    address: Address
    """Where the frame lies; the stack pointer that the handler started with."""
    signal: Signal
    registers: MappingOf[str, int]
    pc: Address
    sp: Address
    trap_number: int
    """The exception vector (Intel SDM 3A, 6.3.1): 14 page fault, 13 general protection."""
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StackWords:
    """A stretch of stack as words of the machine's size, lowest address first."""

    start: Address
    words: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """A range of the address space, `start` to `end` (exclusive), as the kernel described it."""

    start: Address
    end: Address
    readable: bool
    writable: bool
    executable: bool
    path: str | None = None
    file_offset: int = 0
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramHeaders:
    """What the kernel told a program of its file: AT_PHDR, AT_PHNUM, AT_ENTRY (getauxval(3))."""

    address: Address
    count: int
    entry: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """An ELF file that was mapped: executable, shared library or extension module."""

    path: str
    start: Address
    end: Address
    bias: int
    """Add it to an address of the file (st_value, p_vaddr) to get the address in memory."""
    build_id: str | None
    """From the core itself; None where the core does not hold the file's first page."""
    deleted: bool = False
    headers: ProgramHeaders | None = None
    """Of a program that is known by these alone: its core lists no files."""
    dynamic: Address | None = None
    """Of a library of such a core: where its dynamic section lies (l_ld of its link_map)."""

    @property
    def is_unlisted(self) -> bool:
        """Was it found without a list of files and build-ids?"""
        return self.headers is not None or self.dynamic is not None

    @property
    def name(self) -> str:
        """The file's own name, without folders."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A function or object of a module's symbol table, at its address in memory."""

    name: str
    """As in the table: C++ names are mangled."""
    address: Address
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Who crashed."""

    pid: int
    architecture: Architecture
    program: str | None
    """The executable's path on the machine that made the core."""
    command: str
    """The argument vector as far as the core has it; psargs is cut at 80 bytes by the kernel."""
    page_size: int = 4096
    auxv: MappingOf[int, int] = field(default_factory=dict)
