"""Faults that the processor raises without a memory address: SIGILL, SIGTRAP, SIGFPE."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.access import effective_address, instruction_at, register_value
from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.finding import FaultKind, Finding
from vllm_forensics.model.image import Image
from vllm_forensics.model.stack import Instruction, Operand, OperandKind

SIGILL: Final = 4
SIGTRAP: Final = 5
SIGFPE: Final = 8
FPE_INTDIV: Final = 1
_TRAPS: Final = {
    "ud2": "the compiler put it where the program must never come (__builtin_trap, "
    "__builtin_unreachable, a missing return)",
    "ud1": "an undefined instruction, placed on purpose",
    "int3": "a breakpoint that no debugger was there to take",
    "brk": "a breakpoint or __builtin_trap",
    "udf": "an undefined instruction, placed on purpose",
    "ebreak": "a breakpoint or __builtin_trap",
    "c.ebreak": "a breakpoint or __builtin_trap",
    "trap": "__builtin_trap",
}


def trap_instruction(image: Image, context: FaultContext) -> Finding | None:
    """A trap that the program itself contains."""
    if context.signal.number not in {SIGILL, SIGTRAP} or not context.signal.may_be_fault:
        return None
    # After int3 the program counter stands behind the one-byte instruction (Intel SDM 2A, INT3).
    for pc in (context.pc, context.pc - 1):
        instruction = instruction_at(image, pc)
        mnemonic = instruction.mnemonic if instruction else ""
        if mnemonic in _TRAPS and (pc == context.pc or mnemonic == "int3"):
            return Finding(
                kind=FaultKind.TRAP_INSTRUCTION,
                summary=f"The program ran into {mnemonic}: {_TRAPS[mnemonic]}.",
                proof=(f"the instruction at {pc:#x} is {mnemonic}",),
                address=pc,
            )
    return None


def illegal_instruction(image: Image, context: FaultContext) -> Finding | None:
    """An instruction that this processor does not have, or bytes that are none."""
    if context.signal.number != SIGILL or not context.signal.from_kernel:
        return None
    instruction = instruction_at(image, context.pc)
    features = ", ".join(instruction.features).upper() if instruction else ""
    if instruction is not None and features:
        summary = f"{instruction.text} needs {features}, which this processor does not have."
        advice = (
            "grep -m1 ^flags /proc/cpuinfo    # is the feature listed?",
            "install a build for this processor, or rebuild with -march=native on it",
        )
        return _illegal(context.pc, summary, f"needs {features}", advice)
    if instruction is not None:
        summary = f"The processor refused {instruction.text}."
        return _illegal(context.pc, summary, None, ())
    raw = image.read(context.pc, 8)
    if isinstance(raw, Gap):
        summary = f"The processor refused what is at {context.pc:#x}; what that is, is not known: "
        return _illegal(context.pc, f"{summary}{raw.what}.", None, ())
    shown = raw.value.hex(" ")
    summary = f"The bytes at {context.pc:#x} are no instruction ({shown}): control went astray."
    return _illegal(context.pc, summary, None, ())


def integer_divide(image: Image, context: FaultContext) -> Finding | None:
    """SIGFPE of a division: by zero, or a quotient that does not fit."""
    if context.signal.number != SIGFPE or not context.signal.from_kernel:
        return None
    instruction = instruction_at(image, context.pc)
    divisor = _divisor(image, instruction, context) if instruction else None
    if divisor is not None and divisor != 0:
        return Finding(
            kind=FaultKind.UNKNOWN,
            summary=f"A division by {divisor:#x} overflowed: the quotient does not fit "
            "(the smallest integer divided by -1).",
            proof=(f"SIGFPE, the divisor is {divisor:#x}, not zero",),
            address=context.pc,
            message="quotient overflow",
        )
    if context.signal.code != FPE_INTDIV:
        return None
    return Finding(
        kind=FaultKind.INTEGER_DIVIDE_BY_ZERO,
        summary="An integer was divided by zero."
        if divisor == 0
        else "An integer division failed: its divisor, which is not known here, was zero, or the "
        "quotient did not fit.",
        proof=(
            f"SIGFPE with FPE_INTDIV at {context.pc:#x}",
            *([f"the divisor of {instruction.text} is 0"] if instruction and divisor == 0 else []),
        ),
        address=context.pc,
    )


def _illegal(pc: int, summary: str, message: str | None, advice: tuple[str, ...]) -> Finding:
    return Finding(
        kind=FaultKind.ILLEGAL_INSTRUCTION,
        summary=summary,
        proof=(f"SIGILL at {pc:#x}",),
        address=pc,
        message=message,
        advice=advice,
    )


def _divisor(image: Image, instruction: Instruction, context: FaultContext) -> int | None:
    if instruction.mnemonic not in {"div", "idiv"} or not instruction.operands:
        return None
    operand: Operand = instruction.operands[0]
    registers = dict(context.registers)
    if operand.kind is OperandKind.REGISTER and operand.register:
        return register_value(operand.register, registers)
    address = effective_address(operand, registers)
    raw = image.read(address, operand.size) if address is not None else None
    order = image.process.architecture.byte_order
    return int.from_bytes(raw.value, order) if isinstance(raw, Known) else None
