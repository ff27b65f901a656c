"""Signals as the kernel lays them out: siginfo_t, and the frame that it pushes for a handler.

A crash handler that sends the signal again (faulthandler, absl, torch) leaves a core whose siginfo
says only "sent by itself". The handler's signal frame still holds the first siginfo_t and all
registers (arch/x86/include/asm/sigframe.h, include/uapi/asm/sigcontext.h). Other architectures'
frames are laid out in modules of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from vllm_forensics.evidence import aarch64_signal_frame
from vllm_forensics.evidence.instructions import decode
from vllm_forensics.evidence.machines import MACHINES, Machine
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.evidence.other_signal_frames import other_frames_in
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
from vllm_forensics.model.signals import SI_KERNEL
from vllm_forensics.model.word_search import positions_of_word

_FAULT_SIGNALS: Final = {4, 5, 7, 8, 11}  # SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV

# mov $15, %rax; syscall: __restore_rt of glibc and musl, every x86-64 handler's return address.
_RESTORER: Final = bytes.fromhex("48c7c00f0000000f05")
_SIGCONTEXT_NAMES: Final = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax",
    "rcx", "rsp", "rip", "eflags",
)  # fmt: skip
# pretcode; uc_flags, uc_link, uc_stack; 18 registers; 4 selectors; err, trapno, oldmask, cr2.
_FRAME = struct.Struct("<Q8x8x24x18Q4HQQQQ")
_SIGINFO_OFFSET: Final = 8 + 304
_FRAME_SIZE: Final = _SIGINFO_OFFSET + 128
_SYSCALLS: Final = {b"\x0f\x05", b"\xcd\x80"}
"""syscall; int $0x80, at which i386's vDSO comes back from its sysenter too."""
_ARGUMENTS: Final = {"rip": ("rdi", "rsi", "rdx"), "eip": ("ebx", "ecx", "edx")}
_POWER_FAULTS: Final = {0x300, 0x380}
"""Data storage and data segment interrupts (Power ISA, book III): dar is the address."""
_PAGE_FAULT: Final = 14
_TRAPS: Final = {
    # Vector → signal and si_code that the kernel gives it (arch/x86/kernel/traps.c).
    0: (8, 1), 3: (5, SI_KERNEL), 4: (11, SI_KERNEL), 5: (11, SI_KERNEL), 6: (4, 2),
    10: (11, SI_KERNEL), 11: (7, SI_KERNEL), 12: (7, SI_KERNEL), 13: (11, SI_KERNEL),
    17: (7, 1),
}  # fmt: skip
_SCAN_UP: Final = 1 << 20
_SCAN_DOWN: Final = 64 << 10
_ADDRESSES: Final = (1 << 64) - 1


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


def parse_siginfo(
    data: bytes | memoryview, machine: Machine = MACHINES[Architecture.X86_64]
) -> Signal:
    """A siginfo_t as the kernel lays it out.

    Raises:
        struct.error: fewer than 24 bytes; of a 32-bit machine, 16.

    """
    number, _, code = machine.ints.unpack_from(data)
    (sender,) = machine.sender.unpack_from(data, machine.offsets.siginfo)
    (address,) = machine.address.unpack_from(data, machine.offsets.siginfo)
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
    architecture = memory.process.architecture
    mapping = memory.mapping_at(thread.sp)
    if isinstance(mapping, Gap):
        return ()
    low = max(mapping.value.start, thread.sp - _SCAN_DOWN)
    high = min(mapping.value.end, thread.sp + _SCAN_UP)
    stack = memory.read(low, high - low)
    if isinstance(stack, Gap):
        return ()
    if architecture is Architecture.AARCH64:
        return tuple(_aarch64_frames(memory, thread, stack.value, low))
    if architecture is not Architecture.X86_64:
        return tuple(_other_frames(memory, thread, stack.value, low))
    frames = []
    reader = _FrameReader(memory, thread)
    for restorer in _restorers(memory):
        for at in positions_of_word(stack.value, restorer.to_bytes(8, "little")):
            frame = reader.parse(stack.value[at : at + _FRAME_SIZE], low + at)
            if frame is not None and (
                frame.address >= thread.sp or (frame.pc, frame.sp) == (thread.pc, thread.sp)
            ):
                frames.append(frame)
    return tuple(sorted(frames, key=lambda frame: frame.address))


def _aarch64_frames(
    memory: Memory, thread: Thread, stack: bytes, low: Address
) -> Iterator[SignalFrame]:
    """Those above the stack pointer that go back to code, the most recent first."""
    for state in aarch64_signal_frame.frames_in(stack, low):
        registers = state.registers
        signal = state.fault or parse_siginfo(state.siginfo, MACHINES[Architecture.AARCH64])
        mapping = memory.mapping_at(registers["pc"])
        is_code = isinstance(mapping, Known) and mapping.value.executable
        called_nothing = registers["pc"] == signal.address
        if state.address >= thread.sp and (is_code or called_nothing):
            yield SignalFrame(
                address=state.address,
                signal=signal if 0 < signal.number < 65 else Signal(number=0, code=0),
                registers=registers,
                pc=registers["pc"],
                sp=registers["sp"],
                trap_number=0,
                error_code=0,
            )


def _other_frames(
    memory: Memory, thread: Thread, stack: bytes, low: Address
) -> Iterator[SignalFrame]:
    """Those of other machines that go back to code, the most recent first."""
    machine = MACHINES[memory.process.architecture]
    reader = _FrameReader(memory, thread)
    for found in other_frames_in(machine.architecture, stack, low):
        pc, sp = found.registers[machine.pc], found.registers[machine.sp]
        signal = Signal(number=found.number, code=0, is_recorded=False)
        if found.trap is not None and machine.architecture is Architecture.I386:
            state = found.registers, found.error, found.trap, found.fault_address
            worked_out = reader.signal(*state)
            signal = worked_out if worked_out.number == found.number else signal
        elif found.trap in _POWER_FAULTS:
            signal = replace(signal, address=found.fault_address)
        # s390x's si_addr is the start of the page alone: the instruction's operand says more.
        says_all = machine.architecture is not Architecture.S390X
        if says_all and len(found.siginfo) >= machine.offsets.siginfo + 8:
            written = parse_siginfo(found.siginfo, machine)
            signal = written if written.number == found.number else signal
        mapping = memory.mapping_at(pc)
        is_code = isinstance(mapping, Known) and mapping.value.executable
        if found.address >= thread.sp and (is_code or pc == signal.address):
            yield SignalFrame(
                address=found.address,
                signal=signal,
                registers=found.registers,
                pc=pc,
                sp=sp,
                trap_number=found.trap or 0,
                error_code=found.error,
            )


class _FrameReader:
    """Reads one frame's bytes; works the signal out where the kernel did not write a siginfo_t.

    It writes one only for handlers with SA_SIGINFO. Without it, the saved exception vector, error
    code and cr2 tell the same (Intel SDM 3A, 6.15); for a signal that the program sent to itself,
    the arguments of the tgkill or kill system call are still in the registers.
    """

    def __init__(self, memory: Memory, thread: Thread) -> None:
        self._memory = memory
        self._thread = thread

    def parse(self, raw: bytes, address: Address) -> SignalFrame | None:
        """The frame at `address`, or None where the bytes are none."""
        if len(raw) < _FRAME_SIZE:
            return None
        _, *values = _FRAME.unpack_from(raw)
        registers = dict(zip(_SIGCONTEXT_NAMES, values[:18], strict=True))
        # A stale return address is no frame: user code runs with selector 0x33 (32-bit code: 0x23).
        if values[18] not in {0x33, 0x23}:
            return None
        error_code, trap_number, fault_address = values[22], values[23], values[25]
        written = parse_siginfo(raw[_SIGINFO_OFFSET:])
        signal = self.signal(registers, error_code, trap_number, fault_address)
        if 0 < written.number < 65 and (signal.number, signal.address) in {
            (0, None), (written.number, written.address), (written.number, None)
        }:  # fmt: skip
            signal = written
        return SignalFrame(
            address=address,
            signal=signal,
            registers=registers,
            pc=registers["rip"],
            sp=registers["rsp"],
            trap_number=trap_number,
            error_code=error_code,
        )

    def signal(
        self, registers: dict[str, int], error_code: int, trap: int, fault_address: Address
    ) -> Signal:
        """The signal that the saved processor state stands for; number 0 where it tells nothing."""
        machine = MACHINES[self._memory.process.architecture]
        pc = registers[machine.pc]
        if self._bytes(pc - 2, 2) in _SYSCALLS:
            return self._sent_by_self([registers[name] for name in _ARGUMENTS[machine.pc]])
        if trap == _PAGE_FAULT:
            mapped = self._memory.mapping_at(fault_address)
            if isinstance(mapped, Gap):
                return Signal(number=11, code=1, address=fault_address)
            denied = (
                not mapped.value.writable
                if error_code & 2
                else not (mapped.value.executable if error_code & 16 else mapped.value.readable)
            )
            if denied:
                return Signal(number=11, code=2, address=fault_address)
            return Signal(number=7, code=2, address=fault_address)
        known = _TRAPS.get(trap)
        if known is None or (trap == 0 and not self._divides(pc)):
            return Signal(number=0, code=0)
        number, code = known
        return Signal(number=number, code=code, address=pc if code != SI_KERNEL else 0)

    def _sent_by_self(self, arguments: list[int]) -> Signal:
        pid, tid = self._memory.process.pid, self._thread.tid
        first, second, third = arguments
        if first == pid and second == tid and 0 < third < 65:
            return Signal(number=third, code=-6, sender_pid=pid)
        if first in {pid, tid} and 0 < second < 65:
            return Signal(number=second, code=0, sender_pid=pid)
        return Signal(number=0, code=0)

    def _divides(self, pc: Address) -> bool:
        """Vector 0 is also what a thread without exception has: only a division makes it real."""
        code = self._bytes(pc, 15)
        decoded = decode(code, pc, self._memory.process.architecture) if code else []
        return bool(decoded) and decoded[0].mnemonic in {"div", "idiv"}

    def _bytes(self, address: Address, size: int) -> bytes:
        answer = self._memory.read(address, size) if address > 0 else None
        return answer.value if isinstance(answer, Known) else b""


def _restorers(memory: Memory) -> Iterator[Address]:
    """Every place in the C library (or a static program) that returns from a signal handler."""
    for module in memory.modules:
        likely = module.name.startswith(("libc.so", "libc-2", "ld-musl", "libc.musl"))
        if not likely and module.path != memory.process.program:
            continue
        file = memory.module_file(module)
        if isinstance(file, Known):
            for address in file.value.find_code(_RESTORER):
                # A damaged program header can put the bias anywhere.
                yield (module.bias + address) & _ADDRESSES
