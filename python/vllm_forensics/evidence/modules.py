"""Mapped ELF files as they lie on this machine: identity, symbols, function starts."""

from __future__ import annotations

import struct
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, cast

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import (
    PT_GNU_EH_FRAME,
    PT_LOAD,
    SHT_NOBITS,
    SHT_NOTE,
    Bytes,
    Header,
    Section,
    Segment,
    build_id_of,
    has_section,
    has_segments,
    note_segments,
    parse_header,
    parse_notes,
    parse_sections,
    parse_segments,
    text_at,
)
from vllm_forensics.evidence.machines import machine_of
from vllm_forensics.model.process import ProgramHeaders, Symbol

T = TypeVar("T")

_PF_X: Final = 1
_PT_DYNAMIC: Final = 2
_MAX_CODE: Final = 64 << 20
_MAX_ANSWERS: Final = 4096
_DT_SONAME: Final = 14
_FUNCTION_TYPES: Final = {2, 10}  # STT_FUNC, STT_GNU_IFUNC
_EXPORTED: Final = {1, 2}  # STB_GLOBAL, STB_WEAK
_RELOCATIONS: Final = {".rela.plt", ".rela.dyn", ".rel.plt", ".rel.dyn"}
_MAX_TAILS: Final = 1000
_MAX_SYMBOLS: Final = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _SymbolTable:
    dynamic: bool
    rows: Bytes
    names: Bytes


class _Answers:
    """What a file was asked, and what it answered; forgets all when it is full."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}

    def get(self, question: object, ask: Callable[[], T]) -> T:
        """The answer as it was before, or as `ask` finds it."""
        if question not in self._known:
            if len(self._known) >= _MAX_ANSWERS:
                self._known.clear()
            self._known[question] = ask()
        return cast("T", self._known[question])


@dataclass(frozen=True)
class ModuleFile:
    """One ELF file's contents, parsed as far as asked. Addresses are the file's own (unbiased)."""

    data: Bytes
    header: Header
    debug: ModuleFile | None = None
    """The file with the separate debug information of the same build, if there is one."""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Program headers."""
        return parse_segments(self.data, self.header)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Section headers; empty where the file has none."""
        return parse_sections(self.data, self.header)

    @cached_property
    def build_id(self) -> str | None:
        """The linker's NT_GNU_BUILD_ID.

        The program headers of a separate debug file may point to where the notes were in the whole
        one (eu-strip -f leaves them so); its sections are right.
        """
        for raw, align in self._notes():
            if found := build_id_of(parse_notes(raw, align, self.header.layout)):
                return found
        return None

    def _notes(self) -> Iterator[tuple[Bytes, int]]:
        yield from note_segments(self.data, self.header)
        for section in self.sections:
            if section.type == SHT_NOTE:
                yield self.data[section.offset : section.offset + section.size], 4

    @cached_property
    def has_debug_info(self) -> bool:
        """Are there DWARF lines and types, in the file itself or beside it?"""
        own = has_section(self.data, self.header, ".debug_info", ".zdebug_info")
        return own or (self.debug is not None and self.debug.has_debug_info)

    @property
    def has_lines(self) -> bool:
        """Does the file itself say which line its code is from?"""
        return has_section(self.data, self.header, ".debug_line", ".zdebug_line")

    @cached_property
    def has_symbol_table(self) -> bool:
        """Does the file carry .symtab, not only the exported names?"""
        return has_section(self.data, self.header, ".symtab")

    @property
    def has_code(self) -> bool:
        """Is the code there? `objcopy --only-keep-debug` leaves its sections without contents."""
        code = next((section for section in self.sections if section.name == ".text"), None)
        return code is None or code.type != SHT_NOBITS

    @cached_property
    def soname(self) -> str | None:
        """DT_SONAME of the dynamic section."""
        dynamic = next((s for s in self.sections if s.name == ".dynamic"), None)
        if dynamic is None or dynamic.link >= len(self.sections):
            return None
        strings = self.sections[dynamic.link]
        raw = self.data[dynamic.offset : dynamic.offset + dynamic.size]
        row = self.header.layout.dynamic
        for tag, value in row.iter_unpack(raw[: len(raw) // row.size * row.size]):
            if tag == _DT_SONAME:
                return text_at(self.data[strings.offset : strings.offset + strings.size], value)
        return None

    def symbol_named(self, name: str) -> Symbol | None:
        """A defined symbol of that exact name (symbol versions are not part of the name)."""
        return self._answers.get(("symbol", name), lambda: self._symbol_named(name))

    def _symbol_named(self, name: str) -> Symbol | None:
        wanted = name.encode() + b"\0"
        # What is asked for is mostly exported, and .dynsym has a seventh of .symtab's rows.
        for table in sorted(self._symbol_tables, key=lambda found: not found.dynamic):
            offsets = _offsets_of(bytes(table.names), wanted)
            for row in self.header.layout.symbols(table.rows) if offsets else ():
                if row[0] in offsets and row[3]:
                    return Symbol(name=name, address=row[4], size=row[5])
        return None

    def function_at(self, address: int) -> Symbol | None:
        """The function that covers `address`; without a name where only unwind tables know it.

        Where several names stand for one function, the exported and plainest one is given: `raise`
        rather than `__GI_raise`.
        """
        return self._answers.get(("function", address), lambda: self._function_at(address))

    def _function_at(self, address: int) -> Symbol | None:
        for table in self._symbol_tables:
            found = [
                row
                for row in self.header.layout.symbols(table.rows)
                if row[4] <= address < row[4] + row[5] and row[1] & 15 in _FUNCTION_TYPES and row[3]
            ]
            if found:
                start = max(row[4] for row in found)
                named = [(text_at(table.names, row[0]), row) for row in found if row[4] == start]
                name, row = min(named, key=_plainness)
                return Symbol(name=name, address=start, size=row[5])
        start_only = self.unwind_start(address)
        return None if start_only is None else Symbol(name="", address=start_only, size=0)

    def find_code(self, wanted: bytes) -> tuple[int, ...]:
        """Every address where executable memory holds these bytes."""
        return self._answers.get(("code", wanted), lambda: tuple(self._find_code(wanted)))

    def _find_code(self, wanted: bytes) -> Iterator[int]:
        for segment in self.segments:
            if segment.type == PT_LOAD and segment.flags & _PF_X:
                size = min(segment.file_size, _MAX_CODE)
                code = bytes(self.data[segment.offset : segment.offset + size])
                at = code.find(wanted)
                while at >= 0:
                    yield segment.address + at
                    at = code.find(wanted, at + 1)

    @cached_property
    def _answers(self) -> _Answers:
        """A file is asked the same for each of a thousand cores."""
        return _Answers()

    @cached_property
    def imports_by_slot(self) -> dict[int, str]:
        """Where the dynamic linker stores an imported function's address → that function's name."""
        dynsym = next((table for table in self._symbol_tables if table.dynamic), None)
        layout = self.header.layout
        machine = machine_of(self.header.machine, layout.word_size, layout.byte_order)
        if dynsym is None or machine is None:
            return {}
        imports = {machine.jump_slot, machine.glob_dat}
        rows = list(self.header.layout.symbols(dynsym.rows))
        slots: dict[int, str] = {}
        for section in self.sections:
            if section.name not in _RELOCATIONS:
                continue
            raw = self.data[section.offset : section.offset + section.size]
            for where, index, kind in self.header.layout.relocations(raw):
                if kind in imports and 0 < index < len(rows):
                    slots[where] = text_at(dynsym.names, rows[index][0])
        return slots

    @property
    def dynamic_address(self) -> int | None:
        """Where the dynamic section lies; None in a static program."""
        return next((s.address for s in self.segments if s.type == _PT_DYNAMIC), None)

    def bias_by(self, told: ProgramHeaders) -> int | None:
        """How far from its own addresses the file was mapped; None where it is another file.

        The number of its headers and the way from them to its entry point must be the told ones.
        """
        for segment in self.segments:
            inside = self.header.phoff - segment.offset
            if segment.type == PT_LOAD and 0 <= inside < segment.file_size:
                bias = told.address - (segment.address + inside)
                fits = (told.count, told.entry) == (self.header.phnum, self.header.entry + bias)
                return bias if fits and bias >= 0 else None
        return None

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes at an (unbiased) address, as far as the file backs them."""
        for segment in self.segments:
            start = address - segment.address
            if segment.type == PT_LOAD and start >= 0 and start + size <= segment.file_size:
                offset = segment.offset + start
                chunk = bytes(self.data[offset : offset + size])
                return chunk if len(chunk) == size else None
        return None

    @cached_property
    def _symbol_tables(self) -> tuple[_SymbolTable, ...]:
        """.symtab before .dynsym: it has the local names too, and may lie in the debug file."""
        separate = self.debug._own_tables(".symtab") if self.debug else ()
        return (*self._own_tables(".symtab"), *separate, *self._own_tables(".dynsym"))

    def _own_tables(self, kind: str) -> tuple[_SymbolTable, ...]:
        return tuple(
            self._table(section)
            for section in self.sections
            if section.name == kind and section.link < len(self.sections)
        )

    def _table(self, section: Section) -> _SymbolTable:
        strings = self.sections[section.link]
        raw = self.data[section.offset : section.offset + section.size]
        size = self.header.layout.symbol.size
        count = min(len(raw) // size, _MAX_SYMBOLS)
        return _SymbolTable(
            dynamic=section.name == ".dynsym",
            rows=raw[: count * size],
            names=self.data[strings.offset : strings.offset + strings.size],
        )

    def unwind_start(self, address: int) -> int | None:
        """Where the code that `address` is part of begins, as the unwind tables have it.

        It is looked up in .eh_frame_hdr's sorted table (LSB core spec, "DWARF extensions").
        """
        base, starts = self._unwind_starts
        at = bisect_right(starts, address - base)
        return starts[at - 1] + base if at else None

    @cached_property
    def _unwind_starts(self) -> tuple[int, list[int]]:
        """Beginnings of code, counted from the address of .eh_frame_hdr; and that."""
        for segment in self.segments:
            if segment.type != PT_GNU_EH_FRAME:
                continue
            raw = self.data[segment.offset : segment.offset + segment.file_size]
            # Version 1, count as udata4, table as datarel sdata4: what GNU ld, gold and lld write.
            if len(raw) < 12 or raw[0] != 1 or raw[2] != 0x03 or raw[3] != 0x3B:
                break
            order = self.header.layout.byte_order
            count = min(int.from_bytes(raw[8:12], order), (len(raw) - 12) // 8)
            table = memoryview(bytes(raw[12 : 12 + count * 8]))
            if order == sys.byteorder:
                return segment.address, table.cast("i")[::2].tolist()
            return segment.address, [start for start, _ in struct.iter_unpack(">ii", table)]
        return 0, []


def parse_module(data: Bytes) -> ModuleFile:
    """Read an ELF file's headers; everything else follows when it is asked for.

    Raises:
        EvidenceError: not an ELF file that is read here.

    """
    header = parse_header(data)
    if not has_segments(data, header):
        raise EvidenceError(
            "an ELF file without program headers", remedy="give a linked executable or library"
        )
    return ModuleFile(data=data, header=header)


def _plainness(named: tuple[str, tuple[int, int, int, int, int, int]]) -> tuple[bool, int, int]:
    name, row = named
    exported = row[1] >> 4 in _EXPORTED
    return (not exported, len(name) - len(name.lstrip("_")), len(name))


def _offsets_of(raw: bytes, wanted: bytes) -> set[int]:
    """Where a string table holds `wanted`, also as the tail of another (linkers share tails)."""
    offsets: set[int] = set()
    at = raw.find(wanted)
    while at >= 0 and len(offsets) < _MAX_TAILS:
        offsets.add(at)
        at = raw.find(wanted, at + 1)
    return offsets
