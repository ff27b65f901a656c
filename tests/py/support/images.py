"""An `Image` made of values: what diagnosis asks, answered without a core."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from typing import Final

from vllm_forensics.diagnosis.context import FaultContext, fault_context
from vllm_forensics.evidence.demangle import demangle
from vllm_forensics.evidence.instructions import decode_function
from vllm_forensics.model.answer import Answer, Gap, Known, Tier
from vllm_forensics.model.image import Image
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
    SourceLine,
    Stack,
    Variable,
)

PID: Final = 42
CODE: Final = 0x40_1000
DATA: Final = 0x40_4000
RODATA: Final = 0x40_6000
HEAP: Final = 0x50_0000
LIBC: Final = 0x7F00_0000_0000
GUARD: Final = 0x7FFD_0000_0000
STACK: Final = GUARD + 0x1000
STACK_END: Final = STACK + 0x2_1000
SP: Final = STACK + 0x2_0000

SEGV_MAPERR: Final = 1
SEGV_ACCERR: Final = 2
SI_KERNEL: Final = 128
SI_TKILL: Final = -6

_NOPS: Final = b"\x90" * 80
"""Code goes on behind what a test is about, as far as the decoder looks."""
_GENERAL_REGISTERS: Final = (
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
)  # fmt: skip
PROGRAM: Final = Module(
    path="/opt/app/engine", start=0x40_0000, end=0x40_8000, bias=0x40_0000, build_id="aa"
)
C_LIBRARY: Final = Module(
    path="/usr/lib/libc.so.6", start=LIBC, end=LIBC + 0x10_0000, bias=LIBC, build_id="bb"
)
MAPPINGS: Final = (
    Mapping(
        start=CODE, end=CODE + 0x2000, readable=True, writable=False, executable=True,
        path=PROGRAM.path, file_offset=0x1000,
    ),
    Mapping(
        start=DATA, end=DATA + 0x1000, readable=True, writable=True, executable=False,
        path=PROGRAM.path, file_offset=0x4000,
    ),
    Mapping(
        start=RODATA, end=RODATA + 0x1000, readable=True, writable=False, executable=False,
        path=PROGRAM.path, file_offset=0x6000,
    ),
    Mapping(start=HEAP, end=HEAP + 0x2_1000, readable=True, writable=True, executable=False),
    Mapping(
        start=LIBC, end=LIBC + 0x10_0000, readable=True, writable=False, executable=True,
        path=C_LIBRARY.path,
    ),
    Mapping(start=GUARD, end=STACK, readable=False, writable=False, executable=False),
    Mapping(start=STACK, end=STACK_END, readable=True, writable=True, executable=False),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FakeImage:
    """See `Image`; every answer is one of the fields, or follows from them."""

    process: Process
    signal: Answer[Signal]
    threads: tuple[Thread, ...]
    modules: tuple[Module, ...] = (PROGRAM, C_LIBRARY)
    mappings: tuple[Mapping, ...] = MAPPINGS
    memory: MappingOf[Address, bytes] = field(default_factory=dict)
    """Bytes by the address that they start at."""
    stacks: MappingOf[int, Stack] = field(default_factory=dict)
    """By tid."""
    handler_frames: tuple[SignalFrame, ...] = ()
    functions: tuple[Symbol, ...] = ()
    objects: MappingOf[tuple[str, str], Symbol] = field(default_factory=dict)
    """By module name and symbol name."""
    places: MappingOf[Address, SourceLine] = field(default_factory=dict)
    values: MappingOf[tuple[int, str], str] = field(default_factory=dict)
    """By frame index and expression."""

    def read(self, address: Address, size: int) -> Answer[bytes]:
        for start, held in self.memory.items():
            if start <= address and address + size <= start + len(held):
                return Known(value=held[address - start : address - start + size])
        return Gap(what=f"no bytes at {address:#x}")

    def unwind(self, thread: Thread) -> Answer[Stack]:
        stack = self.stacks.get(thread.tid)
        return Known(value=stack) if stack else Gap(what=f"thread {thread.tid} is not unwound")

    def signal_frames(self, thread: Thread) -> tuple[SignalFrame, ...]:
        return self.handler_frames if thread.crashed else ()

    def stack_words(self, thread: Thread) -> Answer[StackWords]:
        start = thread.sp & -8
        for at, held in self.memory.items():
            if at <= start < at + len(held):
                words = memoryview(held[start - at :][: (at + len(held) - start) & -8]).cast("Q")
                return Known(value=StackWords(start=start, words=words))
        return Gap(what="no stack")

    def find_text(self, needle: bytes) -> Answer[bytes]:
        for held in self.memory.values():
            at = held.find(needle)
            if at >= 0:
                return Known(value=held[max(0, at - 512) : at + 512])
        return Gap(what="not found")

    def demangle(self, name: str) -> Answer[str]:
        found = demangle(name)
        return Known(value=found) if found else Gap(what=name)

    def module_at(self, address: Address) -> Answer[Module]:
        for module in self.modules:
            if module.start <= address < module.end:
                return Known(value=module)
        return Gap(what="no module")

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        for mapping in self.mappings:
            if mapping.start <= address < mapping.end:
                return Known(value=mapping)
        return Gap(what=f"nothing is mapped at {address:#x}")

    def symbol_at(self, address: Address) -> Answer[Symbol]:
        for symbol in self.functions:
            if symbol.address <= address < symbol.address + symbol.size:
                return Known(value=symbol)
        return Gap(what="no symbol")

    def symbol_named(self, module: Module, name: str) -> Answer[Symbol]:
        symbol = self.objects.get((module.name, name))
        return Known(value=symbol) if symbol else Gap(what=name)

    def lines(self, pc: Address) -> Answer[tuple[SourceLine, ...]]:
        place = self.places.get(pc)
        return Known(value=(place,)) if place else Gap(what="no line")

    def variable(self, frame: Frame, name: str) -> Answer[Variable]:
        value = self.values.get((frame.index, name))
        return Gap(what=name) if value is None else Known(value=Variable(name=name, value=value))

    def instructions(self, pc: Address) -> Answer[tuple[Instruction, ...]]:
        symbol = self.symbol_at(pc)
        start = symbol.value.address if isinstance(symbol, Known) else pc
        return decode_function(self, self.process.architecture, start, pc)


def crash_image(
    code: str = "",
    *,
    at: int = 0,
    signal: Signal,
    registers: MappingOf[str, int] | None = None,
    pc: Address | None = None,
    frames: tuple[Frame, ...] | None = None,
    handler_frames: tuple[SignalFrame, ...] = (),
    memory: MappingOf[Address, bytes] | None = None,
    mappings: tuple[Mapping, ...] = MAPPINGS,
    modules: tuple[Module, ...] = (PROGRAM, C_LIBRARY),
    functions: tuple[Symbol, ...] = (),
    objects: MappingOf[tuple[str, str], Symbol] | None = None,
    places: MappingOf[Address, SourceLine] | None = None,
    values: MappingOf[tuple[int, str], str] | None = None,
    process: Process | None = None,
) -> FakeImage:
    """A process with one thread that stands `at` bytes into `code` (hexadecimal), at `CODE`."""
    raw = bytes.fromhex(code)
    start = CODE + at if pc is None else pc
    known = dict.fromkeys(_GENERAL_REGISTERS, 0) | {"rsp": SP, "fs_base": 0, "gs_base": 0}
    known |= dict(registers or {}) | {"rip": start}
    thread = Thread(tid=PID, crashed=True, registers=known, pc=start, sp=known["rsp"], name="app")
    own = (Symbol(name="_Z4workv", address=CODE, size=len(raw)),) if raw else ()
    return FakeImage(
        process=process or a_process(),
        signal=Known(value=signal),
        threads=(thread,),
        modules=modules,
        mappings=mappings,
        memory=({CODE: raw + _NOPS} if raw else {}) | dict(memory or {}),
        stacks={PID: Stack(tid=PID, frames=(a_frame(0, "work", pc=start),))}
        if frames is None
        else {PID: Stack(tid=PID, frames=frames)},
        handler_frames=handler_frames,
        functions=(*own, *functions),
        objects=dict(objects or {}),
        places=dict(places or {}),
        values=dict(values or {}),
    )


def a_process(auxv: MappingOf[int, int] | None = None) -> Process:
    return Process(
        pid=PID,
        architecture=Architecture.X86_64,
        program=PROGRAM.path,
        command="engine --serve",
        auxv=dict(auxv or {}),
    )


def a_frame(
    index: int,
    function: str | None,
    *,
    pc: Address = CODE,
    module: str | None = PROGRAM.path,
    file: str | None = "/src/engine.cpp",
    line: int | None = 7,
    kind: FrameKind = FrameKind.NATIVE,
    variables: tuple[Variable, ...] = (),
    trusted: bool = True,
) -> Frame:
    return Frame(
        index=index,
        pc=pc,
        function=function,
        tier=Tier.GDB,
        kind=kind,
        file=file,
        line=line if file else None,
        module=module,
        module_offset=pc - PROGRAM.bias if module else None,
        variables=variables,
        names_trusted=trusted,
    )


def libc_frame(index: int, function: str, pc: Address = LIBC + 0x100) -> Frame:
    return a_frame(index, function, pc=pc, module=C_LIBRARY.path, file=None)


def signal_frame_marker(index: int) -> Frame:
    return a_frame(
        index, "<signal handler called>", pc=LIBC + 0x42520, module=C_LIBRARY.path, file=None,
        kind=FrameKind.SIGNAL,
    )  # fmt: skip


def a_signal_frame(
    signal: Signal,
    *,
    pc: Address = CODE,
    sp: Address = SP,
    registers: MappingOf[str, int] | None = None,
    address: Address = SP - 0x400,
    trap: int = 14,
    error: int = 4,
) -> SignalFrame:
    known = dict.fromkeys(_GENERAL_REGISTERS, 0) | dict(registers or {}) | {"rip": pc, "rsp": sp}
    return SignalFrame(
        address=address,
        signal=signal,
        registers=known,
        pc=pc,
        sp=sp,
        trap_number=trap,
        error_code=error,
    )


def segv(address: Address, code: int = SEGV_MAPERR) -> Signal:
    return Signal(number=11, code=code, address=address)


def general_protection() -> Signal:
    """What the kernel says where the processor names no address."""
    return Signal(number=11, code=SI_KERNEL, address=0)


def sent_by_self(number: int) -> Signal:
    return Signal(number=number, code=SI_TKILL, sender_pid=PID)


def context_of(image: Image) -> FaultContext:
    context = fault_context(image)
    assert context is not None
    return context


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)
