"""What single applications write of their own end, by which alone they are known.

Sources: PostgreSQL's ExceptionalCondition, the exception record of Blender's crash handler and the
fatal messages of RPCS3's log, as their sources print them.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

BACKENDS: Final = Family(
    source="PostgreSQL",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "TRAP: ",
            r"\b(?P<detail>TRAP: (?:FailedAssertion|failed Assert)\("
            r"(?:.{1,300}?(?=, PID: )|.{1,200}))"
            r"(?:, PID: (?P<pid>\d{1,9}))?",
            'TRAP: failed Assert("pool != NULL"), File: "pool.c", Line: 88, PID: 4242',
            signal="SIGABRT",
        ),
    ),
)
BLENDER: Final = Family(
    source="Blender",
    phrases=(
        Phrase(
            ClueKind.SIGNAL,
            "ExceptionCode  ",
            r"^\W{0,8}ExceptionCode {1,20}: (?P<signal>EXCEPTION_(?:ACCESS_VIOLATION|"
            r"STACK_OVERFLOW|ILLEGAL_INSTRUCTION|IN_PAGE_ERROR|INT_DIVIDE_BY_ZERO))",
            "ExceptionCode         : EXCEPTION_ACCESS_VIOLATION",
        ),
    ),
)
RPCS3: Final = Family(
    source="RPCS3",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "Thread terminated due to fatal error: ",
            r"\bThread terminated due to fatal error: (?P<detail>\S.{0,300})",
            "F {RSX [0x4242]} SIG: Thread terminated due to fatal error: Verification failed",
        ),
        Phrase(
            ClueKind.ABORT,
            " thrown: ",
            r"^(?:<b>|\W{0,4})F (?:\S{1,20} )?(?:\{[^{}]{1,80}\} )?[A-Z]\w{1,12}: "
            r"(?P<detail>(?:class )?[\w:]{3,80} thrown: \S.{0,300})",
            "F {RSX [0x4242]} RSX: class std::runtime_error thrown: Verification failed:",
        ),
    ),
)
