"""The fault as it first happened: which signal, with which registers, after handlers are undone."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import Final

from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address, Signal, SignalFrame, Thread
from vllm_forensics.model.record import dataclass

FAULT_SIGNALS: Final = {4, 5, 7, 8, 11}
"""Signals that the processor causes: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV."""
SIGABRT: Final = 6
SIGBUS: Final = 7
SIGSEGV: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """Machine state at the first fault of the crashing thread."""

    thread: Thread
    signal: Signal
    delivered: Signal
    """What the kernel recorded for the dump; not `signal` where a handler sent it again."""
    registers: MappingOf[str, int]
    pc: Address
    sp: Address
    frame: SignalFrame | None = None
    """The signal frame that the state was taken from; None where nothing had to be undone."""

    @property
    def is_page_fault(self) -> bool:
        """Did the processor itself say so (vector 14)?"""
        return self.frame is not None and self.frame.trap_number == 14


def fault_context(image: Image) -> FaultContext | None:
    """Find the first fault of the crashing thread; None for an image without threads.

    A signal that a process sent (si_code <= 0) may be a handler's second sending: then the oldest
    signal frame whose signal came from the kernel tells the truth. A frame for the same signal sent
    by the program itself (abort() under faulthandler) is undone as well.
    """
    if not image.threads:
        return None
    thread = image.threads[0]
    answer = image.signal
    delivered = answer.value if isinstance(answer, Known) else Signal(number=0, code=0)
    frame = None if _is_fault(delivered) else _first_cause(image.signal_frames(thread), delivered)
    if frame is None:
        return FaultContext(
            thread=thread,
            signal=delivered,
            delivered=delivered,
            registers=thread.registers,
            pc=thread.pc,
            sp=thread.sp,
        )
    return FaultContext(
        thread=thread,
        signal=frame.signal,
        delivered=delivered,
        registers=frame.registers,
        pc=frame.pc,
        sp=frame.sp,
        frame=frame,
    )


def doubt_of_history(image: Image, thread: Thread) -> str:
    """A sentence for a signal that the program sent itself, where its stack cannot be read.

    A handler that did so after an earlier fault shows on the stack alone, and its frame by the code
    of the C library. Empty where both are there.
    """
    for answer in (image.stack_words(thread), image.read(thread.pc, 1)):
        if isinstance(answer, Gap):
            return (
                f"Whether a handler did that after an earlier fault cannot be known: {answer.what}."
            )
    return ""


def _first_cause(frames: tuple[SignalFrame, ...], delivered: Signal) -> SignalFrame | None:
    faults = [
        frame
        for frame in frames
        if frame.signal.number in FAULT_SIGNALS and frame.signal.may_be_fault
    ]
    same = [frame for frame in frames if frame.signal.number == delivered.number == SIGABRT]
    return next(reversed(faults or same), None)


def _is_fault(signal: Signal) -> bool:
    return signal.number in FAULT_SIGNALS and signal.from_kernel
