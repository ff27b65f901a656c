"""What a module's own bytes say about offsets: is it code, does a call end there, who covers it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from vllm_forensics.evidence.elf import PF_X, PT_LOAD
from vllm_forensics.evidence.modules import ModuleFile

_FUNCTION_TYPES: Final = {2, 10}  # STT_FUNC, STT_GNU_IFUNC
_MAX_SYMBOLS: Final = 5_000_000
_X86_64: Final = 62
_AARCH64: Final = 183
# Intel's manual, CALL: E8 rel32, and FF /2 with every form of its operand; prefixes stand before.
_CALL: Final = re.compile(
    rb".*(?:\xe8....|\xff(?:[\xd0-\xd7]|[\x10-\x13\x16\x17]|\x14.|\x15....|[\x50-\x53\x55-\x57]."
    rb"|\x54..|[\x90-\x93\x95-\x97]....|\x94.....))",
    re.DOTALL,
)
_LONGEST_CALL: Final = 8
# mov $15, %rax; syscall: what a signal's handler returns to on x86-64.
_SIGNAL_RETURN: Final = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"


def is_code(module: ModuleFile, offset: int) -> bool:
    """Does the offset lie in a part of the module that is mapped to be executed?"""
    return any(
        segment.type == PT_LOAD
        and segment.flags & PF_X
        and segment.address <= offset < segment.address + segment.memory_size
        for segment in module.segments
    )


def ends_a_call(module: ModuleFile, offset: int) -> bool | None:
    """Does a call end at the offset? None where this cannot be told.

    On x86-64 the offset is that of the call's last byte, on AArch64 of the call itself.
    """
    if module.header.machine == _X86_64:
        start = offset + 1 - _LONGEST_CALL
        code = module.read(start, _LONGEST_CALL)
        return None if code is None else _CALL.fullmatch(code) is not None
    if module.header.machine == _AARCH64 and offset % 4 == 0:
        code = module.read(offset, 4)
        if code is None:
            return None
        word = int.from_bytes(code, "little")
        # BL, BLR and its forms with pointer authentication: Arm ARM, C4.1
        return word >> 26 == 0b100101 or word & 0xFEFFF000 == 0xD63F0000
    return None


def is_signal_return(module: ModuleFile, offset: int) -> bool:
    """Does the code at the offset return from a signal's handler? Known on x86-64 only."""
    return module.header.machine == _X86_64 and (
        module.read(offset, len(_SIGNAL_RETURN)) == _SIGNAL_RETURN
    )


def covered_by_symbols(module: ModuleFile, offsets: Iterable[int]) -> set[int]:
    """The offsets that lie inside of a function of the symbol tables, by its start and size.

    Symbolizers name the nearest symbol before an offset where none covers it: a wrong name.
    """
    wanted = sorted(set(offsets))
    covered: set[int] = set()
    for section in module.sections if wanted else ():
        if section.name not in {".symtab", ".dynsym"}:
            continue
        rows = module.data[section.offset : section.offset + section.size]
        layout = module.header.layout
        rows = rows[: min(len(rows) // layout.symbol.size, _MAX_SYMBOLS) * layout.symbol.size]
        for _, info, _, index, start, size in layout.symbols(rows):
            if info & 15 not in _FUNCTION_TYPES or not index or not size:
                continue
            first, end = bisect_left(wanted, start), bisect_left(wanted, start + size)
            covered.update(wanted[first:end])
            del wanted[first:end]  # each is found once, however many symbols claim it
    return covered
