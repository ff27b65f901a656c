"""What vLLM's second scheduler tells its worker for one step, in any version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm_forensics.model.sandbox import WorkItem


def work_items(output: Any, group: int = 0) -> Iterator[WorkItem]:
    """One for each request that the output says more of than a count; in its order.

    With the tables of this group of layers.
    """
    counts = output.num_scheduled_tokens
    for new in output.scheduled_new_reqs:
        start = new.num_computed_tokens
        yield work_item(
            new.req_id, start, counts[new.req_id], new.block_ids, replaces=True, group=group
        )
    cached = output.scheduled_cached_reqs
    if isinstance(cached, list):  # until 0.9 one object a request
        for one in cached:
            yield work_item(
                one.req_id,
                one.num_computed_tokens,
                counts[one.req_id],
                one.new_block_ids,
                replaces=one.resumed_from_preemption,
                group=group,
            )
        return
    anew = resumed(cached)
    for place, name in enumerate(cached.req_ids):
        yield work_item(
            name,
            cached.num_computed_tokens[place],
            counts[name],
            cached.new_block_ids[place],
            replaces=place in anew,
            group=group,
        )


def resumed(cached: Any) -> list[int]:
    """Places of the requests that start with a new table; told by a list until 0.11, then a set."""
    if hasattr(cached, "resumed_req_ids"):
        names = cached.resumed_req_ids
        return (
            [place for place, name in enumerate(cached.req_ids) if name in names] if names else []
        )
    return [place for place, anew in enumerate(cached.resumed_from_preemption) if anew]


def work_item(  # noqa: PLR0913 - all that there is to say of one request
    name: str, start: int, count: int, blocks: Any, *, replaces: bool, group: int = 0
) -> WorkItem:
    """Blocks come as one list, or as one list for each group of layers."""
    if not blocks:
        return WorkItem(name, name, start, count, (), replaces)
    own = blocks if isinstance(blocks[0], int) else blocks[group]
    return WorkItem(name, name, start, count, tuple(own), replaces)
