"""CPU of `forensics core` for one core of a large process, beside gdb and pystack, in one run.

    python benchmarks/bench_core_single.py [--runs 3] [--core PROGRAM CORE]

Two processes that map 280 libraries with debug information, a C++ program and a Python: the whole
answer and the stacks alone, as a ratio of `gdb -nx -batch -ex bt` (bars 0.35, with Python frames
0.55, stacks 0.2). Three Pythons: what the stacks cost beyond the notes, as a ratio of `pystack core
--native` (bar 1.5). A core that is named, or that ./dev test-vllm left of a vLLM's worker, beside
gdb (bar 0.15). CPU is the user's and the system's of the whole tree, the median of runs in turns;
what a bare Python costs to start is taken off ours and pystack's.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.measure import used_by

from vllm_forensics.capture.crash import run_for_core
from vllm_forensics.capture.host import cores_in_working_directory

LIBRARIES = 280
PART = """
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
struct Block { std::vector<float> keys; char* bytes; char* data() { return bytes; } };
struct Cache {
  std::vector<std::unique_ptr<Block>> blocks;
  std::unordered_map<std::string, int> owners;
  std::map<int, std::function<void(Block&)>> hooks;
  std::mutex lock;
  __attribute__((noinline)) void copy(int from, int to) {
    std::memcpy(blocks[to]->data(), blocks[from]->data(), 64);
  }
};
extern "C" __attribute__((noinline)) int count(Cache* cache) {
  const std::lock_guard<std::mutex> guard(cache->lock);
  cache->owners["request"] = static_cast<int>(cache->blocks.size());
  cache->hooks[0] = [](Block& block) { std::cerr << block.keys.size() << '\\n'; };
  std::thread worker([&] { cache->hooks[0](*cache->blocks[1]); });
  worker.join();
  return cache->owners.begin()->second;
}
extern "C" void crash() {
  Cache cache;
  for (int i = 0; i < 3; ++i) cache.blocks.push_back(std::make_unique<Block>());
  count(&cache);
  cache.blocks[0].reset();
  cache.copy(0, 1);
}
"""
HOST = """
#include <dlfcn.h>
int main(int count, char** arguments) {
  void* last = nullptr;
  for (int i = 1; i < count; ++i) last = dlopen(arguments[i], RTLD_NOW);
  reinterpret_cast<void (*)()>(dlsym(last, "crash"))();
}
"""
PYTHON_HOST = """
import ctypes, sys
libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
def step():
    libraries[-1].crash()
step()
"""
TINY = "import ctypes\ndef read():\n    ctypes.string_at(0x10)\nread()\n"
NUMERIC = "import numpy, numpy.linalg, numpy.random, numpy.fft\n" + TINY
WORKER = Path(__file__).parents[1] / "build" / "vllm" / "worker"
PYTHON = os.path.realpath(sys.executable)


def make_libraries(folder: Path) -> list[str]:
    """Libraries of one object, each a build of its own."""
    (folder / "part.cpp").write_text(PART)
    compiled = folder / "part.o"
    source = str(folder / "part.cpp")
    subprocess.run(["g++", "-g", "-O1", "-fPIC", "-c", source, "-o", compiled], check=True)
    made = [str(folder / f"libpart{number}.so") for number in range(LIBRARIES)]
    for number, library in enumerate(made):
        name = f"-Wl,-soname,libpart{number}.so,--build-id=0x{number + 4096:040x}"
        subprocess.run(["g++", "-shared", compiled, name, "-o", library], check=True)
    return made


def make_cores(folder: Path) -> dict[str, tuple[str, str]]:
    """The program and the core of each crash, by name."""
    libraries = make_libraries(folder)
    (folder / "host.cpp").write_text(HOST)
    host = str(folder / "host")
    subprocess.run(["g++", "-g", "-O1", str(folder / "host.cpp"), "-o", host], check=True)
    scripts = {"python280.py": PYTHON_HOST, "tiny.py": TINY, "numeric.py": NUMERIC}
    for name, text in scripts.items():
        (folder / name).write_text(text)
    runs = {
        "C++, 280 libraries": [host, *libraries],
        "Python, 280 libraries": [sys.executable, str(folder / "python280.py"), *libraries],
        "Python alone": [sys.executable, str(folder / "tiny.py")],
        "Python with numpy": [sys.executable, str(folder / "numeric.py")],
    }
    cores = {}
    with cores_in_working_directory() as kernel_writes:
        for number, (name, command) in enumerate(runs.items()):
            crashed = run_for_core(command, folder / f"run{number}", kernel_writes=kernel_writes)
            if crashed.core is None:
                sys.exit(f"{name}: no core: {crashed.completed.stderr.decode()[-400:]}")
            program = host if command[0] == host else PYTHON
            cores[name] = (program, str(crashed.core))
    return cores


def medians(runs: int, commands: dict[str, list[str]], start: float) -> dict[str, float]:
    """The median CPU of each command, in turns; `start` is taken off all but gdb."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            found[name].append(used_by(command).cpu_s - (0.0 if name == "gdb" else start))
    return {name: statistics.median(each) for name, each in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--core", nargs=2, metavar=("PROGRAM", "CORE"))
    chosen = parser.parse_args()
    beside = Path(sys.executable).parent
    forensics = shutil.which("forensics", path=f"{beside}:{os.environ['PATH']}") or "forensics"
    pystack = shutil.which("pystack", path=f"{beside}:{os.environ['PATH']}") or "pystack"

    def commands(program: str, core: str) -> dict[str, list[str]]:
        return {
            "gdb": ["gdb", "-nx", "-batch", "-ex", "bt", program, core],
            "whole": [forensics, "core", core],
            "stacks": [forensics, "core", "--depth", "stack", core],
            "notes": [forensics, "core", "--depth", "notes", core],
            "pystack": [pystack, "core", "--native", core, program],
        }

    with tempfile.TemporaryDirectory() as name:
        cores = make_cores(Path(name))
        start = statistics.median(
            used_by([sys.executable, "-c", "pass"]).cpu_s for _ in range(chosen.runs)
        )
        print(f"bare Python: {start:.3f} s of CPU, taken off below")
        for title, (program, core) in cores.items():
            wanted = commands(program, core)
            if program != PYTHON:
                del wanted["pystack"]
            found = medians(chosen.runs, wanted, start)
            large = 0.55 if program == PYTHON else 0.35
            _print_crash(title, found, bar=large if str(LIBRARIES) in title else None)
        own = _worker(chosen.core)
        if own is not None:
            _print_crash(f"core of {own[0]}", medians(1, commands(*own), start), bar=0.15)


def _worker(named: list[str] | None) -> tuple[str, str] | None:
    """The program and the core that were named, or those that the tests with a vLLM left."""
    if named is not None:
        return named[0], named[1]
    core, program = WORKER / "core", WORKER / "program"
    return (os.path.realpath(program), str(core)) if core.exists() and program.exists() else None


def _print_crash(title: str, found: dict[str, float], *, bar: float | None) -> None:
    gdb = found["gdb"]
    show: Callable[[str], str] = lambda name: f"{found[name]:.3f} s, {found[name] / gdb:.2f}"  # noqa: E731
    print(f"{title}: gdb {gdb:.3f} s")
    bars = ("", "") if bar is None else (f" (bar {bar})", " (bar 0.2)")
    print(f"  whole answer {show('whole')} of gdb's{bars[0]}")
    print(f"  --depth stack {show('stacks')} of gdb's{bars[1]}")
    if "pystack" in found:
        alone = found["stacks"] - found["notes"]
        ratio = alone / found["pystack"]
        print(f"  stacks beyond the notes {alone:.3f} s, {ratio:.2f} of pystack's (bar 1.5)")


if __name__ == "__main__":
    main()
