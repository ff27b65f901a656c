"""ELF as in elf(5) and the System V ABI: headers, program headers, notes. 64-bit, little-endian."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vllm_forensics.errors import EvidenceError

PT_LOAD: Final = 1
PT_NOTE: Final = 4
PT_GNU_EH_FRAME: Final = 0x6474E550
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
ET_CORE: Final = 4
EM_NAMES: Final = {
    3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86-64",
    183: "aarch64", 243: "riscv", 258: "loongarch",
}  # fmt: skip
PF_X: Final = 1
PF_W: Final = 2
PF_R: Final = 4

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_NHDR = struct.Struct("<III")
_PN_XNUM: Final = 0xFFFF
_MAX_PROGRAM_HEADERS: Final = 1 << 20
_MAX_SECTIONS: Final = 1 << 16

Bytes = memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The fields of Elf64_Ehdr that are used here."""

    type: int
    machine: int
    phoff: int
    phnum: int
    shoff: int
    shnum: int
    shstrndx: int

    @property
    def machine_name(self) -> str:
        """The architecture as a person calls it."""
        return EM_NAMES.get(self.machine, f"machine {self.machine}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Elf64_Phdr."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Elf64_Shdr, with its name resolved."""

    name: str
    type: int
    address: int
    offset: int
    size: int
    link: int
    entry_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One entry of a note segment."""

    owner: bytes
    type: int
    data: Bytes


def parse_header(data: Bytes) -> Header:
    """Read the ELF header.

    Raises:
        EvidenceError: not ELF, or of a class or byte order that is not read here.

    """
    if bytes(data[:4]) != b"\x7fELF":
        raise EvidenceError("not an ELF file", remedy="give a core dump that the kernel wrote")
    if len(data) < _EHDR.size:
        raise EvidenceError(
            f"the ELF header is cut off after {len(data)} of {_EHDR.size} bytes",
            remedy="copy the file again; was the disk full?",
        )
    if data[4] != 2 or data[5] != 1:
        bits = {1: "32-bit", 2: "64-bit"}.get(data[4], "unknown-class")
        order = {1: "little-endian", 2: "big-endian"}.get(data[5], "unknown-order")
        raise EvidenceError(
            f"a {bits} {order} ELF file; 64-bit little-endian ones are read",
            remedy="open it with a gdb for that architecture (gdb-multiarch)",
        )
    fields = _EHDR.unpack_from(data)
    phnum = fields[10]
    if phnum == _PN_XNUM and fields[6]:
        # More than 65,534 segments: elf(5) puts the true number into sh_info of section 0.
        try:
            phnum = _SHDR.unpack_from(data, fields[6])[7]
        except (struct.error, OverflowError):
            phnum = _PN_XNUM
    return Header(
        type=fields[1],
        machine=fields[2],
        phoff=fields[5],
        phnum=min(phnum, _MAX_PROGRAM_HEADERS),
        shoff=fields[6],
        shnum=fields[12],
        shstrndx=fields[13],
    )


def parse_segments(data: Bytes, header: Header) -> tuple[Segment, ...]:
    """Read the program headers; those beyond the end of the data are left out."""
    available = max(0, len(data) - header.phoff) // _PHDR.size
    count = min(header.phnum, available)
    table = data[header.phoff : header.phoff + count * _PHDR.size]
    return tuple(
        Segment(
            type=kind, flags=flags, offset=offset, address=address,
            file_size=file_size, memory_size=memory_size, align=align,
        )
        for kind, flags, offset, address, _, file_size, memory_size, align
        in _PHDR.iter_unpack(table)
    )  # fmt: skip


def parse_sections(data: Bytes, header: Header) -> tuple[Section, ...]:
    """Read the section headers with their names; none where the table is damaged or stripped."""
    end = header.shoff + header.shnum * _SHDR.size
    if not header.shoff or end > len(data) or header.shnum > _MAX_SECTIONS:
        return ()
    rows = list(_SHDR.iter_unpack(data[header.shoff : end]))
    if header.shstrndx >= len(rows):
        return ()
    names = data[rows[header.shstrndx][4] :][: rows[header.shstrndx][5]]
    return tuple(
        Section(
            name=text_at(names, row[0]), type=row[1], address=row[3], offset=row[4],
            size=row[5], link=row[6], entry_size=row[9],
        )
        for row in rows
    )  # fmt: skip


def parse_notes(data: Bytes, align: int = 4) -> Iterator[Note]:
    """Walk a note segment until its end or until an entry does not fit."""
    align = 8 if align == 8 else 4
    offset = 0
    while offset + _NHDR.size <= len(data):
        name_size, size, kind = _NHDR.unpack_from(data, offset)
        name_start = offset + _NHDR.size
        # Rounded from the entry's start, header included (glibc's ELF_NOTE_DESC_OFFSET).
        start = offset + _round_up(_NHDR.size + name_size, align)
        if start + size > len(data):
            return
        owner = bytes(data[name_start : name_start + min(name_size, 64)]).rstrip(b"\0")
        yield Note(owner=owner, type=kind, data=data[start : start + size])
        offset = start + _round_up(size, align)


def build_id_of(notes: Iterator[Note]) -> str | None:
    """The NT_GNU_BUILD_ID among the notes, in hexadecimal."""
    for note in notes:
        if note.owner == b"GNU" and note.type == 3 and len(note.data) <= 64:
            return bytes(note.data).hex()
    return None


def text_at(data: Bytes, offset: int, limit: int = 4096) -> str:
    """A NUL-terminated string; bytes that are not UTF-8 are kept as surrogates."""
    raw = bytes(data[offset : offset + limit])
    return raw.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _round_up(value: int, align: int) -> int:
    return (value + align - 1) & -align
