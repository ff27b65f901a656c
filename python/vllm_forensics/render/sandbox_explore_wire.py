"""The JSON of `forensics sandbox explore`: fields are added, never renamed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.sandbox_explore import Exploration
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.sandbox_wire import (
    ParametersWire,
    ViolationWire,
    VllmWire,
    parameters_wire,
    violation_wire,
)


class ActionWire(msgspec.Struct, frozen=True, kw_only=True):
    """One action of the sequence, and what came of it."""

    kind: Literal["schedule", "complete", "stop", "loaded", "sent", "abort"]
    request: str | None
    what: str


class ExplorationWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; `ended_by` is null where all orders were tried, or where something was found."""

    schema: Literal["forensics.sandbox_explore/1"]
    engine: Literal["reference", "v0", "v1"]
    vllm: VllmWire | None
    parameters: ParametersWire
    healthy: bool
    states: int
    transitions: int
    depth: int
    ended_by: str | None
    sequence: list[ActionWire]
    violations: list[ViolationWire]
    error: str | None
    raised_at: list[str]


def render_exploration_json(found: Exploration) -> str:
    """The exploration as JSON, ending in a newline. Strings must have been cleaned."""
    tree = found.tree
    return json_text(
        ExplorationWire(
            schema="forensics.sandbox_explore/1",
            engine=found.engine.value,
            vllm=VllmWire(version=tree.version, file=tree.file) if tree else None,
            parameters=parameters_wire(found.parameters, found.load),
            healthy=found.healthy,
            states=found.states,
            transitions=found.transitions,
            depth=found.depth,
            ended_by=found.ended_by,
            sequence=[
                ActionWire(
                    kind=happening.action.kind.value,
                    request=happening.action.request,
                    what=happening.what,
                )
                for happening in found.sequence
            ],
            violations=[violation_wire(violation) for violation in found.violations],
            error=found.error,
            raised_at=list(found.raised_at),
        )
    )


def schema() -> dict[str, Any]:
    """The JSON schema of the answer."""
    return msgspec.json.schema(ExplorationWire)
