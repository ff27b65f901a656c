"""The JSON of incidents out of many sources: forensics.report/1. Fields are added freely."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.joined import JoinedReport
from vllm_forensics.render.incident_wire import DeathWire, RoleName
from vllm_forensics.render.json_text import as_wire, json_text
from vllm_forensics.render.run import SyscallWire
from vllm_forensics.render.sanitizer_locations_wire import (
    SymbolizationWire,
    symbolization_to_wire,
)
from vllm_forensics.render.sanitizer_wire import SanitizerReportWire, report_to_wire
from vllm_forensics.render.wire import CrashWire, FailureWire, crash_to_wire


class SourceWire(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was read."""

    path: str
    kind: Literal["core", "log", "sanitizer", "strace", "supervisor", "sandbox"]
    size_bytes: int = msgspec.field(name="bytes")
    host: str | None
    summary: str


class FactWire(msgspec.Struct, frozen=True, kw_only=True):
    """What one place of one source says."""

    source: str
    line: int | None
    text: str
    time: str | None


class AccordWire(msgspec.Struct, frozen=True, kw_only=True):
    """Two or more sources say the same."""

    aspect: Literal["signal", "address", "function", "module", "program"] = msgspec.field(
        name="what"
    )
    value: str
    sources: list[str]


class ContradictionWire(msgspec.Struct, frozen=True, kw_only=True):
    """Sources that differ; `explained` where the sentence gives the reason."""

    sentence: str
    sources: list[str]
    is_explained: bool = msgspec.field(name="explained")


class JoinedProcessWire(msgspec.Struct, frozen=True, kw_only=True):
    """A process, and all that the sources say of it."""

    pid: int | None
    host: str | None
    name: str | None
    role: RoleName
    parent: int | None
    last_seen: str | None
    end: str | None
    died_first: bool
    facts: list[FactWire]
    accords: list[AccordWire] = msgspec.field(name="agrees")
    contradictions: list[ContradictionWire] = msgspec.field(name="contradicts")
    cores: list[str]


class SourcedEchoWire(msgspec.Struct, frozen=True, kw_only=True):
    """A line that only tells of another process's death."""

    source: str
    line: int | None
    text: str
    of: int | None
    why: str


class SourcePartWire(msgspec.Struct, frozen=True, kw_only=True):
    """What of a source belongs to an incident; lines are null where it is not told by lines."""

    path: str
    first_line: int | None
    last_line: int | None


class JoinedIncidentWire(msgspec.Struct, frozen=True, kw_only=True):
    """One death and what followed from it; what has a name of the whole answer means the same."""

    number: int
    """From 1, in the order in which they happened."""
    bug: int
    host: str | None
    time: str | None
    """As a source gives it."""
    signature: str | None
    """Of the core or of the sanitizer's report."""
    first_death: DeathWire
    visible_error_is_echo: bool
    explanation: str
    processes: list[JoinedProcessWire]
    echoes: list[SourcedEchoWire]
    cores: list[str]
    """Of the process that died first: paths of entries of `crashes`."""
    next_steps: list[str]
    parts: list[SourcePartWire] = msgspec.field(name="sources")


class BugWire(msgspec.Struct, frozen=True, kw_only=True):
    """Incidents that are the same bug, and why they are taken for it."""

    number: int
    signature: str | None
    incidents: list[int]
    told: int
    """The number of the incident that is known best."""
    same: Literal["signature", "words", "alike"] | None
    """Words: logs tell the same place. Alike: the same cause, and no place. Null for one alone."""


class JoinedReportWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics report --format json`.

    `first_death`, `visible_error_is_echo`, `explanation`, `echoes` and `next_steps` are those of
    the incident whose number is `told`; `processes` are everybody's.
    """

    schema: Literal["forensics.report/1"]
    first_death: DeathWire | None
    visible_error_is_echo: bool
    explanation: str
    processes: list[JoinedProcessWire]
    """The one that died first stands first."""
    echoes: list[SourcedEchoWire]
    unattached: list[FactWire]
    crashes: list[CrashWire]
    reports: list[SanitizerReportWire]
    syscalls: list[SyscallWire]
    symbolization: SymbolizationWire | None
    """Null where names were not asked for."""
    next_steps: list[str]
    sources: list[SourceWire]
    failures: list[FailureWire]
    told: int | None
    """Null where nobody died."""
    incidents: list[JoinedIncidentWire]
    bugs: list[BugWire]
    """In the order of their first incidents."""
    order_is_known: bool
    """False where no clock says in which order the incidents happened."""


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.report.1.json holds."""
    return msgspec.json.schema(JoinedReportWire)


def render_joined_json(report: JoinedReport) -> str:
    """The answer as JSON, ending in a newline. Strings must have been cleaned."""
    death = report.first_death
    return json_text(
        JoinedReportWire(
            schema="forensics.report/1",
            first_death=as_wire(death, DeathWire) if death is not None else None,
            visible_error_is_echo=report.visible_error_is_echo,
            explanation=report.explanation,
            processes=as_wire(report.processes, list[JoinedProcessWire]),
            echoes=as_wire(report.echoes, list[SourcedEchoWire]),
            unattached=as_wire(report.unattached, list[FactWire]),
            crashes=[crash_to_wire(crash) for crash in report.crashes],
            reports=[report_to_wire(one.report, one.log) for one in report.reports],
            syscalls=as_wire(report.syscalls, list[SyscallWire]),
            symbolization=symbolization_to_wire(report.symbolization),
            next_steps=list(report.next_steps),
            sources=as_wire(report.sources, list[SourceWire]),
            failures=as_wire(report.failures, list[FailureWire]),
            told=report.told,
            incidents=as_wire(report.incidents, list[JoinedIncidentWire]),
            bugs=as_wire(report.bugs, list[BugWire]),
            order_is_known=report.order_is_known,
        )
    )
