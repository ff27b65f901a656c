"""All rules, in the order in which they are asked: the first that can prove its claim decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vllm_forensics.diagnosis.aborts import (
    assertion_failure,
    fatal_python_error,
    heap_message,
    plain_abort,
    pure_virtual_call,
    sanitizer_abort,
    stack_smashing,
)
from vllm_forensics.diagnosis.bad_address import (
    misaligned_access,
    non_canonical_address,
    null_dereference,
    protected_access,
    resent_without_trace,
    truncated_mapping,
    unrecorded_fault,
    wild_pointer,
)
from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.diagnosis.control_flow import bad_fetch, null_call, stack_overflow
from vllm_forensics.diagnosis.exceptions import uncaught_exception
from vllm_forensics.diagnosis.outside import external_signal, unknown
from vllm_forensics.diagnosis.processor import illegal_instruction, integer_divide, trap_instruction
from vllm_forensics.model.finding import Finding
from vllm_forensics.model.image import Image

Rule = Callable[[Image, FaultContext], Finding | None]

RULES: Final[tuple[Rule, ...]] = (
    external_signal,
    sanitizer_abort,
    # SIGSEGV and SIGBUS, the special before the general.
    null_call,
    bad_fetch,
    stack_overflow,
    misaligned_access,
    non_canonical_address,
    null_dereference,
    truncated_mapping,
    protected_access,
    wild_pointer,
    resent_without_trace,
    unrecorded_fault,
    # Other faults of the processor.
    trap_instruction,
    illegal_instruction,
    integer_divide,
    # SIGABRT, the reason that is most exact first.
    stack_smashing,
    assertion_failure,
    heap_message,
    pure_virtual_call,
    uncaught_exception,
    fatal_python_error,
    plain_abort,
)


def find_fault(image: Image, context: FaultContext) -> Finding:
    """The first rule's finding; `unknown` where none can prove anything."""
    for rule in RULES:
        finding = rule(image, context)
        if finding is not None:
            return finding
    return unknown(image, context)
