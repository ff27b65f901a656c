"""Fuzzes every parser of evidence for a time; ends with 1 where one of them fell.

    python fuzz/run.py [SECONDS_EACH] [NAME...]

Seeds are the tests' samples. What the fuzzer found interesting is kept in build/fuzz/NAME for the
next run; an input that broke a parser lies in build/fuzz/findings.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from fuzz.targets import TARGETS  # noqa: E402 - found by the line above
from tests.py.support.core_builder import build_core  # noqa: E402
from tests.py.support.sample_library import SOURCE  # noqa: E402

from vllm_forensics.evidence.log.book import FAMILIES  # noqa: E402

DATA = ROOT / "tests" / "py" / "data"
WORK = ROOT / "build" / "fuzz"
LIMITS = ("-max_len=20000", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1")
WAYS = re.compile(r"\bDONE +cov: \d{1,12} ft: (\d{1,12}) ")
SUPERVISED = (
    {"event": "start", "pid": 2, "parent": 1, "command": "python"},
    {"event": "fault", "pid": 2, "signal": 11, "code": 1, "address": "0x0"},
    {"event": "exit", "pid": 2, "status": 139, "oom_kills_before": 0, "oom_kills_after": 1},
)
RECORDED = (
    {"kind": "run", "schema": "forensics.sandbox_events/1", "engine": "v1", "parameters": {}},
    {"kind": "request", "id": "0", "prompt": 20, "output": 2},
    {"kind": "allocate", "step": 0, "pool": "gpu", "block": 1, "request": "0"},
    {"kind": "step", "step": 0, "scheduled": [["0", "0", 0, 20]], "running": 1, "waiting": 0},
    {"kind": "free", "step": 1, "pool": "gpu", "block": 1, "request": "0"},
    {"kind": "step", "step": 1, "scheduled": [["0", "0", 20, 1]], "finished": ["0"]},
    {"kind": "end", "outcome": "finished"},
)
SCHEDULED = (
    "INFO 08-20 10:18:31 gpu_executor.py:114] # GPU blocks: 24, # CPU blocks: 8",
    "INFO 08-20 10:18:32 x.py:1] Received request a: prompt: 'x', sampling_params: "
    "SamplingParams(n=1, best_of=1, max_tokens=20), prompt_token_ids: [2, 100], lora_request: N.",
    "INFO 08-20 10:18:33 x.py:1] Added request b.",
    "WARNING 08-20 10:18:39 scheduler.py:1] Sequence group a is preempted by "
    "PreemptionMode.SWAP mode because total_num_cumulative_preemption=1",
    "INFO 08-20 10:18:40 x.py:1] Running: 1 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache "
    "usage: 99.1%, CPU KV cache usage: 0.0%",
    "INFO 08-20 10:18:41 x.py:1] Request b aborted.",
)
LINES = {
    "supervisor_log": [json.dumps(event) for event in SUPERVISED],
    "sandbox_recording": [*map(json.dumps, RECORDED), "", *map(json.dumps, RECORDED)],
    "scheduler_log": SCHEDULED,
    "small_files": (
        "leak:libfoo.so",
        '[{"Address":"0x10","ModuleName":"a.so","Symbol":[{"Column":7,"FileName":"/a.c",'
        '"FunctionName":"f","Line":3}]}]',
        "0x10\nf inlined at a.c:20:17 in g\na.c:3",
        '{"schema": "forensics.asan/1", "reports": [{"signature": "v1:a", "leaks": []}]}',
        '{"schema": "forensics.build/1", "flavour": "asan"}',
        "_ZN4vllm5Block4dataEv",
        "void v::f<int>(int (*)(long))::{lambda()#1}::operator()() const",
    ),
}


def seeds(name: str) -> Iterator[bytes]:
    """What a parser is known to read."""
    if name == "sanitizer":
        for sample in sorted((DATA / "sanitizer" / "raw").glob("*.txt")):
            yield b"\xff\xff" + sample.read_bytes()[:20_000]
    elif name == "incident_log":
        yield from _deaths()
    elif name == "strace":
        for log in sorted((DATA / "strace").glob("*/input.log")):
            yield log.read_bytes()[:20_000]
    elif name == "gdb_mi":
        for transcript in sorted((DATA / "gdb_mi").glob("*/transcript.json")):
            yield from _records(json.loads(transcript.read_bytes()))
    elif name == "small_files":
        yield from (line.encode() for line in LINES[name])
    elif name in LINES:
        yield "\n".join(LINES[name]).encode()
    else:
        yield from _crashes(name)


def _crashes(name: str) -> Iterator[bytes]:
    """What a crash leaves: records, other systems' dumps, cores."""
    if name == "journal":
        for sample in sorted((DATA / "journal").glob("*.[eijt]*")):
            yield sample.read_bytes()[:20_000]
    elif name == "other_dump":
        yield b"MDMP" + bytes(200)
        yield b"\xcf\xfa\xed\xfe" + bytes(60)
    elif name == "module_file":
        yield _library()
    else:
        yield build_core()


def _library() -> bytes:
    """A library with debug information, small enough for a fuzzer."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "sample.so")
        compiler = ("g++", "-x", "c", "-", "-shared", "-fPIC", "-g1", "-Wl,-z,noseparate-code")
        subprocess.run((*compiler, "-o", library), input=SOURCE.encode(), check=True)
        return library.read_bytes()


def _deaths() -> Iterator[bytes]:
    """Every sample of a log, and every line that the reader knows."""
    for sample in sorted((DATA / "log").glob("*/*.log")):
        yield b"\xff\xff" + sample.read_bytes()[:20_000]
    for family in FAMILIES:
        for phrase in family.phrases:
            yield b"\xff\xff" + phrase.example.encode() + b"\n"


def _records(transcript: object) -> Iterator[bytes]:
    """Every string in a recorded session."""
    if isinstance(transcript, str):
        yield transcript.encode()
    elif isinstance(transcript, dict):
        for value in transcript.values():
            yield from _records(value)
    elif isinstance(transcript, list):
        for value in transcript:
            yield from _records(value)


def fuzz(name: str, seconds: int) -> bool:
    """Fuzz one parser; False where it fell."""
    corpus, findings = WORK / name, WORK / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    for at, seed in enumerate(seeds(name)):
        (corpus / f"seed-{at}").write_bytes(seed)
    options = (*LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{name}-")
    command = [sys.executable, str(ROOT / "fuzz" / "targets.py"), name, *options, str(corpus)]
    log = WORK / f"{name}.log"
    with log.open("wb") as out:
        status = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if status == 0 and (seen := _ways_seen(lines)):
        runs = next((line for line in lines if "number_of_executed_units" in line), "")
        done = f"{seconds} s, {runs.rpartition(' ')[2] or '?'} inputs, {seen} ways through the code"
        print(f"{name:17} {done}: nothing found", flush=True)
        return True
    what = "FELL" if status else "PROVED NOTHING: no way through the code was seen"
    print(f"{name:17} {what}; the whole log is {log}", *lines[-25:], sep="\n    ", flush=True)
    return False


def _ways_seen(lines: list[str]) -> int:
    """The `ft:` that libFuzzer ended with; 0 where the code was not instrumented."""
    found = [match[1] for line in lines if (match := WAYS.search(line))]
    return int(found[-1]) if found else 0


def main() -> None:
    """Fuzz all that were named, one after the other."""
    parser = argparse.ArgumentParser(description="Fuzz the parsers of evidence.")
    parser.add_argument("seconds", type=int, nargs="?", default=60, help="for each parser")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed; there are wheels of it up to Python 3.13", file=sys.stderr)
        sys.exit(2)
    # All, also after a finding: one run says all that it can.
    held = [fuzz(name, chosen.seconds) for name in chosen.names or TARGETS]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
