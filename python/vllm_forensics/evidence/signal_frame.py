"""Signals as the kernel lays them out: siginfo_t, and the frame that it pushes for a handler.

A crash handler that sends the signal again (faulthandler, absl, torch) leaves a core whose siginfo
says only "sent by itself". The handler's signal frame still holds the first siginfo_t and all
registers (arch/x86/include/asm/sigframe.h, include/uapi/asm/sigcontext.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Protocol

from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import (
    Address,
    Architecture,
    Mapping,
    Module,
    Process,
    Signal,
    SignalFrame,
    Thread,
)

_SIGINFO = struct.Struct("<iii4xQ")
_SENDER = struct.Struct("<iI")
_FAULT_SIGNALS: Final = {4, 5, 7, 8, 11}  # SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV

# mov $15, %rax; syscall: glibc's and musl's __restore_rt, the return address of every x86-64 handler.
_RESTORER: Final = bytes.fromhex("48c7c00f0000000f05")
_SIGCONTEXT_NAMES: Final = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "eflags",
)  # fmt: skip
# pretcode; uc_flags, uc_link, uc_stack; 18 registers; 4 selectors; err, trapno, oldmask, cr2.
_FRAME = struct.Struct("<Q8x8x24x18Q4HQQQQ")
_SIGINFO_OFFSET: Final = 8 + 304
_FRAME_SIZE: Final = _SIGINFO_OFFSET + 128
_SCAN_UP: Final = 1 << 20
_SCAN_DOWN: Final = 64 << 10


class Memory(Protocol):
    """The part of a core that is needed here."""

    @property
    def process(self) -> Process:
        """Whose architecture decides the layout."""

    @property
    def modules(self) -> tuple[Module, ...]:
        """Where to look for the C library."""

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """Exactly `size` bytes at `address`."""

    def mapping_at(self, address: Address) -> Answer[Mapping]:
        """The mapping that covers `address`."""

    def module_file(self, module: Module) -> Answer[ModuleFile]:
        """The module's file on this machine, if it is the one that crashed."""


def parse_siginfo(data: bytes | memoryview) -> Signal:
    """A siginfo_t as the kernel lays it out on 64-bit machines.

    Raises:
        struct.error: fewer than 24 bytes.
    """
    number, _, code, address = _SIGINFO.unpack_from(data)
    sender, _ = _SENDER.unpack_from(data, 16)
    return Signal(
        number=number,
        code=code,
        address=address if number in _FAULT_SIGNALS and code > 0 else None,
        sender_pid=sender if code <= 0 else None,
    )


def find_signal_frames(memory: Memory, thread: Thread) -> tuple[SignalFrame, ...]:
    """The signal frames of a thread, the most recent first.

    Besides those above the stack pointer, one that was just left is found below it: a handler
    without SA_NODEFER that raises its own signal is interrupted only after it returned, so the dump
    is taken at the faulting instruction while the frame is no longer part of the stack. It is
    believed only if it restores exactly the thread's program counter and stack pointer.
    """
    if memory.process.architecture is not Architecture.X86_64:
        return ()
    mapping = memory.mapping_at(thread.sp)
    if isinstance(mapping, Gap):
        return ()
    low = max(mapping.value.start, thread.sp - _SCAN_DOWN)
    high = min(mapping.value.end, thread.sp + _SCAN_UP)
    stack = memory.read(low, high - low)
    if isinstance(stack, Gap):
        return ()
    frames = []
    for restorer in _restorers(memory):
        wanted = restorer.to_bytes(8, "little")
        at = stack.value.find(wanted)
        while at >= 0:
            frame = _parse_frame(stack.value[at : at + _FRAME_SIZE], low + at)
            if frame is not None and (
                frame.address >= thread.sp or (frame.pc, frame.sp) == (thread.pc, thread.sp)
            ):
                frames.append(frame)
            at = stack.value.find(wanted, at + 8)
    return tuple(sorted(frames, key=lambda frame: frame.address))


def _parse_frame(raw: bytes, address: Address) -> SignalFrame | None:
    if len(raw) < _FRAME_SIZE:
        return None
    _, *values = _FRAME.unpack_from(raw)
    registers = dict(zip(_SIGCONTEXT_NAMES, values[:18], strict=True))
    selector, error_code, trap_number = values[18], values[22], values[23]
    signal = parse_siginfo(raw[_SIGINFO_OFFSET:])
    # A stale return address is no frame: user code runs with selector 0x33 (32-bit code: 0x23).
    if selector not in {0x33, 0x23} or not 0 < signal.number < 65:
        return None
    return SignalFrame(
        address=address,
        signal=signal,
        registers=registers,
        pc=registers["rip"],
        sp=registers["rsp"],
        trap_number=trap_number,
        error_code=error_code,
    )


def _restorers(memory: Memory) -> Iterator[Address]:
    """Every place in the C library (or a static program) that returns from a signal handler."""
    for module in memory.modules:
        likely = module.name.startswith(("libc.so", "libc-2", "ld-musl", "libc.musl"))
        if not likely and module.path != memory.process.program:
            continue
        file = memory.module_file(module)
        if isinstance(file, Known):
            yield from (module.bias + address for address in _find_code(file.value, _RESTORER))


def _find_code(file: ModuleFile, wanted: bytes) -> Iterator[int]:
    for segment in file.segments:
        if segment.type == 1 and segment.flags & 1:
            code = bytes(file.data[segment.offset : segment.offset + min(segment.file_size, 64 << 20)])
            at = code.find(wanted)
            while at >= 0:
                yield segment.address + at
                at = code.find(wanted, at + 1)
