"""The whole judgement of one image: what, where, why, where from, and what to type next."""

from __future__ import annotations

import shlex

from vllm_forensics.diagnosis.access import instruction_at
from vllm_forensics.diagnosis.calls import (
    UNNAMED_HANDLER,
    culprit_of,
    fault_frames,
    has_null_this,
    is_called_on_null,
    reraised_by,
)
from vllm_forensics.diagnosis.context import FAULT_SIGNALS, FaultContext, fault_context
from vllm_forensics.diagnosis.origin import origin_of
from vllm_forensics.diagnosis.recursion import find_recursion
from vllm_forensics.diagnosis.rules import find_fault
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.source_line import at_own_line
from vllm_forensics.model.finding import Certainty, Diagnosis, FaultKind, Finding, Origin
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.stack import Frame, Recursion

_MEMORY_KINDS = {
    FaultKind.NULL_DEREFERENCE,
    FaultKind.WILD_POINTER,
    FaultKind.NON_CANONICAL_ADDRESS,
    FaultKind.WRITE_TO_READ_ONLY,
    FaultKind.PROTECTED_PAGE,
    FaultKind.EXECUTE_NON_EXECUTABLE,
    FaultKind.NULL_CALL,
}
_NOT_HERE = {FaultKind.EXTERNAL_SIGNAL, FaultKind.UNKNOWN}
_ALLOCATOR = (
    "malloc", "free", "realloc", "calloc", "operator new", "operator delete", "int_malloc",
    "int_free", "unlink_chunk", "tcache_get",
)  # fmt: skip


def diagnose(image: Image) -> Diagnosis | None:
    """Judge one image; None for an image that holds no thread."""
    context = fault_context(image)
    if context is None:
        return None
    finding = find_fault(image, context)
    frames = fault_frames(image, context)
    pc = _faulting_pc(context, finding)
    culprit = culprit_of(frames, finding, on_null_object=is_called_on_null(image, context))
    if culprit is not None:
        culprit = at_own_line(image, culprit, pc if culprit.pc == context.pc else culprit.pc)
    recursion = find_recursion(image, context, frames)
    origin = origin_of(image, context, finding)
    handler = reraised_by(image, context)
    at_fault = context.signal.number in FAULT_SIGNALS and finding.kind not in _NOT_HERE
    instruction = instruction_at(image, pc) if at_fault else None
    return Diagnosis(
        finding=finding,
        context_pc=pc,
        context_registers=dict(context.registers),
        signal=context.signal,
        delivered=context.delivered,
        instruction=instruction,
        culprit=culprit,
        reraised_by=handler,
        recursion=recursion,
        origin=origin,
        explanation=_explanation(context, finding, frames, culprit, origin, handler, recursion),
        next_steps=_next_steps(image, finding, culprit),
    )


def _faulting_pc(context: FaultContext, finding: Finding) -> Address:
    """Where the instruction that faulted starts: int3 leaves the program counter behind itself."""
    if finding.kind is FaultKind.TRAP_INSTRUCTION and finding.address is not None:
        return finding.address
    return context.pc


def _explanation(  # noqa: PLR0913, PLR0917 - one sentence each
    context: FaultContext,
    finding: Finding,
    frames: tuple[Frame, ...],
    culprit: Frame | None,
    origin: tuple[Origin, ...],
    handler: str | None,
    recursion: Recursion | None,
) -> str:
    sentences = [finding.summary]
    if recursion is not None and finding.kind is FaultKind.STACK_OVERFLOW:
        sentences.append(_recursion_sentence(frames, recursion))
    sentences.extend(_where(context, frames, culprit))
    sentences.extend(_origin_sentence(origin))
    if finding.kind in _MEMORY_KINDS and _in_allocator(frames):
        sentences.append(
            "The fault is inside the allocator: the pointer it was given, or its own bookkeeping, "
            "was damaged earlier and elsewhere."
        )
    if handler is not None and context.delivered.number != context.signal.number:
        sentences.append(
            f"{_handler_text(handler)} then ended it with "
            f"{signal_name(context.delivered.number)}; the fault above is the first one."
        )
    elif handler is not None:
        sentences.append(f"{_handler_text(handler)} sent the signal a second time.")
    return " ".join(sentences)


def _handler_text(handler: str) -> str:
    return "A signal handler" if handler == UNNAMED_HANDLER else f"The signal handler {handler}"


def _where(context: FaultContext, frames: tuple[Frame, ...], culprit: Frame | None) -> list[str]:
    if culprit is None:
        return []
    name = culprit.function or _module_place(culprit)
    at = f" ({culprit.file.rsplit('/', 1)[-1]}:{culprit.line})" if culprit.file else ""
    if context.signal.number not in FAULT_SIGNALS:
        return [f"The nearest call in the program's own code is {name}{at}."]
    inner = [frame for frame in frames if frame.index < culprit.index and frame.function]
    if inner and has_null_this(inner[0]):
        return [f"It happened in {inner[0].function}, called on a null object by {name}{at}."]
    if inner and inner[0].function:
        return [f"It happened in {inner[0].function}, called from {name}{at}."]
    return [f"It happened in {name}{at}."]


def _origin_sentence(origin: tuple[Origin, ...]) -> list[str]:
    if not origin:
        return []
    last = origin[-1]
    at = f" at {last.file.rsplit('/', 1)[-1]}:{last.line}" if last.file else ""
    hedge = "" if last.certainty is Certainty.PROVED else "Probably "
    pointer = "null" if last.value == 0 else "the bad pointer"
    if last.what.startswith("returned"):
        who = last.function or "an indirect call"
        text = f"{pointer} was returned by {who}{at}."
    elif last.what.startswith("loaded from memory"):
        text = f"{pointer} was {last.what}{at}."
    elif last.what.startswith("set to a constant"):
        text = f"{pointer} was set as a constant{at}."
    else:
        return []
    text = hedge + text
    return [text[0].upper() + text[1:]]


def _recursion_sentence(frames: tuple[Frame, ...], recursion: Recursion) -> str:
    cycle = [
        frame.function or _module_place(frame)
        for frame in frames
        if recursion.first_index <= frame.index < recursion.first_index + recursion.period
        and is_own(frame)
    ]
    names = " → ".join(dict.fromkeys(cycle))
    least = "at least " if recursion.is_least else ""
    return f"{names} called itself: {least}{recursion.count:,} times on this stack."


def _next_steps(image: Image, finding: Finding, culprit: Frame | None) -> tuple[str, ...]:
    steps = list(finding.advice)
    if finding.kind in _MEMORY_KINDS and culprit is not None:
        steps.append(
            "forensics build --asan --source DIR && forensics run --asan -- COMMAND    "
            "# tells whether memory was used after its free, or beyond its end"
        )
    if culprit is not None and culprit.file is None and culprit.module and culprit.names_trusted:
        steps.append(
            f"addr2line -Cfie {shlex.quote(culprit.module)} {culprit.module_offset or 0:#x}    "
            f"# after a build of {culprit.module.rsplit('/', 1)[-1]} with -g: the source line"
        )
    if finding.kind is FaultKind.UNKNOWN:
        steps.append("PYTHONFAULTHANDLER=1 COMMAND    # prints the Python stack when it dies")
    steps.append("forensics core --gdb CORE    # look around by hand, everything loaded")
    return tuple(dict.fromkeys(steps))


def _in_allocator(frames: tuple[Frame, ...]) -> bool:
    return any(_is_allocator(frame) for frame in frames[:3])


def _is_allocator(frame: Frame) -> bool:
    """By its exact name, or in a runtime by how it begins: `free_blocks` may be the user's own."""
    name = (frame.function or "").lstrip("_").removeprefix("libc_").removeprefix("GI_")
    return name in _ALLOCATOR or (not is_own(frame) and name.startswith(_ALLOCATOR))


def _module_place(frame: Frame) -> str:
    return f"{(frame.module or '?').rsplit('/', 1)[-1]}+{frame.module_offset or 0:#x}"
