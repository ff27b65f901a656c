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
# Twenty bugs, each of its own function, chosen by the argument; the depth is the bug's number + 3.
HERD = """\
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
struct Block { int id; std::vector<double> data; Block* next; };
using Blocks = std::vector<std::unique_ptr<Block>>;
#define BUG(N) __attribute__((noinline)) int step##N(Blocks& blocks, int depth) { \\
  if (depth > 0) return step##N(blocks, depth - 1) + 1; \\
  Block* block = blocks[N % blocks.size()].get(); \\
  if (N % 3 == 0) return block->next->id; \\
  if (N % 3 == 1) throw std::runtime_error("bug " + std::to_string(N)); \\
  abort(); \\
}
BUG(0) BUG(1) BUG(2) BUG(3) BUG(4) BUG(5) BUG(6) BUG(7) BUG(8) BUG(9)
BUG(10) BUG(11) BUG(12) BUG(13) BUG(14) BUG(15) BUG(16) BUG(17) BUG(18) BUG(19)
int main(int, char** arguments) {
  using Step = int (*)(Blocks&, int);
  const Step steps[] = {step0, step1, step2, step3, step4, step5, step6, step7, step8, step9,
                        step10, step11, step12, step13, step14, step15, step16, step17, step18,
                        step19};
  Blocks blocks;
  for (int id = 0; id < 5; ++id) {
    blocks.push_back(std::make_unique<Block>(Block{id, {1, 2, 3}, nullptr}));
  }
  const int bug = atoi(arguments[1]);
  return steps[bug](blocks, 3 + bug);
}
"""
# Two functions that call each other until the stack is full.
RECURSION = """\
#include <cstdint>
volatile std::uint64_t sink;
std::uint64_t descend(std::uint64_t depth);
__attribute__((noinline)) std::uint64_t climb(std::uint64_t depth) {
  return descend(depth + 1) + sink;
}
__attribute__((noinline)) std::uint64_t descend(std::uint64_t depth) {
  return climb(depth + 1) + sink;
}
int main() { return static_cast<int>(climb(0)); }
"""
DEEP_FLAGS = ("-fno-optimize-sibling-calls", "-fno-inline", "-fno-ipa-cp")
# One of 201 threads writes through a bad pointer.
THREADS = """\
#include <chrono>
#include <thread>
#include <vector>
__attribute__((noinline)) void write_late(long* volatile where) {
  *where = 1;  // line 5
}
int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i)
    threads.emplace_back([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::thread bad([] { write_late(reinterpret_cast<long*>(0x7000)); });
  bad.join();
}
"""
# Maps 16 GiB, touches two pages of them, then reads where nothing is mapped.
SPARSE = """\
#include <cstddef>
#include <sys/mman.h>
int main(int argc, char**) {
  constexpr std::size_t kSize = std::size_t{16} << 30;
  char* const memory = static_cast<char*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) return 1;
  madvise(memory, kSize, MADV_NOHUGEPAGE);
  memory[0] = memory[kSize - 1] = 1;
  *reinterpret_cast<volatile char*>(0x123456780000 + argc - 1) = memory[kSize - 1];  // line 10
}
"""
# The same in 16,384 pieces, of which each is three mappings, and a file in every second gap.
REGIONS = """\
#include <cstddef>
#include <fcntl.h>
#include <sys/mman.h>
int main(int argc, char** arguments) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const int file = open(arguments[0], O_RDONLY);
  char* memory = nullptr;
  for (int at = 0; at < 16384; ++at) {
    void* const mapped = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return 1;
    memory = static_cast<char*>(mapped);
    madvise(memory, kPiece, MADV_NOHUGEPAGE);
    memory[0] = 1;
    mprotect(memory + kPiece / 2, 4096, PROT_READ);
    if (at % 2 == 0 && mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) return 2;
  }
  *reinterpret_cast<volatile char*>(0x123456780000 + argc - 1) = *memory;
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
