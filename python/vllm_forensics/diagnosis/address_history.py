"""The last system call that decided over an address: is it mapped, and with which rights?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from vllm_forensics.model.process import Address
from vllm_forensics.model.syscalls import SystemCall

_PAGE: Final = 4096


class Covering(Enum):
    """What a call did to the page of an address."""

    MAPPED = "mapped"
    UNMAPPED = "unmapped"
    PROTECTED = "protected"
    """Without the right to write, or without any."""


def covering_call(
    calls: Sequence[SystemCall], address: Address
) -> tuple[SystemCall, Covering] | None:
    """The last successful call that mapped, unmapped or protected the page, and what it did."""
    for call in reversed(calls):
        covering = _covering(call, address)
        if covering is not None:
            return call, covering
    return None


def _covering(call: SystemCall, address: Address) -> Covering | None:
    if call.result is None or call.error is not None:
        return None
    match call.name:
        case "munmap" if _inside(address, _int(call, 0), _int(call, 1)):
            return Covering.UNMAPPED
        case "mmap" if _inside(address, call.result, _int(call, 1)):
            return _by_rights(call)
        case "mprotect" if _inside(address, _int(call, 0), _int(call, 1)):
            return _by_rights(call)
        case "mremap":
            return _by_move(call, address)
        case _:
            return None


def _by_rights(call: SystemCall) -> Covering:
    rights = call.arguments[2] if len(call.arguments) > 2 else ""
    return Covering.MAPPED if "PROT_WRITE" in rights else Covering.PROTECTED


def _by_move(call: SystemCall, address: Address) -> Covering | None:
    """mremap(old, old size, new size, flags) = new: what is not in the new range is gone."""
    if _inside(address, call.result, _int(call, 2)):
        return Covering.MAPPED
    if _inside(address, _int(call, 0), _int(call, 1)):
        return Covering.UNMAPPED
    return None


def _inside(address: Address, start: int | None, size: int | None) -> bool:
    """Whole pages are mapped and unmapped: the size is rounded up."""
    if start is None or size is None or size <= 0:
        return False
    return start <= address < start + -(-size // _PAGE) * _PAGE


def _int(call: SystemCall, index: int) -> int | None:
    try:
        return int(call.arguments[index], 0)
    except (ValueError, IndexError):
        return None
