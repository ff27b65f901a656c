"""The smallest loads for which a condition is met, in the pool that was asked for."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import Generation, Parameters, RequestSpec

_CPU_BLOCKS: Final = 4
_WINDOW_BLOCKS: Final = 4


class Trigger(StrEnum):
    """A condition that a load is built for."""

    EXHAUSTION = "exhaustion"
    """Two requests that fit one by one, and not together."""
    LONE_GROWTH = "lone-growth"
    """One request whose prompt fits, and whose output does not."""
    SWAP_EXHAUSTION = "swap-exhaustion"
    """Two requests of which one must be swapped out, to less than it needs."""
    FORK_WINDOW = "fork-window"
    """One request that is continued twice, until its window comes round to its first block."""
    ABORT_IN_FLIGHT = "abort-in-flight"
    """A request that is given up while a step computes it, and one that waits for its blocks."""


def conditions(trigger: Trigger, parameters: Parameters, generation: Generation) -> Parameters:
    """The parameters with what the condition needs, where nothing else was asked for.

    Raises:
        UsageError: this generation cannot meet it.

    """
    if trigger in {Trigger.SWAP_EXHAUSTION, Trigger.FORK_WINDOW}:
        _require_v0(generation, f"--trigger {trigger}")
        parameters = replace(parameters, best_of=max(parameters.best_of, 2))
    if trigger is Trigger.SWAP_EXHAUSTION:
        return replace(parameters, cpu_blocks=parameters.cpu_blocks or _CPU_BLOCKS)
    if trigger is Trigger.FORK_WINDOW:
        window = parameters.sliding_window or _WINDOW_BLOCKS * parameters.block_size
        return replace(parameters, sliding_window=window)
    if trigger is Trigger.ABORT_IN_FLIGHT:
        if generation is Generation.V0:
            raise UsageError(
                "vLLM's first engine has no step in flight while it schedules",
                remedy="give --vllm 0.32.0, or leave --vllm out",
            )
        return replace(parameters, async_scheduling=True)
    return parameters


def _require_v0(generation: Generation, what: str) -> None:
    if generation is not Generation.V0:
        raise UsageError(f"{what} is met by vLLM's first engine only", remedy="give --vllm 0.4.2")


def triggered(
    trigger: Trigger, parameters: Parameters, generation: Generation
) -> tuple[RequestSpec, ...]:
    """The smallest load that meets the condition in this pool, with these `conditions`.

    Exhaustion: the blocks of all together are more than can be used, of each alone they are not.
    The prompts take all that the engine admits, so the pool runs dry as soon as they grow.
    """
    # The first engine keeps a hundredth of the pool back when it admits, not when requests grow.
    kept = int(0.01 * parameters.gpu_blocks) if generation is Generation.V0 else 0
    admitted = parameters.gpu_blocks - (generation is Generation.V1) - kept
    if trigger is Trigger.LONE_GROWTH:
        return _lone_growth(parameters, admitted, kept)
    if trigger is Trigger.FORK_WINDOW:
        return _fork_window(parameters, admitted)
    if trigger is Trigger.ABORT_IN_FLIGHT:
        return _abort_in_flight(parameters, admitted)
    load = _exhaustion(parameters, admitted, kept)
    if trigger is Trigger.SWAP_EXHAUSTION:
        blocks = load[-1].prompt_len // parameters.block_size
        _require(
            parameters.cpu_blocks < blocks,
            f"a swap space of {parameters.cpu_blocks} blocks that is too small for {blocks}",
            f"--cpu-blocks {blocks - 1} or fewer, or more --gpu-blocks",
        )
    return load


def _lone_growth(parameters: Parameters, admitted: int, kept: int) -> tuple[RequestSpec, ...]:
    size = parameters.block_size
    _require(admitted > 0, f"a pool of {parameters.gpu_blocks} blocks", "--gpu-blocks 2 or more")
    return (RequestSpec(id="0", prompt_len=admitted * size, max_tokens=kept * size + 2),)


def _exhaustion(parameters: Parameters, admitted: int, kept: int) -> tuple[RequestSpec, ...]:
    size = parameters.block_size
    _require(admitted > 1, f"a pool of {parameters.gpu_blocks} blocks", "--gpu-blocks 3 or more")
    first = (admitted + 1) // 2
    more = kept // 2 * size + 2
    return tuple(
        RequestSpec(id=str(number), prompt_len=blocks * size, max_tokens=more)
        for number, blocks in enumerate((first, admitted - first))
    )


def _fork_window(parameters: Parameters, admitted: int) -> tuple[RequestSpec, ...]:
    """The prompt fills the window; the output comes round to its first block, and one further."""
    window = parameters.sliding_window or 0
    needed = 2 * -(-window // parameters.block_size)
    _require(
        admitted >= needed,
        f"two continuations with a window of {window} in {parameters.gpu_blocks} blocks",
        f"--gpu-blocks {needed + 2} or more",
    )
    return (RequestSpec(id="0", prompt_len=window, max_tokens=window + 2),)


def _abort_in_flight(parameters: Parameters, admitted: int) -> tuple[RequestSpec, ...]:
    """Two fill the pool; the third gets the blocks of the second, which is given up at once."""
    size = parameters.block_size
    _require(admitted > 1, f"a pool of {parameters.gpu_blocks} blocks", "--gpu-blocks 3 or more")
    first = (admitted + 1) // 2
    lengths = [blocks * size - size // 2 for blocks in (first, admitted - first, admitted - first)]
    more = max(1, size // 2)
    return tuple(
        RequestSpec(
            id=str(number),
            prompt_len=max(1, length),
            max_tokens=more,
            abort_after=1 if number == 1 else None,
        )
        for number, length in enumerate(lengths)
    )


def _require(holds: bool, what: str, instead: str) -> None:  # noqa: FBT001 - a condition, no option
    if not holds:
        raise UsageError(f"{what} cannot be driven", remedy=f"give {instead}")
