"""System calls, signals and ends of a traced program, and what they say about its death."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.process import Address
from vllm_forensics.model.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCall:
    """One call that returned, or that was still running when its thread ended."""

    tid: int
    time_s: float
    name: str
    arguments: tuple[str, ...]
    """As printed: `PROT_READ|PROT_WRITE`, `3</dev/shm/kv>`, `"/etc/passwd"`."""
    result: int | None
    """None where it did not return."""
    error: str | None
    """`ENOMEM`; None where it succeeded."""
    text: str
    """The line itself, for proofs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalEvent:
    """A signal as a thread got it."""

    tid: int
    time_s: float
    name: str
    code: str
    address: Address | None
    sender: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEnd:
    """How a thread ended: exit status, or minus the signal's number."""

    tid: int
    time_s: float
    status: int
    dumped_core: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallTrace:
    """A program and all that it started, as a tracer of system calls saw them, in order."""

    calls: tuple[SystemCall, ...]
    signals: tuple[SignalEvent, ...]
    ends: tuple[ThreadEnd, ...]
    shm_free: int | None = None
    """Bytes that were free in /dev/shm before the program started."""


class SyscallKind(StrEnum):
    """What kind of cause a system call shows."""

    UNMAPPED = "page-unmapped"
    PROTECTED = "page-protected"
    SHARED_MEMORY_FULL = "shared-memory-full"
    MEMORY_REFUSED = "memory-refused"
    THREAD_REFUSED = "thread-refused"
    DESCRIPTORS_EXHAUSTED = "descriptors-exhausted"
    FILE_MISSING = "file-missing"
    NO_SPACE = "no-space"
    KILLED = "killed-by-process"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallFinding:
    """One sentence about a process's death, and the calls that prove it."""

    pid: int
    kind: SyscallKind
    sentence: str
    proof: tuple[str, ...]
    sender: int | None = None
    """Of `KILLED`, the other process that sent the signal."""
