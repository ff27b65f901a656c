"""What the libdw tier is asked for, and what it answers: walks along unwind tables."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.process import Address
from vllm_forensics.model.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFile:
    """A module's file on this machine, already checked to be the one that was mapped."""

    path: str
    start: Address
    end: Address
    debug_path: str = ""
    """Where debug information was split off: its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkStart:
    """A thread's state to walk from: as it stopped, or as a signal interrupted it."""

    pc: Address
    registers: tuple[tuple[int, int], ...]
    """(DWARF number, value); the numbers are each architecture's ABI supplement's."""
    innermost: int
    """How many frames to keep from this end of the stack."""
    outermost: int = 0


class WalkEnd(StrEnum):
    """Why a walk went no further."""

    OUTERMOST = "outermost"
    """The tables say that the last frame is the outermost one."""
    NO_TABLE = "no_table"
    """No file, or no unwind table of it, covers the last frame's pc: its caller is unknown."""
    NO_MEMORY = "no_memory"
    """The image does not hold the stack's memory."""
    TOO_DEEP = "too_deep"
    """More frames than any walk follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedFrame:
    """One frame of a walk; inlined calls are among its lines."""

    level: int
    pc: Address
    is_call: bool
    """The pc is a return address: the call stands before it."""
    function: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A stack's frames, innermost first; from the middle of a deep one, none."""

    frames: tuple[WalkedFrame, ...]
    depth: int
    """All frames that were walked, kept or not."""
    end: WalkEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedLine:
    """A source place of a pc: the innermost inlined call first, the function itself last."""

    function: str | None
    file: str | None
    line: int | None
    column: int | None
