"""Scudo, the hardened allocator: one line is the report, without a stack (scudo/report.cpp)."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import Fact, Runtime

HEADER: Final = re.compile(
    r"(?:^|Abort message: ')\s*Scudo ERROR: (?P<message>(?P<kind>[a-zA-Z][a-z A-Z_-]*?)"
    r"(?: \(| at address (?P<address>0x[0-9a-fA-F]+)| when |: |'|$).*)"
)


def kind_of(words: str) -> str:
    """`corrupted chunk header` → `corrupted-chunk-header`."""
    return "-".join(words.lower().split())


RUNTIME: Final = Runtime(
    name="Scudo",
    rules=(Fact(r"(?:memory corruption|misaligned address|size: )"),),
    first_role=None,
    ends_with_summary=False,
    patience=0,
)
