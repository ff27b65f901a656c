"""What a sanitizer printed: one report, its stacks with their roles, and what was concluded."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.locations import Certainty, Symbolization
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Failure, SourceExcerpt
from vllm_forensics.model.sanitizer_sieve import BaselineOutcome, SuppressionCount


class Role(StrEnum):
    """What a stack of a report stands for; the values are part of the JSON contract."""

    ALLOCATE = "allocate"
    FREE = "free"
    USE = "use"
    PREVIOUS_ACCESS = "previous_access"
    """ThreadSanitizer's other access."""
    ORIGIN = "origin"
    """MemorySanitizer: where the value was created without being set, or stored since."""
    THREAD_CREATE = "thread_create"
    LOCK_ACQUIRE = "lock_acquire"
    LEAK = "leak"


class Relation(StrEnum):
    """Where an address lies, seen from its region."""

    INSIDE = "inside"
    BEFORE = "before"
    AFTER = "after"


class Severity(StrEnum):
    """How dangerous a fault is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedFrame:
    """One frame as a runtime printed it.

    Addresses stay text, digit for digit: a reader searches the log for them.
    """

    index: int
    pc: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    module: str | None = None
    offset: str | None = None
    build_id: str | None = None
    is_return_address: bool = False
    """Do pc and offset lie behind the call, as glibc's backtrace prints them?"""
    symbolized: Certainty | None = None
    """The names are not the log's: a file on this machine gave them, and this is how sure it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackEvent:
    """One stack of a report and what it stands for."""

    role: Role
    thread: str | None = None
    frames: tuple[PrintedFrame, ...] = ()
    what: str | None = None
    """The line that introduced the stack."""
    created_by: str | None = None
    """Of a thread's creation: the thread that created it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A memory access; either part may be unknown."""

    type: str | None
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The piece of memory that an address belongs to, or lies beside."""

    kind: str
    """heap, stack or global."""
    start: str | None = None
    end: str | None = None
    size: int | None = None
    offset: int | None = None
    relation: Relation | None = None
    name: str | None = None
    """The variable, of stack and global memory."""
    place: str | None = None
    """Where the variable is defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """One leak record."""

    direct: bool
    size: int
    objects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedReport:
    """One report, read and not yet judged."""

    sanitizer: str
    kind: str
    pid: int | None = None
    thread: str | None = None
    access: Access | None = None
    address: str | None = None
    pc: str | None = None
    message: str | None = None
    """The rest of the header line; of UndefinedBehaviorSanitizer, the message."""
    location: str | None = None
    """UndefinedBehaviorSanitizer: FILE:LINE:COLUMN as printed."""
    chain: tuple[StackEvent, ...] = ()
    region: Region | None = None
    shadow: str | None = None
    """What the marked shadow byte means, in the runtime's own words."""
    leaks: tuple[Leak, ...] = ()
    locks: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    summary: str | None = None
    truncated: bool = False
    lines: tuple[int, int] = (0, 0)
    """First (the header) and last line in the log, from 1."""
    occurrences: int = 1
    raw: str = ""

    def stacks(self, role: Role) -> tuple[StackEvent, ...]:
        """All stacks of a role, as printed."""
        return tuple(event for event in self.chain if event.role is role)

    def first(self, role: Role) -> StackEvent | None:
        """The first stack of a role, or None."""
        return next((event for event in self.chain if event.role is role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """All that one log holds."""

    reports: tuple[PrintedReport, ...]
    size_bytes: int
    lines: int
    truncated: bool
    """The log ends in the middle of a report."""
    seen_instead: tuple[str, ...] = ()
    """Lines that mention a sanitizer and are no report; a few of them, with their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The first frame that is the user's own code."""

    function: str | None
    file: str | None
    line: int | None
    role: Role
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLeak:
    """What was concluded from one leak record; in the order of the report's leaks."""

    signature: str
    culprit: Culprit | None
    interpreter_only: bool
    """Its stack lies in CPython and its runtimes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedReport:
    """One report and what was concluded from it."""

    printed: PrintedReport
    culprit: Culprit | None
    severity: Severity
    why: tuple[str, ...]
    cwe: str | None
    signature: str
    explanation: str
    next_steps: tuple[str, ...]
    own: tuple[tuple[int, int], ...] = ()
    """The user's own frames, as (place in the chain, place in its stack)."""
    excerpts: tuple[SourceExcerpt | None, ...] = ()
    """One for each stack of the chain: the source at its first own frame, where it is here."""
    leaks: tuple[ExplainedLeak, ...] = ()
    """One for each leak of `printed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerGroup:
    """Reports, or leak records, with one signature."""

    signature: str
    count: int
    of_leaks: bool = False
    """Leak records are counted, out of whatever reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLog:
    """One input and its reports."""

    path: str
    size_bytes: int
    lines: int
    truncated: bool
    reports: tuple[ExplainedReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerAnswer:
    """The answer of `forensics asan`."""

    logs: tuple[ExplainedLog, ...]
    groups: tuple[SanitizerGroup, ...]
    failures: tuple[Failure, ...]
    complete: bool = True
    """Was every input read to its end?"""
    symbolization: Symbolization | None = None
    """What came of looking frames up, where that was asked for."""
    suppressed: tuple[SuppressionCount, ...] = ()
    """Every rule that was given, in order, and what it left out."""
    baseline: BaselineOutcome | None = None
