"""Tries the orders in which things can happen, the short ones first, each state once.

An engine cannot be copied: each sequence is played from the start on a fresh one, which takes
milliseconds. What was seen before is not gone on with, so orders that come to the same are one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass

from vllm_forensics.model.sandbox import Generation, Parameters, RequestSpec, Violation
from vllm_forensics.model.sandbox_explore import Action, Bounds, Exploration, Happening
from vllm_forensics.sandbox.engine.interface import Engine
from vllm_forensics.sandbox.engine_errors import EngineError
from vllm_forensics.sandbox.interleaving import Interleaving
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.run import OpenEngine, described, raised_calls, started

Progress = Callable[[int, int], None]
"""Told how many states there are, and how deep the search is, now and then."""
_EVERY = 50
_NONE = Bounds(aborts=0, stops=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Where a sequence ends."""

    happened: tuple[Happening, ...]
    enabled: tuple[Action, ...]
    state: Hashable
    violations: tuple[Violation, ...]
    error: str | None
    raised_at: tuple[str, ...]


@dataclass(slots=True)
class Counts:
    """How far a search came."""

    states: int = 1
    transitions: int = 0
    depth: int = 0
    ended_by: str | None = None


class Explorer:
    """Plays sequences on fresh engines."""

    def __init__(
        self, opened: OpenEngine, parameters: Parameters, load: tuple[RequestSpec, ...]
    ) -> None:
        """Nothing was tried."""
        self._opened = opened
        self._parameters = parameters
        self._load = load
        self._engine: Engine | None = None
        """The last one: all are of one make."""

    def play(self, actions: tuple[Action, ...], bounds: Bounds = _NONE) -> Played:
        """Do these, in this order, as far as they can be done, or until something breaks."""
        recorder = Recorder()
        with ExitStack() as stack:
            engine = self._engine = started(stack, self._opened(self._parameters, recorder))
            order = Interleaving(engine, recorder, self._parameters, self._load)
            happened: list[Happening] = []
            error: BaseException | None = None
            for action in actions:
                try:
                    happening = order.apply(action)
                except EngineError as raised:
                    error = raised.__cause__ or raised
                    order.driver.checks.after_error()
                    happened.append(Happening(action=action, what="the engine raises"))
                    break
                if happening is not None:
                    happened.append(happening)
                if order.stalled():
                    order.report_stall()
                if order.driver.findings.any():
                    break
            broken = error is not None or order.driver.findings.any()
            return Played(
                happened=tuple(happened),
                enabled=() if broken else tuple(order.enabled(bounds.aborts, bounds.stops)),
                state=None if broken else order.state(),
                violations=order.driver.findings.with_chains(),
                error=None if error is None else described(error),
                raised_at=() if error is None else raised_calls(error),
            )

    def explore(self, bounds: Bounds, on_progress: Progress | None = None) -> Exploration:
        """Breadth first, so that what is found is told by the shortest sequence.

        Which bound ended it depends on the machine only where that is the time.
        """
        until = time.monotonic() + bounds.seconds
        root = self.play((), bounds)
        seen = {hash(root.state)}
        waiting: deque[tuple[tuple[Action, ...], tuple[Action, ...]]] = deque([((), root.enabled)])
        counts = Counts()
        while waiting and counts.ended_by is None:
            prefix, enabled = waiting.popleft()
            for action in enabled:
                played = self.play((*prefix, action), bounds)
                counts.transitions += 1
                counts.depth = max(counts.depth, len(prefix) + 1)
                if played.violations or played.error is not None:
                    return self._told(bounds, counts, played)
                key = hash(played.state)
                if key not in seen:
                    seen.add(key)
                    counts.states = len(seen)
                    waiting.append(((*prefix, action), played.enabled))
                if on_progress is not None and counts.transitions % _EVERY == 0:
                    on_progress(counts.states, counts.depth)
            counts.ended_by = _bound_met(bounds, counts, until) if waiting else None
            if waiting and len(waiting[0][0]) >= bounds.depth:
                counts.ended_by = f"--depth {bounds.depth}"
        return self._told(bounds, counts, None)

    def _told(self, bounds: Bounds, counts: Counts, played: Played | None) -> Exploration:
        engine = self._engine
        return Exploration(
            engine=Generation.REFERENCE if engine is None else engine.generation,
            tree=None if engine is None else engine.tree,
            parameters=self._parameters,
            load=self._load,
            bounds=bounds,
            states=counts.states,
            transitions=counts.transitions,
            depth=counts.depth,
            ended_by=counts.ended_by,
            sequence=() if played is None else played.happened,
            violations=() if played is None else played.violations,
            error=None if played is None else played.error,
            raised_at=() if played is None else played.raised_at,
        )


def _bound_met(bounds: Bounds, counts: Counts, until: float) -> str | None:
    if counts.states >= bounds.states:
        return f"--states {bounds.states}"
    if time.monotonic() >= until:
        return f"--seconds {bounds.seconds:g}"
    return None
