"""Linux ELF core dumps (core(5)), read lazily: notes at once, memory when it is asked for."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import cached_property
from typing import Final, Protocol

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.core_memory import CoreMemory
from vllm_forensics.evidence.core_modules import ModuleTable, find_modules
from vllm_forensics.evidence.core_notes import Notes
from vllm_forensics.evidence.core_regions import Regions
from vllm_forensics.evidence.demangle import demangle
from vllm_forensics.evidence.elf import (
    ET_CORE,
    PT_NOTE,
    Bytes,
    Header,
    Layout,
    parse_header,
    parse_notes,
    parse_segments,
)
from vllm_forensics.evidence.instructions import decode, decode_function
from vllm_forensics.evidence.link_map import loaded_libraries, placed_library
from vllm_forensics.evidence.machines import machine_of
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.evidence.other_dumps import whole_machine
from vllm_forensics.evidence.signal_frame import find_signal_frames
from vllm_forensics.evidence.told_program import AT_PHDR, placed_program, told_program
from vllm_forensics.evidence.vdso import AT_SYSINFO_EHDR, MAX_VDSO, VDSO, Vdso, parse_vdso
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import (
    Address,
    Architecture,
    Mapping,
    Module,
    Process,
    Signal,
    SignalFrame,
    StackWords,
    Symbol,
    Thread,
)
from vllm_forensics.model.stack import (
    Frame,
    FrameKind,
    Instruction,
    OperandKind,
    SourceLine,
    Stack,
    Variable,
)

_MAX_NOTES_BYTES: Final = 256 << 20


class ModuleSource(Protocol):
    """Who hands over the files that were mapped, as they lie on this machine."""

    def __call__(self, module: Module) -> Answer[ModuleFile]:
        """The file at the module's path, if it is the one that was mapped (same build-id)."""


class CoreImage:
    """An `Image` made of a core's notes and segments alone (tier `notes`).

    It names no source lines and unwinds no further than the program counter: those need debug
    information, which other tiers read.
    """

    def __init__(self, data: Bytes, source: ModuleSource) -> None:
        """Read the headers and notes; `data` is usually a memory map of the file.

        Raises:
            EvidenceError: not a core, or too damaged to hold a single thread.

        """
        header = parse_header(data)
        if header.type != ET_CORE:
            raise EvidenceError(
                "an ELF file, but not a core dump",
                remedy="give the core that the program left, not the program",
            )
        layout = header.layout
        machine = machine_of(header.machine, layout.word_size, layout.byte_order)
        if machine is None:
            raise EvidenceError(
                f"a core of another architecture ({header.machine_name}, "
                f"{8 * layout.word_size}-bit, {layout.byte_order}-endian); "
                f"{', '.join(Architecture)} are read",
                remedy="open it with gdb-multiarch, or triage it on such a machine",
            )
        self._data = data
        self._source = source
        self._architecture = machine.architecture
        self._segments = parse_segments(data, header)
        self.truncated_at, self.expected_size = self._measure(header)
        notes = self._read_notes(layout)
        self._process, self._signal, self._threads = notes.process, notes.signal, notes.threads
        self._regions = Regions(self._segments, notes.files)
        # Weakly: a thousand images are not to wait in cycles for a garbage collection.
        itself = weakref.ref(self)
        self._memory = CoreMemory(data, self._regions, lambda at: _file_behind(itself(), at))
        self._decoded: dict[Address, Answer[tuple[Instruction, ...]]] = {}
        self._signal_frames: dict[int, tuple[SignalFrame, ...]] = {}
        self._table = self._listed_modules(notes)
        self._unplaced: Module | None = None  # what is told may be read from a module's file
        if not notes.files:
            self._unplaced = told_program(self, self._process)
        self._process = self._with_program(notes.process)

    # What the notes say at once.

    @property
    def process(self) -> Process:
        """See `Image.process`."""
        return self._process

    @property
    def signal(self) -> Answer[Signal]:
        """See `Image.signal`; NT_SIGINFO, or the signal number alone from NT_PRSTATUS."""
        return self._signal

    @property
    def threads(self) -> tuple[Thread, ...]:
        """See `Image.threads`; the kernel writes the crashing thread first."""
        return self._threads

    @property
    def modules(self) -> tuple[Module, ...]:
        """See `Image.modules`."""
        return self._placed.modules

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """See `Image.mappings`."""
        return tuple(region.mapping for region in self._regions)

    @property
    def is_truncated(self) -> bool:
        """Is the file shorter than its headers say?"""
        return self.truncated_at is not None

    # What is looked up when it is asked.

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """See `Image.read`; pages that the kernel left out are taken from the unmodified file."""
        return self._memory.read(address, size)

    def unwind(self, thread: Thread) -> Answer[Stack]:
        """See `Image.unwind`; the notes know the innermost frame only."""
        return Known(
            value=Stack(tid=thread.tid, frames=(self.frame_at(0, thread.pc),), truncated=True)
        )

    def frame_at(self, index: int, pc: Address) -> Frame:
        """A frame by its program counter: module, offset and symbol, without lines or variables."""
        module = self.module_at(pc)
        symbol = self.symbol_at(pc)
        known = module.value if isinstance(module, Known) else None
        return Frame(
            index=index,
            pc=pc,
            function=_plain_name(symbol.value.name) if isinstance(symbol, Known) else None,
            tier=self.signal.tier,
            kind=FrameKind.NATIVE,
            module=known.path if known else None,
            module_offset=pc - known.bias if known else None,
            names_trusted=not isinstance(self.module_file(known), Gap) if known else True,
        )

    def signal_frames(self, thread: Thread) -> tuple[SignalFrame, ...]:
        """See `Image.signal_frames`."""
        found = self._signal_frames.get(thread.tid)
        if found is None:
            found = self._signal_frames[thread.tid] = find_signal_frames(self, thread)
        return found

    def stack_words(self, thread: Thread) -> Answer[StackWords]:
        """See `Image.stack_words`; at most a megabyte."""
        return self._memory.stack_words(thread, self._architecture)

    def find_text(self, needle: bytes) -> Answer[bytes]:
        """See `Image.find_text`; the first 256 MiB of writable memory are searched."""
        return self._memory.find_text(needle)

    def demangle(self, name: str) -> Answer[str]:
        """See `Image.demangle`."""
        found = demangle(name)
        return Known(value=found) if found else Gap(what=f"{name} could not be demangled")

    def module_at(self, address: Address) -> Answer[Module]:
        """See `Image.module_at`."""
        module = self._placed.at(address)
        if module is not None:
            return Known(value=module)
        if self._vdso is not None and self._vdso.module.start <= address < self._vdso.module.end:
            return Known(value=self._vdso.module)
        return Gap(what=f"no module at {address:#x}")

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """See `Image.mapping_at`."""
        region = self._regions.at(address)
        if region is None:
            return Gap(what=f"nothing is mapped at {address:#x}")
        return Known(value=region.mapping)

    def module_file(self, module: Module) -> Answer[ModuleFile]:
        """The module's file on this machine, if it is the one that crashed."""
        if module.path == VDSO and self._vdso is not None:
            return Known(value=self._vdso.file)
        return self._source(module)

    def symbol_at(self, address: Address) -> Answer[Symbol]:
        """See `Image.symbol_at`."""
        module = self.module_at(address)
        if isinstance(module, Gap):
            return module
        file = self.module_file(module.value)
        if isinstance(file, Gap):
            return file
        bias = module.value.bias
        found = file.value.function_at(address - bias)
        if found is None or not found.name:
            stub = self._imported_through(file.value, address, bias)
            found = Symbol(name=f"{stub}@plt", address=address - bias, size=0) if stub else found
        if found is None:
            return Gap(what=f"{module.value.name} has no symbol at {address:#x}")
        return Known(value=_moved(found, bias))

    def symbol_named(self, module: Module, name: str) -> Answer[Symbol]:
        """See `Image.symbol_named`."""
        file = self._source(module)
        if isinstance(file, Gap):
            return file
        found = file.value.symbol_named(name)
        if found is None:
            return Gap(what=f"{module.name} does not define {name}")
        return Known(value=_moved(found, module.bias))

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        """See `Image.lines`; the notes hold none."""
        return Gap(what=f"no source line for {pc:#x}: gdb reads those")

    def variable(self, frame: Frame, name: str) -> Answer[Variable]:
        """See `Image.variable`; the notes hold none."""
        return Gap(what=f"{name} in frame {frame.index} is not known: gdb reads variables")

    def instructions(self, pc: Address) -> Answer[tuple[Instruction, ...]]:
        """See `Image.instructions`; every rule asks for the same few."""
        answer = self._decoded.get(pc)
        if answer is None:
            answer = self._decoded[pc] = self._decode(pc)
        return answer

    def _decode(self, pc: Address) -> Answer[tuple[Instruction, ...]]:
        symbol = self.symbol_at(pc)
        start = symbol.value.address if isinstance(symbol, Known) else pc
        return decode_function(self, self._architecture, start, pc)

    # Reading.

    @cached_property
    def _vdso(self) -> Vdso | None:
        """Found at the first address that no listed module covers."""
        start = self._process.auxv.get(AT_SYSINFO_EHDR, 0)
        region = self._regions.at(start)
        if region is None or region.mapping.start != start or not region.file_size:
            return None
        raw = self._memory.held(start, min(region.file_size, MAX_VDSO))
        return parse_vdso(raw, start, self._process.page_size) if raw else None

    def _imported_through(self, file: ModuleFile, address: Address, bias: int) -> str | None:
        """The function that a PLT stub at `address` jumps to: it has no symbol of its own."""
        code = file.read(address - bias, 16)
        for step in decode(code, address, self._architecture)[:3] if code else ():
            for operand in step.operands if step.is_jump else ():
                if operand.kind is OperandKind.MEMORY and operand.base is None:
                    return file.imports_by_slot.get(operand.displacement - bias)
        return None

    def _measure(self, header: Header) -> tuple[int | None, int]:
        ends = [segment.offset + segment.file_size for segment in self._segments]
        expected = max([header.phoff + header.layout.segment.size * header.phnum, *ends])
        return (len(self._data) if expected > len(self._data) else None), expected

    def _read_notes(self, layout: Layout) -> Notes:
        notes = Notes(self._architecture)
        for segment in self._segments:
            if segment.type == PT_NOTE:
                size = min(segment.file_size, _MAX_NOTES_BYTES)
                raw = self._data[segment.offset : segment.offset + size]
                notes.add_all(parse_notes(raw, layout=layout))
        for found in filter(None, map(whole_machine, sorted(notes.owners))):
            raise EvidenceError(found.what, remedy=found.remedy)
        if not notes.threads:
            cut = f" (it is cut off after {self.truncated_at} bytes)" if self.is_truncated else ""
            raise EvidenceError(
                f"a core without a single thread's registers{cut}",
                remedy="look for another copy; this one ends before the notes",
            )
        return notes

    def _with_program(self, process: Process) -> Process:
        """The executable is the module that holds AT_PHDR; psargs is cut at 80 bytes, it is not."""
        if self._unplaced is not None:
            return replace(process, program=self._unplaced.path)
        module = self.module_at(process.auxv.get(AT_PHDR, 0))
        return process if isinstance(module, Gap) else replace(process, program=module.value.path)

    @property
    def _placed(self) -> ModuleTable:
        """The modules; a program that the core does not list is looked for at the first question.

        Its file must be asked for, and that is not known before the image is whole.
        """
        told, self._unplaced = self._unplaced, None
        if told is not None:
            self._place_program(told)
        return self._table

    def _place_program(self, told: Module) -> None:
        file, page_size = self._source(told), self._process.page_size
        if isinstance(file, Gap):
            self._table = ModuleTable([told])
            return
        program = placed_program(self, told, file.value, page_size)
        if program is None:
            return
        self._table = ModuleTable([program])
        found = [program]
        for listed in loaded_libraries(self, self._architecture, file.value, program.bias):
            file = self._source(listed)
            placed = (
                placed_library(self, listed, file.value, page_size)
                if isinstance(file, Known)
                else listed
            )
            found += [placed] if placed is not None else []
        self._table = ModuleTable(found)

    def _listed_modules(self, notes: Notes) -> ModuleTable:
        page_size = self._process.page_size
        found = list(find_modules(notes.files, self._regions, self._memory.held, page_size))
        self._regions.add_undumped([part for _, parts in found for part in parts])
        return ModuleTable(module for module, _ in found)

    def file_behind(self, address: Address) -> tuple[Module, Answer[ModuleFile]] | None:
        """The module at an address, and its file if it is the one that was mapped."""
        module = self.module_at(address)
        return None if isinstance(module, Gap) else (module.value, self._source(module.value))


def _file_behind(
    image: CoreImage | None, address: Address
) -> tuple[Module, Answer[ModuleFile]] | None:
    return None if image is None else image.file_behind(address)


def _moved(symbol: Symbol, bias: int) -> Symbol:
    return Symbol(name=symbol.name, address=symbol.address + bias, size=symbol.size)


def _plain_name(name: str) -> str | None:
    """A symbol's qualified name; as it is where it cannot be demangled, and in C."""
    return (demangle(name) if name.startswith("_Z") else None) or name or None
