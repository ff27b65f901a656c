"""Faults of control flow: SIGSEGV and SIGBUS of a bad jump, call or return, or a used-up stack."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.access import faulting_access, is_fetch
from vllm_forensics.diagnosis.context import SIGBUS, SIGSEGV, FaultContext
from vllm_forensics.diagnosis.memory import read_pointer
from vllm_forensics.diagnosis.wording import NULL_PAGE, describe_mapping, rights_text, size_text
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.finding import Access, FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address, Mapping

AT_RANDOM: Final = 25
_STACK_REACH: Final = 1 << 20
"""How far from the stack pointer a frame's accesses may lie: large locals are touched in pages."""


def null_call(image: Image, context: FaultContext) -> Finding | None:
    """The processor was sent to an address near zero: a call through a null pointer."""
    if context.signal.number != SIGSEGV or not is_fetch(context) or context.pc >= NULL_PAGE:
        return None
    caller = _return_address(image, context)
    return Finding(
        kind=FaultKind.NULL_CALL,
        summary=f"A function pointer that held {context.pc:#x} was called.",
        proof=(
            f"program counter {context.pc:#x} = si_addr",
            *(
                [f"{_return_place(image)}, {caller:#x}, is the caller's return address"]
                if caller
                else []
            ),
        ),
        access=Access.EXECUTE,
        address=context.pc,
    )


def bad_fetch(image: Image, context: FaultContext) -> Finding | None:
    """The processor was sent to an address that holds no code."""
    if context.signal.number != SIGSEGV or not is_fetch(context):
        return None
    mapping = image.mapping_at(context.pc)
    if isinstance(mapping, Known):
        return Finding(
            kind=FaultKind.EXECUTE_NON_EXECUTABLE,
            summary=f"Control went to {context.pc:#x}, which is {describe_mapping(mapping.value)} "
            "and must not be executed.",
            proof=(f"program counter {context.pc:#x} = si_addr", rights_text(mapping.value)),
            access=Access.EXECUTE,
            address=context.pc,
        )
    return Finding(
        kind=FaultKind.WILD_POINTER,
        summary=f"Control went to {context.pc:#x}, where nothing is mapped.",
        proof=(f"program counter {context.pc:#x} = si_addr", mapping.what),
        access=Access.EXECUTE,
        address=context.pc,
    )


def stack_overflow(image: Image, context: FaultContext) -> Finding | None:
    """The stack pointer ran out of its mapping: recursion, or locals larger than the stack."""
    address = context.signal.address
    if context.signal.number not in {SIGSEGV, SIGBUS} or not address:
        return None
    stack = _stack_above(image, context.sp)
    if stack is None or abs(address - context.sp) > _STACK_REACH or address >= stack.start:
        return None
    below = image.mapping_at(address)
    guarded = isinstance(below, Gap) or not (below.value.readable or below.value.writable)
    access = faulting_access(image, context)
    if not guarded:
        return None
    return Finding(
        kind=FaultKind.STACK_OVERFLOW,
        summary=_overflow_summary(stack, address),
        proof=(
            f"stack pointer {context.sp:#x}, {size_text(stack.end - context.sp)} "
            "below the stack's top",
            f"fault address {address:#x} is outside the stack's mapping "
            f"{stack.start:#x}-{stack.end:#x}"
            + ("" if isinstance(below, Gap) else " and inside its guard page"),
        ),
        access=access.access if access else Access.WRITE,
        address=address,
        size=access.size if access else None,
        advice=(
            "make the recursion end or turn it into a loop; for a deep but finite one: "
            "ulimit -s unlimited, or threading.stack_size(64 << 20) before the thread starts",
        ),
    )


def _return_address(image: Image, context: FaultContext) -> Address | None:
    link = image.process.architecture.link_register
    word = context.registers.get(link) if link else read_pointer(image, context.sp)
    if word is None:
        return None
    mapping = image.mapping_at(word)
    return word if isinstance(mapping, Known) and mapping.value.executable else None


def _return_place(image: Image) -> str:
    link = image.process.architecture.link_register
    return f"the link register {link}" if link else "the word at the stack pointer"


def _stack_above(image: Image, sp: Address) -> Mapping | None:
    """The stack that `sp` ran out of: the mapping that holds it, or the first one above it.

    One huge local takes the stack pointer far below; nothing else is mapped for a long way below
    the main thread's stack, which AT_RANDOM points into (getauxval(3)).
    """
    for mapping in image.mappings:
        if mapping.end > sp and mapping.readable and mapping.writable and mapping.path is None:
            is_main = mapping.start <= image.process.auxv.get(AT_RANDOM, 0) < mapping.end
            return mapping if is_main or mapping.start - sp < _STACK_REACH else None
    return None


def _overflow_summary(stack: Mapping, address: Address) -> str:
    below = stack.start - address
    if below > 64 << 10:
        return (
            f"A function asked for more locals than the stack has left: the address {address:#x} "
            f"lies {size_text(below)} below the stack's end."
        )
    return (
        f"The thread's stack of {size_text(stack.end - stack.start)} was used up: the address "
        f"{address:#x} lies below its end {stack.start:#x}."
    )
