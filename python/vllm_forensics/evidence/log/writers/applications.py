"""What single applications write of their own end, by which alone they are known.

Sources: the crash handlers of Blender (wmOS_crash and its exception record) and of RPCS3 (`fatal`
messages of its log), as their sources print them.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

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
