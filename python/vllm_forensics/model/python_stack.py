"""Python's own view of a process: which functions its threads are in, and who has the GIL."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.answer import Tier
from vllm_forensics.model.record import dataclass

UNREAD: Final = "?"
"""A name whose memory is not at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFrame:
    """One Python function on a thread's stack."""

    function: str
    file: str | None
    line: int | None
    is_entry: bool
    """C code called it: the interpreter's evaluation loop began here, and runs what it calls."""
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonThread:
    """A thread that the interpreter knows."""

    tid: int
    frames: tuple[PythonFrame, ...]
    """Innermost first."""
    holds_gil: bool | None
