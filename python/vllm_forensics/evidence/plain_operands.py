"""Memory operands out of an instruction's text, where capstone 5 says nothing of how they are used.

For RISC-V, Power and z/Architecture it gives neither access nor groups; but all three write memory
as `displacement(base)`: `c.ld a0, 8(a0)`, `ld r3, 8(r9)`, `lg %r2, 8(%r1,%r15)`.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.stack import Instruction, Operand, OperandKind

_MEMORY: Final = re.compile(
    r"(?P<displacement>-?(?:0x[0-9a-f]+|\d+))\("
    r"(?:%?(?P<index>[a-z]\w*), ?)?%?(?P<base>[a-z]\w*)\)"
)
# Access of one element at a fixed width; what is not listed has no operand.
_WIDTHS: Final = {
    # RISC-V Unprivileged ISA, RV64I, F, D; compressed ones without their `c.`
    **{"lb": 1, "lbu": 1, "sb": 1, "lh": 2, "lhu": 2, "sh": 2, "lw": 4, "lwu": 4, "sw": 4},
    **{"ld": 8, "sd": 8, "flw": 4, "fsw": 4, "fld": 8, "fsd": 8},
    **{"lwsp": 4, "swsp": 4, "ldsp": 8, "sdsp": 8, "fldsp": 8, "fsdsp": 8},
    # Power ISA, book I, 3.3; `u` updates the base register with the address.
    **{"lbz": 1, "lbzu": 1, "stb": 1, "stbu": 1, "lhz": 2, "lha": 2, "lhzu": 2, "sth": 2},
    **{"lwz": 4, "lwa": 4, "lwzu": 4, "stw": 4, "stwu": 4, "ldu": 8, "std": 8, "stdu": 8},
    **{"lfs": 4, "stfs": 4, "lfd": 8, "stfd": 8},
    # z/Architecture Principles of Operation, chapter 7.
    **{"lg": 8, "stg": 8, "lgf": 4, "llgf": 4, "lgh": 2, "llgh": 2, "lgb": 1, "llgc": 1},
    **{"l": 4, "ly": 4, "st": 4, "sty": 4, "lh": 2, "lhy": 2, "sthy": 2, "ic": 1, "llc": 1},
    **{"stc": 1, "stcy": 1, "llh": 2, "ltg": 8, "lt": 4},
}
_RETURNS: Final = {"ret", "c.jr ra", "jalr zero, 0(ra)", "blr", "br %r14"}
_CALLS: Final = {"jal", "jalr", "c.jalr", "bl", "bctrl", "bcctrl", "brasl", "basr", "bras"}


def plain_instruction(address: int, size: int, mnemonic: str, operands: str) -> Instruction:
    """The instruction with its one memory operand, if its width is known."""
    text = f"{mnemonic} {operands}".strip()
    return Instruction(
        address=address,
        size=size,
        mnemonic=mnemonic,
        text=text,
        operands=_memory_operands(mnemonic.removeprefix("c."), operands),
        is_call=mnemonic in _CALLS,
        is_return=text in _RETURNS,
    )


def _memory_operands(mnemonic: str, operands: str) -> tuple[Operand, ...]:
    width = _WIDTHS.get(mnemonic)
    found = _MEMORY.search(operands)
    if width is None or found is None:
        return ()
    stores = mnemonic.startswith(("s", "fs"))
    base = found["base"]
    return (
        Operand(
            kind=OperandKind.MEMORY,
            size=width,
            reads=not stores,
            writes=stores,
            # Register 0 as a base stands for the number 0 on Power and z/Architecture.
            base=None if base in {"r0", "zero"} else base,
            index=found["index"],
            displacement=int(found["displacement"], 0),
        ),
    )
