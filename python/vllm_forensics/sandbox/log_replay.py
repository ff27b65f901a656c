"""A vLLM's own log as something to drive, and what it tells against what the drive does.

A log has no steps and no blocks: seconds instead of steps, every fiftieth preemption, no output
lengths. What is made up for it is said; only decisions that the log does tell are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Generation, Parameters, RequestSpec
from vllm_forensics.model.sandbox_diff import Difference, DifferenceKind, SandboxDiff, Verdict
from vllm_forensics.model.sandbox_log import SchedulerLog
from vllm_forensics.model.sandbox_recording import Origin, Recording
from vllm_forensics.sandbox.block_lives import BlockLives
from vllm_forensics.sandbox.compare import compare

_LARGEST: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What stands in for what a log does not tell."""

    prompt_len: int = 170
    max_tokens: int = 16
    steps_a_second: int = 20
    block_size: int = 16
    gpu_blocks: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preemption:
    step: int
    request: str
    swaps: bool


def recording_of_log(log: SchedulerLog, name: str, assumed: Assumed) -> Recording:
    """The load and the parameters that a log tells, and what had to be made up.

    Raises:
        EvidenceError: no request is named in it.

    """
    if not log.requests:
        raise EvidenceError(
            f"{name} is no recording, and names no request as a vLLM's log does",
            remedy="record a run with --events FILE, or log requests: --enable-log-requests "
            "(before 0.10 they are logged unless --disable-log-requests is given)",
        )
    parameters = _parameters(log, assumed)
    return Recording(
        name=name,
        origin=Origin.LOG,
        version=log.version,
        parameters=parameters,
        load=tuple(_load(log, assumed)),
        assumed=tuple(f"assumed: {text}" for text in _made_up(log, assumed)),
        gaps=(f"{log.lost:,} requests were too many",) if log.lost else (),
        log=log,
    )


def _parameters(log: SchedulerLog, assumed: Assumed) -> Parameters:
    options = dict(log.options)
    size = options.get("block_size") or assumed.block_size
    blocks = log.gpu_blocks or (log.gpu_tokens or 0) // size or assumed.gpu_blocks
    longest = max((request.prompt_len or 0 for request in log.requests), default=0)
    told = options.get("max_model_len") or options.get("max_seq_len") or 8192
    return Parameters(
        gpu_blocks=min(blocks, _LARGEST),
        cpu_blocks=min(log.cpu_blocks or 0, _LARGEST),
        block_size=min(size, _LARGEST),
        best_of=min(max((request.best_of or 1 for request in log.requests), default=1), 64),
        sliding_window=options.get("sliding_window") or None,
        max_batched_tokens=options.get("max_num_batched_tokens") or None,
        max_seqs=options.get("max_num_seqs") or 128,
        max_model_len=max(told, longest + 1),
    )


def _load(log: SchedulerLog, assumed: Assumed) -> Iterator[RequestSpec]:
    first = next((one.time_s for one in log.requests if one.time_s is not None), 0.0)

    def step(time_s: float | None) -> int:
        return int(max(0.0, (first if time_s is None else time_s) - first) * assumed.steps_a_second)

    aborted = {name: step(time_s) for name, time_s in log.aborted if time_s is not None}
    for request in log.requests:
        yield RequestSpec(
            id=request.id,
            arrival=step(request.time_s),
            prompt_len=min(request.prompt_len or assumed.prompt_len, _LARGEST),
            max_tokens=min(request.max_tokens or assumed.max_tokens, _LARGEST),
            abort_after=aborted.get(request.id),
        )


def _made_up(log: SchedulerLog, assumed: Assumed) -> Iterator[str]:
    options = dict(log.options)
    if not options.get("block_size"):
        yield f"--block-size {assumed.block_size}"
    if not log.gpu_blocks and not log.gpu_tokens:
        yield f"--gpu-blocks {assumed.gpu_blocks}"
    unknown = sum(request.prompt_len is None for request in log.requests)
    if unknown:
        yield f"--prompt-len {assumed.prompt_len}, for {unknown} requests"
    unknown = sum(request.max_tokens is None for request in log.requests)
    if unknown:
        yield f"--max-tokens {assumed.max_tokens}, for {unknown} requests"
    yield "every output is as long as it may be: a log does not tell when it ended"
    if any(request.time_s for request in log.requests):
        yield f"--steps-a-second {assumed.steps_a_second}: a log has seconds, and no steps"


def compare_with_log(recording: Recording, replayed: Recording) -> SandboxDiff:
    """What the log tells against what the replay did; `recording` is one of a log."""
    log = recording.log or SchedulerLog()
    found = compare(replayed, replayed)  # for the picture; the log itself has no steps
    first = next(_apart(log, replayed), None)
    noted = replace(
        recording,
        load=(),
        gaps=(*recording.gaps, *_notes(log, replayed)),
        log=replace(log, requests=(), preemptions=(), usage=()),
    )
    return replace(
        found,
        left=replace(found.left, recording=noted, steps=0, preemptions=0, last_step=-1, lives=()),
        verdict=Verdict.DIFFERENT if first else Verdict.NOTHING_OTHERWISE,
        first=first,
        different_steps=0,
        compared_steps=len(log.preemptions) + len(log.refused),
    )


def _preemptions(replayed: Recording) -> list[_Preemption]:
    return [
        _Preemption(
            step=step.number,
            request=request,
            swaps=any(e.kind is EventKind.SWAP and e.request == request for e in step.events),
        )
        for step in replayed.steps
        for request in step.preempted
    ]


def _apart(log: SchedulerLog, replayed: Recording) -> Iterator[Difference]:
    """What the log tells and the replay does otherwise, in the order of the log."""
    done = _preemptions(replayed)
    last = replayed.steps[-1].number if replayed.steps else 0
    for place, told in enumerate(log.preemptions):
        number = (told.number or place + 1) - 1
        mode = "by swapping" if told.swaps else "to be computed anew"
        here = done[number] if 0 <= number < len(done) else None
        same = here is not None and here.request == told.request
        if same and here is not None and (here.swaps == told.swaps or not _swaps(replayed)):
            continue
        text = f"preempts {len(done)} times in all"
        if here is not None:
            how = "by swapping" if here.swaps else "to be computed anew"
            text = f"takes the place of request {here.request} away, {how}"
        yield Difference(
            step=here.step if here is not None else last,
            kind=DifferenceKind.PREEMPTED,
            request=told.request,
            left=f"preemption {number + 1} is of request {told.request}, {mode} (line {told.line})",
            right=text,
        )
    refused = {name for step in replayed.steps for name in step.refused}
    for name in log.refused:
        if name not in refused:
            yield Difference(
                step=last,
                kind=DifferenceKind.REFUSED,
                request=name,
                left="gives it up: it can never fit",
                right="does not",
            )


def _swaps(replayed: Recording) -> bool:
    """Whether this engine could swap at all."""
    return replayed.engine is not Generation.V1


def _notes(log: SchedulerLog, replayed: Recording) -> Iterator[str]:
    done = len(_preemptions(replayed))
    if not log.preemptions and not log.refused:
        yield "the log tells no decision that a replay could be held against"
    if not log.preemptions and done:
        yield (
            f"the replay preempts {done} times; 0.4.2 and older, and those from 0.9 on, would not "
            "log that"
        )
    if log.usage and replayed.parameters is not None:
        peak = max(usage.gpu for usage in log.usage)
        used = _peak(replayed) / max(replayed.parameters.gpu_blocks, 1)
        yield f"GPU KV cache usage is {peak:.1%} at most, and {used:.1%} in the replay"


def _peak(replayed: Recording) -> int:
    """The most blocks that were held between two steps."""
    blocks, most = BlockLives(), 0
    for step in replayed.steps:
        blocks.step(step.number, step.events)
        most = max(most, blocks.used["gpu"])
    return most
