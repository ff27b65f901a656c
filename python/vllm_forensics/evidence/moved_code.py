"""Code that was decoded before, here or at another address.

Many cores of one bug ask for the same few functions, which lay elsewhere in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vllm_forensics.model.process import Address
from vllm_forensics.model.stack import Instruction

_ELSEWHERE: Final = 1 << 20
"""How far code is moved to see what of it depends on its place."""
_PLACE_IN_PAGE: Final = (1 << 12) - 1
"""aarch64's adrp counts pages: code moves by whole ones only, as modules do."""
_LOWEST: Final = 1 << 33
_HIGHEST: Final = 1 << 62
"""Between them no target wraps around, which no instruction puts further away than 4 GiB."""
_FARTHEST: Final = (1 << 32) + (1 << 12)
"""What seems further away has wrapped around, as all of i386's does above 4 GiB."""
_KEPT: Final = 32_768
_BYTES_A_STEP: Final = 64
"""Code that holds no instruction takes memory too."""

Decode = Callable[[bytes, Address], Sequence[Instruction]]
_Key = tuple[bytes, Address, Address | None]
"""The code, its place in a page, and its address where it cannot be moved."""


class _Step(NamedTuple):
    found: Instruction
    moving: int | None
    """The operand whose displacement is relative to the instruction, by its position."""
    around: tuple[str, str] | None
    """The text before and after that displacement, if it stands there."""


class DecodedCode:
    """What a decoder made of code, kept and moved, up to a number of instructions."""

    def __init__(self, decode: Decode, most: int = _KEPT) -> None:
        """`decode` is asked twice for new code, to see what of it moves; `most` are kept."""
        self._decode = decode
        self._most = most
        self._known: dict[_Key, tuple[_Step, ...] | None] = {}
        self._kept = 0

    def decode(self, code: bytes, address: Address) -> tuple[Instruction, ...]:
        """The instructions of `code`, as the decoder would give them."""
        is_movable = _LOWEST <= address < _HIGHEST
        key = (code, address & _PLACE_IN_PAGE, None if is_movable else address)
        known = self._known.get(key)
        if known:
            by = address - known[0].found.address
            return tuple(_moved(step, by) for step in known)
        found = tuple(self._decode(code, address))
        if key not in self._known:
            elsewhere = address + _ELSEWHERE if is_movable else address
            self._keep(key, found, tuple(self._decode(code, elsewhere)))
        return found

    def _keep(
        self,
        key: _Key,
        here: tuple[Instruction, ...],
        there: tuple[Instruction, ...],
    ) -> None:
        cost = 1 + len(key[0]) // _BYTES_A_STEP + len(here)
        if self._kept + cost > self._most:
            self._known.clear()
            self._kept = 0
        self._kept += cost
        steps = [_step(*pair) for pair in zip(here, there, strict=False)]
        whole = tuple(step for step in steps if step is not None)
        self._known[key] = whole if len(whole) == len(here) == len(there) else None


def _step(here: Instruction, there: Instruction) -> _Step | None:
    """What changed when the instruction was moved; None where more did than one address in it."""
    back = replace(there, address=here.address)
    if back == here:
        return _Step(here, None, None)
    for position, operand in enumerate(here.operands):
        if abs(operand.displacement - here.address) > _FARTHEST:
            continue
        step = _Step(here, position, None)
        if _moved(step, _ELSEWHERE) == there:
            return step
        before, target, after = here.text.partition(f"{operand.displacement:#x}")
        step = _Step(here, position, (before, after))
        if target and _moved(step, _ELSEWHERE) == there:
            return step
    return None


def _moved(step: _Step, by: int) -> Instruction:
    found, operands, text = step.found, step.found.operands, step.found.text
    if by == 0:
        return found
    if step.moving is not None:
        at = step.moving
        target = operands[at].displacement + by
        moved = replace(operands[at], displacement=target)
        operands = (*operands[:at], moved, *operands[at + 1 :])
        if step.around is not None:
            text = f"{step.around[0]}{target:#x}{step.around[1]}"
    return Instruction(
        address=found.address + by,
        size=found.size,
        mnemonic=found.mnemonic,
        text=text,
        operands=operands,
        features=found.features,
        is_call=found.is_call,
        is_jump=found.is_jump,
        is_return=found.is_return,
        written=found.written,
    )
