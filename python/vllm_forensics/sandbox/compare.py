"""Finds the first step in which two recordings part, by step, request and block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import Outcome, Parameters, RequestSpec
from vllm_forensics.model.sandbox_diff import (
    Difference,
    DifferenceKind,
    DiffSide,
    SandboxDiff,
    Verdict,
)
from vllm_forensics.model.sandbox_recording import RecordedStep, Recording
from vllm_forensics.sandbox.block_lives import BlockLives
from vllm_forensics.sandbox.numbering import Numbering
from vllm_forensics.sandbox.step_differences import Pair, StepOf, differences

_OTHERS: Final = 12
_NOT_COMPARED: Final = ("check", "check_every", "max_steps")
"""They decide what is looked at, not what the engine does."""


class _Side:
    """One recording, step by step."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.blocks = BlockLives()
        self.by_number = {step.number: step for step in recording.steps}
        self.specs = {spec.id: spec for spec in recording.load}
        self.caches = any(
            event.kind is EventKind.CACHE for step in recording.steps for event in step.events
        )
        self._seen: set[str] = set()

    def take(self, number: int) -> StepOf:
        """Go on to a step, which may not be there."""
        step = self.by_number.get(number)
        view = self.blocks.step(number, () if step is None else step.events)
        scheduled = () if step is None else step.scheduled or ()
        new = frozenset(item.request for item in scheduled) - self._seen
        self._seen |= new
        return StepOf(
            recording=self.recording,
            specs=self.specs,
            step=step,
            view=view,
            new=new,
            blocks=self.blocks,
            over=number > self.last,
        )

    @property
    def is_cut(self) -> bool:
        """Whether the run went on after the recording's last step, or may have."""
        return self.recording.outcome in {None, Outcome.CUT}

    @property
    def last(self) -> int:
        """The number of the last step."""
        return self.recording.steps[-1].number if self.recording.steps else -1


def compare(left: Recording, right: Recording) -> SandboxDiff:
    """Where and why two runs part; the engines and loads may be different ones."""
    sides = _Side(left), _Side(right)
    first: tuple[Difference, ...] = ()
    decision: Difference | None = None
    order: Difference | None = None
    numbering = Numbering()
    different = 0
    known = min((side.last for side in sides if side.is_cut), default=None)
    numbers = sorted(sides[0].by_number.keys() | sides[1].by_number.keys())
    if known is not None:
        numbers = [number for number in numbers if number <= known]
    for number in numbers:
        pair = Pair(left=sides[0].take(number), right=sides[1].take(number))
        if not first:
            if order is None:
                order = numbering.check(pair)
            first = tuple(_decisions(pair, sides, order))
            different += bool(first)
        else:
            if decision is None and first[0].kind is DifferenceKind.STATE:
                later = _decisions(pair, sides, order)
                decision = next(
                    (one for one in later if one.kind is not DifferenceKind.STATE), None
                )
            different += _scheduled_apart(pair)
    return SandboxDiff(
        left=_told(sides[0], first, order),
        right=_told(sides[1], first, order),
        verdict=_verdict(first, order, numbering),
        first=first[0] if first else None,
        others=first[1 : 1 + _OTHERS],
        decision=decision,
        order=order,
        parameters=(
            *_parameters(left.parameters, right.parameters),
            *_loads(left.load, right.load),
        ),
        compared_steps=len(numbers),
        different_steps=different,
    )


def _decisions(
    pair: Pair, sides: tuple[_Side, _Side], order: Difference | None
) -> Iterator[Difference]:
    """What differs in a step, without what only follows from another order of the free list.

    A cache forgets the block that is handed out. Where one of the runs has no cache, it has nothing
    to forget.
    """
    forgets = order is None and all(side.caches for side in sides)
    for found in differences(pair):
        if forgets or found.kind is not DifferenceKind.EVICTED:
            yield found


def _verdict(
    first: tuple[Difference, ...], order: Difference | None, numbering: Numbering
) -> Verdict:
    if first:
        return Verdict.DIFFERENT
    if order is not None:
        return Verdict.SAME_BUT_ORDER
    return Verdict.SAME_UP_TO_NUMBERING if numbering.renamed else Verdict.IDENTICAL


def _scheduled_apart(pair: Pair) -> bool:
    """Whether a later step differs in what it computes: blocks have other lives by then."""
    left, right = pair.left.step, pair.right.step
    if left is None or right is None:
        return True
    same = left.preempted == right.preempted and left.finished == right.finished
    if left.scheduled is None or right.scheduled is None:
        return not same
    return not same or _work(left) != _work(right)


def _work(step: RecordedStep) -> list[tuple[str, int, int]]:
    return sorted((item.request, item.start, item.tokens) for item in step.scheduled or ())


def _told(side: _Side, first: tuple[Difference, ...], order: Difference | None) -> DiffSide:
    apart = first[0] if first else order
    before = None
    if apart is not None:
        step = side.by_number.get(apart.step - 1)
        before = None if step is None else step.snapshot
    steps = side.recording.steps
    gaps = side.recording.gaps
    if side.is_cut:
        gaps = (*gaps, f"what came after step {side.last} is not known, and not compared")
    return DiffSide(
        recording=replace(side.recording, steps=(), load=(), gaps=gaps),
        last_step=side.last,
        steps=sum(step.completed for step in steps),
        preemptions=sum(len(step.preempted) for step in steps),
        lives=side.blocks.all_lives(),
        before=before,
    )


def _parameters(
    left: Parameters | None, right: Parameters | None
) -> Iterator[tuple[str, str, str]]:
    if left is None or right is None:
        return
    for field in fields(Parameters):
        values = getattr(left, field.name), getattr(right, field.name)
        if values[0] != values[1] and field.name not in _NOT_COMPARED:
            yield field.name, _text(values[0]), _text(values[1])


def _loads(
    left: tuple[RequestSpec, ...], right: tuple[RequestSpec, ...]
) -> Iterator[tuple[str, str, str]]:
    if set(left) != set(right):
        counts = [
            f"{len(load)} requests, {sum(spec.prompt_len for spec in load)} prompt and "
            f"{sum(spec.max_tokens for spec in load)} output tokens"
            for load in (left, right)
        ]
        yield "load", counts[0], counts[1]


def _text(value: object) -> str:
    return "default" if value is None else str(value)
