"""A core's memory map: each PT_LOAD joined with the file that was mapped there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from vllm_forensics.evidence.core_notes import MappedFile
from vllm_forensics.evidence.elf import PF_R, PF_W, PF_X, PT_LOAD, Segment
from vllm_forensics.model.process import Address, Mapping
from vllm_forensics.model.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A PT_LOAD with what NT_FILE says of it, and the bytes that the core holds of it."""

    mapping: Mapping
    offset: int
    file_size: int


class Regions:
    """The regions in the order of their addresses, looked up by address."""

    def __init__(self, segments: tuple[Segment, ...], files: tuple[MappedFile, ...]) -> None:
        """Join the two tables."""
        self._regions = _join(segments, files)
        self._starts = [region.mapping.start for region in self._regions]

    def add_undumped(self, files: list[tuple[MappedFile, int]]) -> None:
        """Add mappings that NT_FILE lists and no PT_LOAD covers, each with its segment's flags.

        gdb's generate-core-file leaves unmodified file pages out of the table, the kernel does not.
        """
        self._regions += [
            _undumped(file, flags) for file, flags in files if not self.at(file.start)
        ]
        self._regions.sort(key=lambda region: region.mapping.start)
        self._starts = [region.mapping.start for region in self._regions]

    def __iter__(self) -> Iterator[Region]:
        """Every region, the lowest address first."""
        return iter(self._regions)

    def at(self, address: Address) -> Region | None:
        """The region that covers `address`."""
        at = bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._regions[at].mapping.end:
            return self._regions[at]
        return None

    def between(self, start: Address, end: Address) -> list[Region]:
        """The regions from the one at or before `start` to the last that begins before `end`."""
        low = max(0, bisect_right(self._starts, start) - 1)
        return self._regions[low : bisect_right(self._starts, end - 1)]


def split_deleted(path: str) -> tuple[str, bool]:
    """NT_FILE marks a file that was removed while mapped: "/usr/lib/x.so (deleted)"."""
    suffix = " (deleted)"
    return (path[: -len(suffix)], True) if path.endswith(suffix) else (path, False)


def _join(segments: tuple[Segment, ...], files: tuple[MappedFile, ...]) -> list[Region]:
    """Pair each PT_LOAD with the file that NT_FILE says was mapped there.

    The kernel splits one mapping into two segments where it dumps only the first page; both lie
    inside one NT_FILE entry.
    """
    ordered = sorted(files, key=lambda file: file.start)
    starts = [file.start for file in ordered]
    regions = []
    for segment in segments:
        if segment.type != PT_LOAD or not segment.memory_size:
            continue
        at = bisect_right(starts, segment.address) - 1
        file = ordered[at] if at >= 0 and segment.address < ordered[at].end else None
        path, deleted = split_deleted(file.path) if file else (None, False)
        regions.append(
            Region(
                mapping=Mapping(
                    start=segment.address,
                    end=segment.address + segment.memory_size,
                    readable=bool(segment.flags & PF_R),
                    writable=bool(segment.flags & PF_W),
                    executable=bool(segment.flags & PF_X),
                    path=path,
                    file_offset=file.offset + segment.address - file.start if file else 0,
                    deleted=deleted,
                ),
                offset=segment.offset,
                file_size=min(segment.file_size, segment.memory_size),
            )
        )
    regions.sort(key=lambda region: region.mapping.start)
    return regions


def _undumped(file: MappedFile, flags: int) -> Region:
    path, deleted = split_deleted(file.path)
    mapping = Mapping(
        start=file.start,
        end=file.end,
        readable=bool(flags & PF_R),
        writable=False,
        executable=bool(flags & PF_X),
        path=path,
        file_offset=file.offset,
        deleted=deleted,
    )
    return Region(mapping=mapping, offset=0, file_size=0)
