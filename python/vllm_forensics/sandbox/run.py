"""Drives any engine over a load to its end, and tells what happened."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from vllm_forensics.model.event import Chain
from vllm_forensics.model.sandbox import (
    BlockCounts,
    Outcome,
    Parameters,
    PoolState,
    RequestSpec,
    SandboxRun,
    Snapshot,
)
from vllm_forensics.sandbox.driver import Driver, Meddle
from vllm_forensics.sandbox.engine.interface import Engine
from vllm_forensics.sandbox.engine.reference_pool import ReferencePool
from vllm_forensics.sandbox.engine_errors import (
    ENGINE_ERRORS,
    OWN_ENGINE,
    EngineError,
    not_followed,
    short_path,
)
from vllm_forensics.sandbox.recorder import Recorder

OpenEngine = Callable[[Parameters, Recorder], AbstractContextManager[Engine]]


@dataclass(slots=True, kw_only=True)
class _End:
    outcome: Outcome
    why: str
    error: str | None = None
    raised_at: tuple[str, ...] = ()
    request: str | None = None


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
        stack.enter_context(little_garbage())
        engine = started(stack, opened(parameters, recorder))
        driver = Driver(engine, recorder, parameters, load)
        try:
            try:
                end = _driven(driver, parameters, meddle)
            except EngineError as error:
                end = _raised(error.__cause__ or error, engine, recorder)
                driver.checks.after_error()
            return _told(driver, end, parameters, load)
        except ENGINE_ERRORS as error:  # of our own, or of an engine that cannot be looked at
            raise not_followed(error) from error


@contextmanager
def little_garbage() -> Iterator[None]:
    """Look for garbage seldom: what a run keeps is kept, and looking it through again costs.

    What was there before is not looked at inside of the block.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def started(stack: ExitStack, opened: AbstractContextManager[Engine]) -> Engine:
    """An engine, open as long as the stack.

    Raises:
        ForensicsError: this vLLM cannot be driven.

    """
    try:
        return stack.enter_context(opened)
    except (*ENGINE_ERRORS, ImportError, SyntaxError) as error:
        raise not_followed(error) from error


def _driven(driver: Driver, parameters: Parameters, meddle: Meddle | None) -> _End:
    while not driver.done():
        if driver.recorder.step + 1 >= parameters.max_steps:
            return _End(outcome=Outcome.STALLED, why=f"not done after {parameters.max_steps} steps")
        driver.advance(meddle)
        stuck = driver.stuck()
        if stuck is not None:
            driver.checks.at_end()
            driver.report_stall(*stuck)
            return _End(outcome=Outcome.STALLED, why=stuck[0], request=stuck[1])
    driver.checks.at_end()
    driver.checks.leaks()
    progress = driver.progress
    why = f"{len(progress.finished)} requests done"
    if progress.refused:
        why += f", {len(progress.refused)} given up: too long for the pool, or for one step"
    return _End(outcome=Outcome.FINISHED, why=why)


def _raised(error: BaseException, engine: Engine, recorder: Recorder) -> _End:
    return _End(
        outcome=Outcome.RAISED,
        why=_state_at_the_end(engine.snapshot(), recorder.failing),
        error=described(error),
        raised_at=raised_calls(error),
        request=recorder.failing,
    )


def described(error: BaseException) -> str:
    """An engine's error as Python prints its last line."""
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    return text.removeprefix(f"{ReferencePool.__module__}.")


def raised_calls(error: BaseException) -> tuple[str, ...]:
    """The calls inside of the engine that led to an error, outermost first."""
    return tuple(
        f"{short_path(frame.filename)}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/vllm/" in frame.filename or frame.filename.endswith(OWN_ENGINE)
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


def _told(
    driver: Driver,
    end: _End,
    parameters: Parameters,
    load: tuple[RequestSpec, ...],
) -> SandboxRun:
    progress, recorder = driver.progress, driver.recorder
    violations = driver.findings.with_chains()
    outcome = end.outcome
    if outcome is Outcome.FINISHED and violations:
        outcome = Outcome.VIOLATION
    snapshot = driver.full_snapshot()
    for watcher in recorder.on_end:
        watcher(snapshot)
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
        unshown_violations=driver.findings.unshown,
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
