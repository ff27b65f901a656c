"""The JSON of `forensics sandbox run`: users script against it. Fields are added, never renamed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.event import Chain, Event
from vllm_forensics.model.sandbox import (
    Parameters,
    Parting,
    RequestSpec,
    SandboxRun,
    StepRecord,
    Violation,
)
from vllm_forensics.model.sandbox_snapshot import SnapshotLine, snapshot_line
from vllm_forensics.render.json_text import json_text


class VllmWire(msgspec.Struct, frozen=True, kw_only=True):
    """Which vLLM was driven."""

    version: str | None
    file: str


class ParametersWire(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was built from; null is this vLLM's own default."""

    gpu_blocks: int
    cpu_blocks: int
    block_size: int
    best_of: int
    sliding_window: int | None
    prefix_caching: bool | None
    chunked_prefill: bool | None
    policy: str
    max_batched_tokens: int | None
    max_seqs: int
    max_model_len: int
    block_manager: int
    max_steps: int
    check: str
    plant: str | None
    async_scheduling: bool
    spec_tokens: int
    hybrid: bool
    connector: int | None
    requests: int
    prompt_tokens: int
    output_tokens: int


class EventWire(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a block's life; `times` uses in a row are one, from `step` to `last_step`."""

    kind: str
    step: int | None
    last_step: int | None
    times: int
    request: str | None
    generation: int | None
    source: int | None
    function: str | None
    file: str | None
    line: int | None


class ChainWire(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one block's life."""

    block: int
    pool: str | None
    events: list[EventWire]


class ViolationWire(msgspec.Struct, frozen=True, kw_only=True):
    """One broken rule; `times` steps broke it for the same block and request."""

    step: int
    last_step: int | None
    times: int
    kind: str
    message: str
    request: str | None
    block: int | None
    pool: str | None
    chain: list[EventWire]


class PoolWire(msgspec.Struct, frozen=True, kw_only=True):
    """One pool when the run ended."""

    total: int
    usable: int
    free: int


class StepWire(msgspec.Struct, frozen=True, kw_only=True):
    """One step in numbers, after it."""

    step: int
    scheduled_tokens: int
    running: int
    waiting: int
    swapped: int
    preempted: list[str]
    gpu_used: int
    cpu_used: int


class PartingWire(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run parts from the first of the healthy ones; `kind` as in a comparison."""

    step: int
    kind: str
    request: str | None


class MemoryWire(msgspec.Struct, frozen=True, kw_only=True):
    """What `--drive-native` did with real memory: tokens written and read, blocks moved."""

    written: int
    read: int
    moved: int
    sanitized: bool
    """Under AddressSanitizer."""


class SandboxWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics sandbox run --format json`."""

    schema: Literal["forensics.sandbox/1"]
    engine: Literal["reference", "v0", "v1"]
    vllm: VllmWire | None
    parameters: ParametersWire
    steps: int
    outcome: Literal["finished", "raised", "stalled", "violation", "cut"]
    error: str | None
    raised_at: list[str]
    why: str
    violations: list[ViolationWire]
    unshown_violations: int
    chains: list[ChainWire]
    healthy_with: list[str]
    healthy_parts: PartingWire | None
    finished: list[str]
    refused: list[str]
    unfinished: list[str]
    preemptions: int
    blocks: PoolWire
    cpu_blocks: PoolWire | None
    history: list[StepWire]
    events: int
    snapshots: list[SnapshotLine]
    unkept_snapshots: int
    memory: MemoryWire | None


def render_sandbox_json(run: SandboxRun) -> str:
    """The run as JSON, ending in a newline. Strings must have been cleaned."""
    pools = {
        counts.pool: PoolWire(total=counts.total, usable=counts.usable, free=counts.free)
        for counts in run.blocks
    }
    return json_text(
        SandboxWire(
            schema="forensics.sandbox/1",
            engine=run.engine.value,
            vllm=VllmWire(version=run.tree.version, file=run.tree.file) if run.tree else None,
            parameters=parameters_wire(run.parameters, run.load),
            steps=len(run.steps),
            outcome=run.outcome.value,
            error=run.error,
            raised_at=list(run.raised_at),
            why=run.why,
            violations=[violation_wire(violation) for violation in run.violations],
            unshown_violations=run.unshown_violations,
            chains=[_chain(chain) for chain in run.chains],
            healthy_with=list(run.healthy_with),
            healthy_parts=_parting(run.healthy_parts) if run.healthy_parts else None,
            finished=list(run.finished),
            refused=list(run.refused),
            unfinished=[request.id for request in run.requests],
            preemptions=run.preemptions,
            blocks=pools["gpu"],
            cpu_blocks=pools.get("cpu"),
            history=[_step(step) for step in run.steps],
            events=run.events,
            snapshots=[snapshot_line(snapshot) for snapshot in run.snapshots],
            unkept_snapshots=run.unkept_snapshots,
            memory=MemoryWire(**run.memory._asdict()) if run.memory else None,
        )
    )


def parameters_wire(given: Parameters, load: tuple[RequestSpec, ...]) -> ParametersWire:
    """What a run was built from, and how much its load is."""
    return ParametersWire(
        gpu_blocks=given.gpu_blocks,
        cpu_blocks=given.cpu_blocks,
        block_size=given.block_size,
        best_of=given.best_of,
        sliding_window=given.sliding_window,
        prefix_caching=given.prefix_caching,
        chunked_prefill=given.chunked_prefill,
        policy=given.policy.value,
        max_batched_tokens=given.max_batched_tokens,
        max_seqs=given.max_seqs,
        max_model_len=given.max_model_len,
        block_manager=given.block_manager,
        max_steps=given.max_steps,
        check=given.check.value,
        plant=given.plant.value if given.plant else None,
        async_scheduling=given.async_scheduling,
        spec_tokens=given.spec_tokens,
        hybrid=given.hybrid,
        connector=given.connector,
        requests=len(load),
        prompt_tokens=sum(spec.prompt_len for spec in load),
        output_tokens=sum(spec.max_tokens for spec in load),
    )


def violation_wire(violation: Violation) -> ViolationWire:
    """One broken rule, with its chain."""
    return ViolationWire(
        step=violation.step,
        last_step=violation.last_step,
        times=violation.times,
        kind=violation.kind.value,
        message=violation.message,
        request=violation.request,
        block=violation.block,
        pool=violation.pool if violation.block is not None else None,
        chain=[_event(event) for event in violation.chain.events] if violation.chain else [],
    )


def _chain(chain: Chain) -> ChainWire:
    return ChainWire(
        block=chain.block, pool=chain.pool, events=[_event(event) for event in chain.events]
    )


def _event(event: Event) -> EventWire:
    return EventWire(
        kind=event.kind.value,
        step=event.step,
        last_step=event.last_step,
        times=event.times,
        request=event.request,
        generation=event.generation,
        source=event.source,
        function=event.function,
        file=event.file,
        line=event.line,
    )


def _step(step: StepRecord) -> StepWire:
    return StepWire(
        step=step.number,
        scheduled_tokens=step.scheduled_tokens,
        running=step.running,
        waiting=step.waiting,
        swapped=step.swapped,
        preempted=list(step.preempted),
        gpu_used=step.gpu_used,
        cpu_used=step.cpu_used,
    )


def _parting(found: Parting) -> PartingWire:
    return PartingWire(step=found.step, kind=found.kind, request=found.request)


def schema() -> dict[str, Any]:
    """The JSON schema of the answer."""
    return msgspec.json.schema(SandboxWire)
