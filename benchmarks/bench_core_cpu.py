"""CPU of `forensics core` for one core, as a ratio of `gdb -nx -batch -ex bt` on the same core.

    python benchmarks/bench_core_cpu.py [--runs 5] [--forensics 'CMD']

Both are measured in turns in one run: user and system time of the whole process tree, the median
of the runs. What a bare Python costs to start is taken off ours, once. The bar is 1.25. Also
`forensics --help`, whose bar is 0.15 s of CPU.
"""

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.measure import used_by

from vllm_forensics.capture.crash import run_for_core
from vllm_forensics.capture.host import cores_in_working_directory

NATIVE = """
#include <cstring>
#include <memory>
#include <vector>
struct Block { char* bytes; char* data() { return bytes; } };
struct Cache {
  std::vector<std::unique_ptr<Block>> blocks;
  __attribute__((noinline)) void copy(int from, int to) {
    std::memcpy(blocks[to]->data(), blocks[from]->data(), 64);
  }
};
extern "C" void crash() {
  Cache cache;
  for (int i = 0; i < 3; ++i) cache.blocks.push_back(std::make_unique<Block>());
  cache.blocks[0].reset();
  cache.copy(0, 1);
}
#ifdef PROGRAM
int main() { crash(); }
#endif
"""


def make_cores(folder: Path) -> dict[str, tuple[str, str]]:
    """Real crashes: a small program, Python with a module, Python with many mapped modules."""
    source = folder / "crash.cpp"
    source.write_text(NATIVE)
    subprocess.run(
        ["g++", "-g", "-O1", "-DPROGRAM", str(source), "-o", str(folder / "small")], check=True
    )
    module = folder / "crash.so"
    subprocess.run(
        ["g++", "-g", "-O1", "-shared", "-fPIC", str(source), "-o", str(module)], check=True
    )
    python = os.path.realpath(sys.executable)
    call = f"import ctypes; ctypes.CDLL({str(module)!r}).crash()"
    fat = (
        "import glob, sys, sysconfig, importlib, numpy, numpy.linalg, numpy.random, numpy.fft\n"
        "for path in glob.glob(sysconfig.get_path('platstdlib') + '/lib-dynload/*.so'):\n"
        "    name = path.rsplit('/', 1)[1].split('.')[0]\n"
        "    if 'test' not in name:\n"
        "        try: importlib.import_module(name)\n"
        "        except Exception: pass\n" + call.replace("; ", "\n")
    )
    runs = {
        "small C++ program": [str(folder / "small")],
        "Python and a module": [sys.executable, "-c", call],
        "Python, many modules": [sys.executable, "-c", fat],
    }
    cores = {}
    with cores_in_working_directory() as kernel_writes:
        for number, (name, command) in enumerate(runs.items()):
            place = folder / f"run{number}"
            place.mkdir()
            crashed = run_for_core(command, place, kernel_writes=kernel_writes)
            if crashed.core is None:
                sys.exit(f"{name}: no core: {crashed.completed.stderr.decode()[-400:]}")
            cores[name] = (command[0] if number == 0 else python, str(crashed.core))
    return cores


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--forensics", default=shutil.which("forensics") or "forensics")
    chosen = parser.parse_args()
    forensics = shlex.split(chosen.forensics)
    with tempfile.TemporaryDirectory() as folder:
        cores = make_cores(Path(folder))
        python_start = statistics.median(
            used_by([sys.executable, "-c", "pass"]).cpu_s for _ in range(chosen.runs)
        )
        used_by([*forensics, "core", *(core for _, core in cores.values())])
        print(f"bare Python: {python_start:.3f} s of CPU, taken off below")
        print(f"{'core of':<22}{'gdb bt':>9}{'text':>9}{'ratio':>7}{'json':>9}{'ratio':>7}")
        for name, (program, core) in cores.items():
            gdb, text, json = [], [], []
            for _ in range(chosen.runs):
                gdb.append(used_by(["gdb", "-nx", "-batch", "-ex", "bt", program, core]).cpu_s)
                text.append(used_by([*forensics, "core", core]).cpu_s - python_start)
                wire_command = [*forensics, "core", "--format", "json", core]
                json.append(used_by(wire_command).cpu_s - python_start)
            peer, ours, wire = (statistics.median(found) for found in (gdb, text, json))
            as_text = f"{ours:>8.3f}s{ours / peer:>7.2f}"
            as_json = f"{wire:>8.3f}s{wire / peer:>7.2f}"
            print(f"{name:<22}{peer:>8.3f}s{as_text}{as_json}")
        helped = statistics.median(
            used_by([*forensics, "--help"]).cpu_s for _ in range(chosen.runs)
        )
        print(f"forensics --help: {helped:.3f} s of CPU (bar 0.15)")


if __name__ == "__main__":
    main()
