"""Two runs side by side: the first step in which they part, what each did there, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.sandbox import Life, Snapshot
from vllm_forensics.model.sandbox_recording import Recording


class DifferenceKind(StrEnum):
    """Which decision is another one; where several are in one step, the first of these is told."""

    RAISED = "raised"
    PREEMPTED = "preempted"
    SWAPPED = "swapped"
    REFUSED = "refused"
    ADMITTED = "admitted"
    TOKENS = "tokens"
    FORKED = "forked"
    COPIED = "copied"
    CACHE_HIT = "cache-hit"
    ALLOCATED = "allocated"
    EVICTED = "evicted"
    FREED = "freed"
    FINISHED = "finished"
    QUEUES = "queues"
    STATE = "state"
    """What the pool holds, or says that it holds, after the same decisions."""
    FREE_LIST_ORDER = "free-list-order"
    ENDED = "ended"


class Verdict(StrEnum):
    """How alike two runs are."""

    IDENTICAL = "identical"
    SAME_UP_TO_NUMBERING = "same-up-to-numbering"
    """The same decisions; one fixed renumbering of the blocks makes them equal."""
    SAME_BUT_ORDER = "same-but-order"
    """The same decisions; blocks are handed out in another order."""
    NOTHING_OTHERWISE = "nothing-otherwise"
    """One of them is a log, and nothing that it tells is otherwise in the other."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One decision that differs."""

    step: int
    kind: DifferenceKind
    request: str | None = None
    pool: str | None = None
    left_block: int | None = None
    right_block: int | None = None
    left: str
    """What the left run did, in words."""
    right: str
    why: str | None = None
    """What the numbers of both say about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """One of the two runs, as far as a comparison tells of it."""

    recording: Recording
    """Without its steps and its load."""
    steps: int
    """Completed ones."""
    last_step: int
    """The number of the last, completed or not; -1: there is none."""
    preemptions: int
    lives: tuple[Life, ...]
    before: Snapshot | None = None
    """The state before the step in which they part, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxDiff:
    """The comparison of two runs."""

    left: DiffSide
    right: DiffSide
    verdict: Verdict
    first: Difference | None
    """What differs first."""
    others: tuple[Difference, ...] = ()
    """More that differ in the same step."""
    decision: Difference | None = None
    """Where only states differ in `first`: the first decision that does, later."""
    order: Difference | None = None
    """Where blocks are first handed out in another order, if that is not after `first`."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """Name, left and right of those that differ."""
    compared_steps: int = 0
    different_steps: int = 0
