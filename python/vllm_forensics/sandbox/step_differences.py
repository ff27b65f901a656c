"""What differs between two runs in one step, the decision that explains most first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Generation, Outcome, RequestSpec
from vllm_forensics.model.sandbox_diff import Difference, DifferenceKind
from vllm_forensics.model.sandbox_recording import RecordedStep, Recording
from vllm_forensics.sandbox.block_lives import BlockLives, Decision, StepView
from vllm_forensics.sandbox.states import states_apart

_BLOCK_EVENTS: Final = (
    (EventKind.SWAP, DifferenceKind.SWAPPED, "swaps"),
    (EventKind.FORK, DifferenceKind.FORKED, "forks"),
    (EventKind.COPY, DifferenceKind.COPIED, "copies"),
    (EventKind.TOUCH, DifferenceKind.CACHE_HIT, "finds in its cache"),
    (EventKind.ALLOCATE, DifferenceKind.ALLOCATED, "allocates"),
    (EventKind.EVICT, DifferenceKind.EVICTED, "lets the cache forget"),
    (EventKind.FREE, DifferenceKind.FREED, "frees"),
)
_ORDER: Final = tuple(DifferenceKind)
_NOTHING: Final = "does not"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOf:
    """One side's step, and what is known of the run up to it."""

    recording: Recording
    specs: Mapping[str, RequestSpec]
    step: RecordedStep | None
    view: StepView
    new: frozenset[str]
    """Requests that are scheduled for the first time."""
    blocks: BlockLives
    over: bool
    """Whether the run ended before this step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same step of both runs."""

    left: StepOf
    right: StepOf


def differences(pair: Pair) -> Iterator[Difference]:
    """All that differs in one step."""
    if pair.left.over or pair.right.over:
        yield _ended(pair)
        return
    if pair.left.step is None or pair.right.step is None:
        # A trace has no line for a step in which nothing happened to a block.
        yield from sorted(_of_blocks(pair), key=lambda found: _ORDER.index(found.kind))
        return
    if pair.left.step.completed != pair.right.step.completed:
        yield from _died(pair)  # what one of them has not come to is no difference
        return
    number = pair.left.view.number
    found = list(_of_blocks(pair))
    if pair.left.step.completed:
        found += _of_requests(pair, pair.left.step, pair.right.step)
    if not found:
        found += states_apart(number, pair.left.step.snapshot, pair.right.step.snapshot)
    yield from sorted(found, key=lambda one: _ORDER.index(one.kind))


def _ended(pair: Pair) -> Difference:
    sides = (pair.left, pair.right)
    left, right = (_how_it_ended(side) for side in sides)
    dies = any(side.over and side.recording.outcome is Outcome.RAISED for side in sides)
    return Difference(
        step=pair.left.view.number,
        kind=DifferenceKind.RAISED if dies else DifferenceKind.ENDED,
        left=left,
        right=right,
        why=free_before(pair) if dies else None,
    )


def _how_it_ended(side: StepOf) -> str:
    if not side.over:
        return "goes on"
    outcome = side.recording.outcome
    if outcome is Outcome.RAISED:
        return f"dies: {side.recording.error}"
    return "is over" if outcome is None else f"is over: {outcome.value}"


def _died(pair: Pair) -> Iterator[Difference]:
    died = [
        side.step is not None and not side.step.completed and side.recording.error is not None
        for side in (pair.left, pair.right)
    ]
    if died[0] != died[1]:
        left, right = (
            f"dies: {side.recording.error}" if dead else "goes on"
            for side, dead in zip((pair.left, pair.right), died, strict=True)
        )
        yield Difference(
            step=pair.left.view.number,
            kind=DifferenceKind.RAISED,
            left=left,
            right=right,
            why=free_before(pair),
        )


def _of_requests(pair: Pair, left: RecordedStep, right: RecordedStep) -> Iterator[Difference]:
    number = pair.left.view.number
    for kind, what, here, there in (
        (DifferenceKind.PREEMPTED, "takes its place away", left.preempted, right.preempted),
        (DifferenceKind.REFUSED, "gives it up", left.refused, right.refused),
        (DifferenceKind.FINISHED, "finishes it", left.finished, right.finished),
    ):
        if kind is not DifferenceKind.PREEMPTED and None in (left.scheduled, right.scheduled):
            continue  # events of blocks alone do not tell who is done
        for request in sorted(set(here) ^ set(there)):
            mine = request in here
            yield Difference(
                step=number,
                kind=kind,
                request=request,
                left=what if mine else _NOTHING,
                right=_NOTHING if mine else what,
                why=None if kind is DifferenceKind.FINISHED else free_before(pair),
            )
    if left.scheduled is not None and right.scheduled is not None:
        yield from _scheduled(pair, left, right)
    if left.queues != right.queues and None not in (left.queues, right.queues):
        yield Difference(
            step=number,
            kind=DifferenceKind.QUEUES,
            left=_queues(left),
            right=_queues(right),
        )


def _queues(step: RecordedStep) -> str:
    running, waiting, swapped = step.queues or (0, 0, 0)
    return f"{running} running, {waiting} waiting, {swapped} swapped out"


def _scheduled(pair: Pair, left: RecordedStep, right: RecordedStep) -> Iterator[Difference]:
    here, there = _work(left), _work(right)
    for request in sorted(here.keys() | there.keys()):
        mine, other = here.get(request), there.get(request)
        if mine == other:
            continue
        kind = DifferenceKind.TOKENS
        if mine is None or other is None:
            kind = DifferenceKind.ADMITTED
        yield Difference(
            step=pair.left.view.number,
            kind=kind,
            request=request,
            left=_computes(mine, pair.left, request),
            right=_computes(other, pair.right, request),
            why=_why_admitted(pair, request) if kind is DifferenceKind.ADMITTED else None,
        )


def _work(step: RecordedStep) -> dict[str, tuple[tuple[int, int], ...]]:
    """By request: first token and number of tokens of each sequence."""
    found: dict[str, list[tuple[int, int]]] = {}
    for item in step.scheduled or ():
        found.setdefault(item.request, []).append((item.start, item.tokens))
    return {request: tuple(sorted(work)) for request, work in found.items()}


def _computes(work: tuple[tuple[int, int], ...] | None, side: StepOf, request: str) -> str:
    if work is None:
        return "does not schedule it"
    verb = "admits it and computes" if request in side.new else "computes"
    parts = ", ".join(
        f"tokens {start} to {start + tokens - 1}" if tokens != 1 else f"token {start}"
        for start, tokens in dict.fromkeys(work)
    )
    times = f" of {len(work)} sequences" if len(work) > 1 else ""
    return f"{verb} {parts}{times}"


def _why_admitted(pair: Pair, request: str) -> str | None:
    """What the request needs, and what was free."""
    spec = pair.left.specs.get(request) or pair.right.specs.get(request)
    parameters = pair.left.recording.parameters or pair.right.recording.parameters
    free = free_before(pair)
    if request not in pair.left.new | pair.right.new:
        return free  # it grows, and the prompt is long in its blocks
    if spec is None or parameters is None or free is None:
        return free
    needs = -(-spec.prompt_len // parameters.block_size)
    return f"its prompt of {spec.prompt_len} tokens is {needs} blocks; {free}"


def free_before(pair: Pair) -> str | None:
    """How many blocks each had to give when the step began."""
    counts = [_free_of(side) for side in (pair.left, pair.right)]
    if None in counts:
        return None
    return f"free when the step began: {counts[0]} and {counts[1]}"


def _free_of(side: StepOf) -> str | None:
    parameters = side.recording.parameters
    if parameters is None:
        return None
    usable = parameters.gpu_blocks - (side.recording.engine is Generation.V1)
    return f"{usable - side.view.used_before.get('gpu', 0)} of {usable}"


def _of_blocks(pair: Pair) -> Iterator[Difference]:
    """Per request and kind of event: what only one side did to which blocks."""
    here, there = pair.left.view.by_request, pair.right.view.by_request
    for request in sorted(here.keys() | there.keys(), key=str):
        mine, other = here.get(request, Counter()), there.get(request, Counter())
        if mine == other:
            continue
        for event, kind, verb in _BLOCK_EVENTS:
            only_left = _only(mine - other, event)
            only_right = _only(other - mine, event)
            if not only_left and not only_right:
                continue
            first = next(iter(only_left or only_right))
            yield Difference(
                step=pair.left.view.number,
                kind=kind,
                request=request,
                pool=first.life.pool,
                left_block=pair.left.blocks.number_of(first.life),
                right_block=pair.right.blocks.number_of(first.life),
                left=_did(only_left, mine, event, verb, pair.left),
                right=_did(only_right, other, event, verb, pair.right),
                why=free_before(pair) if kind is DifferenceKind.SWAPPED else None,
            )


def _only(decisions: Counter[Decision], event: EventKind) -> Counter[Decision]:
    return Counter({found: n for found, n in decisions.items() if found.kind is event})


def _did(
    only: Counter[Decision],
    everything: Counter[Decision],
    event: EventKind,
    verb: str,
    side: StepOf,
) -> str:
    """What this side did in all, where it differs from what the other one did."""
    done = _only(everything, event)
    if not done:
        return _NOTHING
    shown = only or done
    numbers = [side.blocks.number_of(found.life) for found in shown]
    blocks = ", ".join("?" if number is None else str(number) for number in numbers[:8])
    more = " …" if len(numbers) > 8 else ""
    total = sum(done[found] for found in shown)
    times = f", {total} times in all" if total > len(shown) else ""
    what = "block" if len(numbers) == 1 else "blocks"
    return f"{verb} {what} {blocks}{more}{times}"
