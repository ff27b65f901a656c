"""ELF as in elf(5) and the System V ABI: headers, program headers, notes, of 32 and 64 bits."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.record import dataclass

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

_PN_XNUM: Final = 0xFFFF
_IDENT: Final = 6
"""Bytes up to and with EI_DATA."""
_MAX_PROGRAM_HEADERS: Final = 1 << 20
_MAX_SECTIONS: Final = 1 << 16

Bytes = memoryview

SymbolRow = tuple[int, int, int, int, int, int]
"""st_name, st_info, st_other, st_shndx, st_value, st_size: the order of Elf64_Sym."""


class Layout:
    """How a class and a byte order lay the structures out; rows come in the 64-bit order."""

    def __init__(self, *, word_size: int, order: str) -> None:
        """`order` is `<` or `>`, as `struct` writes it."""
        self.word_size = word_size
        self.byte_order: Literal["little", "big"] = "little" if order == "<" else "big"
        wide = word_size == 8
        self.header = struct.Struct(f"{order}16sHHI{'QQQ' if wide else 'III'}IHHHHHH")
        self.segment = struct.Struct(f"{order}IIQQQQQQ" if wide else f"{order}8I")
        self.section = struct.Struct(f"{order}IIQQQQIIQQ" if wide else f"{order}10I")
        self.symbol = struct.Struct(f"{order}IBBHQQ" if wide else f"{order}IIIBBH")
        self.dynamic = struct.Struct(f"{order}qQ" if wide else f"{order}iI")
        self.note = struct.Struct(f"{order}III")
        # 64-bit machines have Elf64_Rela; of the 32-bit ones, i386 has Elf32_Rel.
        self.relocation = struct.Struct(f"{order}QQq" if wide else f"{order}II")

    def segments(self, table: Bytes) -> Iterator[tuple[int, ...]]:
        """Rows of p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align."""
        rows = self.segment.iter_unpack(table)
        if self.word_size == 8:
            return rows
        return ((row[0], row[6], *row[1:6], row[7]) for row in rows)

    def symbols(self, table: Bytes) -> Iterator[SymbolRow]:
        """The rows of a symbol table."""
        rows = self.symbol.iter_unpack(table)
        if self.word_size == 8:
            return rows
        return (
            (name, info, other, section, value, size)
            for name, value, size, info, other, section in rows
        )

    def relocations(self, table: Bytes) -> Iterator[tuple[int, int, int]]:
        """Rows of r_offset, the symbol's index and the relocation's type."""
        size = self.relocation.size
        shift = 32 if self.word_size == 8 else 8
        mask = (1 << shift) - 1
        for row in self.relocation.iter_unpack(table[: len(table) // size * size]):
            yield row[0], row[1] >> shift, row[1] & mask


_LAYOUTS: Final = {
    (1, 1): Layout(word_size=4, order="<"),
    (1, 2): Layout(word_size=4, order=">"),
    (2, 1): Layout(word_size=8, order="<"),
    (2, 2): Layout(word_size=8, order=">"),
}
"""By EI_CLASS and EI_DATA."""
LITTLE_64: Final = _LAYOUTS[2, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The fields of the ELF header that are used here."""

    type: int
    machine: int
    phoff: int
    phnum: int
    shoff: int
    shnum: int
    shstrndx: int
    entry: int = 0
    layout: Layout = LITTLE_64

    @property
    def machine_name(self) -> str:
        """The architecture as a person calls it."""
        return EM_NAMES.get(self.machine, f"machine {self.machine}")


class Segment(NamedTuple):
    """A program header; a tuple, as a process that maps hundreds of modules has thousands."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


class Section(NamedTuple):
    """A section header, with its name resolved."""

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
        EvidenceError: not ELF, cut off, or of no class or byte order that there is.

    """
    if bytes(data[:4]) != b"\x7fELF":
        raise EvidenceError("not an ELF file", remedy="give a core dump that the kernel wrote")
    if len(data) >= _IDENT and (data[4], data[5]) not in _LAYOUTS:
        raise EvidenceError(
            f"an ELF file of an unknown class ({data[4]}) or byte order ({data[5]})",
            remedy="copy the file again: its first bytes are damaged",
        )
    layout = _LAYOUTS[data[4], data[5]] if len(data) >= _IDENT else LITTLE_64
    if len(data) < layout.header.size:
        raise EvidenceError(
            f"the ELF header is cut off after {len(data)} of {layout.header.size} bytes",
            remedy="copy the file again; was the disk full?",
        )
    fields = layout.header.unpack_from(data)
    phnum = fields[10]
    if phnum == _PN_XNUM and fields[6]:
        # More than 65,534 segments: elf(5) puts the true number into sh_info of section 0.
        try:
            phnum = layout.section.unpack_from(data, fields[6])[7]
        except (struct.error, OverflowError):
            phnum = _PN_XNUM
    return Header(
        type=fields[1],
        machine=fields[2],
        entry=fields[4],
        phoff=fields[5],
        phnum=min(phnum, _MAX_PROGRAM_HEADERS),
        shoff=fields[6],
        shnum=fields[12],
        shstrndx=fields[13],
        layout=layout,
    )


def parse_segments(data: Bytes, header: Header) -> tuple[Segment, ...]:
    """Read the program headers; those beyond the end of the data are left out."""
    return tuple(
        [
            Segment(kind, flags, offset, address, file_size, memory_size, align)
            for kind, flags, offset, address, _, file_size, memory_size, align
            in _segment_rows(data, header)
        ]
    )  # fmt: skip


def has_segments(data: Bytes, header: Header) -> bool:
    """Is there a program header within the data?"""
    return header.phnum > 0 and header.phoff + header.layout.segment.size <= len(data)


def note_segments(data: Bytes, header: Header) -> Iterator[tuple[Bytes, int]]:
    """The contents and the alignment of each PT_NOTE, without reading the other headers."""
    for row in _segment_rows(data, header):
        if row[0] == PT_NOTE:
            yield data[row[2] : row[2] + row[5]], row[7]


def _segment_rows(data: Bytes, header: Header) -> Iterator[tuple[int, ...]]:
    size = header.layout.segment.size
    count = min(header.phnum, max(0, len(data) - header.phoff) // size)
    return header.layout.segments(data[header.phoff : header.phoff + count * size])


def parse_sections(data: Bytes, header: Header) -> tuple[Section, ...]:
    """Read the section headers with their names; none where the table is damaged or stripped."""
    rows = _section_rows(data, header)
    names = _section_names(data, header)
    return tuple(
        [
            Section(text_at(names, name), kind, address, offset, size, link, entry_size)
            for name, kind, _, address, offset, size, link, _, _, entry_size in rows
        ]
    )


def has_section(data: Bytes, header: Header, *wanted: str) -> bool:
    """Does a section have one of these names? Without reading all of them."""
    raw = bytes(_section_names(data, header))
    # Linkers let a name be the tail of another: every place of it may be the one.
    places = {at for name in wanted for at in _places(raw, f"{name}\0".encode())}
    return bool(places) and any(row[0] in places for row in _section_rows(data, header))


def _places(raw: bytes, wanted: bytes) -> Iterator[int]:
    at = raw.find(wanted)
    while at >= 0:
        yield at
        at = raw.find(wanted, at + 1)


def _section_rows(data: Bytes, header: Header) -> Iterable[tuple[int, ...]]:
    if not _has_section_names(data, header):
        return ()
    size = header.layout.section.size
    return header.layout.section.iter_unpack(data[header.shoff :][: header.shnum * size])


def _section_names(data: Bytes, header: Header) -> Bytes:
    if not _has_section_names(data, header):
        return memoryview(b"")
    layout = header.layout.section
    row = layout.unpack_from(data, header.shoff + header.shstrndx * layout.size)
    return data[row[4] :][: row[5]]


def _has_section_names(data: Bytes, header: Header) -> bool:
    end = header.shoff + header.shnum * header.layout.section.size
    is_whole = header.shoff > 0 and end <= len(data) and header.shnum <= _MAX_SECTIONS
    return is_whole and header.shstrndx < header.shnum


def parse_notes(data: Bytes, align: int = 4, layout: Layout = LITTLE_64) -> Iterator[Note]:
    """Walk a note segment until its end or until an entry does not fit."""
    align = 8 if align == 8 else 4
    head = layout.note
    offset = 0
    while offset + head.size <= len(data):
        name_size, size, kind = head.unpack_from(data, offset)
        name_start = offset + head.size
        # Rounded from the entry's start, header included (glibc's ELF_NOTE_DESC_OFFSET).
        start = offset + _round_up(head.size + name_size, align)
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
    end = raw.find(b"\0")
    return (raw[:end] if end >= 0 else raw).decode("utf-8", "surrogateescape")


def _round_up(value: int, align: int) -> int:
    return (value + align - 1) & -align
