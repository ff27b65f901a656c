"""A core's memory: what its segments hold, and unmodified pages out of the files behind them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Final

from vllm_forensics.evidence.core_regions import Regions
from vllm_forensics.evidence.elf import Bytes
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import (
    Address,
    Architecture,
    Mapping,
    Module,
    StackWords,
    Thread,
)

_MAX_STACK: Final = 1 << 20
_MAX_SEARCH: Final = 256 << 20
_CHUNK: Final = 1 << 20
_AROUND: Final = 512

FileBehind = Callable[[Address], tuple[Module, Answer[ModuleFile]] | None]
"""The module at an address, with the very file that was mapped."""


class CoreMemory:
    """Bytes by their addresses."""

    def __init__(self, data: Bytes, regions: Regions, file_behind: FileBehind) -> None:
        """`data` is the whole core, usually a memory map of the file."""
        self._data = data
        self._regions = regions
        self._file_behind = file_behind

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """See `Image.read`."""
        parts = bytearray()
        while len(parts) < size:
            part = self.read_some(address + len(parts), size - len(parts))
            if isinstance(part, Gap):
                return part
            parts += part
        return Known(value=bytes(parts))

    def read_some(self, address: Address, size: int) -> bytes | Gap:
        """At least one byte, at most `size`: what one mapping has."""
        region = self._regions.at(address)
        if region is None:
            return Gap(what=f"nothing is mapped at {address:#x}")
        start = address - region.mapping.start
        if start >= region.file_size:
            size = min(size, region.mapping.end - address)
            return self._read_from_file(region.mapping, address, size)
        chunk = self.held(address, size)
        if chunk:
            return chunk
        return Gap(
            what=f"the core is truncated before the memory at {address:#x}",
            remedy="raise the core limit or free disk space, and crash again",
        )

    def held(self, address: Address, size: int) -> bytes:
        """What the core itself holds at `address`, at most `size` bytes of one segment."""
        region = self._regions.at(address)
        if region is None:
            return b""
        start = address - region.mapping.start
        offset = region.offset + start
        return bytes(self._data[offset : offset + max(0, min(size, region.file_size - start))])

    def stack_words(self, thread: Thread, machine: Architecture) -> Answer[StackWords]:
        """See `Image.stack_words`; at most a megabyte."""
        region = self._regions.at(thread.sp)
        if region is None:
            return Gap(what=f"the stack pointer {thread.sp:#x} lies in no mapping")
        size = machine.word_size
        start = thread.sp & -size
        stack = self.read(start, (min(region.mapping.end - start, _MAX_STACK)) & -size)
        if isinstance(stack, Gap):
            return stack
        words: Sequence[int] = memoryview(stack.value).cast("Q" if size == 8 else "I")
        if machine.byte_order != sys.byteorder:
            words = struct.unpack(f">{len(words)}Q", stack.value)
        return Known(value=StackWords(start=start, words=words))

    def find_text(self, needle: bytes) -> Answer[bytes]:
        """See `Image.find_text`; the first 256 MiB of writable memory are searched."""
        budget = _MAX_SEARCH
        for region in self._regions:
            if not region.mapping.writable or budget <= 0:
                continue
            end = min(region.offset + min(region.file_size, budget), len(self._data))
            budget -= region.file_size
            for start in range(region.offset, end, _CHUNK):
                chunk = bytes(self._data[start : min(start + _CHUNK + _AROUND, end)])
                at = chunk.find(needle)
                if at >= 0:
                    return Known(value=chunk[max(0, at - _AROUND) : at + _AROUND])
        shown = needle.decode("utf-8", "replace")
        return Gap(what=f"{shown!r} is not in the writable memory that the core holds")

    def _read_from_file(self, mapping: Mapping, address: Address, size: int) -> bytes | Gap:
        missing = Gap(
            what=f"the core does not hold the memory at {address:#x}",
            remedy="allow it in /proc/PID/coredump_filter (core(5)), and crash again",
        )
        behind = None if mapping.writable else self._file_behind(address)
        if behind is None:
            return missing
        module, file = behind
        if isinstance(file, Gap):
            return file
        if module.is_unlisted:  # the mapping does not know its file
            return file.value.read(address - module.bias, size) or missing
        offset = mapping.file_offset + address - mapping.start
        return bytes(file.value.data[offset : offset + size]) or missing
