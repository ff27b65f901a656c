"""Machine code into instructions with their operands, through capstone."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from vllm_forensics.evidence.machines import MACHINES
from vllm_forensics.evidence.moved_code import DecodedCode
from vllm_forensics.evidence.plain_operands import plain_instruction
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Address, Architecture
from vllm_forensics.model.stack import Instruction, Operand, OperandKind

if TYPE_CHECKING:
    import capstone

_WINDOW: Final = 64
"""Bytes read beyond the instruction of interest: four of the longest x86 ones."""
_MAX_FUNCTION: Final = 64 << 10
_LONGEST: Final = 15
_MOVES: Final = ("mov", "vmov", "vpmov", "vextract", "vcompress", "vpcompress")
_ALIASES: Final = {"fp": "x29", "lr": "x30"}
"""capstone's words for two registers of aarch64."""
_BASIC_GROUPS: Final = {
    "call", "jump", "ret", "return", "int", "iret", "privilege", "branch_relative", "mode64",
    "not64bitmode", "vm",
}  # fmt: skip


class Memory(Protocol):
    """Whoever can read the code."""

    def read(self, address: Address, size: int) -> Answer[bytes]:
        """Exactly `size` bytes at `address`."""


def decode_function(
    memory: Memory, architecture: Architecture, start: Address, pc: Address
) -> Answer[tuple[Instruction, ...]]:
    """Decode from a function's start to a few instructions beyond `pc`.

    Where the start is too far away or does not lead to `pc`, decoding starts at `pc` itself.
    """
    if not 0 <= pc - start <= _MAX_FUNCTION:
        start = pc
    code = _read_up_to(memory, start, pc - start + _WINDOW)
    if isinstance(code, Gap):
        return code
    known = _decoded_code(architecture)
    decoded = known.decode(code, start)
    if not any(instruction.address == pc for instruction in decoded):
        decoded = known.decode(code[pc - start :], pc)
    if not decoded:
        shown = code[pc - start :][:_LONGEST].hex(" ")
        return Gap(what=f"the bytes at {pc:#x} are no instruction: {shown}")
    return Known(value=decoded)


@cache
def _decoded_code(architecture: Architecture) -> DecodedCode:
    return DecodedCode(partial(decode, architecture=architecture))


def decode(code: bytes, address: Address, architecture: Architecture) -> list[Instruction]:
    """Decode as many instructions as `code` holds, until one that the decoder does not know."""
    decoder = _decoder(architecture)
    return [_convert(found, architecture) for found in decoder.disasm(code, address)]


def _read_up_to(memory: Memory, start: Address, size: int) -> bytes | Gap:
    """Read `size` bytes, or what there is before the mapping ends."""
    answer: Answer[bytes] = Gap(what="nothing to read")
    for beyond in (_WINDOW, _LONGEST + 1, 4, 1):
        answer = memory.read(start, size - _WINDOW + beyond)
        if isinstance(answer, Known):
            return answer.value
    assert isinstance(answer, Gap)  # noqa: S101 - the loop ends with the last failure
    return answer


@cache
def _decoder(architecture: Architecture) -> capstone.Cs:
    import capstone

    family, modes = MACHINES[architecture].decoder
    mode = sum(getattr(capstone, name) for name in modes.split("|"))
    decoder = capstone.Cs(getattr(capstone, family), mode)
    decoder.detail = True
    return decoder


def _convert(found: Any, architecture: Architecture) -> Instruction:
    match architecture:
        case Architecture.X86_64 | Architecture.I386 | Architecture.AARCH64:
            return _convert_detailed(found, architecture)
        case Architecture.RISCV64 | Architecture.PPC64LE | Architecture.S390X:
            return plain_instruction(found.address, found.size, found.mnemonic, found.op_str)


def _convert_detailed(found: Any, architecture: Architecture) -> Instruction:
    groups = {found.group_name(group).lower() for group in found.groups}
    written = {found.reg_name(register) for register in found.regs_access()[1]}
    return Instruction(
        address=found.address,
        size=found.size,
        mnemonic=found.mnemonic,
        text=f"{found.mnemonic} {found.op_str}".strip(),
        operands=tuple(
            _convert_operand(found, operand, architecture) for operand in found.operands
        ),
        features=tuple(sorted(groups - _BASIC_GROUPS)),
        is_call="call" in groups,
        is_jump="jump" in groups and "call" not in groups,
        is_return=not groups.isdisjoint({"ret", "return"}),
        written=tuple(sorted(_ALIASES.get(name, name) for name in written if name)),
    )


def _convert_operand(found: Any, operand: Any, architecture: Architecture) -> Operand:
    import capstone

    reads = bool(operand.access & capstone.CS_AC_READ)
    writes = bool(operand.access & capstone.CS_AC_WRITE)
    if _stores(found, operand):
        reads, writes = False, True
    size = getattr(operand, "size", 8)
    if operand.type == capstone.CS_OP_REG:
        return Operand(
            kind=OperandKind.REGISTER,
            size=size,
            reads=reads,
            writes=writes,
            register=_register(found, operand.reg),
        )
    if operand.type == capstone.CS_OP_MEM:
        memory = operand.mem
        base = _register(found, memory.base) if memory.base else None
        displacement = memory.disp
        if base == "rip":
            base, displacement = None, displacement + found.address + found.size
        segment = getattr(memory, "segment", 0)
        return Operand(
            kind=OperandKind.MEMORY,
            size=_aarch64_size(found) if architecture is Architecture.AARCH64 else size,
            reads=reads,
            writes=writes,
            base=base,
            index=_register(found, memory.index) if memory.index else None,
            segment=found.reg_name(segment) if segment else None,
            scale=getattr(memory, "scale", 1),
            displacement=displacement,
        )
    return Operand(
        kind=OperandKind.IMMEDIATE, size=size, reads=True, writes=False, displacement=operand.imm
        if operand.type == capstone.CS_OP_IMM
        else 0,
    )  # fmt: skip


def _register(found: Any, number: int) -> str:
    """A register as the core's notes call it."""
    name: str = found.reg_name(number)
    return _ALIASES.get(name, name)


def _stores(found: Any, operand: Any) -> bool:
    """A move whose first operand is memory stores to it.

    capstone 5 calls the masked forms a read: `vmovdqu8 zmmword ptr [rax] {k1}, zmm16` in memset.
    """
    return bool(
        found.mnemonic.startswith(_MOVES)
        and found.operands
        and operand is found.operands[0]
        and hasattr(operand.mem, "segment")
    )


def _aarch64_size(found: Any) -> int:
    """The width of a load or store, from its mnemonic and first register (Arm ARM, C6.2)."""
    mnemonic: str = found.mnemonic
    if mnemonic.endswith("b"):
        return 1
    if mnemonic.endswith("h"):
        return 2
    register = found.reg_name(found.operands[0].reg) if found.operands else ""
    return {"w": 4, "s": 4, "d": 8, "x": 8, "q": 16, "h": 2, "b": 1}.get(register[:1], 8)
