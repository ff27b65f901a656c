"""A process that drives a vLLM's scheduler as its engine core does, with our plugin loaded.

usage: traced_engine.py VERSION HOW, with VLLM_FORENSICS_TRACE in the environment. HOW: `finish`,
`before` (the plugin after the scheduler was imported), `segv` (dies while the worker has a step),
`raise` (the scheduler raises), `blind` (our wrappers fail), `abort`, `twice` (a second scheduler),
`long` (`ROUNDS` loads), `turns` (a conversation), `async`
(a step in flight).
"""

import ctypes
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from tests.py.support.vllm_trees import CURRENT, a_tree

from vllm_forensics.model.sandbox import Parameters, RequestSpec, VllmTree, WorkerStep
from vllm_forensics.sandbox.engine.loader import loaded
from vllm_forensics.sandbox.engine.v1 import V1Engine
from vllm_forensics.sandbox.engine.v1_config import SELECTION
from vllm_forensics.sandbox.engine.v1_hooks import managers_of
from vllm_forensics.sandbox.live.reader import TraceReader
from vllm_forensics.sandbox.recorder import Recorder

BLOCK = 16
PARAMETERS = Parameters(gpu_blocks=40, block_size=BLOCK, max_model_len=512, prefix_caching=True)
LOAD = tuple(
    RequestSpec(id=f"r{number}", prompt_len=50 + 7 * number, max_tokens=30, prefix=40)
    for number in range(6)
)
LAST_STEP = 9
ROUNDS = 150


def serve(
    how: str, folder: Path | str, version: str = CURRENT, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Start this file as a process; the test is skipped where the vLLM cannot be fetched."""
    a_tree(version)
    return subprocess.run(
        [sys.executable, "-m", "tests.py.support.traced_engine", version, how],
        cwd=Path(__file__).resolve().parents[3],
        env={**os.environ, "VLLM_FORENSICS_TRACE": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def traced(how: str, folder: Path) -> Path:
    """The newest trace of such a process."""
    ended = serve(how, folder, VLLM_FORENSICS_TRACE_MIB="1")
    assert "Traceback" not in ended.stderr, ended.stderr
    return max(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)


def lines_of(trace: Path) -> list[dict[str, Any]]:
    """The lines of a trace, unfolded: a line for each event, an item for each request."""
    reader = TraceReader(trace.read_bytes().splitlines(), trace.name)
    lines = [reader.header, *reader]
    assert not reader.unread
    return [msgspec.to_builtins(line) for line in lines]


def plug_in() -> None:
    """As vLLM does in each of its processes."""
    for plugin in entry_points(group="vllm.general_plugins", name="forensics"):
        plugin.load()()


def drive(engine: V1Engine, steps: int) -> None:
    for _ in range(steps):
        if engine.idle():
            return
        engine.complete(engine.step())


def drive_in_flight(engine: V1Engine, recorder: Recorder) -> None:
    """One step is with the worker while the next is scheduled, as asynchronous scheduling does."""
    in_flight: list[WorkerStep] = []
    while in_flight or not engine.idle():
        if not engine.idle():
            recorder.step += 1
            in_flight.append(engine.step())
        if len(in_flight) > 1 or engine.idle() or not in_flight[-1].items:
            engine.complete(in_flight.pop(0))


def engine_of(
    load: Callable[[str], ModuleType],
    tree: VllmTree,
    parameters: Parameters = PARAMETERS,
    recorder: Recorder | None = None,
) -> V1Engine:
    engine = V1Engine(load, tree, parameters, recorder or Recorder())
    for spec in LOAD:
        engine.add(spec)
    return engine


def meddle(engine: V1Engine, how: str) -> None:
    if how == "segv":
        engine.step()
        ctypes.string_at(0)
    elif how == "raise":
        # Silent twice; the assertion comes when such a block is handed out.
        blocks = managers_of(engine.manager)[0].req_to_blocks["r0"]
        for _ in range(2):
            engine.pool.free_blocks(blocks)
    elif how == "blind":
        # As if this vLLM had another name for what our wrappers look at.
        del engine.pool.null_block
    elif how == "abort":
        engine.abort("r0")


def serve_more(engine: V1Engine, how: str) -> None:
    if how == "turns":
        # A conversation: the second prompt has the first one and what was put out for it.
        said = replace(LOAD[0], prefix=0, contents=(7, 8, 9, 10, 11), contents_size=BLOCK)
        for spec in (
            replace(said, id="first", prompt_len=3 * BLOCK + 2, max_tokens=2 * BLOCK - 2),
            replace(said, id="second", prompt_len=5 * BLOCK + 3),
        ):
            engine.add(spec)
            drive(engine, 1000)
    elif how == "long":
        for turn in range(ROUNDS):
            for spec in LOAD:
                engine.add(replace(spec, id=f"{spec.id}.{turn}"))
            drive(engine, 1000)


def main(version: str, how: str) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    tree = a_tree(version)
    with loaded(tree, SELECTION) as load:
        if how == "before":
            load("vllm.v1.core.sched.scheduler")
        plug_in()
        if how == "async":
            recorder = Recorder()
            engine = engine_of(load, tree, replace(PARAMETERS, async_scheduling=True), recorder)
            drive_in_flight(engine, recorder)
            return
        engine = engine_of(load, tree)
        if how == "twice":
            engine = engine_of(load, tree)
        drive(engine, LAST_STEP)
        meddle(engine, how)
        serve_more(engine, how)
        with suppress(AssertionError):
            drive(engine, 1000)
        sys.stdout.write("steps done, idle\n" if engine.idle() else "not idle\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
