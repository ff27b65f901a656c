#ifndef VLLM_FORENSICS_SUPERVISOR_PYTHON_MEMORY_H_
#define VLLM_FORENSICS_SUPERVISOR_PYTHON_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/memory_reader.h"

namespace forensics {

/// Addresses from `start` to before `end`.
struct MemoryRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

/// A module as ld.so's list names it (link.h).
struct LoadedModule {
  std::uint64_t bias = 0;
  std::uint64_t dynamic = 0;
  std::string name;  // empty for the program itself
};

/// What the stacks of CPython's threads are read from: its thread states, their frames, and of the
/// code that these run the names and the line tables. Nothing where no interpreter is among the
/// modules, or none of a version that is known (python/vllm_forensics/evidence/python_layout.py).
/// Memory that is not as expected ends a list; it is never trusted with a size.
[[nodiscard]] std::vector<MemoryRange> find_python_memory(const MemoryReader& memory,
                                                          const std::vector<LoadedModule>& modules);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_PYTHON_MEMORY_H_
