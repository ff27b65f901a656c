"""Explores the orders in which things can happen to an engine, and plays one of them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.sandbox import Wanted, prepared
from vllm_forensics.model.sandbox import Generation, Parameters, RequestSpec
from vllm_forensics.model.sandbox_explore import Action, ActionKind, Bounds, Exploration
from vllm_forensics.sandbox.explore import Explorer, Played, Progress

_MOST: Final = 32
"""Requests: each more multiplies the orders."""


def explore_sandbox(
    wanted: Wanted,
    bounds: Bounds,
    *,
    on_fetch: Callable[[str], None],
    on_progress: Progress | None = None,
) -> Exploration:
    """Try what was asked for, within the bounds.

    Raises:
        UsageError: the parameters do not fit the engine, or it has no step in flight.
        ToolError: the vLLM could not be fetched.
        UnmodelledError: this vLLM asked for something that the sandbox does not stand in for.

    """
    ready = prepared(replace(wanted, compare=False), on_fetch=on_fetch)
    if ready.generation is Generation.V0:
        raise UsageError(
            "vLLM's first engine does one thing after the other: there is nothing to explore",
            remedy="give --vllm 0.32.0, or leave --vllm out",
        )
    if len(ready.load) > _MOST:
        raise UsageError(
            f"{len(ready.load)} requests have too many orders", remedy=f"give {_MOST} or fewer"
        )
    # Who arrives when is no part of it: all are there.
    load = tuple(replace(spec, arrival=0, abort_after=None) for spec in ready.load)
    return Explorer(ready.opened, ready.parameters, load).explore(bounds, on_progress)


def play_sequence(
    vllm: str | None,
    parameters: Parameters,
    load: tuple[RequestSpec, ...],
    sequence: tuple[str, ...],
) -> Played:
    """Do these actions, as they are written in an emitted test, on a fresh engine.

    What cannot be done, because an earlier action came out differently, is passed over.
    """
    wanted = Wanted(vllm=vllm, parameters=parameters, given=load, compare=False)
    ready = prepared(wanted, on_fetch=lambda what: None)
    actions = tuple(_action(text) for text in sequence)
    return Explorer(ready.opened, ready.parameters, ready.load).play(actions)


def _action(text: str) -> Action:
    kind, _, request = text.partition(" ")
    return Action(kind=ActionKind(kind), request=request or None)
