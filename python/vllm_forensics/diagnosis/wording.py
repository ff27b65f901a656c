"""Addresses, mappings and accesses in the words that findings and their proofs share."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.access import MemoryAccess
from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.model.finding import Access
from vllm_forensics.model.process import Address, Mapping

NULL_PAGE: Final = 64 << 10
"""vm.mmap_min_addr's default: nothing can be mapped below, so an address there came from a null."""


def is_canonical(address: Address) -> bool:
    """Are bits 63 to 47 equal (Intel SDM 1, 3.3.7.1)?

    User addresses of 57-bit paging count as wild.
    """
    return address < 1 << 47 or address >= (1 << 64) - (1 << 47)


def describe_mapping(mapping: Mapping) -> str:
    """A mapping in a few words: what it is, and what may be done with it."""
    rights = {
        (False, False): "neither readable nor writable",
        (True, False): "read-only",
        (True, True): "writable",
        (False, True): "write-only",
    }[mapping.readable, mapping.writable]
    of = (
        f" memory of {mapping.path}"
        if mapping.path
        else " memory without a file (heap, stack or mmap)"
    )
    return rights + (" executable" if mapping.executable else "") + of


def size_text(size: int) -> str:
    """A number of bytes as a person says it: 8.0 MiB."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def rights_text(mapping: Mapping) -> str:
    """A mapping as a proof shows it: its range, its rights as `rw-`, its file."""
    flags = "".join(
        letter if on else "-"
        for letter, on in (
            ("r", mapping.readable),
            ("w", mapping.writable),
            ("x", mapping.executable),
        )
    )
    return f"mapping {mapping.start:#x}-{mapping.end:#x} {flags} {mapping.path or '(no file)'}"


def access_text(access: MemoryAccess | None, context: FaultContext) -> str:
    """A sentence's beginning: `The program read 8 bytes from`; the address follows."""
    kind = access_kind(access, context)
    size = f"{access.size} bytes " if access else ""
    return {
        Access.READ: f"The program read {size}from",
        Access.WRITE: f"The program wrote {size}to",
        Access.EXECUTE: "Control went to",
        None: "The program accessed",
    }[kind]


def access_kind(access: MemoryAccess | None, context: FaultContext) -> Access | None:
    """Read or write: the operand's word, else the page-fault error code's (Intel SDM 3A, 4.7)."""
    if access is not None:
        return access.access
    if context.is_page_fault and context.frame is not None:
        return Access.WRITE if context.frame.error_code & 2 else Access.READ
    return None


def access_proof(access: MemoryAccess | None, context: FaultContext) -> tuple[str, ...]:
    """What shows that the access was made: the operand, and the signal frame's error code."""
    proof = []
    if access is not None:
        proof.append(f"operand {access.operand} = {access.address:#x}, {access.size} bytes")
    if context.is_page_fault and context.frame is not None:
        proof.append(f"page-fault error code {context.frame.error_code:#x} in the signal frame")
    return tuple(proof)
