"""The lines of a recording: what a run was given, each event, each step, snapshots, the end.

One JSON object a line, told apart by `kind`. Events are written by `JsonLines`; a file with
nothing but events is a recording too, of which less is known.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from vllm_forensics.model.event import Event
from vllm_forensics.model.sandbox import (
    Generation,
    Parameters,
    RequestSpec,
    SandboxRun,
    Snapshot,
    VllmTree,
)
from vllm_forensics.model.sandbox_snapshot import SnapshotLine, snapshot_line
from vllm_forensics.sandbox.event_sink import JsonLines
from vllm_forensics.sandbox.load import load_fields
from vllm_forensics.sandbox.recorder import StepSeen

SCHEMA: Final = "forensics.sandbox_events/1"
Name = Annotated[str, msgspec.Meta(max_length=200)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Block = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class RunLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line: what was driven, and with which parameters."""

    kind: Literal["run"]
    schema: Literal["forensics.sandbox_events/1"]
    engine: Name | None = None
    version: Name | None = None
    file: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    """`vllm.__file__`, on the machine that recorded it."""
    parameters: dict[str, Any] | None = None


class RequestLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of the load, with the names of a load file."""

    kind: Literal["request"]
    id: Name
    prompt: Count
    output: Count
    arrival: Count = 0
    priority: int = 0
    prefix: Count = 0
    abort_after: Count | None = None


class EventLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of one block."""

    kind: Literal[
        "allocate", "free", "fork", "copy", "swap", "use", "touch", "cache", "evict", "preempt"
    ]
    block: Block
    step: Annotated[int, msgspec.Meta(ge=-1, le=1 << 40)] | None = None
    pool: Name | None = None
    generation: Count | None = None
    request: Name | None = None
    source: Block | None = None
    function: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    file: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    line: Count | None = None


class StepLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one step decided, after its events.

    `scheduled`: request, sequence of it, first token that is computed, number of tokens.
    """

    kind: Literal["step"]
    step: Count
    scheduled: list[tuple[Name, Name, Count, Count]] | None = None
    preempted: list[Name] = []
    finished: list[Name] = []
    refused: list[Name] = []
    running: Count | None = None
    waiting: Count | None = None
    swapped: Count | None = None


class EndLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last line: how it ended. A recording without one was cut short."""

    kind: Literal["end"]
    outcome: Literal["finished", "raised", "stalled", "violation", "cut"]
    error: str | None = None
    why: str | None = None
    findings: list[Name] = []
    unkept_snapshots: Count = 0


class RecordingWriter(JsonLines):
    """Writes a whole run. Register `step_seen` with the recorder that it is the sink of."""

    def begin(
        self,
        tree: VllmTree | None,
        engine: Generation,
        parameters: Parameters,
        load: tuple[RequestSpec, ...],
    ) -> None:
        """Write what the run is given."""
        line = RunLine(
            kind="run",
            schema="forensics.sandbox_events/1",
            engine=engine.value,
            version=tree.version if tree else None,
            file=tree.file if tree else None,
            parameters=msgspec.to_builtins(parameters),
        )
        self.put(line)
        for spec in load:
            self.put({"kind": "request", **load_fields(spec)})

    def step_seen(self, seen: StepSeen) -> None:
        """Write one step."""
        self.put(
            StepLine(
                kind="step",
                step=seen.step.number,
                scheduled=[
                    (item.request, item.sequence, item.start, item.tokens)
                    for item in seen.step.items
                ],
                preempted=list(seen.step.preempted),
                finished=list(seen.done.finished),
                refused=list(seen.done.refused),
                running=seen.record.running,
                waiting=seen.record.waiting,
                swapped=seen.record.swapped,
            )
        )

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Write the whole state."""
        self.put(snapshot_line(snapshot))

    def end(self, run: SandboxRun) -> None:
        """Write how it ended."""
        self.put(
            EndLine(
                kind="end",
                outcome=run.outcome.value,
                error=run.error,
                why=run.why,
                findings=sorted({violation.kind.value for violation in run.violations}),
                unkept_snapshots=run.unkept_snapshots,
            )
        )


def event_of_line(line: EventLine) -> Event:
    """The event that a line tells."""
    return msgspec.convert(msgspec.to_builtins(line), Event)


def schema() -> dict[str, Any]:
    """The JSON schema of one line."""
    kinds, definitions = msgspec.json.schema_components(
        (RunLine, RequestLine, EventLine, StepLine, SnapshotLine, EndLine),
        ref_template="#/$defs/{name}",
    )
    return {"anyOf": list(kinds), "$defs": definitions}
