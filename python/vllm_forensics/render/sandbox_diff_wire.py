"""The JSON of `forensics sandbox diff` and `replay`. Fields are added, never renamed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.sandbox_diff import Difference, DiffSide, SandboxDiff
from vllm_forensics.model.sandbox_snapshot import SnapshotLine, snapshot_line
from vllm_forensics.render.json_text import as_wire, json_text


class DifferenceWire(msgspec.Struct, frozen=True, kw_only=True):
    """One decision that differs; the block numbers are those of the first block it is about."""

    step: int
    kind: str
    request: str | None
    pool: str | None
    left_block: int | None
    right_block: int | None
    left: str
    right: str
    why: str | None


class SideWire(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs; `origin` log and trace mean that less is known of it."""

    name: str
    origin: Literal["sandbox", "trace", "live", "log"]
    engine: str | None
    version: str | None
    outcome: Literal["finished", "raised", "stalled", "violation", "cut"] | None
    error: str | None
    why: str | None
    findings: list[str]
    steps: int
    preemptions: int
    assumed: list[str]
    gaps: list[str]
    before: SnapshotLine | None


class ParameterWire(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter that is not the same."""

    name: str
    left: str
    right: str


class DiffWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics sandbox diff --format json`."""

    schema: Literal["forensics.sandbox_diff/1"]
    verdict: Literal[
        "identical", "same-up-to-numbering", "same-but-order", "nothing-otherwise", "different"
    ]
    first_difference: DifferenceWire | None
    same_step: list[DifferenceWire]
    first_decision: DifferenceWire | None
    free_list_order: DifferenceWire | None
    left: SideWire
    right: SideWire
    parameters: list[ParameterWire]
    compared_steps: int
    different_steps: int


def render_diff_json(diff: SandboxDiff) -> str:
    """The comparison as JSON, ending in a newline. Strings must have been cleaned."""
    return json_text(
        DiffWire(
            schema="forensics.sandbox_diff/1",
            verdict=diff.verdict.value,
            first_difference=difference_wire(diff.first) if diff.first else None,
            same_step=[difference_wire(found) for found in diff.others],
            first_decision=difference_wire(diff.decision) if diff.decision else None,
            free_list_order=difference_wire(diff.order) if diff.order else None,
            left=_side(diff.left),
            right=_side(diff.right),
            parameters=[
                ParameterWire(name=name, left=left, right=right)
                for name, left, right in diff.parameters
            ],
            compared_steps=diff.compared_steps,
            different_steps=diff.different_steps,
        )
    )


def difference_wire(found: Difference) -> DifferenceWire:
    """One difference as it is written, here and in the answer of a search."""
    return as_wire(found, DifferenceWire)


def _side(side: DiffSide) -> SideWire:
    recording = side.recording
    return SideWire(
        name=recording.name,
        origin=recording.origin.value,
        engine=recording.engine.value if recording.engine else None,
        version=recording.version,
        outcome=recording.outcome.value if recording.outcome else None,
        error=recording.error,
        why=recording.why,
        findings=list(recording.findings),
        steps=side.steps,
        preemptions=side.preemptions,
        assumed=list(recording.assumed),
        gaps=list(recording.gaps),
        before=snapshot_line(side.before) if side.before else None,
    )


def schema() -> dict[str, Any]:
    """The JSON schema of the answer."""
    return msgspec.json.schema(DiffWire)
