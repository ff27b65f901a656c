"""The JSON of incidents: forensics.incident/1. Fields are added freely, renamed never."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.incident import IncidentAnswer
from vllm_forensics.render.json_text import as_wire, json_text
from vllm_forensics.render.sanitizer_locations_wire import (
    SymbolizationWire,
    symbolization_to_wire,
)
from vllm_forensics.render.wire import FailureWire

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

    kind: ClassName = msgspec.field(name="class")
    detail: str
    certainty: Literal["proved", "likely", "unknown"]


class EvidenceWire(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log."""

    line: int
    text: str


class DeathFrameWire(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of the dead process's stack, as the log has it."""

    kind: Literal["native", "inlined", "python", "signal"]
    function: str | None
    module: str | None
    offset: str | None
    """From the module's start or, with a function, from the function's."""
    file: str | None
    line: int | None


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
    """The source of the place, with its line, where symbols or the log gave them."""
    line: int | None
    symbolized: Literal["proved", "likely"] | None
    """Null where the names are the log's own."""
    name_certainty: Literal["proved", "likely"] | None
    """Proved where a record of the death or a line's prefix names the process; null: no name."""
    place_certainty: Literal["proved", "likely"] | None
    """Proved where the dead one's own stack or words show the place; null: no place."""
    frames: list[DeathFrameWire]
    """Innermost first: from the fault on what is native, then what is Python's."""


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
        incidents=as_wire(answer.incidents, list[IncidentWire]),
        symbolization=symbolization_to_wire(answer.symbolization),
        failures=as_wire(answer.failures, list[FailureWire]),
    )
    return json_text(wire)
