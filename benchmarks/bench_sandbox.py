"""What the recorder and the shadow worker cost a real scheduler, in one run.

    python benchmarks/bench_sandbox.py [--vllm 0.32.0] [--runs 5] [--requests 1000]

CPU time of the steps of the bare scheduler with our worker's made-up output, and of the same load
with every block recorded and every access checked (the pool's own sums only at the end), in turns:
the ratio of the fastest. Also the time to import the scheduler's modules, in a process of its own.
"""

import argparse
import subprocess
import sys
import time
from contextlib import ExitStack
from unittest.mock import patch

from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.model.sandbox import CheckWhen, Parameters, RequestSpec, VllmTree
from vllm_forensics.sandbox.driver import Driver
from vllm_forensics.sandbox.engine import v1
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.run import little_garbage

PARAMETERS = Parameters(gpu_blocks=20_000, check=CheckWhen.END)
IMPORT = """
import sys, time
from vllm_forensics.capture.vllm_trees import find_tree
from vllm_forensics.sandbox.engine.loader import loaded
from vllm_forensics.sandbox.engine.v1_config import SELECTION
tree = find_tree(sys.argv[1], on_fetch=lambda what: None)
before = time.process_time()
with loaded(tree, SELECTION) as load:
    load("vllm.v1.core.sched.scheduler")
print(time.process_time() - before)
"""


def a_load(count: int) -> tuple[RequestSpec, ...]:
    return tuple(
        RequestSpec(id=str(number), prompt_len=200, max_tokens=100) for number in range(count)
    )


def bare(tree: VllmTree, load: tuple[RequestSpec, ...]) -> float:
    """Steps per second of CPU time, nothing wrapped."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(v1, "hooks", lambda *given: {}))
        engine = stack.enter_context(v1.opened_v1(tree, PARAMETERS, Recorder()))
        for spec in load:
            engine.add(spec)
        steps, before = 0, time.process_time()
        while not engine.idle():
            engine.complete(engine.step())
            steps += 1
        return steps / (time.process_time() - before)


def watched(tree: VllmTree, load: tuple[RequestSpec, ...]) -> float:
    """Steps per second of CPU time, recorded and checked."""
    recorder = Recorder()
    with little_garbage(), v1.opened_v1(tree, PARAMETERS, recorder) as engine:
        driver = Driver(engine, recorder, PARAMETERS, ())
        for spec in load:
            engine.add(spec)
        before = time.process_time()
        while not driver.done():
            driver.advance()
        return (recorder.step + 1) / (time.process_time() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="0.32.0")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1000)
    given = parser.parse_args()
    tree = find_tree(given.vllm, on_fetch=print)
    load = a_load(given.requests)
    rates = [(bare(tree, load), watched(tree, load)) for _ in range(given.runs)]
    plain, checked = (max(pair[place] for pair in rates) for place in (0, 1))
    imported = subprocess.run(
        [sys.executable, "-c", IMPORT, given.vllm], capture_output=True, text=True, check=True
    )
    print(f"bare scheduler          {plain:7.0f} steps/s")
    print(f"recorded and checked    {checked:7.0f} steps/s   ratio {checked / plain:.2f}, bar 0.80")
    print(f"import of the scheduler {float(imported.stdout):7.2f} s         bar 0.60")


if __name__ == "__main__":
    main()
