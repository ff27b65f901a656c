"""Calls: frames, the source lines and variables in them, machine instructions."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.answer import Tier
from vllm_forensics.model.process import Address
from vllm_forensics.model.record import dataclass


class FrameKind(StrEnum):
    """What a frame stands for."""

    NATIVE = "native"
    INLINED = "inlined"
    PYTHON = "python"
    SIGNAL = "signal"
    """The kernel's signal frame: what is above it (older) was interrupted, not called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A place in source code, with the function that it belongs to where that is known."""

    file: str
    line: int
    function: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A name in a frame and its value as the debugger prints it."""

    name: str
    value: str
    type: str | None = None
    is_argument: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call on a stack, and who told us."""

    index: int
    pc: Address
    function: str | None
    tier: Tier
    kind: FrameKind = FrameKind.NATIVE
    file: str | None = None
    line: int | None = None
    module: str | None = None
    module_offset: int | None = None
    variables: tuple[Variable, ...] = ()
    names_trusted: bool = True
    """False where the file on disk is not the one that crashed: no name is given then."""

    @property
    def arguments(self) -> tuple[Variable, ...]:
        """The variables that the caller passed, in order."""
        return tuple(variable for variable in self.variables if variable.is_argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recursion:
    """A run of frames that repeats: `period` frames from `first_index`, `count` times."""

    first_index: int
    period: int
    count: int
    is_least: bool = False
    """There may be more: the rest of the stack could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The frames of one thread, innermost first."""

    tid: int
    frames: tuple[Frame, ...]
    truncated: bool = False
    """More frames follow than were asked for."""
    recursion: Recursion | None = None


class OperandKind(StrEnum):
    """What an operand names."""

    REGISTER = "register"
    MEMORY = "memory"
    IMMEDIATE = "immediate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One operand of an instruction. For memory: segment:[base + index * scale + displacement]."""

    kind: OperandKind
    size: int
    reads: bool
    writes: bool
    register: str | None = None
    base: str | None = None
    index: str | None = None
    segment: str | None = None
    scale: int = 1
    displacement: int = 0
    """For an immediate: its value. A pc-relative operand's base is already resolved into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One decoded machine instruction."""

    address: Address
    size: int
    mnemonic: str
    text: str
    operands: tuple[Operand, ...] = ()
    features: tuple[str, ...] = ()
    """Instruction-set extensions that it needs, as the decoder names them (avx512, sse4_1)."""
    is_call: bool = False
    is_jump: bool = False
    is_return: bool = False
    written: tuple[str, ...] = ()
    """Registers that it changes, the implicit ones included."""

    @property
    def end(self) -> Address:
        """The address of the next instruction."""
        return self.address + self.size
