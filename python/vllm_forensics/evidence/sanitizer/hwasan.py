"""Hardware-assisted AddressSanitizer: hwasan_report.cpp."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import Fact, ReportBuilder, Runtime, Section
from vllm_forensics.evidence.sanitizer.memory_rules import (
    OWNER_RULES,
    SHADOW_RULES,
    SIGNAL_RULES,
)


def _cause(report: ReportBuilder, match: re.Match[str]) -> None:
    report.hints.append(f"cause: {match['cause']}")


RUNTIME: Final = Runtime(
    name="HWAddressSanitizer",
    rules=(
        Fact(r"Cause: (?P<cause>.*)", _cause),
        *SHADOW_RULES,
        *OWNER_RULES,
        *SIGNAL_RULES,
        Fact(r"Thread: T\d+ 0x"),
        Section(r"Previously allocated frames:|Potentially referenced stack objects:", None),
        Fact(r"Invalid access starting at offset|Stack of overwritten|tag:|Tail contains:"),
        Fact(r"expected:|Tail magic|Registers where the failure occurred|x\d+ +[0-9a-f]{16}"),
    ),
)
