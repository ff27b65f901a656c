"""Conclusions: what kind of fault, why we say so, where it came from."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from enum import StrEnum

from vllm_forensics.model.process import Address, Signal
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.stack import Frame, Instruction, Recursion


class FaultKind(StrEnum):
    """Every kind of native death that is told apart; the values are part of the JSON contract."""

    NULL_DEREFERENCE = "null-dereference"
    NULL_CALL = "null-call"
    WILD_POINTER = "wild-pointer"
    NON_CANONICAL_ADDRESS = "non-canonical-address"
    WRITE_TO_READ_ONLY = "write-to-read-only"
    PROTECTED_PAGE = "protected-page"
    EXECUTE_NON_EXECUTABLE = "execute-non-executable"
    STACK_OVERFLOW = "stack-overflow"
    TRUNCATED_MAPPING = "truncated-mapping"
    MISALIGNED_ACCESS = "misaligned-access"
    ILLEGAL_INSTRUCTION = "illegal-instruction"
    TRAP_INSTRUCTION = "trap-instruction"
    INTEGER_DIVIDE_BY_ZERO = "integer-divide-by-zero"
    HEAP_CORRUPTION = "heap-corruption"
    DOUBLE_FREE = "double-free"
    INVALID_FREE = "invalid-free"
    STACK_SMASHING = "stack-smashing"
    UNCAUGHT_EXCEPTION = "uncaught-exception"
    ASSERTION_FAILURE = "assertion-failure"
    PURE_VIRTUAL_CALL = "pure-virtual-call"
    FATAL_PYTHON_ERROR = "fatal-python-error"
    SANITIZER_ABORT = "sanitizer-abort"
    ABORT = "abort"
    EXTERNAL_SIGNAL = "external-signal"
    UNKNOWN = "unknown"


class Access(StrEnum):
    """What the processor tried to do with the address."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


class Certainty(StrEnum):
    """How well a statement is supported."""

    PROVED = "proved"
    LIKELY = "likely"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule concluded, and the facts that prove it."""

    kind: FaultKind
    summary: str
    """One plain sentence with the numbers in it."""
    proof: tuple[str, ...]
    """The observations that the sentence rests on, each checkable in the evidence."""
    access: Access | None = None
    address: Address | None = None
    size: int | None = None
    message: str | None = None
    advice: tuple[str, ...] = ()
    """Commands or actions for this kind of fault, the most useful first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One step back from a bad value to where it came from."""

    what: str
    certainty: Certainty
    function: str | None = None
    file: str | None = None
    line: int | None = None
    instruction: str | None = None
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All that was concluded about one crash."""

    finding: Finding
    signal: Signal
    """The first fault's signal, with handlers undone."""
    delivered: Signal
    """The signal that ended the process."""
    context_pc: Address
    context_registers: MappingOf[str, int]
    instruction: Instruction | None
    culprit: Frame | None
    explanation: str
    next_steps: tuple[str, ...]
    reraised_by: str | None = None
    recursion: Recursion | None = None
    origin: tuple[Origin, ...] = ()
