"""Which shared libraries an ELF file asks for: DT_NEEDED of its dynamic section (elf(5))."""

from __future__ import annotations

from typing import Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.elf import PT_LOAD, Bytes, parse_header, parse_segments, text_at

_PT_DYNAMIC: Final = 2
_DT_NEEDED, _DT_STRTAB = 1, 5
_MAX_ENTRIES: Final = 4096


def needed_libraries(data: Bytes) -> tuple[str, ...]:
    """The names in the order in which they are loaded; none of what is damaged or no ELF file."""
    try:
        header = parse_header(data)
        segments = parse_segments(data, header)
    except EvidenceError:
        return ()
    dynamic = next((segment for segment in segments if segment.type == _PT_DYNAMIC), None)
    if dynamic is None:
        return ()
    row = header.layout.dynamic
    size = min(dynamic.file_size, _MAX_ENTRIES * row.size)
    table = data[dynamic.offset : dynamic.offset + size]
    entries = list(row.iter_unpack(table[: len(table) // row.size * row.size]))
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
