"""MB/s of the reader behind `forensics log`, beside a peer in the same run.

    python benchmarks/bench_log.py [--megabytes 100] [--runs 3]

Three logs: a server's noise with one death in it, prose of which no line is like another, and
nothing but dumps and tracebacks. The peer is a naive reader that runs one regular expression over
every line in Python. The bar is 100 MB/s on the noisy one; the best run counts, by the CPU's clock.
"""

import argparse
import random
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from vllm_forensics.evidence.log.scan import parse_incident_log

SAMPLE = (
    Path(__file__).parents[1]
    / "tests" / "py" / "data" / "log" / "written" / "engine_worker_sigsegv.log"
)  # fmt: skip
NAIVE = re.compile(
    r"Fatal Python error: .*|Traceback \(most recent|[Ss]egmentation fault|Killed process|"
    r"died unexpectedly|terminate called|exit ?code: -\d+|CUDA error: .*|free\(\): .*"
)
PIECE = 1 << 16


def noise(size: int) -> bytes:
    """Lines of a server, an engine and a proxy."""
    lines, length = [], 0
    for at in range(size):
        second = at % 60
        line = (
            f"2026-01-15T08:12:{second:02}.{at:06} INFO worker-{at % 7} step {at} {at % 97} ms\n",
            f"(EngineCore_DP0 pid={270 + at % 4}) INFO 01-15 08:12:{second:02} [loggers.py:123] "
            f"Engine 000: throughput: {at % 90}.0 tokens/s, KV cache usage: {at % 90}.1%\n",
            f'(APIServer pid=10) INFO: 127.0.0.1:{40000 + at % 20000} - "POST /v1/x" 200 OK\n',
        )[at % 3]
        lines.append(line)
        length += len(line)
        if length >= size:
            break
    return "".join(lines).encode()


def prose(size: int) -> bytes:
    """Words in an order that never comes again."""
    choose = random.Random(1)  # noqa: S311
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(choose.choices(letters, k=choose.randint(2, 9))) for _ in range(5_000)]
    words += ["error", "exit", "worker", "killed", "signal", "Process", "failed", "timeout"]
    lines, length = [], 0
    while length < size:
        lines.append("INFO prompt " + " ".join(choose.choices(words, k=14)) + "\n")
        length += len(lines[-1])
    return "".join(lines).encode()


def deaths(sample: bytes, size: int) -> bytes:
    """The same death over and over: processes, seconds and addresses differ."""
    logs: list[bytes] = []
    length = 0
    while length < size:
        at = len(logs)
        pid, second, address = b"%05d" % at, b":%02d [" % (at % 60), b"0x7f1b%08x" % (at * 4096)
        log = re.sub(rb"(?<=pid=)\d{2}", pid, sample)
        log = re.sub(rb":\d\d \[", second, re.sub(rb"0x7f1b[0-9a-f]{8}", address, log))
        logs.append(log)
        length += len(log)
    return b"".join(logs)


def naive(pieces: Iterable[bytes]) -> int:
    """How a script would do it."""
    found = 0
    for piece in pieces:
        for line in piece.decode("utf-8", "replace").splitlines():
            found += NAIVE.search(line) is not None
    return found


def megabytes_per_second(read: Callable[[list[bytes]], object], log: bytes, runs: int) -> float:
    """The best of the runs."""
    pieces = [log[at : at + PIECE] for at in range(0, len(log), PIECE)]
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        read(pieces)
        best = min(best, time.process_time() - start)
    return len(log) / 1e6 / best


def main() -> None:
    """Print one line a log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    size = options.megabytes * 1_000_000
    sample = SAMPLE.read_bytes()
    logs = {
        "noise with one death": noise(size) + sample,
        "prose": prose(size // 5),
        "deaths only": deaths(sample, size // 50),
    }
    for name, log in logs.items():
        own = megabytes_per_second(parse_incident_log, log, options.runs)
        peer = megabytes_per_second(naive, log, options.runs)
        print(f"{name:22} {own:6.1f} MB/s   naive {peer:6.1f} MB/s   of {len(log) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
