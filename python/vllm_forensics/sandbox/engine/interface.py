"""What every engine can do, so that the same load, recorder and checks work on each."""

from __future__ import annotations

from typing import Final, Protocol

from vllm_forensics.model.sandbox import (
    Completed,
    Generation,
    RequestSpec,
    Snapshot,
    Transfer,
    VllmTree,
    WorkerStep,
)

GPU = "gpu"
CPU = "cpu"
_RECORDED: Final = 1 << 50
"""Token ids that stand for recorded contents begin here."""


class Ledger(Protocol):
    """What an engine keeps of its blocks, to prove after a step that no rule is broken."""

    def begin(self, *, sound: bool) -> None:
        """The whole state was just looked at; `sound`: no rule is broken."""

    def still_sound(self) -> bool:
        """Whether what changed since the last call surely breaks no rule.

        False: it is not known, and all must be looked at, until `begin` says that it is sound.
        """


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

    @property
    def ledger(self) -> Ledger | None:
        """What proves cheaply that no rule is broken; None where nothing does."""

    def add(self, spec: RequestSpec) -> None:
        """Queue a request."""

    def step(self) -> WorkerStep:
        """Schedule: what the worker is told to do now."""

    def complete(
        self, step: WorkerStep, done: tuple[Transfer, ...] = (), *, ends: str | None = None
    ) -> Completed:
        """Hand back the worker's output: one token for each sequence whose prompt is done.

        Steps are completed in the order in which they were scheduled. `done`: transfers that ended.
        `ends`: a request whose token, if it gets one, is its last (not the first engine).
        """

    def abort(self, request: str) -> None:
        """End a request for a client that went away; unknown and finished ones are ignored."""

    def snapshot(self) -> Snapshot:
        """The whole state between two steps; costs time in proportion to the pool."""

    def table(self, sequence: str, group: int = 0) -> tuple[int, ...] | None:
        """The engine's own block table; None if it has none (any more). 0 may mean: none, in v1."""

    def queues(self) -> tuple[int, int, int]:
        """How many requests run, wait and are swapped out."""

    def idle(self) -> bool:
        """Whether no request is left."""


def prompt_tokens(index: int, spec: RequestSpec) -> list[int]:
    """Made-up token ids: those of the shared prefix are the same in every request.

    `index` tells requests apart: no other token is the same in two prompts, but where a recorded
    request had the same content as another.
    """
    own = (index + 1) << 20
    recorded = _recorded_tokens(spec)[: spec.prompt_len]
    return recorded + [
        position if position < spec.prefix else own + position
        for position in range(len(recorded), spec.prompt_len)
    ]


def request_token(index: int, spec: RequestSpec, position: int) -> int:
    """The made-up token that a request gets at `position`: of its recorded content, or its own."""
    if position < len(spec.contents) * spec.contents_size:
        return _recorded_token(spec, position)
    return output_token(index, position)


def _recorded_tokens(spec: RequestSpec) -> list[int]:
    known = len(spec.contents) * spec.contents_size
    return [_recorded_token(spec, position) for position in range(known)]


def _recorded_token(spec: RequestSpec, position: int) -> int:
    """Equal where two recorded blocks have equal content; never one that is made up otherwise."""
    content = spec.contents[position // spec.contents_size]
    return _RECORDED + content * spec.contents_size + position % spec.contents_size


def output_token(index: int, position: int, continuation: int = 0) -> int:
    """The made-up token that request `index` gets at `position`; each continuation another."""
    return (continuation << 40) + ((index + 1) << 20) + position
