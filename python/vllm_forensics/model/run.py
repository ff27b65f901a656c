"""What happened to a program that ran under the supervisor, and to everything that it started."""

from __future__ import annotations

from vllm_forensics.model.process import Address
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.sanitized import SanitizedRun
from vllm_forensics.model.syscalls import SyscallFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process of the tree."""

    pid: int
    parent: int | None
    command: str | None
    """argv[0] alone: arguments may hold secrets."""
    exit: int | None
    """Exit status, or minus the signal's number; None where it outlived the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecord:
    """A fatal signal as it was first seen, before any handler ran."""

    pid: int
    tid: int
    signal: int
    code: int
    address: Address | None
    handled: bool
    """Was a handler installed for it?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedRun:
    """What the supervisor wrote down."""

    processes: tuple[ProcessRecord, ...]
    faults: tuple[FaultRecord, ...]
    cores: tuple[str, ...]
    oom_kills: int | None
    """How many processes of the cgroup the kernel killed for want of memory meanwhile; None where
    no count could be read."""
    errors: tuple[str, ...]
    kernel_kills: frozenset[int] = frozenset()
    """Processes that the kernel's own log names as killed for want of memory."""
    snapshots: tuple[tuple[int, str], ...] = ()
    """Cores of living processes, each with its pid: somebody asked, or the tree stalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The answer of `forensics run`."""

    command: str
    status: int
    processes: tuple[ProcessRecord, ...]
    crashes: tuple[Crash, ...]
    failures: tuple[Failure, ...]
    endings: tuple[str, ...]
    """Sentences about deaths that left no core: who ended what, and how we know."""
    syscalls: tuple[SyscallFinding, ...] = ()
    """What the last system calls prove, where they were traced."""
    given_up: tuple[str, ...] = ()
    """Evidence that this run could not have, and why."""
    sanitized: SanitizedRun | None = None
    """What a sanitizer said, where one watched."""
