"""Small ELF core dumps, byte by byte as the kernel lays them out (core(5), fs/binfmt_elf.c)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

X86_64: Final = 62
AARCH64: Final = 183
PT_LOAD: Final = 1
PT_NOTE: Final = 4
R, W, X = 4, 2, 1

NT_PRSTATUS: Final = 1
NT_PRPSINFO: Final = 3
NT_AUXV: Final = 6
NT_FILE: Final = 0x46494C45
NT_SIGINFO: Final = 0x53494749

_X86_REGISTERS: Final = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx",
    "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base",
    "ds", "es", "fs", "gs",
)  # fmt: skip
_ARM_REGISTERS: Final = (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate")


@dataclass(frozen=True, kw_only=True)
class LoadSegment:
    """A PT_LOAD; `memory_size` defaults to the size of the contents."""

    address: int
    contents: bytes = b""
    flags: int = R | W
    memory_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A row of NT_FILE; the offset is in pages, as the kernel writes it."""

    start: int
    end: int
    pages: int
    path: bytes


@dataclass(frozen=True, kw_only=True)
class CoreSpec:
    """What the core is made of; the defaults are a process that died of a null."""

    machine: int = X86_64
    pid: int = 42
    name: bytes = b"engine"
    arguments: bytes = b"/opt/app/engine --serve "
    threads: Sequence[tuple[int, Mapping[str, int]]] = (
        (42, {"rip": 0x40_1000, "rsp": 0x7000_0100}),
    )
    signal: bytes | None = field(default_factory=lambda: siginfo(11, 1, address=0x48))
    current_signal: int = 11
    auxv: Mapping[int, int] = field(default_factory=lambda: {6: 4096})
    files: Sequence[FileEntry] = ()
    segments: Sequence[LoadSegment] = (
        LoadSegment(address=0x7000_0000, contents=bytes(range(256)) * 16),
    )
    file_note: bytes | None = None
    """Instead of `files`."""
    extended_numbering: bool = False
    """Write the number of segments as for more than 65,534 of them."""
    type: int = 4


def siginfo(number: int, code: int, *, address: int = 0, sender: int | None = None) -> bytes:
    place = struct.pack("<Q", address) if sender is None else struct.pack("<iI", sender, 1000)
    return (struct.pack("<iii4x", number, 0, code) + place).ljust(128, b"\0")


def build_core(spec: CoreSpec | None = None) -> bytes:
    """The whole file: header, program headers, notes, memory."""
    spec = spec or CoreSpec()
    notes = _notes(spec)
    count = 1 + len(spec.segments)
    notes_at = 64 + 56 * count
    memory_at = -(-(notes_at + len(notes)) // 4096) * 4096
    headers = struct.pack("<IIQQQQQQ", PT_NOTE, 0, notes_at, 0, 0, len(notes), 0, 4)
    contents = bytearray()
    for segment in spec.segments:
        size = len(segment.contents)
        headers += struct.pack(
            "<IIQQQQQQ", PT_LOAD, segment.flags, memory_at + len(contents), segment.address, 0,
            size, size if segment.memory_size is None else segment.memory_size, 4096,
        )  # fmt: skip
        contents += segment.contents
    body = (headers + notes).ljust(memory_at - 64, b"\0") + bytes(contents)
    shoff = 64 + len(body) if spec.extended_numbering else 0
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH", spec.type, spec.machine, 1, 0, 64, shoff, 0, 64, 56,
        0xFFFF if spec.extended_numbering else count, 64, 1 if spec.extended_numbering else 0, 0,
    )  # fmt: skip
    # Section 0 holds the true number in sh_info.
    section = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, count, 0, 0)
    return header + body + (section if spec.extended_numbering else b"")


def note(kind: int, data: bytes, owner: bytes = b"CORE\0") -> bytes:
    name = owner.ljust(-(-len(owner) // 4) * 4, b"\0")
    padded = data.ljust(-(-len(data) // 4) * 4, b"\0")
    return struct.pack("<III", len(owner), len(data), kind) + name + padded


def file_table(files: Sequence[FileEntry], count: int | None = None) -> bytes:
    """NT_FILE; `count` may lie."""
    head = struct.pack("<QQ", len(files) if count is None else count, 4096)
    rows = b"".join(struct.pack("<QQQ", file.start, file.end, file.pages) for file in files)
    return head + rows + b"".join(file.path + b"\0" for file in files)


def _notes(spec: CoreSpec) -> bytes:
    parts = []
    for position, (tid, registers) in enumerate(spec.threads):
        parts.append(note(NT_PRSTATUS, _prstatus(spec, tid, registers)))
        if position == 0:
            info = struct.pack("<4x4xQIIiiii", 0, 0, 0, spec.pid, 1, 1, 1)
            info += spec.name.ljust(16, b"\0")[:16] + spec.arguments.ljust(80, b"\0")[:80]
            parts.append(note(NT_PRPSINFO, info))
            if spec.signal is not None:
                parts.append(note(NT_SIGINFO, spec.signal))
            pairs = b"".join(struct.pack("<QQ", *pair) for pair in spec.auxv.items())
            parts.append(note(NT_AUXV, pairs + bytes(16)))
            table = file_table(spec.files) if spec.file_note is None else spec.file_note
            parts.append(note(NT_FILE, table))
    return b"".join(parts)


def _prstatus(spec: CoreSpec, tid: int, registers: Mapping[str, int]) -> bytes:
    names = _X86_REGISTERS if spec.machine == X86_64 else _ARM_REGISTERS
    values = [registers.get(name, 0) for name in names]
    head = struct.pack("<iiihxxQQiiii", spec.current_signal, 0, 0, spec.current_signal, 0, 0, tid,
                       1, 1, 1)  # fmt: skip
    return head.ljust(112, b"\0") + struct.pack(f"<{len(names)}Q", *values) + bytes(8)
