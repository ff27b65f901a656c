"""An index of debug information for gdb that knows a few addresses only.

gdb reads all of a module's debug information to find one function: five seconds for a module of
vLLM's with 88 MB of it. With an index of every unit's place, and of the few addresses that will be
asked for, it reads the units of those. The format is .gdb_index, version 8 (GDB manual, "Index
Section Format"); gdb takes it from its cache of indexes, by the module's build-id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from vllm_forensics.evidence.elf import Bytes
from vllm_forensics.evidence.modules import ModuleFile

_VERSION: Final = 8
_HEADER: Final = struct.Struct("<6I")
_UNIT: Final = struct.Struct("<QQ")
_RANGE: Final = struct.Struct("<QQI")
_NO_SYMBOLS: Final = bytes(1024 * 8)
"""A hash table whose every slot is empty: no name is looked up by it."""
_NO_NAMES: Final = bytes(8)
"""The constant pool. gdb 13 takes no index that ends where its pool begins."""
_SET: Final = struct.Struct("<IHIBB")
_PLAIN: Final = struct.Struct("<IH")
_MAX_UNITS: Final = 200_000
_MAX_RANGES: Final = 500_000
_VERSIONS: Final = range(2, 6)
_COMPILE_UNIT: Final = 1
_WIDE: Final = 0xFFFF_FFF0


class UnitRange(NamedTuple):
    """Addresses of one unit's code, and where the unit lies in .debug_info."""

    start: int
    end: int
    offset: int
    size: int


class UnitTable:
    """The units of a module's debug information, by the addresses of their code.

    It is empty where they cannot be told without reading all: compressed, of other byte orders,
    with types in units of their own, or without .debug_aranges.
    """

    def __init__(self, file: ModuleFile) -> None:
        """`file` holds the debug information itself."""
        is_little = file.header.layout.byte_order == "little"
        info = _section(file, ".debug_info") if is_little else memoryview(b"")
        self.size = len(_section(file, ".debug_info"))
        """Bytes of .debug_info."""
        self._units = _units(info)
        self._aranges = _section(file, ".debug_aranges")

    def at(self, addresses: Iterable[int]) -> dict[int, UnitRange]:
        """The range of each address that some unit has."""
        wanted = sorted(set(addresses))
        found: dict[int, UnitRange] = {}
        if not self._units or not wanted:
            return found
        for start, end, offset in _ranges(self._aranges):
            if end <= wanted[0] or start > wanted[-1] or offset not in self._units:
                continue
            for address in wanted:
                if start <= address < end:
                    found[address] = UnitRange(start, end, offset, self._units[offset])
        return found

    def index(self, ranges: Iterable[UnitRange]) -> bytes:
        """The index that knows these ranges."""
        numbers = {offset: number for number, offset in enumerate(self._units)}
        units = b"".join(_UNIT.pack(*unit) for unit in self._units.items())
        places = b"".join(
            _RANGE.pack(one.start, one.end, numbers[one.offset]) for one in sorted(set(ranges))
        )
        types_at = _HEADER.size + len(units)
        symbols_at = types_at + len(places)
        names_at = symbols_at + len(_NO_SYMBOLS)
        head = _HEADER.pack(_VERSION, _HEADER.size, types_at, types_at, symbols_at, names_at)
        return head + units + places + _NO_SYMBOLS + _NO_NAMES


def _section(file: ModuleFile, name: str) -> Bytes:
    found = next((section for section in file.sections if section.name == name), None)
    return memoryview(b"") if found is None else file.data[found.offset :][: found.size]


def _units(info: Bytes) -> dict[int, int]:
    """Each unit's offset and whole size; nothing where one is not understood."""
    units: dict[int, int] = {}
    at = 0
    while at + 12 <= len(info):
        length, version = _PLAIN.unpack_from(info, at)
        is_compile_unit = version < 5 or info[at + 6] == _COMPILE_UNIT
        size = length + 4
        is_sound = 12 <= size <= len(info) - at and length < _WIDE and version in _VERSIONS
        if not is_sound or not is_compile_unit or len(units) >= _MAX_UNITS:
            return {}
        units[at] = size
        at += size
    return units


def _ranges(aranges: Bytes) -> Iterator[tuple[int, int, int]]:
    """Start, end and unit of each range (DWARF 5, section 6.1.2)."""
    at = count = 0
    while at + _SET.size <= len(aranges):
        length, version, offset, address_size, segment_size = _SET.unpack_from(aranges, at)
        end = at + 4 + length
        if version != 2 or segment_size or address_size not in {4, 8} or end > len(aranges):
            return
        pair = struct.Struct("<QQ" if address_size == 8 else "<II")
        # Tuples are aligned to their own size, counted from the set's beginning.
        first = at + -(-_SET.size // pair.size) * pair.size
        table = aranges[first:end]
        for start, size in pair.iter_unpack(table[: len(table) // pair.size * pair.size]):
            count += 1
            if count > _MAX_RANGES:
                return
            if size:
                yield start, start + size, offset
        at = end
