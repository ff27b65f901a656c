"""Whether anything can ever happen again: an engine that waits for ever raises nothing."""

from __future__ import annotations

from itertools import accumulate

from vllm_forensics.model.sandbox import Parameters, RequestState, Snapshot
from vllm_forensics.sandbox.engine.interface import CPU, GPU

_EMPTY_STEPS: int = 3
"""Schedulers look back at most one step: what did nothing three times does nothing for ever."""
_PATIENCE: int = 4
"""How often all tokens may be computed anew without one new token in the whole engine."""


class StallDetector:
    """Counts steps without progress: a token that no request had before, or a request's end."""

    def __init__(self, parameters: Parameters) -> None:
        """Nothing has happened yet."""
        self._batch = parameters.batch(chunks=True)
        self._empty = 0
        self._fruitless = 0
        self._preempted = 0

    def seen(self, *, scheduled: int, new_tokens: int, preempted: int) -> None:
        """Take note of one step: tokens scheduled and tokens that came out."""
        self._empty = 0 if scheduled or preempted or new_tokens else self._empty + 1
        self._fruitless = 0 if new_tokens else self._fruitless + 1
        self._preempted = 0 if new_tokens else self._preempted + preempted

    def suspicious(self) -> bool:
        """Whether it is worth to look closer."""
        return self._empty >= _EMPTY_STEPS or (self._preempted > 1 and self._fruitless > 8)

    def stuck(self, tokens: int) -> bool:
        """Whether no more can come; `tokens` is the sum over all unfinished requests."""
        steps_for_all = -(-tokens // self._batch) + 8
        runs_in_circles = self._preempted > 1 and self._fruitless > _PATIENCE * steps_for_all
        return self._empty >= _EMPTY_STEPS or runs_in_circles


def why_stuck(
    snapshot: Snapshot, parameters: Parameters, usable: int, *, chunks: bool, spare: int = 0
) -> tuple[str, str | None]:
    """One sentence with the numbers, and the request that it is about.

    `usable`: the most blocks that one request can have; `chunks`: prompts may be cut; `spare`:
    blocks that each sequence must have besides its own before it is swapped in.
    """
    pool = next(pool for pool in snapshot.pools if pool.name == GPU)
    size = parameters.block_size
    # In the order in which their turn comes.
    waiting = [request for request in snapshot.requests if request.state != "running"]
    head = next(iter(waiting or snapshot.requests), None)
    if head is None:
        return "nothing is left to schedule, and the engine does not say that it is idle", None
    groups = _needed(head, parameters, chunks=chunks)
    needed = sum(groups)
    if head.pool == CPU:
        held = len({block for table in head.tables for block in table})
        needed = max(needed, held) if spare == 0 else held + spare * len(head.tables)
    free = len(pool.free)
    what = f"request {head.id} ({_history(head)}) needs {needed} blocks of {size} tokens"
    if len(groups) > 1:
        parts = zip(groups, parameters.windows(), strict=True)
        what += f" ({', '.join(f'{count} for {_layers(window)}' for count, window in parts)})"
    if needed > usable:
        whose = _starving(groups, parameters, usable)
        return f"{what}; the pool has {usable}: {needed - usable} short{whose}, for ever", head.id
    named = {block for r in snapshot.requests for table in r.tables for block in table}
    lost = [
        block
        for block, count in enumerate(pool.references)
        if block not in pool.reserved and block not in named and (count or block not in pool.free)
    ]
    if lost and needed > free:
        return (
            f"{what}; {free} are free, and {len(lost)} are held by nobody: a leak",
            head.id,
        )
    if needed <= free:
        return f"{what}; {free} are free: enough, but {_other(head, parameters, chunks)}", head.id
    short = f"{needed - free} short{_starving(groups, parameters, free)}"
    return f"{what}; {free} are free: {short}", head.id


def _needed(head: RequestState, parameters: Parameters, *, chunks: bool) -> tuple[int, ...]:
    """Blocks for each group of layers to compute all tokens that there are.

    Layers with a window give back what they see no more, but not within a step: they need what is
    seen from its first token on, and the step's own.
    """
    size = parameters.block_size
    whole = -(-head.tokens // size)
    step = min(head.tokens, parameters.batch(chunks=True)) if chunks else head.tokens
    return tuple(
        whole if window is None else min(whole, -(-(window - 1 + step) // size) + 1)
        for window in parameters.windows()
    )


def _starving(groups: tuple[int, ...], parameters: Parameters, blocks: int) -> str:
    """For which of several groups, that take blocks in turn from one pool, it is too small."""
    if len(groups) == 1:
        return ""
    ends = accumulate(groups)
    pairs = zip(ends, parameters.windows(), strict=True)
    return f" for {next(_layers(window) for end, window in pairs if end > blocks)}"


def _layers(window: int | None) -> str:
    return "layers that see everything" if window is None else f"layers that see {window} tokens"


def _other(head: RequestState, parameters: Parameters, chunks: bool) -> str:  # noqa: FBT001
    """What else holds a request up; only what the numbers prove."""
    batch = parameters.batch(chunks=chunks)
    if not chunks and head.tokens > batch:
        return f"its {head.tokens} tokens must be computed in one step, and a step takes {batch}"
    if parameters.best_of > parameters.max_seqs:
        return (
            f"it is continued {parameters.best_of} times, and a step takes "
            f"{parameters.max_seqs} sequences"
        )
    return "it is not scheduled"


def _history(request: RequestState) -> str:
    made = request.tokens - request.prompt_len
    return f"{request.prompt_len} prompt tokens" + (f" and {made} more" if made > 0 else "")
