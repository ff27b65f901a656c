"""The load behind events of blocks alone: lengths follow from when blocks were taken, up to one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Parameters, RequestSpec
from vllm_forensics.model.sandbox_recording import Origin, RecordedStep, Recording

_BLOCK_SIZE: Final = 16
"""VLLM's own default on most machines."""


def with_told_load(recording: Recording) -> Recording:
    """The recording with a load that can be driven, and with what was assumed for it."""
    if recording.origin is not Origin.TRACE:
        return recording
    parameters = _parameters(recording.steps)
    assumed = (
        f"assumed: --block-size {parameters.block_size}, --gpu-blocks {parameters.gpu_blocks}: the "
        "highest number that it names",
        "assumed: lengths of prompts and outputs, from when blocks were taken and given back",
    )
    load = recording.load or tuple(_from_blocks(recording.steps, parameters.block_size))
    return replace(
        recording,
        parameters=parameters,
        load=load,
        steps=tuple(_with_preempted(step) for step in recording.steps),
        assumed=(*recording.assumed, *assumed),
    )


def _with_preempted(step: RecordedStep) -> RecordedStep:
    """Where no line tells of the step as a whole, its events do."""
    lost = (e.request for e in step.events if e.kind is EventKind.PREEMPT and e.request is not None)
    return step if step.preempted else replace(step, preempted=tuple(dict.fromkeys(lost)))


def _parameters(steps: tuple[RecordedStep, ...]) -> Parameters:
    highest = max((event.block for step in steps for event in step.events), default=1)
    return Parameters(gpu_blocks=min(highest + 1, 1_000_000), block_size=_BLOCK_SIZE)


@dataclass(slots=True)
class _Taken:
    """When one request took and gave back blocks."""

    first: int
    blocks: int = 0
    """That it took in its first step."""
    moved: int | None = None
    """The first later step in which it took another one, or gave any back."""
    last: int = 0
    since: int | None = None
    """The step in which it began to hold what it holds now."""
    held: int = 0
    """Steps in which it held blocks, before that."""


def _from_blocks(steps: tuple[RecordedStep, ...], block_size: int) -> Iterator[RequestSpec]:
    """Every request that took a block: a token came out in each step in which it held any."""
    found: dict[str, _Taken] = {}
    for step in steps:
        for event in step.events:
            if event.request is not None and event.pool in {None, "gpu"}:
                _note(found, event.request, event.kind, step.number)
    for name, taken in found.items():
        whole = taken.blocks * block_size
        # A token a step fills the last block: it was full when another one was taken.
        steps_in_it = 0 if taken.moved is None else taken.moved - taken.first - 1
        until = 0 if taken.since is None else taken.last - taken.since + 1
        yield RequestSpec(
            id=name,
            arrival=max(taken.first, 0),
            prompt_len=max(whole - min(steps_in_it, block_size - 1), 1),
            max_tokens=max(taken.held + until, 1),
        )


def _note(found: dict[str, _Taken], name: str, kind: EventKind, step: int) -> None:
    takes = kind in {EventKind.ALLOCATE, EventKind.TOUCH}
    taken = found.get(name)
    if taken is None:
        if not takes:
            return
        taken = found[name] = _Taken(first=step, last=step, since=step)
    if kind is EventKind.PREEMPT:
        if taken.since is not None:
            taken.held += step - taken.since
            taken.since = None
    elif takes:
        taken.blocks += step == taken.first
        taken.since = step if taken.since is None else taken.since
    elif kind is not EventKind.FREE:
        return
    taken.last = step
    if step > taken.first and taken.moved is None:
        taken.moved = step
