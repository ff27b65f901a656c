"""Who compiled each translation unit, and with which flags: the first entry of each DWARF unit.

Read are versions 2 to 5 (DWARF 5, sections 7.5.1, 7.5.3 and 7.5.6), in plain and in zlib-compressed
sections. A unit that cannot be followed is passed over; the walk goes on at the next one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vllm_forensics.evidence.elf import Bytes, text_at
from vllm_forensics.evidence.modules import ModuleFile

_MAX_UNITS: Final = 200_000
_MAX_ATTRIBUTES: Final = 200
_LONGEST_TEXT: Final = 1 << 16
_MAX_INFLATED: Final = 1 << 30
_CHDR = struct.Struct("<IIQQ")
_ZLIB_HEADER: Final = bytes((1, 0, 0, 0, 0, 0, 0, 0))  # ELFCOMPRESS_ZLIB
_DW_AT_NAME: Final = 0x03
_DW_AT_COMP_DIR: Final = 0x1B
_DW_AT_PRODUCER: Final = 0x25
_DW_AT_STR_OFFSETS_BASE: Final = 0x72
_DW_FORM_ADDR: Final = 0x01
_DW_FORM_REF_ADDR: Final = 0x10
_DW_FORM_STRING: Final = 0x08
_DW_FORM_INDIRECT: Final = 0x16
_DW_FORM_IMPLICIT_CONST: Final = 0x21
_DW_UT_WITH_ID: Final = {0x04, 0x05}  # skeleton, split_compile: eight more bytes, the dwo_id
_DW_UT_TYPES: Final = {0x02, 0x06}  # type, split_type: not a translation unit
# Sizes of DWARF forms in bytes; "offset" and "address" stand for 4 or 8 as the unit says.
_FIXED: Final = {
    0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x19: 0,
    0x1C: 4, 0x1E: 16, 0x20: 8, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2,
    0x2B: 3, 0x2C: 4,
}  # fmt: skip
_OFFSETS: Final = {0x0E, 0x10, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21}
_LEBS: Final = {0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02}
_BLOCKS: Final = {0x03: 2, 0x04: 4, 0x0A: 1}  # block2, block4, block1: the size of their length
_LEB_BLOCKS: Final = {0x09, 0x18}  # block, exprloc
_Attributes = tuple[tuple[int, int], ...]
_STRX: Final = {0x1A, 0x25, 0x26, 0x27, 0x28}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileUnit:
    """One translation unit, as its debug information describes it."""

    name: str
    """The source as the compiler was given it."""
    folder: str
    """Where the compiler ran."""
    producer: str
    """The compiler with its version, and its flags where it records them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    version: int
    wide: bool
    """64-bit DWARF: offsets of eight bytes."""
    address_size: int
    abbreviations: int
    first_entry: int
    end: int


class _Sections:
    """The debug sections of one file, inflated when they are first asked for."""

    def __init__(self, module: ModuleFile) -> None:
        self._module = module
        self._read: dict[str, Bytes] = {}

    def __getitem__(self, name: str) -> Bytes:
        if name not in self._read:
            self._read[name] = _section(self._module, name)
        return self._read[name]


def compile_units(module: ModuleFile) -> Iterator[CompileUnit]:
    """Every translation unit of the file's own debug information, in its order."""
    sections = _Sections(module)
    tables: dict[int, dict[int, _Attributes]] = {}
    for unit in _units(sections[".debug_info"]):
        try:
            if unit.abbreviations not in tables:
                tables[unit.abbreviations] = _abbreviations(
                    sections[".debug_abbrev"], unit.abbreviations
                )
            found = _first_entry(sections, unit, tables[unit.abbreviations])
        except (IndexError, struct.error, KeyError):
            continue
        if found is not None:
            yield found


def _section(module: ModuleFile, name: str) -> Bytes:
    section = next((one for one in module.sections if one.name == name), None)
    if section is None:
        return memoryview(b"")
    raw = module.data[section.offset : section.offset + section.size]
    # Elf64_Chdr: a type, a reserved zero, the size. No plain debug section begins with 1 and 0 so.
    if len(raw) < _CHDR.size or bytes(raw[:8]) != _ZLIB_HEADER:
        return raw
    size = _CHDR.unpack_from(raw)[2]
    try:
        inflated = zlib.decompressobj().decompress(bytes(raw[_CHDR.size :]), _MAX_INFLATED)
    except zlib.error:
        return memoryview(b"")
    return memoryview(inflated if len(inflated) == size else b"")


def _units(info: Bytes) -> Iterator[_Unit]:
    at = 0
    for _ in range(_MAX_UNITS):
        if at + 12 > len(info):
            return
        length, start = int.from_bytes(info[at : at + 4], "little"), at + 4
        wide = length == 0xFFFFFFFF
        if wide:
            length, start = int.from_bytes(info[start : start + 8], "little"), start + 8
        end = start + length
        if end > len(info) or length == 0:
            return
        unit = _header(info, start, end, wide=wide)
        if unit is not None:
            yield unit
        at = end


def _header(info: Bytes, start: int, end: int, *, wide: bool) -> _Unit | None:
    size = 8 if wide else 4
    version = int.from_bytes(info[start : start + 2], "little")
    if not 2 <= version <= 5 or start + 4 + size > end:
        return None
    at = start + 2
    if version < 5:
        abbreviations = int.from_bytes(info[at : at + size], "little")
        address_size, at = info[at + size], at + size + 1
    else:
        kind, address_size = info[at], info[at + 1]
        abbreviations = int.from_bytes(info[at + 2 : at + 2 + size], "little")
        at += 2 + size + (8 if kind in _DW_UT_WITH_ID else 0)
        if kind in _DW_UT_TYPES:
            return None
    return _Unit(
        version=version,
        wide=wide,
        address_size=address_size,
        abbreviations=abbreviations,
        first_entry=at,
        end=end,
    )


def _abbreviations(table: Bytes, offset: int) -> dict[int, _Attributes]:
    """The first entries of an abbreviation table: code → attributes with their forms.

    A unit's own entry nearly always has code 1; so only the table's beginning is read.
    """
    found: dict[int, _Attributes] = {}
    at = offset
    for _ in range(_MAX_ATTRIBUTES):
        code, at = _uleb(table, at)
        if code == 0:
            break
        _, at = _uleb(table, at)
        at += 1
        attributes = []
        while True:
            name, at = _uleb(table, at)
            form, at = _uleb(table, at)
            if form == _DW_FORM_IMPLICIT_CONST:
                _, at = _uleb(table, at)
            if name == 0 and form == 0:
                break
            attributes.append((name, form))
        found[code] = tuple(attributes)
    return found


def _first_entry(
    sections: _Sections, unit: _Unit, table: dict[int, _Attributes]
) -> CompileUnit | None:
    info = sections[".debug_info"]
    code, at = _uleb(info, unit.first_entry)
    places: dict[int, tuple[int, int]] = {}
    for attribute, declared in table[code][:_MAX_ATTRIBUTES]:
        form = declared
        if form == _DW_FORM_INDIRECT:
            form, at = _uleb(info, at)
        places[attribute] = (form, at)
        at = _after(info, at, form, unit)
        if at > unit.end:
            return None
    if _DW_AT_PRODUCER not in places:
        return None
    base = 0
    if _DW_AT_STR_OFFSETS_BASE in places:
        where = places[_DW_AT_STR_OFFSETS_BASE][1]
        base = int.from_bytes(info[where : where + (8 if unit.wide else 4)], "little")
    texts = {
        attribute: _text(sections, unit, place, base)
        for attribute, place in places.items()
        if attribute in {_DW_AT_NAME, _DW_AT_COMP_DIR, _DW_AT_PRODUCER}
    }
    return CompileUnit(
        name=texts.get(_DW_AT_NAME, ""),
        folder=texts.get(_DW_AT_COMP_DIR, ""),
        producer=texts[_DW_AT_PRODUCER],
    )


def _after(info: Bytes, at: int, form: int, unit: _Unit) -> int:
    """Where the value of a form ends. Raises KeyError for a form that no version has."""
    if form in _LEBS:
        return _uleb(info, at)[1]
    if form == _DW_FORM_STRING:
        return at + len(text_at(info, at, _LONGEST_TEXT).encode("utf-8", "surrogateescape")) + 1
    if form in _LEB_BLOCKS:
        length, at = _uleb(info, at)
        return at + length
    if form in _BLOCKS:
        size = _BLOCKS[form]
        return at + size + int.from_bytes(info[at : at + size], "little")
    return at + _size_of(form, unit)


def _size_of(form: int, unit: _Unit) -> int:
    # DW_FORM_ref_addr was as wide as an address in version 2.
    if form == _DW_FORM_ADDR or (form == _DW_FORM_REF_ADDR and unit.version == 2):
        return unit.address_size
    if form in _OFFSETS:
        return 8 if unit.wide else 4
    return _FIXED[form]


def _text(sections: _Sections, unit: _Unit, place: tuple[int, int], base: int) -> str:
    form, at = place
    info, size = sections[".debug_info"], 8 if unit.wide else 4
    if form == _DW_FORM_STRING:
        return text_at(info, at, _LONGEST_TEXT)
    if form in {0x0E, 0x1F}:  # strp, line_strp
        name = ".debug_str" if form == 0x0E else ".debug_line_str"
        return text_at(
            sections[name], int.from_bytes(info[at : at + size], "little"), _LONGEST_TEXT
        )
    if form in _STRX:
        index = (
            _uleb(info, at)[0]
            if form == 0x1A
            else int.from_bytes(info[at : at + _FIXED[form]], "little")
        )
        row = base + index * size
        offsets = sections[".debug_str_offsets"]
        return text_at(
            sections[".debug_str"], int.from_bytes(offsets[row : row + size], "little"), 1 << 16
        )
    return ""


def _uleb(data: Bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 70:
            raise IndexError
