"""Who holds what, for a segment of a trace that begins in the middle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vllm_forensics.sandbox.engine.interface import GPU
from vllm_forensics.sandbox.engine.v1_hooks import managers_of
from vllm_forensics.sandbox.live.lines import KnownRequest, StateLine
from vllm_forensics.sandbox.recorder import Recorder


def state_of(recorder: Recorder, scheduler: Any, requests: Iterable[Any]) -> StateLine:
    """What the recorder saw of every block, and the tables of the requests that go on."""
    holders, owners = recorder.holders[GPU], recorder.owners[GPU]
    lives = recorder.generations[GPU]
    managers = managers_of(scheduler.kv_cache_manager)
    return StateLine(
        kind="state",
        step=recorder.step,
        held=[(b, n, lives.get(b, 0), owners[b]) for b, n in holders.items() if n > 0],
        ended=[(b, life) for b, life in lives.items() if holders.get(b, 0) < 1],
        requests=[_known(request, managers) for request in requests],
    )


def _known(request: Any, managers: tuple[Any, ...]) -> KnownRequest:
    name = request.request_id
    return KnownRequest(
        id=name,
        prompt=request.num_prompt_tokens,
        tokens=request.num_tokens,
        computed=request.num_computed_tokens,
        tables=[
            [block.block_id for block in manager.req_to_blocks.get(name, ())]
            for manager in managers
        ],
    )
