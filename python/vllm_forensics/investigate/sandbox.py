"""A sandbox run: finds the vLLM, builds the load, drives it, looks for what makes it healthy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from vllm_forensics.capture.sandbox_files import event_file, read_load
from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.errors import UsageError
from vllm_forensics.model.sandbox import (
    Generation,
    Outcome,
    Parameters,
    Parting,
    Plant,
    RequestSpec,
    SandboxRun,
    Snapshot,
    VllmTree,
)
from vllm_forensics.sandbox.block_lives import lives_of
from vllm_forensics.sandbox.collector import recorded
from vllm_forensics.sandbox.compare import compare
from vllm_forensics.sandbox.engine.interface import Engine
from vllm_forensics.sandbox.load import (
    drawn,
    parse_load,
    require_fits_model,
    uniform,
)
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.recording_lines import RecordingWriter
from vllm_forensics.sandbox.run import OpenEngine, run
from vllm_forensics.sandbox.snapshots import SnapshotKeeper, SnapshotsWanted, affordable
from vllm_forensics.sandbox.trigger import Trigger, conditions, triggered

_PICTURED_EVENTS: Final = 200_000
"""Beyond that a run has more blocks and steps than a terminal can show."""
_COMPARED_EVENTS: Final = 300_000
"""Beyond that a run takes long, and is not done again with other parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for on the command line."""

    vllm: str | None = None
    native: bool = False
    """Let the decisions move real memory."""
    full: bool = False
    """Drive the whole vLLM of this Python, with torch."""
    engine: Generation | None = None
    parameters: Parameters
    requests: int = 10
    prompt_len: int = 170
    max_tokens: int = 16
    seed: int | None = None
    """Draw lengths and arrivals; None: all alike."""
    trigger: Trigger | None = None
    load: str | None = None
    """A file with one request a line."""
    given: tuple[RequestSpec, ...] | None = None
    """The requests themselves."""
    events: str | None = None
    """A file for all events."""
    snapshots: SnapshotsWanted = field(default_factory=SnapshotsWanted)
    compare: bool = True


def run_sandbox(wanted: Wanted, *, on_fetch: Callable[[str], None]) -> SandboxRun:
    """Run what was asked for.

    Raises:
        UsageError: the parameters do not fit the engine, or the load cannot be read.
        ToolError: the vLLM could not be fetched.
        UnmodelledError: this vLLM asked for something that the sandbox does not stand in for.

    """
    ready = prepared(wanted, on_fetch=on_fetch)
    with _writer(wanted.events, at_once=wanted.native) as writer:
        result = _recorded(ready, wanted.snapshots, writer)
    if not wanted.compare or _healthy(result) or result.events > _COMPARED_EVENTS:
        return result
    changes = tuple(
        (option, parameters)
        for option, parameters in _one_change(ready.parameters)
        if _healthy(run(ready.opened, parameters, ready.load))
    )
    if not changes:
        return result
    return replace(
        result,
        healthy_with=tuple(option for option, _ in changes),
        healthy_parts=_parting(ready, changes[0][1]),
    )


def _parting(ready: Prepared, healthy: Parameters) -> Parting | None:
    """Where the run parts from the same run with other parameters."""
    states = affordable(ready.parameters)
    runs = (
        recorded(partial(_recording_run, ready, parameters), "", states)[0]
        for parameters in (ready.parameters, healthy)
    )
    found = compare(*runs)
    apart = found.first or found.order
    if apart is None:
        return None
    return Parting(step=apart.step, kind=apart.kind.value, request=apart.request)


def _recording_run(ready: Prepared, parameters: Parameters, recorder: Recorder) -> SandboxRun:
    return run(ready.opened, parameters, ready.load, recorder=recorder)


@contextmanager
def _writer(path: str | None, *, at_once: bool) -> Iterator[RecordingWriter | None]:
    """What writes a recording: lines, or rows where the file's name says so.

    `at_once`: real memory may end the process, and what led to it must be there.
    """
    if path is None:
        yield None
    elif path.endswith(".parquet"):
        from vllm_forensics.capture.event_table import event_table
        from vllm_forensics.sandbox.table_sink import TableWriter

        with event_table(path) as append:
            yield TableWriter(append)
    else:
        with event_file(path, at_once=at_once) as write:
            yield RecordingWriter(write)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that could start now."""

    opened: OpenEngine
    tree: VllmTree | None
    generation: Generation
    parameters: Parameters
    load: tuple[RequestSpec, ...]
    native: bool = False

    def drive(self, recorder: Recorder) -> SandboxRun:
        """Start it, over real memory where that is wanted."""
        if not self.native:
            return run(self.opened, self.parameters, self.load, recorder=recorder)
        from vllm_forensics.sandbox.native_memory import NativeMemory

        memory = NativeMemory(self.parameters)
        memory.attach(recorder)
        result = run(self.opened, self.parameters, self.load, recorder=recorder)
        return replace(result, memory=memory.used())


def prepared(wanted: Wanted, *, on_fetch: Callable[[str], None]) -> Prepared:
    """Find the engine and the load.

    Raises:
        UsageError: the parameters do not fit the engine, or the load cannot be read.
        ToolError: the vLLM could not be fetched.

    """
    if wanted.parameters.plant is not None:
        wanted = _planted(wanted, wanted.parameters.plant)
    vllm = wanted.vllm or ("installed" if wanted.full else None)
    tree = None if vllm is None else find_tree(vllm, on_fetch=on_fetch)
    opened = _whole(tree, wanted.parameters) if wanted.full else _engine(wanted.engine, tree)
    generation = Generation.REFERENCE if tree is None else tree.generation
    if wanted.trigger is not None:
        parameters = conditions(wanted.trigger, wanted.parameters, generation)
        wanted = replace(wanted, parameters=parameters)
    load = _load(wanted, generation)
    require_fits_model(load, wanted.parameters.max_model_len)
    return Prepared(
        opened=opened,
        tree=tree,
        generation=generation,
        parameters=wanted.parameters,
        load=load,
        native=wanted.native,
    )


def _recorded(
    ready: Prepared, snapshots: SnapshotsWanted, writer: RecordingWriter | None
) -> SandboxRun:
    """The run, with the snapshots that were asked for; all of it goes to the writer too."""
    recorder = Recorder(writer)
    kept: list[Snapshot] = []

    def take(snapshot: Snapshot) -> None:
        kept.append(snapshot)
        if writer is not None:
            writer.snapshot_taken(snapshot)

    if writer is not None:
        writer.begin(ready.tree, ready.generation, ready.parameters, ready.load)
        recorder.on_step.append(writer.step_seen)
    keeper = SnapshotKeeper(snapshots, take)
    keeper.watch(recorder)
    result = ready.drive(recorder)
    result = replace(
        result,
        snapshots=tuple(kept),
        unkept_snapshots=keeper.unkept,
        lives=lives_of(recorder) if result.events <= _PICTURED_EVENTS else (),
    )
    if writer is not None:
        writer.end(result)
    return result


def _healthy(result: SandboxRun) -> bool:
    return result.outcome is Outcome.FINISHED and not result.refused


def _engine(wanted: Generation | None, tree: VllmTree | None) -> OpenEngine:
    found = Generation.REFERENCE if tree is None else tree.generation
    if wanted is not None and wanted is not found:
        if tree is None:
            raise UsageError(
                f"the {wanted} engine is vLLM's",
                remedy="give --vllm too: 0.32.0 for v1, 0.4.2 for v0, or a PATH",
            )
        raise UsageError(
            f"vLLM {tree.version or tree.root} is driven as {found}, not as {wanted}",
            remedy="leave --engine out, or give another --vllm",
        )
    return _opener(found, tree)


def _whole(tree: VllmTree | None, parameters: Parameters) -> OpenEngine:
    from vllm_forensics.sandbox.engine.v1 import opened_v1

    if parameters.connector:
        raise UsageError(
            "the made-up connector stands in for vLLM's own",
            remedy="leave --full or --connector out",
        )
    if tree is None or tree.generation is not Generation.V1:
        raise UsageError(
            "only vLLM's second engine is driven whole", remedy="leave --full out for an older one"
        )
    return partial(opened_v1, tree, full=True)


def _planted(wanted: Wanted, plant: Plant) -> Wanted:
    """A planted fault is of the reference engine, and one of them is met by swapping."""
    if wanted.vllm is not None:
        raise UsageError(
            "a fault is planted in the reference engine only", remedy="leave --vllm out"
        )
    parameters = wanted.parameters
    if plant is not Plant.SECOND_OCCUPANCY:
        return wanted
    cpu_blocks = parameters.cpu_blocks or parameters.gpu_blocks
    return replace(wanted, parameters=replace(parameters, cpu_blocks=cpu_blocks))


def _opener(generation: Generation, tree: VllmTree | None) -> OpenEngine:
    """Each engine's module is imported only when it is driven."""
    from vllm_forensics.sandbox.engine.reference import opened_reference
    from vllm_forensics.sandbox.engine.v0 import opened_v0
    from vllm_forensics.sandbox.engine.v1 import opened_v1

    def reference(parameters: Parameters, recorder: Recorder) -> AbstractContextManager[Engine]:
        return opened_reference(parameters, recorder)

    if generation is Generation.REFERENCE or tree is None:
        return reference
    return partial(opened_v0 if generation is Generation.V0 else opened_v1, tree)


def _load(wanted: Wanted, generation: Generation) -> tuple[RequestSpec, ...]:
    if wanted.given is not None:
        return wanted.given
    if wanted.load is not None:
        return parse_load(read_load(wanted.load))
    if wanted.trigger is not None:
        return triggered(wanted.trigger, wanted.parameters, generation)
    load = uniform(wanted.requests, wanted.prompt_len, wanted.max_tokens)
    return load if wanted.seed is None else drawn(load, wanted.seed)


_ORDINARY: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("no --plant", {"plant": None}),
    ("--best-of 1", {"best_of": 1}),
    ("no --sliding-window", {"sliding_window": None, "hybrid": False}),
    ("no --hybrid", {"hybrid": False}),
    ("no --async-scheduling", {"async_scheduling": False}),
    ("--spec-tokens 0", {"spec_tokens": 0}),
    ("no --connector", {"connector": None}),
)
"""Options, and the parameters that they leave as they are by default."""


def _one_change(parameters: Parameters) -> Iterator[tuple[str, Parameters]]:
    """The same run with one parameter more ordinary, or one pool twice as large."""
    for option, plain in _ORDINARY:
        if getattr(parameters, next(iter(plain))) != next(iter(plain.values())):
            yield option, replace(parameters, **plain)
    if parameters.prefix_caching:
        yield "--no-prefix-caching", replace(parameters, prefix_caching=False)
    if parameters.chunked_prefill:
        yield "--no-chunked-prefill", replace(parameters, chunked_prefill=False)
    if parameters.cpu_blocks:
        more = max(parameters.cpu_blocks * 4, parameters.gpu_blocks)
        yield f"--cpu-blocks {more}", replace(parameters, cpu_blocks=more)
    for factor in (2, 4):
        blocks = parameters.gpu_blocks * factor
        yield f"--gpu-blocks {blocks}", replace(parameters, gpu_blocks=blocks)
