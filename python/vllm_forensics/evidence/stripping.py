"""Compares a library with its stripped copy: the loader must see the same."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.elf import PT_LOAD, SHT_NOBITS, Bytes
from vllm_forensics.evidence.modules import ModuleFile

_PAGE: Final = 4096
_CHUNK: Final = 1 << 22


def loads_the_same(whole: ModuleFile, stripped: ModuleFile) -> bool:
    """Are the segments at the same addresses, mappable, with the same contents in each section?

    The ELF and program headers are mapped too; they say where things lie in the file, and differ.
    """
    kinds = [(s.type, s.flags, s.address, s.memory_size) for s in whole.segments]
    if kinds != [(s.type, s.flags, s.address, s.memory_size) for s in stripped.segments]:
        return False
    for segment in stripped.segments:
        if segment.type == PT_LOAD and (segment.offset - segment.address) % _PAGE:
            return False
    ours = {s.name: s for s in stripped.sections if s.address}
    for section in whole.sections:
        if not section.address:
            continue
        kept = ours.get(section.name)
        place = (section.type, section.address, section.size)
        if kept is None or (kept.type, kept.address, kept.size) != place:
            return False
        if section.type == SHT_NOBITS:
            continue
        before = whole.data[section.offset : section.offset + section.size]
        if not _equal(before, _mapped(stripped, section.address, section.size)):
            return False
    return True


def _mapped(module: ModuleFile, address: int, size: int) -> Bytes:
    """What the loader puts at an address, without copying; empty where the file backs it not."""
    for segment in module.segments:
        start = address - segment.address
        if segment.type == PT_LOAD and start >= 0 and start + size <= segment.file_size:
            return module.data[segment.offset + start : segment.offset + start + size]
    return module.data[:0]


def _equal(one: Bytes, other: Bytes) -> bool:
    if len(one) != len(other):
        return False
    return all(
        bytes(one[at : at + _CHUNK]) == bytes(other[at : at + _CHUNK])
        for at in range(0, len(one), _CHUNK)
    )
