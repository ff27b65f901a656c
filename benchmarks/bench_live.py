"""What the trace of a live engine costs a real scheduler, in one run.

    python benchmarks/bench_live.py [--vllm 0.32.0] [--runs 7] [--running 64]

The time inside of the scheduler's own calls (a request comes, a step is scheduled, its answer is
taken in), bare and with the plugin's trace written to a file, in turns. All runs make the same
calls in the same order: of each call the fastest counts, so that other programs are not measured.
"""

import argparse
import gc
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from vllm_forensics.capture.trace_file import TraceFile
from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.model.sandbox import CheckWhen, Parameters, RequestSpec, VllmTree
from vllm_forensics.sandbox.engine.loader import loaded
from vllm_forensics.sandbox.engine.v1 import V1Engine
from vllm_forensics.sandbox.engine.v1_config import SELECTION
from vllm_forensics.sandbox.live.header import header_of
from vllm_forensics.sandbox.live.hooks import put_around
from vllm_forensics.sandbox.live.session import LiveSession
from vllm_forensics.sandbox.recorder import Recorder

PARAMETERS = Parameters(gpu_blocks=20_000, check=CheckWhen.END)
CALLS = ("add_request", "schedule", "update_from_output")


def timed(scheduler: Any, name: str, spent: list[int]) -> None:
    """Add the nanoseconds of each call of this method from now on."""
    method = getattr(scheduler, name)

    def call(*given: Any) -> Any:
        before = time.perf_counter_ns()
        result = method(*given)
        spent.append(time.perf_counter_ns() - before)
        return result

    setattr(scheduler, name, call)


def calls_of(tree: VllmTree, running: int, folder: str | None) -> tuple[list[int], int, int]:
    """Nanoseconds of each call, steps, and bytes; recorded if there is a folder for it."""
    parameters = replace(PARAMETERS, max_seqs=running)
    gc.collect()
    with ExitStack() as stack:
        load = stack.enter_context(loaded(tree, SELECTION))
        engine = V1Engine(load, tree, parameters, Recorder())
        if folder is not None:
            store = TraceFile(folder, limit_bytes=1 << 30)
            session = LiveSession(store, print)
            put_around(engine.scheduler, session)
            header = header_of(engine.scheduler, version=tree.version, file=tree.file, pid=0)
            session.begin(engine.scheduler, header)
        spent: list[int] = []
        for name in CALLS:
            timed(engine.scheduler, name, spent)
        for number in range(running * 8):
            engine.add(RequestSpec(id=f"cmpl-{number:032x}", prompt_len=200, max_tokens=100))
        steps = 0
        while not engine.idle():
            engine.complete(engine.step())
            steps += 1
        return spent, steps, 0 if folder is None else store.path.stat().st_size


def fastest(runs: list[list[int]]) -> float:
    """Microseconds of all calls, each as fast as it ever was."""
    return float(sum(map(min, zip(*runs, strict=True)))) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="0.32.0")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--running", type=int, default=64)
    given = parser.parse_args()
    tree = find_tree(given.vllm, on_fetch=print)
    bare, traced = [], []
    for _ in range(given.runs):
        bare.append(calls_of(tree, given.running, None)[0])
        with tempfile.TemporaryDirectory() as folder:
            spent, steps, size = calls_of(tree, given.running, folder)
        traced.append(spent)
    plain, watched = fastest(bare) / steps, fastest(traced) / steps
    print(f"bare scheduler {plain:7.0f} µs a step")
    print(f"traced         {watched:7.0f} µs a step, {size / steps:,.0f} bytes")
    print(f"ratio             {watched / plain:.2f}, bar 1.10")


if __name__ == "__main__":
    main()
