#ifndef VLLM_FORENSICS_SUPERVISOR_PROCESS_IMAGE_H_
#define VLLM_FORENSICS_SUPERVISOR_PROCESS_IMAGE_H_

#include <elf.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/memory_reader.h"
#include "supervisor/proc_files.h"

namespace forensics {

/// A thread, as far as the choice of pages needs it.
struct ThreadState {
  pid_t tid = 0;
  std::uint64_t program_counter = 0;
  std::uint64_t stack_pointer = 0;
  std::uint64_t thread_pointer = 0;      // fs_base, TPIDR_EL0
  std::vector<std::uint64_t> registers;  // the general ones, in the kernel's order
};

/// A process at the moment of its death; the crashing thread comes first.
struct ProcessImage {
  std::vector<MemoryMap> maps;  // lowest first
  std::vector<ThreadState> threads;
  std::vector<Elf64_auxv_t> auxv;  // getauxval(3)
  std::optional<std::uint64_t> fault_address;
  const MemoryReader* memory = nullptr;  // borrowed

  /// A value of the auxiliary vector; 0 where it holds none.
  [[nodiscard]] std::uint64_t auxiliary(std::uint64_t key) const {
    for (const Elf64_auxv_t& entry : auxv) {
      if (entry.a_type == key) {
        return entry.a_un.a_val;
      }
    }
    return 0;
  }
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_PROCESS_IMAGE_H_
