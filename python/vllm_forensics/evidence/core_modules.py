"""The modules that a core maps: NT_FILE's list, and the first page of each file in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_notes import MappedFile
from vllm_forensics.evidence.core_regions import Regions, split_deleted
from vllm_forensics.evidence.elf import (
    PF_R,
    PT_LOAD,
    PT_NOTE,
    Header,
    Segment,
    build_id_of,
    parse_header,
    parse_notes,
    parse_segments,
)
from vllm_forensics.model.process import Address, Module

_MAX_HEAD: Final = 1 << 16
"""Headers and notes lie at the beginning of a file."""

Read = Callable[[Address, int], bytes]
"""What the core holds at an address, at most so many bytes."""
FoundModule = tuple[Module, list[tuple[MappedFile, int]]]
"""A module, and its mappings each with the flags of the segment that it was mapped for."""


class ModuleTable:
    """Modules in the order of their addresses, looked up by address."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        """In any order."""
        self.modules = tuple(sorted(modules, key=lambda module: module.start))
        self._starts = [module.start for module in self.modules]

    def at(self, address: Address) -> Module | None:
        """The module that covers `address`."""
        at = bisect_right(self._starts, address) - 1
        return self.modules[at] if at >= 0 and address < self.modules[at].end else None


def find_modules(
    files: Sequence[MappedFile], regions: Regions, read: Read, page_size: int
) -> Iterator[FoundModule]:
    """One module a file whose first page is an ELF header; its other mappings follow it."""
    ordered = sorted(files, key=lambda file: file.start)
    at = 0
    while at < len(ordered):
        begin, first = at, ordered[at]
        at += 1
        if first.offset:
            continue
        while at < len(ordered) and ordered[at].path == first.path and ordered[at].offset:
            at += 1
        parts = ordered[begin:at]
        region = regions.at(first.start)
        size = min(first.end - first.start, region.file_size if region else 0, _MAX_HEAD)
        head = read(first.start, size) if size else b""
        found = (
            _by_headers(memoryview(head), parts, read, page_size)
            if head.startswith(b"\x7fELF")
            else _by_rights(parts, regions)
        )
        if found is not None:
            yield found


def _by_headers(
    head: memoryview, parts: list[MappedFile], read: Read, page_size: int
) -> FoundModule | None:
    try:
        header = parse_header(head)
        segments = parse_segments(head, header)
    except EvidenceError:
        return None
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    bias = parts[0].start - (loads[0].address & -page_size if loads else 0)
    notes = _notes(head, segments, bias, read)
    build_id = next(filter(None, (_build_id(*note, header) for note in notes)), None)
    return _module(parts, bias, build_id), [
        (part, _flags_at(loads, part.offset, page_size)) for part in parts
    ]


def _notes(
    head: memoryview, segments: tuple[Segment, ...], bias: Address, read: Read
) -> Iterator[tuple[memoryview, int]]:
    """Each note segment's bytes and alignment.

    patchelf, and so auditwheel, may move the build-id behind the file's old end, into a segment
    that is written to: torch's libgomp.so.1 has it at 0x238000. The core holds that segment whole.
    """
    for segment in segments:
        if segment.type == PT_NOTE:
            raw = head[segment.offset :][: segment.file_size]
            if len(raw) < segment.file_size <= _MAX_HEAD:
                raw = memoryview(read(bias + segment.address, segment.file_size))
            yield raw, segment.align


def _build_id(raw: memoryview, align: int, header: Header) -> str | None:
    return build_id_of(parse_notes(raw, align, header.layout))


def _by_rights(parts: list[MappedFile], regions: Regions) -> FoundModule | None:
    """Code without its ELF header, as coredump_filter may leave it: who it is is not known."""
    within = regions.between(parts[0].start, _end(parts))
    if not any(region.mapping.executable for region in within):
        return None
    return _module(parts, parts[0].start, None), []


def _module(parts: list[MappedFile], bias: Address, build_id: str | None) -> Module:
    path, deleted = split_deleted(parts[0].path)
    return Module(
        path=path, start=parts[0].start, end=_end(parts), bias=bias, build_id=build_id,
        deleted=deleted,
    )  # fmt: skip


def _end(parts: list[MappedFile]) -> Address:
    return max(part.end for part in parts)


def _flags_at(loads: list[Segment], offset: int, page_size: int) -> int:
    """The rights of the segment that a file offset was mapped for; readable where none fits."""
    for segment in loads:
        if segment.offset & -page_size <= offset < segment.offset + segment.file_size:
            return segment.flags
    return PF_R
