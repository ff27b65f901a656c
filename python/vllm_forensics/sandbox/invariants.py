"""What must hold between two steps, read off a snapshot; each rule says what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vllm_forensics.model.sandbox import PoolState, RequestState, Snapshot, ViolationKind

Broken = tuple[ViolationKind, str, str | None, int | None, str]
"""Kind, message, request, block, pool."""


def broken_in(snapshot: Snapshot) -> Iterator[Broken]:
    """Every broken rule; of one rule and pool only the first block."""
    for pool in snapshot.pools:
        yield from _free_list(pool)
        yield from _conservation(pool)
        yield from _hashes(pool)
        yield from _references(pool, snapshot.requests)
        yield from _occupancy(pool)
    yield from _kept(snapshot.requests)


def broken_in_the_middle(snapshot: Snapshot) -> Iterator[Broken]:
    """The rules that hold in the middle of a step too, where an engine raised."""
    for pool in snapshot.pools:
        yield from _free_list(pool)
        yield from _occupancy(pool)


def leaks_in(snapshot: Snapshot) -> Iterator[Broken]:
    """Blocks that are held although no request is left: call it on an idle engine only."""
    for pool in snapshot.pools:
        held = [block for block, count in enumerate(pool.references) if count > 0]
        held = [block for block in held if block not in pool.reserved]
        for block in held[:1]:
            yield (
                ViolationKind.LEAK,
                f"{_blocks(len(held))} of the {pool.name} pool {'is' if len(held) == 1 else 'are'} "
                f"still held after the last request ended: {_some(held)}",
                None,
                block,
                pool.name,
            )


def _free_list(pool: PoolState) -> Iterator[Broken]:
    free = set(pool.free)
    if len(free) < len(pool.free):
        twice = next(block for block, times in Counter(pool.free).items() if times > 1)
        yield (
            ViolationKind.FREE_LIST,
            f"block {twice} stands in the free list twice: two requests would get it",
            None,
            twice,
            pool.name,
        )
    if pool.counted_free is not None and pool.counted_free != len(pool.free):
        yield (
            ViolationKind.FREE_LIST,
            f"{_blocks(len(pool.free))} stand in the free list of the {pool.name} pool, and it "
            f"counts {pool.counted_free}",
            None,
            None,
            pool.name,
        )
    kept = next((block for block in pool.reserved if block in free), None)
    if kept is not None:
        yield (
            ViolationKind.FREE_LIST,
            f"block {kept}, which is never to be handed out, stands in the free list",
            None,
            kept,
            pool.name,
        )
    references = pool.references
    both = [block for block in pool.free if references[block] > 0]
    for held in both[:1]:
        yield (
            ViolationKind.FREE_LIST,
            f"block {held} stands in the free list and is held {pool.references[held]} times",
            None,
            held,
            pool.name,
        )


def _conservation(pool: PoolState) -> Iterator[Broken]:
    free = {*pool.free, *pool.reserved}
    unheld = [block for block, count in enumerate(pool.references) if count == 0]
    lost = [] if free.issuperset(unheld) else [block for block in unheld if block not in free]
    if lost:
        yield (
            ViolationKind.CONSERVATION,
            f"{_blocks(len(lost))} of the {pool.name} pool {'is' if len(lost) == 1 else 'are'} "
            f"neither held nor free: {_some(lost)}",
            None,
            lost[0],
            pool.name,
        )
    below = [block for block, count in enumerate(pool.references) if count < 0]
    for negative in [block for block in below if block not in pool.reserved][:1]:
        yield (
            ViolationKind.REFERENCE_COUNT,
            f"block {negative} is held {pool.references[negative]} times",
            None,
            negative,
            pool.name,
        )


def _hashes(pool: PoolState) -> Iterator[Broken]:
    if pool.misfiled:
        first = pool.misfiled[0]
        yield (
            ViolationKind.HASH,
            f"block {first} is found under another hash than its own, or has one and is not found",
            None,
            first,
            pool.name,
        )


def _references(pool: PoolState, requests: tuple[RequestState, ...]) -> Iterator[Broken]:
    """Each table counts a block once, however often it names it (v0's window is a ring)."""
    named: Counter[int] = Counter()
    owner: dict[int, str] = {}
    for request in requests:
        if request.pool == pool.name:
            for table in request.tables:
                named.update(set(table))
                owner.update(dict.fromkeys(table, request.id))
    held = {block for block, count in enumerate(pool.references) if count > 0}
    for block in sorted((held | named.keys()).difference(pool.reserved)):
        count = pool.references[block]
        if 0 <= count != named[block]:
            yield (
                ViolationKind.REFERENCE_COUNT,
                f"block {block} is counted as held {count} times and stands in "
                f"{named[block]} block tables",
                owner.get(block),
                block,
                pool.name,
            )
            return


def _kept(requests: tuple[RequestState, ...]) -> Iterator[Broken]:
    """Whoever lost its place and starts anew has nothing."""
    for request in requests:
        if request.state == "preempted" and request.computed == 0 and any(request.tables):
            held = [block for table in request.tables for block in table]
            yield (
                ViolationKind.LEAK,
                f"request {request.id} was preempted and still holds {_blocks(len(held))}",
                request.id,
                held[0],
                request.pool,
            )


def _occupancy(pool: PoolState) -> Iterator[Broken]:
    if pool.occupied is None:
        return
    apart = [
        block
        for block, (taken, count) in enumerate(zip(pool.occupied, pool.references, strict=True))
        if taken != (count > 0)
    ]
    if apart:
        first = apart[0]
        counted = f"held {pool.references[first]} times" if pool.references[first] else "free"
        noted = "taken" if pool.occupied[first] else "free"
        others = f"; so are {_some(apart[1:])}" if len(apart) > 1 else ""
        yield (
            ViolationKind.OCCUPANCY,
            f"block {first} is {counted}, and a second note of the {pool.name} pool says that it "
            f"is {noted}{others}",
            None,
            first,
            pool.name,
        )


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


def _some(blocks: list[int]) -> str:
    shown = ", ".join(str(block) for block in blocks[:8])
    return shown if len(blocks) <= 8 else f"{shown} …"
