"""The program of a core that lists no files, by what the kernel told it of itself (getauxval(3)).

qemu-user 7.2 writes no NT_FILE and leaves the program's code and ELF header out: of its core of a
static aarch64 program, the one executable segment has a file size of 0. gdb 13's core of a remote
target has no NT_FILE, no NT_PRPSINFO and no strings either. The auxiliary vector is in both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from vllm_forensics.evidence.elf import PT_LOAD, PT_NOTE, build_id_of, parse_notes
from vllm_forensics.evidence.link_map import has_same_dynamic, text_in
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.answer import Answer, Known
from vllm_forensics.model.process import Address, Mapping, Module, Process, ProgramHeaders

AT_PHDR: Final = 3
_AT_PHNUM: Final = 5
_AT_ENTRY: Final = 9
_AT_EXECFN: Final = 31
_UNNAMED: Final = "(unnamed program)"
_MAX_NOTES: Final = 4096


class Memory(Protocol):
    """The part of a core that is needed here."""

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """Exactly `size` bytes at `address`."""

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """The mapping that covers `address`."""


def told_program(memory: Memory, process: Process) -> Module | None:
    """The program as a module that is not placed yet; None where the kernel told nothing."""
    auxv = process.auxv
    if not {AT_PHDR, _AT_PHNUM, _AT_ENTRY} <= auxv.keys():
        return None
    start = auxv[AT_PHDR] & -process.page_size
    named = text_in(memory, auxv.get(_AT_EXECFN, 0)) or process.command.partition(" ")[0]
    return Module(
        path=named or _UNNAMED,
        start=start,
        end=start + process.page_size,
        bias=start,
        build_id=None,
        headers=ProgramHeaders(address=auxv[AT_PHDR], count=auxv[_AT_PHNUM], entry=auxv[_AT_ENTRY]),
    )


def placed_program(memory: Memory, told: Module, file: ModuleFile, page_size: int) -> Module | None:
    """The program where its file says; None where the core shows that it is another file."""
    bias = file.bias_by(told.headers) if told.headers is not None else None
    loads = [segment for segment in file.segments if segment.type == PT_LOAD]
    if bias is None or not loads:
        return None
    build_id = _build_id_in(memory, file, bias)
    if build_id not in {None, file.build_id} or not has_same_dynamic(memory, file, bias):
        return None
    end = max(segment.address + segment.memory_size for segment in loads)
    return replace(
        told,
        start=bias + (min(segment.address for segment in loads) & -page_size),
        end=bias + (end + page_size - 1 & -page_size),
        bias=bias,
        build_id=build_id,
    )


def _build_id_in(memory: Memory, file: ModuleFile, bias: int) -> str | None:
    """The build-id in memory, at the place where the file has its own."""
    for segment in file.segments:
        if segment.type == PT_NOTE and segment.file_size <= _MAX_NOTES:
            held = memory.read(bias + segment.address, segment.file_size)
            if isinstance(held, Known):
                raw = memoryview(held.value)
                found = build_id_of(parse_notes(raw, segment.align, file.header.layout))
                if found is not None:
                    return found
    return None
