"""The calls that led to the fault: which belong to it, the culprit, who sent the signal again."""

from __future__ import annotations

import re
import struct
from typing import Final

from vllm_forensics.diagnosis.access import PARTS, faulting_access
from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.wording import NULL_PAGE
from vllm_forensics.model.answer import Gap, Known, Tier
from vllm_forensics.model.finding import Access, FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address, Architecture
from vllm_forensics.model.stack import Frame, FrameKind, Stack

_FIRST_ARGUMENT: Final = {Architecture.X86_64: "rdi", Architecture.AARCH64: "x0"}
"""Where an object arrives, on machines whose decoder tells which registers code writes."""
UNNAMED_HANDLER: Final = "a signal handler"
_C_LIBRARY: Final = re.compile(r"libc[.-].*|libpthread[.-].*|ld-musl.*")
_FAULTHANDLER: Final = struct.Struct("<ii")
# Two numbers, a pointer, a struct sigaction, a number; for each of SIGBUS, SIGILL, SIGFPE, SIGABRT
# and SIGSEGV.
_FAULTHANDLER_SIZE: Final = 8 + 8 + 152 + 8
_FAULTHANDLER_COUNT: Final = 5
_WORD: Final = 8
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")


def crashing_stack(image: Image, context: FaultContext) -> Stack:
    """All frames of the crashing thread; none where it could not be unwound."""
    answer = image.unwind(context.thread)
    return answer.value if isinstance(answer, Known) else Stack(tid=context.thread.tid, frames=())


def fault_frames(image: Image, context: FaultContext) -> tuple[Frame, ...]:
    """The calls from the fault outwards: those of a handler that ran afterwards are left out."""
    frames = crashing_stack(image, context).frames
    if context.frame is None or (context.pc, context.sp) == (context.thread.pc, context.thread.sp):
        return frames  # no handler ran, or it has returned already
    # The handler's own raise() stands at the very address of an abort() that it was called for.
    found = [
        position
        for position, frame in enumerate(frames)
        if position and frames[position - 1].kind is FrameKind.SIGNAL and frame.pc == context.pc
    ]
    return frames[found[-1] :] if found else (_unreached_frame(image, context, len(frames)),)


def _unreached_frame(image: Image, context: FaultContext, index: int) -> Frame:
    """The frame of the fault itself, where unwinding ended inside the handler."""
    module = image.module_at(context.pc)
    symbol = image.symbol_at(context.pc)
    name = image.demangle(symbol.value.name) if isinstance(symbol, Known) else symbol
    known = module.value if isinstance(module, Known) else None
    return Frame(
        index=index,
        pc=context.pc,
        function=name.value if isinstance(name, Known) else None,
        tier=Tier.NOTES,
        module=known.path if known else None,
        module_offset=context.pc - known.bias if known else None,
    )


def names_on_stack(frames: tuple[Frame, ...], limit: int = 16) -> frozenset[str]:
    """The functions nearest to the fault."""
    return frozenset(frame.function for frame in frames[:limit] if frame.function)


def culprit_of(
    frames: tuple[Frame, ...], finding: Finding, *, on_null_object: bool = False
) -> Frame | None:
    """The first frame in the user's own code; behind a null `this`, its caller.

    A member function that was called on a null object is not where the mistake was made.
    `on_null_object` says that the innermost frame is one, see `is_called_on_null`.
    """
    own = [frame for frame in frames if is_own(frame)]
    if finding.access is Access.EXECUTE:
        # The address that was jumped to is nobody's code, even where it lies in a module's data.
        own = [frame for frame in own if frame.pc != finding.address]
    if finding.kind is FaultKind.NULL_DEREFERENCE:
        suspects = own[1:] if on_null_object and own and own[0] is frames[0] else own
        blamed = next((frame for frame in suspects if not has_null_this(frame)), None)
        if blamed is not None:
            return blamed
    return own[0] if own else None


def has_null_this(frame: Frame) -> bool:
    """Was the member function called on a null object?"""
    for variable in frame.variables:
        if variable.name == "this":
            number = _HEX.search(variable.value)
            return number is not None and int(number.group(), 16) < NULL_PAGE
    return False


def is_called_on_null(image: Image, context: FaultContext) -> bool:
    """Is the faulting function a const member whose object is null, by its symbol alone?

    Without debug information nobody names `this`. But only a const member function's mangled name
    starts with _ZNK (Itanium C++ ABI, 5.1.6), and its object arrives in the first argument.
    """
    symbol = image.symbol_at(context.pc)
    if not isinstance(symbol, Known) or not symbol.value.name.startswith("_ZNK"):
        return False
    access = faulting_access(image, context)
    object_register = _FIRST_ARGUMENT.get(image.process.architecture)
    if access is None or access.base is None or access.base != object_register:
        return False
    if _is_written_before(image, context.pc, access.base):
        return False  # it holds something else by now: a pointer that the object held
    return dict(context.registers).get(access.base, NULL_PAGE) < NULL_PAGE


def _is_written_before(image: Image, pc: Address, register: str) -> bool:
    """Does the function change the register between its start and `pc`?"""
    decoded = image.instructions(pc)
    return isinstance(decoded, Known) and any(
        PARTS.get(name, (name,))[0] == register
        for step in decoded.value
        if step.address < pc
        for name in step.written
    )


def reraised_by(image: Image, context: FaultContext) -> str | None:
    """The handler that sent the final signal: the outermost frame inside the signal frame.

    A handler whose last act is raise() jumps there and leaves no frame (faulthandler at -O2): the
    C library's function is then outermost, and is not named as the handler.
    """
    if context.frame is None:
        return None
    frames = crashing_stack(image, context).frames
    for position, frame in enumerate(frames):
        if frame.kind is FrameKind.SIGNAL and position and frames[position + 1 :][:1]:
            handler = frames[position - 1]
            if frames[position + 1].pc != context.pc:
                continue
            if _C_LIBRARY.match((handler.module or "").rsplit("/", 1)[-1]):
                break
            return handler.function or handler.module or f"{handler.pc:#x}"
    return _faulthandler(image, context) or "a signal handler"


def _faulthandler(image: Image, context: FaultContext) -> str | None:
    """Python's faulthandler, by its table: it is on, and has just taken itself off this signal.

    Modules/faulthandler.c: an array `faulthandler_handlers` of signal number, whether enabled, name
    and previous handler; the handler disables its own entry before it sends the signal again.
    """
    if image.process.architecture.word_size != _WORD:
        return None
    for module in image.modules:
        if "python" not in module.name:
            continue
        table = image.symbol_named(module, "faulthandler_handlers")
        if isinstance(table, Gap):
            continue
        raw = image.read(table.value.address, _FAULTHANDLER_SIZE * _FAULTHANDLER_COUNT)
        enabled = (
            dict(
                _FAULTHANDLER.unpack_from(raw.value, at * _FAULTHANDLER_SIZE)
                for at in range(_FAULTHANDLER_COUNT)
            )
            if isinstance(raw, Known)
            else {}
        )
        if enabled.get(context.signal.number) == 0 and any(enabled.values()):
            return "faulthandler_fatal_error"
    return None
