"""Orders in which a scheduler, its worker, a connector and clients can act, tried one by one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.sandbox import (
    Generation,
    Parameters,
    RequestSpec,
    Violation,
    VllmTree,
)


class ActionKind(StrEnum):
    """Who acts."""

    SCHEDULE = "schedule"
    """The scheduler: one more step goes to the worker."""
    COMPLETE = "complete"
    """The worker: the output of the oldest step in flight is handed back."""
    STOP = "stop"
    """The worker: as `complete`, and the output ends a request before it is as long as it may be.

    A scheduler knows beforehand which token is the last one that fits; of this one it does not, and
    the next step may be in flight with the same request.
    """
    LOADED = "loaded"
    """The connector: what a request waits for is there; told with the next output."""
    SENT = "sent"
    """The connector: what a request left behind was sent; told with the next output."""
    ABORT = "abort"
    """A client goes away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that happens; `request` where it happens to one."""

    kind: ActionKind
    request: str | None = None

    def __str__(self) -> str:
        """`complete`, or `abort 2`."""
        return self.kind.value if self.request is None else f"{self.kind.value} {self.request}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where to stop."""

    depth: int = 24
    """Actions in a row."""
    states: int = 5000
    """States that are told apart."""
    aborts: int = 1
    """How many clients may go away."""
    stops: int = 1
    """How many requests may end before they are as long as they may be."""
    seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One action of a sequence, and what came of it in a few words."""

    action: Action
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What was found, with the shortest sequence that leads there."""

    engine: Generation
    tree: VllmTree | None
    parameters: Parameters
    load: tuple[RequestSpec, ...]
    bounds: Bounds
    states: int
    transitions: int
    depth: int
    """The longest sequence that was tried."""
    ended_by: str | None
    """Which bound stopped it; None: there was nothing more to be tried."""
    sequence: tuple[Happening, ...] = ()
    """To the violation or the error; empty where there is none."""
    violations: tuple[Violation, ...] = ()
    error: str | None = None
    raised_at: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.violations and self.error is None
