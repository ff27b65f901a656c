"""CPU of `forensics core` on herds of cores, beside eu-stack and gdb on each, in one run.

    python benchmarks/bench_core_herd.py [--bugs 20] [--cores 1000] [--runs 1]

Three herds of one program with that many planted bugs: signatures and groups alone (`--depth
stack`) beside eu-stack on each core (bar 1.5 ×), and 42 cores of 6 bugs in full beside gdb on each
(bar 1.15 × groups ÷ cores). CPU is the user's and the system's of all children.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.py.integration.crashes import HERD

from vllm_forensics.capture.host import cores_in_working_directory


def make_herd(folder: Path, bugs: int, cores: int) -> tuple[Path, list[Path]]:
    """A program, and that many cores of it, each bug equally often."""
    (folder / "herd.cpp").write_text(HERD)
    program = folder / "herd"
    flags = ["-g", "-O1", "-fno-optimize-sibling-calls"]
    subprocess.run(["g++", *flags, str(folder / "herd.cpp"), "-o", str(program)], check=True)
    found = []
    with cores_in_working_directory() as kernel_writes:
        if not kernel_writes:
            sys.exit("the kernel writes no cores here: forensics doctor")
        for number in range(cores):
            place = folder / "run"
            place.mkdir()
            subprocess.run(
                ["prlimit", "--core=unlimited:", program, str(number % bugs)],
                cwd=place,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            (core,) = place.iterdir()
            found.append(core.rename(folder / f"core.{number:05}"))
            place.rmdir()
    return program, found


def cpu_of(command: list[str], output: Path | None = None) -> float:
    """Seconds of CPU of a command and all that it started and waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Path(output or os.devnull).open("wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def on_each(command: list[str], cores: list[Path]) -> float:
    return sum(cpu_of([part.format(core=core) for part in command]) for core in cores)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bugs", type=int, default=20)
    parser.add_argument("--cores", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    chosen = parser.parse_args()
    forensics = shutil.which("forensics") or sys.exit("forensics is not on PATH")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, cores = make_herd(folder, chosen.bugs, chosen.cores)
        eu_stack = ["eu-stack", "--core", "{core}", "--executable", str(program)]
        gdb = ["gdb", "-nx", "-batch", "-ex", "bt", str(program), "{core}"]
        stacks = [forensics, "core", "--depth", "stack", "--format", "json"]
        for _ in range(chosen.runs):
            answer = folder / "answer.json"
            ours = cpu_of([*stacks, *map(str, cores)], answer)
            start = cpu_of([*stacks, str(cores[0])])
            peer = on_each(eu_stack, cores)
            groups = [group["count"] for group in json.loads(answer.read_text())["groups"]]
            print(f"{len(cores)} cores, signatures and groups: {ours:.2f} s, eu-stack {peer:.2f} s")
            print(
                f"  ratio {ours / peer:.2f}, start taken off {(ours - start) / peer:.2f} (bar 1.5)"
            )
            print(f"  {len(groups)} groups of {min(groups)} to {max(groups)}")
            few = [core for at, core in enumerate(cores) if at % chosen.bugs < 6][:42]
            ours = cpu_of([forensics, "core", "--format", "json", *map(str, few)], answer)
            peer = on_each(gdb, few)
            found = len(json.loads(answer.read_text())["groups"])
            bar = 1.15 * found / len(few)
            print(f"{len(few)} cores of {found} bugs in full: {ours:.2f} s, gdb {peer:.2f} s")
            print(f"  ratio {ours / peer:.3f} (bar {bar:.3f})")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(f"largest child: {peak:.0f} MB")


if __name__ == "__main__":
    main()
