"""What a number in a register means: null, a place in a module, stack, heap, or nothing mapped."""

from __future__ import annotations

from vllm_forensics.diagnosis.access import PARTS
from vllm_forensics.diagnosis.wording import NULL_PAGE, is_canonical
from vllm_forensics.model.answer import Gap, Known
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Mapping
from vllm_forensics.model.stack import Instruction, OperandKind


def describe_value(image: Image, value: int) -> str:
    """A few words for one value, as far as the address space explains it."""
    if value == 0:
        return "null"
    if value < NULL_PAGE:
        return f"{value}"
    if not is_canonical(value):
        return "no address" + _as_text(value)
    mapping = image.mapping_at(value)
    if isinstance(mapping, Gap):
        return "not mapped" + _as_text(value)
    return _describe_place(image, value, mapping.value)


def notable_registers(
    image: Image, instruction: Instruction | None, registers: dict[str, int]
) -> tuple[str, ...]:
    """The registers that the faulting instruction uses, with value and meaning."""
    names: list[str] = []
    for operand in instruction.operands if instruction else ():
        used = (operand.base, operand.index)
        if operand.kind is OperandKind.REGISTER:
            used = (operand.register, None)
        names.extend(
            PARTS[name][0] if name in PARTS and name not in registers else name
            for name in used
            if name
        )
    if instruction is not None and (
        instruction.is_call or instruction.mnemonic in {"push", "pop", "ret"}
    ):
        names += ["rsp", "esp"]
    return tuple(
        f"{name} {registers[name]:#x} {describe_value(image, registers[name])}"
        for name in dict.fromkeys(names)
        if name in registers
    )


def _describe_place(image: Image, value: int, mapping: Mapping) -> str:
    """What lies at a mapped address: a module, a stack, a file, or memory without a file."""
    module = image.module_at(value)
    if isinstance(module, Known):
        return f"{module.value.name}+{value - module.value.bias:#x}"
    if any(mapping.start <= thread.sp < mapping.end for thread in image.threads):
        return "stack"
    if mapping.path:
        return mapping.path
    return "heap or mmap" if mapping.writable else "protected memory"


def _as_text(value: int) -> str:
    """A pointer that reads as text was overwritten by a string."""
    raw = value.to_bytes(8, "little").rstrip(b"\0")
    if len(raw) >= 4 and all(32 <= byte < 127 for byte in raw):
        return f", reads as the text {raw.decode('ascii')!r}"
    return ""
