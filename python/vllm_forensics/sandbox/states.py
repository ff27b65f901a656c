"""Two states after the same decisions: what the pools count, and note, must then be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vllm_forensics.model.sandbox import PoolState, Snapshot
from vllm_forensics.model.sandbox_diff import Difference, DifferenceKind
from vllm_forensics.model.sandbox_snapshot import stretches


def states_apart(step: int, left: Snapshot | None, right: Snapshot | None) -> Iterator[Difference]:
    """What differs between two pools of one name, whatever numbers their blocks have.

    Pools of different sizes have other free blocks: that is no difference of their states.
    """
    if left is None or right is None:
        return
    others = {pool.name: pool for pool in right.pools}
    for pool in left.pools:
        other = others.get(pool.name)
        if other is None:
            continue
        for mine, theirs in zip(_counted(pool), _counted(other), strict=True):
            if mine != theirs:
                yield Difference(
                    step=step,
                    kind=DifferenceKind.STATE,
                    pool=pool.name,
                    left=mine,
                    right=theirs,
                )


def _counted(pool: PoolState) -> tuple[str, str]:
    """How often blocks are held, and where a second note of the pool says otherwise."""
    held = Counter(
        count for block, count in enumerate(pool.references) if block not in pool.reserved
    )
    times = ", ".join(f"{held[count]} held {count} times" for count in sorted(held) if count)
    return f"{pool.name.upper()} blocks: {times or 'none held'}", _noted(pool)


def _noted(pool: PoolState) -> str:
    """Where a second note of what is taken contradicts the counts."""
    noted = pool.occupied or ()
    pairs = list(enumerate(zip(noted, pool.references, strict=False)))
    taken = [block for block, (note, count) in pairs if note and count <= 0]
    free = [block for block, (note, count) in pairs if not note and count > 0]
    parts = []
    if taken:
        parts.append(f"notes as taken what it counts as free: blocks {stretches(taken)}")
    if free:
        parts.append(f"notes as free what it counts as held: blocks {stretches(free)}")
    return "; ".join(parts) or "counts and notes the same"
