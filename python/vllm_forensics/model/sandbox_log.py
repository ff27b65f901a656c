"""What a vLLM's own log says about its scheduler: few decisions, no blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """A request whose arrival was logged; None: the line did not tell it."""

    id: str
    line: int
    """Of the log, from 1."""
    time_s: float | None = None
    """Seconds since the first line with a time."""
    prompt_len: int | None = None
    max_tokens: int | None = None
    best_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPreemption:
    """`Sequence group … is preempted by …`."""

    request: str
    line: int
    swaps: bool
    """By swapping; else by computing it anew."""
    number: int | None = None
    """Which preemption since the start, from 1: newer versions log only each fiftieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedUsage:
    """A line of statistics, after whole seconds and not after a step."""

    line: int
    running: int
    waiting: int
    swapped: int
    gpu: float
    """From 0 to 1: how much of the GPU's blocks is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLog:
    """All that was found in a log."""

    version: str | None = None
    gpu_blocks: int | None = None
    cpu_blocks: int | None = None
    gpu_tokens: int | None = None
    """The pool in tokens, where its blocks are not told."""
    options: tuple[tuple[str, int], ...] = ()
    """Numbers that the engine was started with: block_size, max_num_seqs and the like."""
    requests: tuple[LoggedRequest, ...] = ()
    preemptions: tuple[LoggedPreemption, ...] = ()
    aborted: tuple[tuple[str, float | None], ...] = ()
    """Requests that a client gave up, and when, as `LoggedRequest.time_s`."""
    refused: tuple[str, ...] = ()
    usage: tuple[LoggedUsage, ...] = ()
    lines: int = 0
    lost: int = 0
    """Requests that were one too many."""
