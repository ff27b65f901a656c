"""Tells what was named as a log and is none: a core's memory holds the words of messages too."""

from __future__ import annotations

from vllm_forensics.evidence.source_kind import kind_of
from vllm_forensics.model.report import Failure


def not_a_log(name: str, head: bytes) -> Failure | None:
    """What to tell of a file that begins like no text; `head` is expanded."""
    if kind_of(head) is not None:
        return None
    is_elf = head.startswith(b"\x7fELF")
    return Failure(
        path=name,
        error=f"is {'a core or a program' if is_elf else 'no text'}, not a log",
        remedy="forensics report FOLDER    # takes cores and logs together"
        if is_elf
        else "give the log as text; compressed ones and archives are expanded",
    )
