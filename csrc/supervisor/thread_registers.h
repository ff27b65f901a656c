#ifndef VLLM_FORENSICS_SUPERVISOR_THREAD_REGISTERS_H_
#define VLLM_FORENSICS_SUPERVISOR_THREAD_REGISTERS_H_

#include <elf.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/process_image.h"

namespace forensics {

#if defined(__x86_64__)
inline constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
inline constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "the supervisor knows the registers of x86-64 and aarch64"
#endif

/// All registers of one stopped thread, as PTRACE_GETREGSET gives them.
struct ThreadRegisters {
  std::vector<std::byte> general;   // NT_PRSTATUS: user_regs_struct
  std::vector<std::byte> floating;  // NT_PRFPREG; empty where `extended` begins with it
  std::vector<std::byte> extended;  // NT_X86_XSTATE; on aarch64 NT_ARM_TLS
};

/// The type of the note that `extended` goes into.
inline constexpr std::uint32_t kExtendedNote = kMachine == EM_X86_64
                                                   ? static_cast<std::uint32_t>(NT_X86_XSTATE)
                                                   : static_cast<std::uint32_t>(NT_ARM_TLS);

/// Reads them; nothing if the thread is gone or not stopped.
[[nodiscard]] std::optional<ThreadRegisters> read_registers(pid_t tid);

/// What the choice of pages needs of them.
[[nodiscard]] ThreadState thread_state(pid_t tid, const ThreadRegisters& registers);

/// The same out of the pr_reg of a core's NT_PRSTATUS, of either architecture.
[[nodiscard]] ThreadState thread_state(pid_t tid, std::uint16_t machine, const std::byte* general,
                                       std::size_t size);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_THREAD_REGISTERS_H_
