"""A run as it was written down: what was decided in each step, and by whom we know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.event import Event
from vllm_forensics.model.sandbox import (
    Generation,
    Outcome,
    Parameters,
    RequestSpec,
    Snapshot,
)
from vllm_forensics.model.sandbox_log import SchedulerLog


class Origin(StrEnum):
    """Where a recording comes from."""

    SANDBOX = "sandbox"
    """A run of this program: everything is known."""
    TRACE = "trace"
    """Events of blocks alone, of an engine that somebody else drove."""
    LIVE = "live"
    """A vLLM that served, recorded from inside: lengths and hashes, no tokens."""
    LOG = "log"
    """Lines that a vLLM printed: no blocks, few decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Tokens that one step computes for one sequence."""

    request: str
    sequence: str
    """Of several continuations one: `2.1`; else the request."""
    start: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """What happened in one step."""

    number: int
    scheduled: tuple[Scheduled, ...] | None = None
    """None: it was not written down."""
    preempted: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    queues: tuple[int, int, int] | None = None
    """Requests that run, wait and are swapped out, after the step."""
    events: tuple[Event, ...] = ()
    """Of blocks; uses are left out."""
    snapshot: Snapshot | None = None
    completed: bool = True
    """False: the engine raised in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run, step by step."""

    name: str
    """As the user named it: a file, or the options."""
    origin: Origin = Origin.SANDBOX
    engine: Generation | None = None
    version: str | None = None
    """Of the vLLM that was driven."""
    file: str | None = None
    """Its `vllm.__file__`, on the machine that recorded it: never opened, only told."""
    parameters: Parameters | None = None
    load: tuple[RequestSpec, ...] = ()
    steps: tuple[RecordedStep, ...] = ()
    outcome: Outcome | None = None
    """None: the recording does not say how it ended."""
    error: str | None = None
    why: str | None = None
    findings: tuple[str, ...] = ()
    """Kinds of broken rules."""
    assumed: tuple[str, ...] = ()
    """What the recording does not tell and was made up, a sentence each."""
    gaps: tuple[str, ...] = ()
    """What could not be read, or was one too many."""
    log: SchedulerLog | None = None
    """Of a log: all that it tells."""
