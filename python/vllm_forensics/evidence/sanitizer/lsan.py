"""LeakSanitizer, also where it runs inside another runtime: lsan_common.cpp."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import SIGNAL_RULES
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Leak, Role


def _leak(report: ReportBuilder, match: re.Match[str]) -> None:
    report.leaks.append(
        Leak(
            direct=match["how"] == "Direct",
            size=int(match["size"]),
            objects=int(match["objects"]),
        )
    )


def kind_of(message: str) -> str | None:
    """`detected memory leaks` and nothing else: its other errors are its own failures."""
    return "memory-leak" if message.startswith("detected memory leaks") else None


RUNTIME: Final = Runtime(
    name="LeakSanitizer",
    rules=(
        Section(
            r"(?P<how>Direct|Indirect) leak of (?P<size>\d+) byte\(?s?\)? in "
            r"(?P<objects>\d+) object\(?s?\)? allocated from:",
            Role.LEAK,
            _leak,
        ),
        Fact(r"Objects leaked above:|0x[0-9a-f]+ \(\d+ bytes\)|Omitting \d+ more leak"),
        Fact(r"-{20,}$|Suppressions used:|\d+ +\d+ +\S+$|count +bytes template"),
        *SIGNAL_RULES,
    ),
    first_role=None,
    last_words=re.compile(r" leaked in \d+ allocation\(s\)\.$"),
)
SIGNAL_RUNTIME: Final = Runtime(name="LeakSanitizer", rules=SIGNAL_RULES)
