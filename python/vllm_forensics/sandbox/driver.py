"""One run of any engine, step by step: arrivals, the worker, the checks, the stall detector."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from vllm_forensics.model.sandbox import (
    Completed,
    Generation,
    Parameters,
    RequestSpec,
    Snapshot,
    StepRecord,
    Transfer,
    ViolationKind,
    WorkerStep,
)
from vllm_forensics.sandbox.checks import Checks
from vllm_forensics.sandbox.engine.contents import with_contents
from vllm_forensics.sandbox.engine.interface import CPU, GPU, Engine
from vllm_forensics.sandbox.engine_errors import engine_speaks
from vllm_forensics.sandbox.findings import Findings
from vllm_forensics.sandbox.recorder import Recorder, StepSeen
from vllm_forensics.sandbox.stall import StallDetector, why_stuck
from vllm_forensics.sandbox.workers import Workers

Meddle = Callable[[int, Engine], None]
"""Called before each step: where an experiment frees what it should not."""


@dataclass(slots=True)
class Progress:
    """What a run came to so far."""

    steps: list[StepRecord] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    preemptions: int = 0


class Driver:
    """One run, step by step."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        parameters: Parameters,
        load: Iterable[RequestSpec],
    ) -> None:
        """Nothing has run yet."""
        self.engine = engine
        self.recorder = recorder
        self._parameters = parameters
        self._load = sorted(load, key=lambda spec: spec.arrival)
        self._next = 0
        self._aborts = sorted(
            (spec.abort_after, spec.id) for spec in self._load if spec.abort_after is not None
        )
        self._workers = Workers(recorder, parameters, self._prefixes())
        self.in_flight: deque[WorkerStep] = deque()
        """Steps that were scheduled and are not completed."""
        self.transfers: list[tuple[int, Transfer]] = []
        """On their way, and the step that sees them done."""
        self._arrived: list[Transfer] = []
        """Done, and not yet told to the scheduler."""
        self._stall = StallDetector(parameters)
        self.progress = Progress()
        self.findings = Findings(recorder)
        self.checks = Checks(engine, self.findings, parameters)

    def _prefixes(self) -> dict[str, int] | None:
        """What requests share; of v0, sequences of one request part, and swapping moves them."""
        if self.engine.generation is Generation.V0 or any(spec.contents for spec in self._load):
            return None
        return {spec.id: min(spec.prefix, spec.prompt_len) for spec in self._load}

    def done(self) -> bool:
        """Whether all requests came and went."""
        return self._next == len(self._load) and self.engine.idle() and not self.in_flight

    def advance(self, meddle: Meddle | None = None) -> None:
        """One step: arrivals, schedule, the worker, its output, the checks."""
        self.recorder.step += 1
        number = self.recorder.step
        if meddle is not None:
            with engine_speaks():
                meddle(number, self.engine)
        step = self.schedule()
        # With a step in flight the oldest is completed once another was scheduled behind it.
        kept = 1 if self._parameters.async_scheduling and step.items else 0
        done = Completed()
        while len(self.in_flight) > kept:
            done = _both(done, self.complete())
        self._abort(number)
        record = self._note(step, new_tokens=done.tokens)
        if self.checks.due(number):
            self.checks.step()
        for watcher in self.recorder.on_step:
            watcher(StepSeen(step=step, done=done, record=record, snapshot=self.full_snapshot))

    def schedule(self) -> WorkerStep:
        """Arrivals, one more step, and what the worker does of it."""
        number = self.recorder.step
        with engine_speaks():
            self._arrive(number)
            step = self.engine.step()
        self._workers.execute(step, self.findings.add)
        for worker in self.recorder.on_scheduled:
            worker(step)
        self._begin(step.transfers)
        if self.checks.due(number):
            self._workers.check_tables(step, self.engine, self.findings.add)
        self.in_flight.append(step)
        return step

    def complete(self, ends: str | None = None) -> Completed:
        """Hand back the output of the oldest step in flight, with the transfers that are done.

        `ends`: a request whose token is its last.
        """
        step = self.in_flight.popleft()
        for due, transfer in tuple(self.transfers):
            if due <= self.recorder.step:
                self.arrive(transfer)
        arrived, self._arrived = tuple(self._arrived), []
        self._workers.completed(step)
        with engine_speaks():
            done = self.engine.complete(step, arrived, ends=ends)
        for transfer in done.transfers:
            self._workers.begin(transfer, self.findings.add)
        self._begin(done.transfers)
        self.progress.finished += done.finished
        self.progress.refused += done.refused
        return done

    def arrive(self, transfer: Transfer) -> None:
        """A transfer is done; the scheduler is told with the next output."""
        self._workers.end(transfer, self.findings.add)
        self.transfers = [pair for pair in self.transfers if pair[1] is not transfer]
        self._arrived.append(transfer)

    def waits_for_something(self) -> bool:
        """Whether anything is on its way that the scheduler will be told of."""
        return bool(self.in_flight or self.transfers or self._arrived)

    def abort(self, request: str) -> None:
        """A client goes away now."""
        with engine_speaks():
            self.engine.abort(request)

    def _begin(self, transfers: tuple[Transfer, ...]) -> None:
        due = self.recorder.step + (self._parameters.connector or 0)
        self.transfers += [(due, transfer) for transfer in transfers]

    def _arrive(self, number: int) -> None:
        if self.engine.idle() and self._next < len(self._load):
            # Nobody waits for the clock where nothing else is to be done.
            number = max(number, self._load[self._next].arrival)
        while self._next < len(self._load) and self._load[self._next].arrival <= number:
            self.engine.add(self._load[self._next])
            self._next += 1

    def _abort(self, number: int) -> None:
        while self._aborts and self._aborts[0][0] <= number:
            self.abort(self._aborts.pop(0)[1])

    def full_snapshot(self) -> Snapshot:
        """The state now, with the hash of every block that can be found by its content."""
        return with_contents(self.engine.snapshot(), self.engine)

    def told_workers(self) -> Hashable:
        """What the workers know, tables and contents, and what is done and not told."""
        return self._workers.state(), tuple(self._arrived)

    def _note(self, step: WorkerStep, *, new_tokens: int) -> StepRecord:
        running, waiting, swapped = self.engine.queues()
        scheduled = sum(item.tokens for item in step.items)
        self.progress.preemptions += len(step.preempted)
        self._stall.seen(
            scheduled=scheduled or len(self.transfers),
            new_tokens=new_tokens,
            preempted=len(step.preempted),
        )
        record = StepRecord(
            number=step.number,
            scheduled_tokens=scheduled,
            running=running,
            waiting=waiting,
            swapped=swapped,
            preempted=step.preempted,
            gpu_used=self.recorder.used_blocks[GPU],
            cpu_used=self.recorder.used_blocks[CPU],
        )
        self.progress.steps.append(record)
        return record

    def stuck(self) -> tuple[str, str | None] | None:
        """Why nothing can happen any more, and to which request; None where something can."""
        if self.done() or self._next < len(self._load):
            return None
        if not self._stall.suspicious():
            return None
        snapshot = self.engine.snapshot()
        if not self._stall.stuck(sum(request.tokens for request in snapshot.requests)):
            return None
        asked = self._parameters.chunked_prefill
        chunks = self.engine.generation is Generation.V1 if asked is None else asked
        return why_stuck(
            snapshot,
            self._parameters,
            self.engine.usable_blocks,
            chunks=chunks,
            spare=int(self.engine.generation is Generation.V0),
        )

    def report_stall(self, why: str, request: str | None) -> None:
        """Add the stall to what was found."""
        self.findings.add(ViolationKind.STALL, why, request, None, GPU)


def _both(first: Completed, second: Completed) -> Completed:
    """What came of two steps."""
    if first == Completed():
        return second
    return Completed(
        finished=first.finished + second.finished,
        refused=first.refused + second.refused,
        tokens=first.tokens + second.tokens,
    )
