"""Incidents out of many sources: what each says of which process, and where they disagree.

`forensics.report/1` in JSON.
"""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.incident import Death, ProcessRole
from vllm_forensics.model.locations import Symbolization
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.sanitizer import ExplainedReport
from vllm_forensics.model.syscalls import SyscallFinding


class SourceKind(StrEnum):
    """What a file is, by its content; the values are part of the JSON contract."""

    CORE = "core"
    LOG = "log"
    SANITIZER = "sanitizer"
    """A log with a sanitizer's report in it."""
    STRACE = "strace"
    SUPERVISOR = "supervisor"
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file that was read."""

    path: str
    kind: SourceKind
    size_bytes: int
    host: str | None
    """The machine that it is from, where it says so."""
    summary: str
    """What it holds, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What one place of one source says."""

    source: str
    line: int | None
    text: str
    time: str | None = None
    """As the source gives it."""


class Aspect(StrEnum):
    """What sources may agree on."""

    SIGNAL = "signal"
    ADDRESS = "address"
    FUNCTION = "function"
    MODULE = "module"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accord:
    """Two or more sources say the same."""

    aspect: Aspect
    value: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two sources cannot both be taken at their word, and what that means."""

    sentence: str
    sources: tuple[str, ...]
    is_explained: bool = False
    """The difference has a known reason, which the sentence gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedProcess:
    """A process, and all that is known of it."""

    pid: int | None
    host: str | None
    name: str | None
    role: ProcessRole
    parent: int | None
    last_seen: str | None
    end: str | None
    died_first: bool
    facts: tuple[Fact, ...]
    accords: tuple[Accord, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    cores: tuple[str, ...] = ()
    """Paths of the cores among `crashes`; the one that was taken first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedEcho:
    """A line that only tells of the first death."""

    fact: Fact
    of: int | None
    why: str

    @property
    def source(self) -> str:
        """Where it stands."""
        return self.fact.source

    @property
    def line(self) -> int | None:
        """Its line there."""
        return self.fact.line

    @property
    def text(self) -> str:
        """What it says."""
        return self.fact.text


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePart:
    """What of a source belongs to an incident."""

    path: str
    first_line: int | None
    """Null where it is not told by lines."""
    last_line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedIncident:
    """One death and what followed from it, by all that tells of it."""

    number: int
    """From 1, in the order in which they happened, as far as it is known."""
    first_death: Death
    """Its evidence is empty: the facts of its process are the evidence."""
    visible_error_is_echo: bool
    explanation: str
    processes: tuple[JoinedProcess, ...]
    """The one that died first stands first."""
    echoes: tuple[SourcedEcho, ...]
    next_steps: tuple[str, ...]
    cores: tuple[str, ...]
    """The cores of the process that died first."""
    parts: tuple[SourcePart, ...]
    """What belongs to it."""
    host: str | None
    time: str | None
    """When it is first spoken of, as the source gives it."""
    signature: str | None
    """Of the core or of the sanitizer's report; null where there is neither."""
    bug: int
    """The number of its bug."""


class SameBug(StrEnum):
    """Why incidents are taken for the same bug; the values are part of the JSON contract."""

    SIGNATURE = "signature"
    WORDS = "words"
    """Logs tell them alike: the signal, the cause and the place."""
    ALIKE = "alike"
    """Logs tell them alike, and of none where: they may be several bugs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """Incidents that are the same bug."""

    number: int
    """From 1, in the order of their first incidents."""
    signature: str | None
    incidents: tuple[int, ...]
    told: int
    """The incident that is known best."""
    same: SameBug | None
    """None for a single incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerFound:
    """A sanitizer's report, and the log that it is from."""

    log: str
    report: ExplainedReport


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedReport:
    """The answer of `forensics report`: one incident in full, and all of them."""

    sources: tuple[Source, ...]
    first_death: Death | None
    """Its evidence is empty: the facts of its process are the evidence."""
    visible_error_is_echo: bool
    explanation: str
    processes: tuple[JoinedProcess, ...]
    """The one that died first stands first."""
    echoes: tuple[SourcedEcho, ...]
    unattached: tuple[Fact, ...]
    """What belongs to no process that is known."""
    crashes: tuple[Crash, ...]
    reports: tuple[SanitizerFound, ...]
    syscalls: tuple[SyscallFinding, ...]
    next_steps: tuple[str, ...]
    failures: tuple[Failure, ...]
    complete: bool
    """Could every source be read to its end?"""
    symbolization: Symbolization | None = None
    """What came of naming offsets in logs, where that was asked for."""
    cores_of_first: tuple[str, ...] = ()
    """The cores of the process that died first."""
    incidents: tuple[JoinedIncident, ...] = ()
    """All of them. `first_death` and what belongs to it are those of one, which is `told`."""
    bugs: tuple[Bug, ...] = ()
    told: int | None = None
    order_is_known: bool = True
    """Does a clock say in which order the incidents happened?"""
