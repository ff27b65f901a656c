"""MB/s of `forensics asan` on a log of 100 MB with 1,000 reports, beside two peers in one run.

    python benchmarks/bench_asan.py [--megabytes 100] [--reports 1000] [--runs 5]

The peers: `grep -E` of the headers, which only counts them, and a naive reader that runs one
regular expression over every line in Python. Measured: the whole command in both formats from a
file and from a pipe, and the reader alone; the best of the runs by the wall clock and by the CPU's,
and the command's peak memory. The bars are 150 MB/s and 100 MB.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

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


class Cost(NamedTuple):
    """What a run cost; `seconds` is wall time."""

    seconds: float
    cpu_s: float
    peak_kib: int


_HEX = re.compile(rb"0x[0-9a-f]{9,16}")
_PID = re.compile(rb"(==|pid=)\d+(==|\))")
_LINE = re.compile(rb"(?<=[a-z]):(\d+)(?=[: \n])")
_FUNCTION = re.compile(
    rb"(#\d+ (?:0x[0-9a-f]+ in )?+)"
    rb"(?!0x|main|_|operator|std::|pthread|[a-z]*alloc|free|mem|str)(\w+)"
)


def own(sample: bytes, number: int) -> bytes:
    """The sample as another process would have printed it of another fault.

    Process, addresses, line numbers and the program's functions are of its own, so that nothing
    that was remembered of one report saves work on the next; what a C library's or a runtime's
    frame says stays, as in a real log.
    """

    def address(match: re.Match[bytes]) -> bytes:
        width = len(match[0]) - 2
        return f"0x{int(match[0], 16) + number * 0x1000:0{width}x}".encode()

    text = _PID.sub(rb"\g<1>%d\g<2>" % (10_000 + number), sample)
    text = _HEX.sub(address, text)
    text = _LINE.sub(lambda match: b":%d" % (int(match[1]) + number), text)
    return _FUNCTION.sub(rb"\g<1>\g<2>_%d" % number, text)


def write_log(path: Path, size_bytes: int, reports: int) -> None:
    """Reports made of the samples, no two alike, among noise."""
    samples = [
        file.read_bytes()
        for file in sorted(SAMPLES.glob("*.txt"))
        if file.name.startswith(("asan_", "tsan_", "msan_", "lsan_", "ubsan_"))
        and file.stat().st_size < 8_000
    ]
    between = size_bytes // reports
    with path.open("wb") as out:
        for number in range(reports):
            text = own(samples[number % len(samples)], number)
            out.write(text)
            written = len(text)
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


def best(work: Callable[[], Cost], runs: int) -> Cost:
    """What the fastest run cost."""
    return min(work() for _ in range(runs))


def here(work: Callable[[], object]) -> Cost:
    """What the work costs in this process; its memory is not measured."""
    start, cpu_start = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - start, time.process_time() - cpu_start, 0)


def child(program: list[str], log: Path, *, piped: bool = False) -> Cost:
    """What a program costs, by the kernel's account of it; the `cat` before it is not counted."""
    start = time.perf_counter()
    with ExitStack() as opened:
        source: IO[bytes] | int | None = subprocess.DEVNULL
        if piped:
            cat = opened.enter_context(subprocess.Popen(["cat", str(log)], stdout=subprocess.PIPE))
            source = cat.stdout
        # Not to /dev/null: grep would stop at the first line that it finds.
        run = subprocess.Popen(program, stdin=source, stdout=subprocess.PIPE, env=_environment())
        _, _, usage = os.wait4(run.pid, 0)
        run.returncode = 0
        seconds = time.perf_counter() - start
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def _environment() -> dict[str, str]:
    """With compiled modules, as an installed package has them."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def naive(path: Path) -> int:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return sum(NAIVE.search(line) is not None for line in lines)


def command(form: str, log: str) -> list[str]:
    code = "from vllm_forensics.cli.main import main; main()"
    return [sys.executable, "-c", code, "asan", "--format", form, "--output", os.devnull, log]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--reports", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        write_log(log, chosen.megabytes * 1_000_000, chosen.reports)
        megabytes = log.stat().st_size / 1e6
        runs = chosen.runs
        found = len(parse_sanitizer_log(pieces(log)).reports)
        rows = {
            "grep -E of the headers": best(
                lambda: child(["grep", "-cE", HEADERS, str(log)], log), runs
            ),
            "naive, every line": here(lambda: naive(log)),
            "the reader alone": best(lambda: here(lambda: parse_sanitizer_log(pieces(log))), runs),
            "asan --format json FILE": best(lambda: child(command("json", str(log)), log), runs),
            "asan --format json -": best(
                lambda: child(command("json", "-"), log, piped=True), runs
            ),
            "asan --format text FILE": best(lambda: child(command("text", str(log)), log), runs),
            "asan --format text -": best(
                lambda: child(command("text", "-"), log, piped=True), runs
            ),
        }
    print(f"{megabytes:.0f} MB, {chosen.reports} samples, {found} different reports")
    print(f"{'':26}{'MB/s':>8}{'of CPU':>8}{'× grep':>8}{'× naive':>9}{'peak MB':>9}")
    grep, slow = rows["grep -E of the headers"], rows["naive, every line"]
    for name, cost in rows.items():
        peak = f"{cost.peak_kib * 1024 / 1e6:9.0f}" if cost.peak_kib else ""
        print(
            f"{name:26}{megabytes / cost.seconds:8.0f}{megabytes / cost.cpu_s:8.0f}"
            f"{grep.seconds / cost.seconds:8.2f}{slow.seconds / cost.seconds:9.1f}{peak}"
        )


if __name__ == "__main__":
    main()
