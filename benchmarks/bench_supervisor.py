"""What `forensics run` costs a program that lives, and what a minicore costs one that dies.

    python benchmarks/bench_supervisor.py [--runs 9]

Wall time of the supervisor's child against the same child alone, in turns, in one run: the ratio of
the medians and of the fastest. Then a NumPy process of more than 1 GB that crashes: the minicore's
size (bar 64 MB) and how long the process was held for it (bar 1 s).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from vllm_forensics.capture.supervisor import supervisor_path

THREADS = """
#include <thread>
#include <vector>
int main() {
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 100; ++i) threads.emplace_back([] {});
    for (auto& thread : threads) thread.join();
  }
}
"""
SYSCALLS = """
#include <sys/syscall.h>
#include <unistd.h>
int main() {
  for (long i = 0; i < 3000000; ++i) syscall(SYS_getppid);
}
"""
COMPILED = """
#include <map>
#include <string>
int main() {
  std::map<std::string, int> lengths{{"a", 1}};
  return static_cast<int>(lengths.size());
}
"""
BIG_CRASH = """
import ctypes, numpy
arrays = [numpy.ones(160_000_000 // 8) for _ in range(8)]
ctypes.string_at(0x48)
"""


def seconds(command: Sequence[str]) -> float:
    """Wall time of one run."""
    started = time.monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return time.monotonic() - started


def make_jobs(folder: Path) -> dict[str, list[str]]:
    """A compile job, a start of many threads, a loop of system calls, a plain Python."""
    for name, text in (("threads", THREADS), ("syscalls", SYSCALLS), ("compiled", COMPILED)):
        (folder / f"{name}.cpp").write_text(text)
    for name in ("threads", "syscalls"):
        source, program = str(folder / f"{name}.cpp"), str(folder / name)
        subprocess.run(["g++", "-O1", "-pthread", source, "-o", program], check=True)
    return {
        "compile job": ["g++", "-O1", str(folder / "compiled.cpp"), "-o", str(folder / "out")],
        "1,000 threads": [str(folder / "threads")],
        "3,000,000 system calls": [str(folder / "syscalls")],
        "python -c pass": [sys.executable, "-c", "pass"],
    }


def crash_big(folder: Path) -> dict[str, float]:
    """Crash a large process under the supervisor; what its event says of the core."""
    events = folder / "events.jsonl"
    command = [supervisor_path(), "--output", str(folder), "--events", str(events), "--"]
    subprocess.run([*command, sys.executable, "-c", BIG_CRASH], capture_output=True, check=False)
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    return next(line for line in lines if line["event"] == "core")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        supervised = [supervisor_path(), "--output", name, "--"]
        print(f"{'job':<24}{'alone':>9}{'with':>9}{'median':>8}{'fastest':>9}")
        for job, command in make_jobs(folder).items():
            alone, watched = [], []
            seconds(command)
            for _ in range(runs):
                alone.append(seconds(command))
                watched.append(seconds([*supervised, *command]))
            median = statistics.median(watched) / statistics.median(alone)
            fastest = min(watched) / min(alone)
            print(
                f"{job:<24}{statistics.median(alone):>8.3f}s{statistics.median(watched):>8.3f}s"
                f"{median:>8.2f}{fastest:>9.2f}"
            )
        core = crash_big(folder)
        size, held = core["bytes"] / 1e6, core["milliseconds"]
        print(f"NumPy process of 1.3 GB: minicore of {size:.1f} MB, held for {held:.0f} ms")


if __name__ == "__main__":
    main()
