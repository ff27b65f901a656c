"""Drives any engine over a load, with the recorder, the shadow worker and the checks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from vllm_forensics.errors import ForensicsError
from vllm_forensics.model.event import Chain
from vllm_forensics.model.sandbox import (
    BlockCounts,
    CheckWhen,
    Generation,
    Outcome,
    Parameters,
    PoolState,
    RequestSpec,
    SandboxRun,
    Snapshot,
    StepRecord,
    Violation,
    ViolationKind,
    WorkerStep,
)
from vllm_forensics.sandbox.engine.interface import CPU, GPU, Engine
from vllm_forensics.sandbox.invariants import broken_in, leaks_in
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.shadow_worker import ShadowWorker
from vllm_forensics.sandbox.stall import StallDetector, why_stuck

ENGINE_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What code that is not ours raises; an `UnmodelledError` is none of them and ends the program."""
_SHOWN: Final = 20
"""Violations that are kept with their chains: one fault breaks every later step."""


class _EngineError(Exception):
    """The engine raised; its own error is the cause."""


@contextmanager
def _engine_speaks() -> Iterator[None]:
    """What is raised inside of the block is the engine's, and a result."""
    try:
        yield
    except ENGINE_ERRORS as error:
        if _is_ours(error):
            raise _not_followed(error) from error
        raise _EngineError from error


def _is_ours(error: BaseException) -> bool:
    """Whether our own wrappers raised: that must never be told as a fault of vLLM."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename if frames else ""
    return last.startswith(_OWN_FOLDER) and "reference" not in last[len(_OWN_FOLDER) :]


def _not_followed(error: BaseException) -> ForensicsError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    return ForensicsError(
        f"the sandbox cannot follow this vLLM: {text} ({_short(frame.filename)}:{frame.lineno})",
        remedy="try a version that is known to work, 0.32.0 or 0.4.2, and report this line",
    )


_OWN_FOLDER: Final = __file__.rpartition("/")[0] + "/"

OpenEngine = Callable[[Parameters, Recorder], AbstractContextManager[Engine]]
Meddle = Callable[[int, Engine], None]
"""Called before each step: where an experiment frees what it should not."""


@dataclass(slots=True)
class _Progress:
    steps: list[StepRecord] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    violations: dict[tuple[ViolationKind, str | None, int | None], Violation] = field(
        default_factory=dict
    )
    unshown: int = 0
    preemptions: int = 0


@dataclass(slots=True, kw_only=True)
class _End:
    outcome: Outcome
    why: str
    error: str | None = None
    raised_at: tuple[str, ...] = ()
    request: str | None = None


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
        self._worker = ShadowWorker(
            recorder,
            block_size=parameters.block_size,
            window=parameters.sliding_window,
            total=parameters.gpu_blocks,
        )
        self._stall = StallDetector(parameters)
        self.progress = _Progress()
        recorder.on_double_free.append(self._double_free)

    def done(self) -> bool:
        """Whether all requests came and went."""
        return self._next == len(self._load) and self.engine.idle()

    def advance(self, meddle: Meddle | None = None) -> None:
        """One step: arrivals, schedule, the worker, its output, the checks."""
        self.recorder.step += 1
        number = self.recorder.step
        if meddle is not None:
            with _engine_speaks():
                meddle(number, self.engine)
        with _engine_speaks():
            self._arrive(number)
            step = self.engine.step()
        self._worker.execute(step, self._report)
        checked = self._due(number)
        if checked:
            self._worker.check_tables(step, self.engine, self._report)
        with _engine_speaks():
            done = self.engine.complete(step)
        self.progress.finished += done.finished
        self.progress.refused += done.refused
        self._abort(number)
        self._note(step, new_tokens=done.tokens)
        if checked:
            self.check(self.engine.snapshot())

    def _arrive(self, number: int) -> None:
        if self.engine.idle() and self._next < len(self._load):
            # Nobody waits for the clock where nothing else is to be done.
            number = max(number, self._load[self._next].arrival)
        while self._next < len(self._load) and self._load[self._next].arrival <= number:
            self.engine.add(self._load[self._next])
            self._next += 1

    def _abort(self, number: int) -> None:
        while self._aborts and self._aborts[0][0] <= number:
            with _engine_speaks():
                self.engine.abort(self._aborts.pop(0)[1])

    def _due(self, number: int) -> bool:
        when = self._parameters.check
        if when is CheckWhen.EVERY:
            return number % self._parameters.check_every == 0
        return when is CheckWhen.EACH

    def _note(self, step: WorkerStep, *, new_tokens: int) -> None:
        running, waiting, swapped = self.engine.queues()
        scheduled = sum(item.tokens for item in step.items)
        self.progress.preemptions += len(step.preempted)
        self._stall.seen(scheduled=scheduled, new_tokens=new_tokens, preempted=len(step.preempted))
        self.progress.steps.append(
            StepRecord(
                number=step.number,
                scheduled_tokens=scheduled,
                running=running,
                waiting=waiting,
                swapped=swapped,
                preempted=step.preempted,
                gpu_used=self.recorder.used_blocks[GPU],
                cpu_used=self.recorder.used_blocks[CPU],
            )
        )

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
        return why_stuck(snapshot, self._parameters, self.engine.usable_blocks, chunks=chunks)

    def report_stall(self, why: str, request: str | None) -> None:
        """Add the stall to what was found."""
        self._add(ViolationKind.STALL, why, request, None, GPU)

    def check(self, snapshot: Snapshot) -> None:
        """Look at the invariants now."""
        for kind, message, request, block, pool in broken_in(snapshot):
            self._add(kind, message, request, block, pool)

    def check_leaks(self) -> None:
        """Look for blocks that nobody will ever give back."""
        for kind, message, request, block, pool in leaks_in(self.engine.snapshot()):
            self._add(kind, message, request, block, pool)

    def _double_free(self, pool: str, block: int, request: str | None) -> None:
        who = "somebody" if request is None else f"request {request}"
        message = f"block {block} was freed for {who}, and nobody held it"
        self._add(ViolationKind.DOUBLE_FREE, message, request, block, pool)

    def _report(
        self, kind: ViolationKind, message: str, request: str | None, block: int | None
    ) -> None:
        self._add(kind, message, request, block, GPU)

    def _add(
        self,
        kind: ViolationKind,
        message: str,
        request: str | None,
        block: int | None,
        pool: str,
    ) -> None:
        found = self.progress.violations
        key = (kind, request, block)
        number = self.recorder.step
        if key in found:
            found[key] = replace(found[key], times=found[key].times + 1, last_step=number)
        elif len(found) >= _SHOWN:
            self.progress.unshown += 1
        else:
            found[key] = Violation(
                step=number, kind=kind, message=message, request=request, block=block, pool=pool
            )


def run(
    opened: OpenEngine,
    parameters: Parameters,
    load: tuple[RequestSpec, ...],
    *,
    recorder: Recorder | None = None,
    meddle: Meddle | None = None,
) -> SandboxRun:
    """Drive an engine until all requests are done, or nothing can be done, or it raises.

    `meddle` is called before each step with its number and the engine: an experiment may break
    something on purpose there.
    """
    recorder = recorder or Recorder()
    with ExitStack() as stack:
        engine = _started(stack, opened(parameters, recorder))
        driver = Driver(engine, recorder, parameters, load)
        try:
            end = _driven(driver, parameters, meddle)
        except _EngineError as error:
            end = _raised(error.__cause__ or error, engine, recorder)
        return _told(driver, end, parameters, load)


def _started(stack: ExitStack, opened: AbstractContextManager[Engine]) -> Engine:
    try:
        return stack.enter_context(opened)
    except (*ENGINE_ERRORS, ImportError, SyntaxError) as error:
        raise _not_followed(error) from error


def _driven(driver: Driver, parameters: Parameters, meddle: Meddle | None) -> _End:
    while not driver.done():
        if driver.recorder.step + 1 >= parameters.max_steps:
            return _End(outcome=Outcome.STALLED, why=f"not done after {parameters.max_steps} steps")
        driver.advance(meddle)
        stuck = driver.stuck()
        if stuck is not None:
            driver.report_stall(*stuck)
            return _End(outcome=Outcome.STALLED, why=stuck[0], request=stuck[1])
    if parameters.check is not CheckWhen.EACH:
        driver.check(driver.engine.snapshot())
    driver.check_leaks()
    progress = driver.progress
    why = f"{len(progress.finished)} requests done"
    if progress.refused:
        why += f", {len(progress.refused)} given up: too long for the pool, or for one step"
    return _End(outcome=Outcome.FINISHED, why=why)


def _raised(error: BaseException, engine: Engine, recorder: Recorder) -> _End:
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    calls = [
        f"{_short(frame.filename)}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/vllm/" in frame.filename or "/engine/reference" in frame.filename
    ]
    return _End(
        outcome=Outcome.RAISED,
        why=_state_at_the_end(engine.snapshot(), recorder.failing),
        error=text,
        raised_at=tuple(calls),
        request=recorder.failing,
    )


def _state_at_the_end(snapshot: Snapshot, request: str | None) -> str:
    """For whom the engine worked, what that request holds, and what is free."""
    if request is None:
        return "the engine raised"
    why = f"the engine raised while it worked for request {request}"
    state = next((state for state in snapshot.requests if state.id == request), None)
    if state is not None and any(state.tables):
        held = len({block for table in state.tables for block in table})
        why += f", which holds {held} {state.pool.upper()} block{'s' if held > 1 else ''}"
    free = [
        f"{len(p.free)} of {p.total} {p.name.upper()} blocks" for p in snapshot.pools if p.total
    ]
    return f"{why}; free: {', '.join(free)}"


def _short(file: str) -> str:
    cut = max(file.rfind("/vllm/"), file.rfind("/vllm_forensics/"))
    return file[cut + 1 :]


def _told(
    driver: Driver,
    end: _End,
    parameters: Parameters,
    load: tuple[RequestSpec, ...],
) -> SandboxRun:
    progress, recorder = driver.progress, driver.recorder
    violations = tuple(
        replace(found, chain=recorder.chain(found.pool or GPU, found.block))
        if found.block is not None
        else found
        for found in progress.violations.values()
    )
    outcome = end.outcome
    if outcome is Outcome.FINISHED and violations:
        outcome = Outcome.VIOLATION
    snapshot = driver.engine.snapshot()
    named = any(violation.chain for violation in violations)
    return SandboxRun(
        engine=driver.engine.generation,
        tree=driver.engine.tree,
        parameters=parameters,
        load=load,
        outcome=outcome,
        error=end.error,
        raised_at=end.raised_at,
        steps=tuple(progress.steps),
        finished=tuple(progress.finished),
        refused=tuple(progress.refused),
        preemptions=progress.preemptions,
        violations=violations,
        unshown_violations=progress.unshown,
        chains=() if named or end.request is None else _chains(snapshot, end.request, recorder),
        why=end.why,
        blocks=tuple(_counts(pool) for pool in snapshot.pools),
        requests=snapshot.requests,
        events=recorder.count,
    )


def _chains(snapshot: Snapshot, request: str, recorder: Recorder) -> tuple[Chain, ...]:
    """The first block of the request that the end is about."""
    state = next((state for state in snapshot.requests if state.id == request), None)
    if state is None or not any(state.tables):
        return ()
    block = next(table[0] for table in state.tables if table)
    return (recorder.chain(state.pool, block),)


def _counts(pool: PoolState) -> BlockCounts:
    return BlockCounts(
        pool=pool.name,
        total=pool.total,
        usable=pool.total - len(pool.reserved),
        free=len(pool.free),
    )
