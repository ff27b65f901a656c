"""Small programs that are made and crashed on the spot, for what the victims do not cover."""

import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.py.integration.victim_cases import core_pattern_for_cwd, run_tool

# Maps the files that its arguments name, removes them if it is told to, then writes through null.
FALLING = """\
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#ifndef FALL
#define FALL fall
#endif
namespace planted {
__attribute__((noinline)) void FALL(int* volatile where) {
  *where = 1;  // line 10
  asm volatile("");
}
}  // namespace planted
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const int file = open(argv[i], O_RDONLY);
    if (file >= 0) mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    if (getenv("UNLINK") != nullptr) unlink(argv[i]);
  }
  planted::FALL(reinterpret_cast<int*>(0x18));
}
"""
FALLING_LINE = 10
FALLING_ADDRESS = "0x18"
FALLING_FUNCTION = "planted::fall"


def compile_program(source: str, target: Path, *flags: str) -> Path:
    """Compile C++ with debug information, from a file beside the target."""
    file = target.with_name("planted.cpp")
    file.write_text(source, encoding="utf-8")
    run_tool(("g++", "-g", "-O1", "-pthread", *flags, str(file), "-o", str(target)))
    return target


def leave_core(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    dies_of: signal.Signals = signal.SIGSEGV,
    timeout_s: float = 60,
) -> Path:
    """Run a program in the folder until the signal ends it, and return its core."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    with core_pattern_for_cwd():
        done = subprocess.run(
            ("prlimit", "--core=unlimited:", *command),
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    said = f"status {done.returncode}, hard core limit {hard}: {done.stdout!r} {done.stderr!r}"
    assert done.returncode == -dies_of, said
    cores = [path for path in folder.glob("core*") if path not in before]
    assert len(cores) == 1, said
    return cores[0].rename(folder / f"core of {len(before)}")
