"""What `forensics run --sample` costs a program in which nothing is wrong.

    python benchmarks/bench_sample.py [--runs 9] [--rates 100 1000 5000]

CPU time of a NumPy load and of a JSON load under Scudo with GWP-ASan, against the same load alone,
in turns, in one run: the ratio of the fastest, and of the highest resident memory. Beside the rates
stands Scudo without sampling, which is what the change of the allocator alone costs.
"""

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from vllm_forensics.capture.sanitizer_runtime import preload_list
from vllm_forensics.investigate.unbuilt_plan import UnbuiltRequest, plan_sample

LOADS = {
    "NumPy": """
import numpy
table = numpy.random.default_rng(1).random((512, 512), dtype=numpy.float32)
kept = []
for turn in range(8000):
    rows = table[turn % 400 : turn % 400 + 64].copy()
    kept.append(numpy.tanh(rows @ table[:, :64]).sum())
    scratch = [numpy.empty(size) for size in (40, 400, 4000, 40_000)]
""",
    "JSON": """
import json
record = {"id": 1, "text": "x" * 700, "scores": [i / 7 for i in range(60)], "tags": ["a", "b"] * 20}
text = json.dumps([record] * 60)
for _ in range(500):
    json.dumps(json.loads(text))
""",
    "Many blocks": """
import ctypes
blocks = [ctypes.create_string_buffer(600 + i % 900) for i in range(2000)]
for turn in range(800_000):
    blocks[turn * 7 % 2000] = ctypes.create_string_buffer(600 + turn % 900)
""",
}


def measure(code: str, environment: Mapping[str, str]) -> tuple[float, int]:
    """CPU seconds, and the highest resident memory in KiB, of one run."""
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environment})
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"the load ended with {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss


def variants(rates: list[int]) -> dict[str, dict[str, str]]:
    """What each way of running sets."""
    # One thread: threads of a BLAS that wait for each other on a busy machine burn time.
    common = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = {"alone": dict[str, str](), "Scudo": {"SCUDO_OPTIONS": "GWP_ASAN_Enabled=false"}}
    found |= {
        f"1 in {rate}": {"SCUDO_OPTIONS": f"GWP_ASAN_SampleRate={rate}"} for rate in sorted(rates)
    }
    return {name: {**common, **options} for name, options in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1000, 5000])
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ways = variants(arguments.rates)
    request = UnbuiltRequest(command=(sys.executable,), folder=Path("/nowhere"), environment={})
    with preload_list(plan_sample(request).preload or ()) as libraries:
        for name, options in ways.items():
            if name != "alone":
                options["LD_PRELOAD"] = libraries
        for load, code in LOADS.items():
            seen: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
            for _ in range(arguments.runs):
                for name, options in ways.items():
                    seen[name].append(measure(code, options))
            plain = [min(column) for column in zip(*seen["alone"], strict=True)]
            print(f"{load}: alone {plain[0]:.2f} s of CPU, {plain[1] / 1024:.0f} MiB")
            for name, results in seen.items():
                if name != "alone":
                    cpu, memory = (min(one) for one in zip(*results, strict=True))
                    print(
                        f"  {name:<10} CPU ×{cpu / plain[0]:.3f}  memory ×{memory / plain[1]:.2f}"
                    )


if __name__ == "__main__":
    main()
