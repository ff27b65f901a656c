"""MB/s of `forensics asan` on a log of 100 MB with 1,000 reports, beside two peers in one run.

    python benchmarks/bench_asan.py [--megabytes 100] [--reports 1000] [--runs 3]

The peers: `grep -E` of the headers, which only counts them, and a naive reader that runs one
regular expression over every line in Python. Measured: the whole command from a file, from a pipe,
and the reader alone; the best of the runs, and the command's peak memory. The bars are 150 MB/s and
100 MB.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log

SAMPLES = Path(__file__).parents[1] / "tests" / "py" / "data" / "sanitizer" / "raw"
HEADERS = (
    r"(ERROR|WARNING): (Address|HWAddress|Leak|Memory|Thread|UndefinedBehavior)Sanitizer"
    r"|runtime error:|ERROR: libFuzzer"
)
NAIVE = re.compile(
    r"(?P<header>(?:ERROR|WARNING): \w+Sanitizer: (?P<kind>[\w-]+))"
    r"|#(?P<index>\d+) (?P<pc>0x[0-9a-f]+) in (?P<function>.+?) (?P<place>\S+:\d+)"
    r"|(?P<place2>\S+:\d+:\d+): runtime error: (?P<message>.*)"
)
NOISE = tuple(
    f"2026-01-15T08:12:{at % 60:02}.{at:06} INFO  worker-{at % 7} step {at} done in {at % 97} ms, "
    f"{at % 13} requests running, KV cache usage: {at % 100}.0%\n".encode()
    for at in range(997)
)


def write_log(path: Path, size_bytes: int, reports: int) -> None:
    """Reports made of the samples, each with a process and addresses of its own, among noise."""
    samples = [
        file.read_bytes()
        for file in sorted(SAMPLES.glob("*.txt"))
        if file.name.startswith(("asan_", "tsan_", "msan_", "lsan_", "ubsan_"))
        and file.stat().st_size < 8_000
    ]
    between = size_bytes // reports
    with path.open("wb") as out:
        for number in range(reports):
            text = samples[number % len(samples)]
            pid = str(10_000 + number).encode()
            own = re.sub(rb"(==|pid=)\d+(==|\))", rb"\g<1>" + pid + rb"\g<2>", text)
            out.write(own)
            written = len(own)
            at = number
            while written < between:
                line = NOISE[at % len(NOISE)]
                out.write(line)
                written += len(line)
                at += 1


def pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            yield piece


def best(work: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def naive(path: Path) -> int:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return sum(NAIVE.search(line) is not None for line in lines)


def command(path: Path, *, piped: bool) -> None:
    code = "from vllm_forensics.cli.main import main; main()"
    program = [sys.executable, "-c", code, "asan", "--format", "json", "--output", os.devnull]
    if not piped:
        subprocess.run([*program, str(path)], check=False)
        return
    with path.open("rb") as log, subprocess.Popen(["cat"], stdin=log, stdout=-1) as cat:
        subprocess.run([*program, "-"], stdin=cat.stdout, check=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--reports", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        write_log(log, chosen.megabytes * 1_000_000, chosen.reports)
        megabytes = log.stat().st_size / 1e6
        runs = chosen.runs
        grep = ["grep", "-cE", HEADERS, str(log)]
        rows = {
            "grep -E of the headers": best(
                lambda: subprocess.run(grep, capture_output=True, check=False), runs
            ),
            "naive, every line": best(lambda: naive(log), 1),
            "the reader alone": best(lambda: parse_sanitizer_log(pieces(log)), runs),
            "forensics asan FILE": best(lambda: command(log, piped=False), runs),
            "forensics asan - (a pipe)": best(lambda: command(log, piped=True), runs),
        }
        found = len(parse_sanitizer_log(pieces(log)).reports)
        print(f"{megabytes:.0f} MB, {chosen.reports} samples, {found} different reports")
        for name, seconds in rows.items():
            ratio = rows["grep -E of the headers"] / seconds
            faster = rows["naive, every line"] / seconds
            print(
                f"{name:28}{megabytes / seconds:8.0f} MB/s"
                f"   {ratio:5.2f} × grep   {faster:5.1f} × naive"
            )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        print(f"peak memory of a child       {peak:8.0f} MB")


if __name__ == "__main__":
    main()
