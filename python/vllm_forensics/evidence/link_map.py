"""The libraries of a core that lists no files, by the dynamic linker's own list of them.

The program's DT_DEBUG entry points to a `struct r_debug`, whose r_map begins a chain of `struct
link_map` (glibc's and musl's <link.h>; the layout is an interface to debuggers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from vllm_forensics.evidence.elf import PT_LOAD, text_at
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.answer import Answer, Known
from vllm_forensics.model.process import Address, Architecture, Mapping, Module

PT_DYNAMIC: Final = 2
_DT_NULL: Final = 0
_DT_DEBUG: Final = 21
_MAX_LIBRARIES: Final = 1024
_MAX_DYNAMIC: Final = 16 << 10
_NAME_SIZES: Final = (4096, 1024, 256, 64, 16)


class Memory(Protocol):
    """The part of a core that is needed here."""

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """Exactly `size` bytes at `address`."""

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """The mapping that covers `address`."""


def loaded_libraries(
    memory: Memory, architecture: Architecture, program: ModuleFile, bias: int
) -> Iterator[Module]:
    """Each library with the extent that the core's mappings show, not yet checked."""
    debug = dict(_entries(memory, program, bias)).get(_DT_DEBUG, 0)
    size, order = architecture.word_size, architecture.byte_order

    def words(address: Address, count: int) -> tuple[int, ...] | None:
        raw = memory.read(address, count * size) if address > 0 else None
        if not isinstance(raw, Known):
            return None
        parts = (raw.value[at : at + size] for at in range(0, count * size, size))
        return tuple(int.from_bytes(part, order) for part in parts)

    head = words(debug, 2)  # r_version, r_map
    at = head[1] if head else 0
    seen: set[Address] = set()
    while at and at not in seen and len(seen) < _MAX_LIBRARIES:
        seen.add(at)
        entry = words(at, 4)  # l_addr, l_name, l_ld, l_next
        if entry is None:
            return
        start, name, dynamic, at = entry
        path = text_in(memory, name)
        mapping = memory.mapping_at(dynamic)
        if path.startswith("/") and isinstance(mapping, Known) and start < dynamic:
            yield Module(
                path=path,
                start=start,
                end=mapping.value.end,
                bias=start,
                build_id=None,
                dynamic=dynamic,
            )


def placed_library(
    memory: Memory, listed: Module, file: ModuleFile, page_size: int
) -> Module | None:
    """The library where its file says; None where its dynamic section is another file's."""
    loads = [segment for segment in file.segments if segment.type == PT_LOAD]
    if not loads or not has_same_dynamic(memory, file, listed.bias):
        return None
    end = max(segment.address + segment.memory_size for segment in loads)
    return replace(
        listed,
        start=listed.bias + (min(segment.address for segment in loads) & -page_size),
        end=listed.bias + (end + page_size - 1 & -page_size),
    )


def has_same_dynamic(memory: Memory, file: ModuleFile, bias: int) -> bool:
    """Is the dynamic section in memory the file's? True where the core does not hold it.

    It tells the sizes and places of every table, which seldom agree between two builds. The dynamic
    linker adds the bias to addresses, and writes into DT_DEBUG.
    """
    held = list(_entries(memory, file, bias))
    own = list(_file_entries(file))
    if not held:
        return True
    return len(held) == len(own) and all(
        tag == own_tag and (tag == _DT_DEBUG or value in {own_value, own_value + bias})
        for (tag, value), (own_tag, own_value) in zip(held, own, strict=True)
    )


def text_in(memory: Memory, address: Address) -> str:
    """A NUL-terminated string in memory; empty where there is none."""
    for size in _NAME_SIZES if address > 0 else ():
        held = memory.read(address, size)
        if isinstance(held, Known) and 0 in held.value:
            return text_at(memoryview(held.value), 0)
    return ""


def _entries(memory: Memory, file: ModuleFile, bias: int) -> Iterator[tuple[int, int]]:
    """Tag and value of each entry of a dynamic section, as it stands in memory."""
    for segment in file.segments:
        if segment.type == PT_DYNAMIC:
            size = min(segment.file_size, _MAX_DYNAMIC)
            held = memory.read(segment.address + bias, size)
            if isinstance(held, Known):
                yield from _parse(file, held.value)


def _file_entries(file: ModuleFile) -> Iterator[tuple[int, int]]:
    for segment in file.segments:
        if segment.type == PT_DYNAMIC:
            size = min(segment.file_size, _MAX_DYNAMIC)
            yield from _parse(file, bytes(file.data[segment.offset : segment.offset + size]))


def _parse(file: ModuleFile, raw: bytes) -> Iterator[tuple[int, int]]:
    row = file.header.layout.dynamic
    for tag, value in row.iter_unpack(raw[: len(raw) // row.size * row.size]):
        if tag == _DT_NULL:
            return
        yield tag, value
