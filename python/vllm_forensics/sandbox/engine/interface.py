"""What every engine can do, so that the same load, recorder and checks work on each."""

from __future__ import annotations

from typing import Protocol

from vllm_forensics.model.sandbox import (
    Completed,
    Generation,
    RequestSpec,
    Snapshot,
    VllmTree,
    WorkerStep,
)

GPU = "gpu"
CPU = "cpu"


class Engine(Protocol):
    """A scheduler with its block manager; whoever holds it is the engine loop and the worker."""

    @property
    def generation(self) -> Generation:
        """Which design it is."""

    @property
    def tree(self) -> VllmTree | None:
        """The vLLM that is driven; None for an engine of our own."""

    @property
    def usable_blocks(self) -> int:
        """The most that one request can ever have."""

    def add(self, spec: RequestSpec) -> None:
        """Queue a request."""

    def step(self) -> WorkerStep:
        """Schedule: what the worker is told to do now."""

    def complete(self, step: WorkerStep) -> Completed:
        """Hand back the worker's output: one token for each sequence whose prompt is done."""

    def abort(self, request: str) -> None:
        """End a request for a client that went away; unknown and finished ones are ignored."""

    def snapshot(self) -> Snapshot:
        """The whole state between two steps; costs time in proportion to the pool."""

    def table(self, sequence: str) -> tuple[int, ...] | None:
        """The engine's own block table; None if it has none (any more). 0 may mean: none, in v1."""

    def queues(self) -> tuple[int, int, int]:
        """How many requests run, wait and are swapped out."""

    def idle(self) -> bool:
        """Whether no request is left."""


def prompt_tokens(index: int, spec: RequestSpec) -> list[int]:
    """Made-up token ids: those of the shared prefix are the same in every request.

    `index` tells requests apart: no other token is the same in two prompts.
    """
    own = (index + 1) << 20
    return [
        position if position < spec.prefix else own + position
        for position in range(spec.prompt_len)
    ]


def output_token(index: int, position: int, continuation: int = 0) -> int:
    """The made-up token that request `index` gets at `position`; each continuation another."""
    return (continuation << 40) + ((index + 1) << 20) + position
