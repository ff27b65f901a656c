"""What the faulting instruction did to memory, from its operands and the registers."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import Final

from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.finding import Access
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.stack import Instruction, Operand, OperandKind

_WRITE_BIT: Final = 2  # page-fault error code, Intel SDM 3A 4.7
_FETCH_BIT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """One memory operand, with the address that it worked out to."""

    access: Access
    address: Address
    size: int
    operand: str
    """As assembly writes it: `[rdi + 0x48]`."""
    base: str | None
    """The register that the address came from."""


def instruction_at(image: Image, pc: Address) -> Instruction | None:
    """The decoded instruction at `pc`, if its bytes are known and valid."""
    decoded = image.instructions(pc)
    if isinstance(decoded, Gap):
        return None
    return next((found for found in decoded.value if found.address == pc), None)


def memory_accesses(image: Image, context: FaultContext) -> tuple[MemoryAccess, ...]:
    """Every memory access of the faulting instruction, implicit stack accesses included."""
    instruction = instruction_at(image, context.pc)
    if instruction is None:
        return ()
    explicit = [
        found
        for operand in instruction.operands
        if operand.kind is OperandKind.MEMORY
        and instruction.mnemonic not in {"lea", "nop"}
        and (found := _resolve(operand, context)) is not None
    ]
    return (*explicit, *_stack_accesses(instruction, context))


def faulting_access(image: Image, context: FaultContext) -> MemoryAccess | None:
    """The access that covers the fault address; the only one where the address is not known."""
    address = context.signal.address
    found = memory_accesses(image, context)
    if address:
        covering = [a for a in found if _covers(a, address)]
        return _with_error_code(covering[0], context) if covering else None
    return _with_error_code(found[0], context) if found else None


def is_fetch(context: FaultContext) -> bool:
    """Did the processor fault on fetching the instruction itself?"""
    if context.is_page_fault and context.frame is not None:
        return bool(context.frame.error_code & _FETCH_BIT) or context.pc == context.signal.address
    return context.pc == context.signal.address


def effective_address(operand: Operand, registers: dict[str, int]) -> Address | None:
    """Segment base + base + index * scale + displacement, or None where a register is not known."""
    total = operand.displacement
    if operand.segment in {"fs", "gs"}:
        base = registers.get(f"{operand.segment}_base")
        if base is None:
            return None
        total += base
    for name, scale in ((operand.base, 1), (operand.index, operand.scale)):
        if name is not None:
            value = register_value(name, registers)
            if value is None:
                return None
            total += value * scale
    return total & _address_mask(registers)


def _address_mask(registers: MappingOf[str, int]) -> int:
    """Which bits address memory: of AArch64's, the top byte is a tag that user code may set."""
    if "eip" in registers:
        return (1 << 32) - 1
    return (1 << (56 if "pstate" in registers else 64)) - 1


def register_value(name: str, registers: dict[str, int]) -> int | None:
    """A register's value by any of its names (`eax`, `r8d` and `w0` are parts of wider ones)."""
    if name in registers:
        return registers[name]
    if name in {"riz", "eiz", "xzr", "wzr"}:
        return 0
    if name == "eip" or name not in PARTS:
        return None
    whole, bits = PARTS[name]
    # i386 has no whole one: `ax` is a part of eax.
    value = registers.get(whole, registers.get(f"e{whole[1:]}"))
    return None if value is None else value & ((1 << bits) - 1)


def _parts() -> dict[str, tuple[str, int]]:
    parts: dict[str, tuple[str, int]] = {}
    for letter in "abcd":
        parts |= {f"e{letter}x": (f"r{letter}x", 32), f"{letter}x": (f"r{letter}x", 16)}
        parts[f"{letter}l"] = (f"r{letter}x", 8)
    for name in ("si", "di", "bp", "sp"):
        parts |= {f"e{name}": (f"r{name}", 32), name: (f"r{name}", 16), f"{name}l": (f"r{name}", 8)}
    for number in range(8, 16):
        whole = f"r{number}"
        parts |= {f"{whole}d": (whole, 32), f"{whole}w": (whole, 16), f"{whole}b": (whole, 8)}
    for number in range(31):
        parts[f"w{number}"] = (f"x{number}", 32)
    return parts


PARTS: Final = _parts()
"""Part of a register → the whole register, and how many low bits of it."""


def _resolve(operand: Operand, context: FaultContext) -> MemoryAccess | None:
    address = effective_address(operand, dict(context.registers))
    if address is None:
        return None
    return MemoryAccess(
        access=Access.WRITE if operand.writes else Access.READ,
        address=address,
        size=operand.size,
        operand=operand_text(operand),
        base=operand.base or operand.index,
    )


def operand_text(operand: Operand) -> str:
    """A memory operand as assembly writes it."""
    parts = [operand.base] if operand.base else []
    if operand.index:
        parts.append(operand.index if operand.scale == 1 else f"{operand.index}*{operand.scale}")
    text = " + ".join(parts)
    if operand.displacement or not parts:
        sign = "-" if operand.displacement < 0 else "+"
        number = f"{abs(operand.displacement):#x}"
        text = f"{text} {sign} {number}" if text else number
    prefix = f"{operand.segment}:" if operand.segment else ""
    return f"{prefix}[{text}]"


def _stack_accesses(instruction: Instruction, context: FaultContext) -> list[MemoryAccess]:
    """Pushes and pops have no memory operand in the decoder's eyes."""
    sp, bp, size = ("esp", "ebp", 4) if "esp" in context.registers else ("rsp", "rbp", 8)
    if sp not in context.registers:
        return []
    if instruction.mnemonic.startswith("push") or instruction.is_call:
        access, address, operand, base = Access.WRITE, context.sp - size, f"[{sp} - {size:#x}]", sp
    elif instruction.mnemonic.startswith("pop") or instruction.is_return:
        access, address, operand, base = Access.READ, context.sp, f"[{sp}]", sp
    elif instruction.mnemonic == "leave":
        frame = context.registers.get(bp, 0)
        access, address, operand, base = Access.READ, frame, f"[{bp}]", bp
    else:
        return []
    address &= _address_mask(context.registers)
    return [MemoryAccess(access=access, address=address, size=size, operand=operand, base=base)]


def _covers(access: MemoryAccess, address: Address) -> bool:
    """`rep movs` may run on for a long way; its registers stand at the element that faulted."""
    return access.address <= address < access.address + max(access.size, 1)


def _with_error_code(access: MemoryAccess, context: FaultContext) -> MemoryAccess:
    """Where the processor's own error code is known, it decides between read and write."""
    if not context.is_page_fault or context.frame is None:
        return access
    kind = Access.WRITE if context.frame.error_code & _WRITE_BIT else Access.READ
    return MemoryAccess(
        access=kind,
        address=access.address,
        size=access.size,
        operand=access.operand,
        base=access.base,
    )
