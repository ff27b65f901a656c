"""One sequence of actions on a fresh engine: what may happen next, and what state it is in."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from vllm_forensics.model.sandbox import (
    Parameters,
    RequestSpec,
    Transfer,
    TransferKind,
    ViolationKind,
)
from vllm_forensics.model.sandbox_explore import Action, ActionKind, Happening
from vllm_forensics.sandbox.driver import Driver
from vllm_forensics.sandbox.engine.interface import GPU, Engine
from vllm_forensics.sandbox.recorder import Recorder

_DONE = {TransferKind.LOAD: ActionKind.LOADED, TransferKind.SEND: ActionKind.SENT}
_STILL = 3
"""Steps in which nothing changes: no scheduler looks further back."""


class Interleaving:
    """An engine that is driven action by action, with everything watched."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        parameters: Parameters,
        load: tuple[RequestSpec, ...],
    ) -> None:
        """All requests are there; nothing was scheduled."""
        # No transfer is done before it is said to be.
        self._waits = replace(parameters, connector=parameters.connector and 10**9)
        self._parameters = parameters
        self.driver = Driver(engine, recorder, self._waits, load)
        self._load = load
        self._aborted: list[str] = []
        self._stopped = 0
        self._empty = 0
        """Steps in a row that had nothing to do."""

    def enabled(self, aborts: int, stops: int) -> Iterator[Action]:
        """What may happen now, in an order that is always the same."""
        driver = self.driver
        if driver.in_flight:
            yield Action(kind=ActionKind.COMPLETE)
            if self._stopped < stops:
                for item in driver.in_flight[0].items:
                    yield Action(kind=ActionKind.STOP, request=item.request)
        for _, transfer in driver.transfers:
            yield Action(kind=_DONE[transfer.kind], request=transfer.request)
        most = 2 if self._parameters.async_scheduling else 1
        # The first step brings the requests; after it, an idle engine has nothing to schedule.
        waits = not driver.engine.idle() or driver.recorder.step < 0
        if waits and len(driver.in_flight) < most:
            yield Action(kind=ActionKind.SCHEDULE)
        if len(self._aborted) < aborts and driver.recorder.step >= 0:
            gone = {*driver.progress.finished, *driver.progress.refused, *self._aborted}
            for spec in self._load:
                if spec.id not in gone:
                    yield Action(kind=ActionKind.ABORT, request=spec.id)

    def apply(self, action: Action) -> Happening | None:
        """Do it, look at the invariants, and say what came of it; None: it cannot be done.

        Raises:
            EngineError: the engine raised.

        """
        what = self._applied(action)
        if what is None:
            return None
        self.driver.checks.whole()
        if self.driver.done():
            self.driver.checks.leaks()
        return Happening(action=action, what=what)

    def _applied(self, action: Action) -> str | None:
        driver = self.driver
        if action.kind is ActionKind.SCHEDULE:
            return self._schedule()
        if action.kind in {ActionKind.COMPLETE, ActionKind.STOP}:
            return self._complete(action.request)
        self._empty = 0
        if action.kind is ActionKind.ABORT and action.request is not None:
            self._aborted.append(action.request)
            driver.abort(action.request)
            return "its client went away"
        return self._arrive(action)

    def _schedule(self) -> str:
        self.driver.recorder.step += 1
        step = self.driver.schedule()
        works = step.items or self.driver.transfers
        self._empty = 0 if works else self._empty + 1
        words = [f"{item.request} ({item.tokens} from {item.start})" for item in step.items]
        words += [f"{name} gives way" for name in step.preempted]
        words += [_begins(transfer) for transfer in step.transfers]
        return f"step {step.number}: {', '.join(words) or 'nothing to do'}"

    def _complete(self, ends: str | None) -> str | None:
        if not self.driver.in_flight:
            return None
        number = self.driver.in_flight[0].number
        done = self.driver.complete(ends)
        if ends in done.finished:
            self._stopped += 1
        words = [f"{name} is done" for name in done.finished]
        words += [_begins(transfer) for transfer in done.transfers]
        return f"step {number}" + (f": {', '.join(words)}" if words else "")

    def _arrive(self, action: Action) -> str | None:
        for _, transfer in self.driver.transfers:
            if _DONE[transfer.kind] is action.kind and transfer.request == action.request:
                self.driver.arrive(transfer)
                return f"blocks {_few(transfer.blocks)}"
        return None

    def stalled(self) -> bool:
        """Whether nothing was to be done several times, and nothing is on its way."""
        driver = self.driver
        waits = driver.waits_for_something()
        return self._empty >= _STILL and not waits and not driver.engine.idle()

    def report_stall(self) -> None:
        """Say whom it concerns."""
        first = next(iter(self.driver.engine.snapshot().requests), None)
        name = None if first is None else first.id
        self.driver.findings.add(
            ViolationKind.STALL,
            f"request {name} waits, nothing is on its way, and nothing is scheduled any more",
            name,
            None,
            GPU,
        )

    def state(self) -> Hashable:
        """All that decides what can happen from here on; steps have no numbers in it."""
        snapshot = self.driver.full_snapshot()
        return (
            tuple(replace(pool, contents=()) for pool in snapshot.pools),
            tuple(block for pool in snapshot.pools for block, _ in pool.contents),
            snapshot.requests,
            tuple((step.items, step.finished) for step in self.driver.in_flight),
            frozenset(transfer for _, transfer in self.driver.transfers),
            self.driver.told_workers(),
            tuple(self._aborted),
            self._stopped,
            min(self._empty, _STILL),
        )


def _begins(transfer: Transfer) -> str:
    what = "a load" if transfer.kind is TransferKind.LOAD else "sending"
    return f"{what} of {transfer.request} begins ({_few(transfer.blocks)})"


def _few(blocks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, blocks[:6]))
    return shown if len(blocks) <= 6 else f"{shown} …"
