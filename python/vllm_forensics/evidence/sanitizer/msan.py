"""MemorySanitizer: msan_report.cpp."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.sanitizer.memory_rules import OWNER_RULES, SIGNAL_RULES
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Role

RUNTIME: Final = Runtime(
    name="MemorySanitizer",
    rules=(
        Section(r"Uninitialized value was (?:created|stored)|Memory was marked as", Role.ORIGIN),
        Fact(r"Uninitialized bytes in |ORIGIN: |DEDUP_TOKEN: "),
        *OWNER_RULES,
        *SIGNAL_RULES,
    ),
)
