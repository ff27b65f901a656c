"""The whole state between two steps as it is written, in a recording and in an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from vllm_forensics.model.sandbox import PoolState, RequestState, Snapshot

_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
_RUNS: Final = 10
"""Stretches of block numbers in one line of text."""
_Block = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class PoolLine(msgspec.Struct, frozen=True, kw_only=True):
    """One allocator. `free` in the order in which blocks would be handed out.

    `occupied`: by block, where the allocator notes a second time what is taken.
    """

    name: _Name
    total: _Block
    reserved: list[_Block]
    free: list[_Block]
    references: list[int]
    hashes: list[tuple[_Block, _Name]]
    occupied: list[bool] | None = None


class StateLine(msgspec.Struct, frozen=True, kw_only=True):
    """One unfinished request, in the order of its queue; `tables`: one a sequence or group."""

    id: _Name
    state: _Name
    tokens: _Count
    prompt: _Count
    computed: _Count
    pool: _Name
    tables: list[list[_Block]]


class SnapshotLine(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state after one step."""

    kind: Literal["snapshot"]
    step: int
    pools: list[PoolLine]
    requests: list[StateLine]


def snapshot_line(snapshot: Snapshot) -> SnapshotLine:
    """The state as it is written, here and in the answer of a run."""
    return SnapshotLine(
        kind="snapshot",
        step=snapshot.step,
        pools=[
            PoolLine(
                name=pool.name,
                total=pool.total,
                reserved=list(pool.reserved),
                free=list(pool.free),
                references=list(pool.references),
                hashes=list(pool.contents),
                occupied=None if pool.occupied is None else list(pool.occupied),
            )
            for pool in snapshot.pools
        ],
        requests=[
            StateLine(
                id=state.id,
                state=state.state,
                tokens=state.tokens,
                prompt=state.prompt_len,
                computed=state.computed,
                pool=state.pool,
                tables=[list(table) for table in state.tables],
            )
            for state in snapshot.requests
        ],
    )


def snapshot_of(line: SnapshotLine) -> Snapshot:
    """The state that a line tells."""
    return Snapshot(
        step=line.step,
        pools=tuple(
            PoolState(
                name=pool.name,
                total=pool.total,
                reserved=tuple(pool.reserved),
                free=tuple(pool.free),
                references=tuple(pool.references),
                contents=tuple(pool.hashes),
                occupied=None if pool.occupied is None else tuple(pool.occupied),
            )
            for pool in line.pools
        ),
        requests=tuple(
            RequestState(
                id=state.id,
                state=state.state,
                tokens=state.tokens,
                prompt_len=state.prompt,
                computed=state.computed,
                pool=state.pool,
                tables=tuple(tuple(table) for table in state.tables),
            )
            for state in line.requests
        ),
    )


def stretches(blocks: Sequence[int]) -> str:
    """Block numbers in their order, neighbours as one stretch, up or down: `1-11 40 39-30`."""
    found: list[str] = []
    at = 0
    while at < len(blocks) and len(found) < _RUNS:
        end = at
        for way in (1, -1):
            last = at
            while last + 1 < len(blocks) and blocks[last + 1] == blocks[last] + way:
                last += 1
            end = max(end, last)
        found.append(f"{blocks[at]}-{blocks[end]}" if end > at else str(blocks[at]))
        at = end + 1
    return " ".join([*found, "…"] if at < len(blocks) else found)
