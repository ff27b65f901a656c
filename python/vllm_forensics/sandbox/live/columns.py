"""What a scheduler tells its worker for one step, with little made anew for it.

Most requests of most steps go on with one token: of them the scheduler's own lists are told.
"""

from __future__ import annotations

from typing import Any

from vllm_forensics.model.sandbox import WorkItem
from vllm_forensics.sandbox.engine.v1_output import resumed, work_item, work_items
from vllm_forensics.sandbox.live.lines import GoingOn


def columns(output: Any) -> tuple[list[WorkItem], GoingOn | None]:
    """Items for those that are new, columns for those that go on; valid as long as `output` is."""
    cached = output.scheduled_cached_reqs
    if isinstance(cached, list):  # until 0.9 one object a request
        return list(work_items(output)), None
    counts = output.num_scheduled_tokens
    items = [
        work_item(
            new.req_id, new.num_computed_tokens, counts[new.req_id], new.block_ids, replaces=True
        )
        for new in output.scheduled_new_reqs
    ]
    names = cached.req_ids
    if not names:
        return items, None
    return items, GoingOn(
        requests=names,
        starts=cached.num_computed_tokens,
        counts=[counts[name] for name in names],
        blocks={
            place: blocks if isinstance(blocks[0], int) else list(blocks[0])
            for place, blocks in enumerate(cached.new_block_ids)
            if blocks
        },
        replaced=resumed(cached),
    )
