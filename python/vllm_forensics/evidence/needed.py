"""Which shared libraries an ELF file asks for: DT_NEEDED of its dynamic section (elf(5))."""

from __future__ import annotations

import struct
from typing import Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import PT_LOAD, Bytes, parse_header, parse_segments, text_at

_PT_DYNAMIC: Final = 2
_DYN: Final = struct.Struct("<qQ")
_DT_NEEDED, _DT_STRTAB = 1, 5
_MAX_ENTRIES: Final = 4096


def needed_libraries(data: Bytes) -> tuple[str, ...]:
    """The names in the order in which they are loaded; none of what is damaged or no ELF file."""
    try:
        segments = parse_segments(data, parse_header(data))
    except EvidenceError:
        return ()
    dynamic = next((segment for segment in segments if segment.type == _PT_DYNAMIC), None)
    if dynamic is None:
        return ()
    size = min(dynamic.file_size, _MAX_ENTRIES * _DYN.size) // _DYN.size * _DYN.size
    table = data[dynamic.offset : dynamic.offset + size]
    entries = list(_DYN.iter_unpack(table[: len(table) // _DYN.size * _DYN.size]))
    address = next((value for tag, value in entries if tag == _DT_STRTAB), None)
    for segment in segments:
        if (
            address is not None
            and segment.type == PT_LOAD
            and segment.address <= address < segment.address + segment.file_size
        ):
            names = segment.offset + address - segment.address
            found = (text_at(data, names + value) for tag, value in entries if tag == _DT_NEEDED)
            return tuple(name for name in found if name)
    return ()
