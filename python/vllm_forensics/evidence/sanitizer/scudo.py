"""Scudo, the hardened allocator: one line is the report (scudo/standalone/report.cpp).

On Android the line is a tombstone's abort message, and the tombstone's stack follows.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Role

HEADER: Final = re.compile(
    r"(?:^|Abort message: '|[\]>|):] )\s*Scudo ERROR: (?P<message>[A-Za-z].*)"
)
_KINDS: Final = (
    (r"CHECK failed", "check-failed"),
    (r"requested allocation size", "allocation-size-too-big"),
    (r"out of memory", "out-of-memory"),
    (r"calloc parameters overflow", "calloc-overflow"),
    (r"reallocarray parameters overflow", "reallocarray-overflow"),
    (r"pvalloc parameters overflow", "pvalloc-overflow"),
    (r"invalid allocation alignment", "invalid-allocation-alignment"),
    (r"invalid alignment requested in aligned_alloc", "invalid-aligned-alloc-alignment"),
    (r"invalid alignment requested in posix_memalign", "invalid-posix-memalign-alignment"),
    (r"(?:soft|hard) RSS limit exhausted", "rss-limit-exceeded"),
    (r"maximum possible", "check-failed"),
    (r"BatchClass region is used up", "out-of-batch-class"),
    (r"invalid value for .{1,40} option", "invalid-flag"),
)
_NAMED: Final = tuple((re.compile(pattern), name) for pattern, name in _KINDS)
_WORDS: Final = re.compile(r"([A-Za-z][A-Za-z _-]*?)(?: \(| at address | when |[:,@']|$)")
_ADDRESS: Final = re.compile(r"\baddress (0x[0-9a-fA-F]{1,16})")


def kind_of(message: str) -> str:
    """The name that the other allocators give it, else `corrupted chunk header` with hyphens."""
    for pattern, name in _NAMED:
        if pattern.match(message):
            return name
    match = _WORDS.match(message)
    return "-".join(match[1].lower().split()) if match is not None else "unknown"


def address_of(message: str) -> str | None:
    """The chunk, where the message names one."""
    match = _ADDRESS.search(message)
    return match[1] if match is not None else None


RUNTIME: Final = Runtime(
    name="Scudo",
    rules=(
        Fact(r"(?:memory corruption|misaligned address|size: )"),
        Section(r"backtrace:$", Role.USE),
        Section(r"(?:memory near|memory map|--- --- ---|(?:de)?allocated by thread)", None),
        Fact(r"\d+ total frames$|(?:x\d+|lr|sp|pc|pst|r\d+|ip) +[0-9a-f]{8,16}\b"),
    ),
    first_role=None,
    ends_with_summary=False,
    patience=2,
)
