"""`forensics core` on herds of cores: processor time beside eu-stack and gdb on each, and memory.

    python benchmarks/bench_core_herd.py [--bugs 20] [--cores 1000] [--runs 1]

Cores of one program with that many planted bugs: signatures and groups alone (`--depth stack`,
with the store and real output) beside eu-stack on each core (bar 1.5, our start taken off), 42
cores of 6 bugs in full beside gdb on each (bar 1.15 times groups by cores), the largest process
for 200 and for 2,000 cores (bar: the same), and how long it takes until a person at a terminal
reads the first result (bar 0.5 s on a machine that does nothing else).
"""

import argparse
import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.measure import Used, used_by
from tests.py.integration.crashes import HERD

from vllm_forensics.capture.host import cores_in_working_directory

_FEW, _MANY = 200, 2000


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


def on_each(command: list[str], cores: list[Path]) -> float:
    """Processor seconds of a command on each core; `{core}` stands for it."""
    return sum(
        (used_by([part.format(core=core) for part in command]).cpu_s for core in cores), start=0.0
    )


def first_result(command: list[str]) -> tuple[float, float]:
    """Seconds until the command shows something at a terminal, and its processor time until then.

    Where others work on the machine, the latter says more.
    """
    began_s = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("CI", None)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(command[0], command)  # noqa: S606
    os.read(terminal, 1)
    took_s = time.monotonic() - began_s
    ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]  # proc(5)
    used_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    os.waitpid(child, 0)
    os.close(terminal)
    return took_s, used_s


class Bench:
    """What is measured, each on the same cores."""

    def __init__(self, folder: Path, bugs: int, cores: int) -> None:
        self.forensics = shutil.which("forensics") or sys.exit("forensics is not on PATH")
        os.environ["VLLM_FORENSICS_CASES"] = str(folder / "cases.sqlite")
        self.folder, self.bugs = folder, bugs
        self.answer = folder / "answer.json"
        self.program, self.cores = make_herd(folder, bugs, cores)

    def run(self, *arguments: str | Path) -> Used:
        return used_by([self.forensics, "core", *arguments], self.answer)

    def sort(self) -> None:
        """Signatures and groups alone."""
        stacks = ["--depth", "stack", "--format", "json"]
        ours = self.run(*stacks, *self.cores).cpu_s
        groups = [group["count"] for group in json.loads(self.answer.read_text())["groups"]]
        start = self.run(*stacks, self.cores[0]).cpu_s
        eu_stack = ["eu-stack", "--core", "{core}", "--executable", str(self.program)]
        peer = on_each(eu_stack, self.cores)
        count = len(self.cores)
        print(f"{count} cores, signatures and groups: {ours:.2f} s, eu-stack {peer:.2f} s")
        print(f"  ratio {ours / peer:.2f}, start taken off {(ours - start) / peer:.2f} (bar 1.5)")
        print(f"  {len(groups)} groups of {min(groups)} to {max(groups)}")

    def explain(self) -> None:
        """One core of each group in full."""
        few = [core for at, core in enumerate(self.cores) if at % self.bugs < 6][:42]
        ours = self.run("--format", "json", *few).cpu_s
        gdb = ["gdb", "-nx", "-batch", "-ex", "bt", str(self.program), "{core}"]
        peer = on_each(gdb, few)
        found = len(json.loads(self.answer.read_text())["groups"])
        print(f"{len(few)} cores of {found} bugs in full: {ours:.2f} s, gdb {peer:.2f} s")
        print(f"  ratio {ours / peer:.3f} (bar {1.15 * found / len(few):.3f})")

    def remember(self) -> None:
        """Memory, which is not to grow with the number of cores."""
        for form in ("text", "json"):
            peaks = []
            for count in (_FEW, _MANY):
                herd = self.folder / f"{form}.{count}"
                herd.mkdir()
                for number in range(count):
                    core = self.cores[number % len(self.cores)]
                    (herd / f"core.{number:05}").hardlink_to(core)
                peaks.append(self.run("--depth", "stack", "--format", form, herd).peak_mb)
            print(
                f"{form}: {peaks[0]:.0f} MB for {_FEW} cores, {peaks[1]:.0f} MB for {_MANY:,}, "
                f"{1000 * (peaks[1] - peaks[0]) / (_MANY - _FEW):.1f} kB for each further one"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bugs", type=int, default=20)
    parser.add_argument("--cores", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), chosen.bugs, chosen.cores)
        for _ in range(chosen.runs):
            bench.sort()
            bench.explain()
        bench.remember()
        command = [bench.forensics, "core", *map(str, bench.cores)]
        took_s, used_s = first_result(command)
        print(f"first result after {took_s:.2f} s (bar 0.5), {used_s:.2f} s of processor time")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
