"""The JSON of incidents: forensics.incident/1. Fields are added freely, renamed never."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.incident import Death, Incident, IncidentAnswer
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.sanitizer_locations_wire import (
    SymbolizationWire,
    symbolization_to_wire,
)

RoleName = Literal["client", "api-server", "engine-core", "worker", "ray-actor", "main", "unknown"]
ClassName = Literal[
    "native-fault",
    "heap-corruption",
    "abort-exception",
    "oom-killed",
    "environment",
    "python-exception",
    "gpu-async",
    "hang",
    "unknown",
]


class CauseWire(msgspec.Struct, frozen=True, kw_only=True):
    """Of what a process died."""

    class_: ClassName = msgspec.field(name="class")
    detail: str
    certainty: Literal["proved", "likely", "unknown"]


class EvidenceWire(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log."""

    line: int
    text: str


class DeathWire(msgspec.Struct, frozen=True, kw_only=True):
    """The process that died first."""

    pid: int | None
    name: str | None
    role: RoleName
    signal: str | None
    exit: int | None
    time: str | None
    module: str | None
    function: str | None
    python_function: str | None
    cause: CauseWire
    evidence: list[EvidenceWire]
    file: str | None
    """The source of `function`, with its line, where symbols gave them."""
    line: int | None
    symbolized: Literal["proved", "likely"] | None
    """Null where the names are the log's own."""


class ProcessWire(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the incident."""

    pid: int | None
    name: str | None
    role: RoleName
    parent: int | None
    last_seen: str | None
    end: str | None


class EchoWire(msgspec.Struct, frozen=True, kw_only=True):
    """A line that only tells of another process's death."""

    line: int
    text: str
    of: int | None
    why: str


class IncidentWire(msgspec.Struct, frozen=True, kw_only=True):
    """One death and what followed from it."""

    log: str
    first_death: DeathWire
    processes: list[ProcessWire]
    visible_error_is_echo: bool
    echoes: list[EchoWire]
    explanation: str
    next_steps: list[str]


class FailureWire(msgspec.Struct, frozen=True, kw_only=True):
    """A log that tells of no death, or could not be read."""

    path: str
    error: str
    remedy: str


class IncidentsWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics log --format json`."""

    schema: Literal["forensics.incident/1"]
    incidents: list[IncidentWire]
    symbolization: SymbolizationWire | None
    """Null where names were not asked for."""
    failures: list[FailureWire]


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.incident.1.json holds."""
    return msgspec.json.schema(IncidentsWire)


def render_incidents_json(answer: IncidentAnswer) -> str:
    """The answer as JSON, ending in a newline."""
    wire = IncidentsWire(
        schema="forensics.incident/1",
        incidents=[_incident(incident) for incident in answer.incidents],
        symbolization=symbolization_to_wire(answer.symbolization),
        failures=[
            FailureWire(path=one.path, error=one.error, remedy=one.remedy)
            for one in answer.failures
        ],
    )
    return json_text(wire)


def _incident(incident: Incident) -> IncidentWire:
    return IncidentWire(
        log=incident.log,
        first_death=death_to_wire(incident.first_death),
        processes=[
            ProcessWire(
                pid=one.pid,
                name=one.name,
                role=one.role.value,
                parent=one.parent,
                last_seen=one.last_seen,
                end=one.end,
            )
            for one in incident.processes
        ],
        visible_error_is_echo=incident.visible_error_is_echo,
        echoes=[
            EchoWire(line=one.line, text=one.text, of=one.of, why=one.why)
            for one in incident.echoes
        ],
        explanation=incident.explanation,
        next_steps=list(incident.next_steps),
    )


def death_to_wire(death: Death) -> DeathWire:
    """The process that died first, for every answer that names one."""
    return DeathWire(
        pid=death.pid,
        name=death.name,
        role=death.role.value,
        signal=death.signal,
        exit=death.exit,
        time=death.time,
        module=death.module,
        function=death.function,
        python_function=death.python_function,
        cause=CauseWire(
            class_=death.cause.kind.value,
            detail=death.cause.detail,
            certainty=death.cause.certainty.value,
        ),
        evidence=[EvidenceWire(line=one.line, text=one.text) for one in death.evidence],
        file=death.file,
        line=death.line,
        symbolized=death.symbolized.value if death.symbolized is not None else None,
    )
