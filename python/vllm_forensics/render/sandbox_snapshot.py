"""The whole state after one step, for a person: queues, block tables, the free list in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sandbox import PoolState, RequestState, SandboxRun, Snapshot
from vllm_forensics.model.sandbox_snapshot import stretches
from vllm_forensics.render.rows import Rows
from vllm_forensics.render.terminal import TerminalStyle

_SHOWN: Final = 3
"""Snapshots in a text; all are in the JSON."""
_REQUESTS: Final = 12


def snapshot_parts(run: SandboxRun, style: TerminalStyle) -> Iterator[RenderableType]:
    """The first snapshots of a run, as parts of its text. Strings must have been cleaned."""
    for snapshot in run.snapshots[:_SHOWN]:
        yield Text()
        yield from _snapshot(snapshot, style)
    more = len(run.snapshots) - _SHOWN
    if more > 0:
        yield Text(f"  {more} more: --format json, or --events FILE", style="quiet")
    if run.unkept_snapshots:
        yield Text(f"  {run.unkept_snapshots:,} more were too many to keep", style="caution")


def _snapshot(snapshot: Snapshot, style: TerminalStyle) -> Iterator[RenderableType]:
    yield Text(f"  after step {snapshot.step}", style="head")
    table = Rows(gap=2, widest=style.width)
    for state in snapshot.requests[:_REQUESTS]:
        table.add_row(Text(f"    {state.state}", style="quiet"), Text(_request(state)))
    if len(snapshot.requests) > _REQUESTS:
        more = len(snapshot.requests) - _REQUESTS
        table.add_row(Text(), Text(f"and {more} more requests", style="quiet"))
    for pool in snapshot.pools:
        if pool.total:
            table.add_row(Text(f"    {pool.name.upper()}", style="quiet"), Text(_pool(pool)))
    yield table


def _request(state: RequestState) -> str:
    parts = [f"request {state.id}", f"{state.computed} of {state.tokens} tokens computed"]
    for table in state.tables:
        if table:
            parts.append(f"{state.pool.upper()} blocks {stretches(table)}")
    return " · ".join(parts)


def _pool(pool: PoolState) -> str:
    shared = sum(count > 1 for count in pool.references)
    parts = [f"{len(pool.free)} of {pool.total - len(pool.reserved)} free"]
    if pool.free:
        parts.append(f"next to be handed out: {stretches(pool.free)}")
    if shared:
        parts.append(f"{shared} held more than once")
    if pool.contents:
        parts.append(f"{len(pool.contents)} can be found by their content")
    return " · ".join(parts)
