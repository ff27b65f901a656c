#include "supervisor/thread_registers.h"

#include <sys/ptrace.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace forensics {
namespace {

// AVX-512 takes 2.7 kB, AMX 11 kB.
constexpr std::size_t kLargestSet = std::size_t{1} << 14U;
constexpr std::size_t kLegacyFloating = 512;  // FXSAVE's image, at the front of XSAVE's

/// Places in user_regs_struct, in words.
struct Layout {
  std::size_t registers;
  std::size_t program_counter;
  std::size_t stack_pointer;
  std::size_t thread_pointer;  // behind the last one: not among the general registers
};
constexpr Layout kX86{27, 16, 19, 21};
constexpr Layout kArm{34, 32, 31, 34};

std::vector<std::byte> read_set(pid_t tid, std::uint32_t type) {
  std::array<std::byte, kLargestSet> buffer;  // NOLINT: the kernel fills it
  iovec target{buffer.data(), buffer.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace(2) takes the type as its address
  if (::ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(std::uintptr_t{type}), &target) !=
      0) {
    return {};
  }
  return {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(target.iov_len)};
}

}  // namespace

std::optional<ThreadRegisters> read_registers(pid_t tid) {
  ThreadRegisters registers;
  registers.general = read_set(tid, NT_PRSTATUS);
  if (registers.general.empty()) {
    return std::nullopt;
  }
  registers.extended = read_set(tid, kExtendedNote);
  if (kMachine == EM_X86_64 && registers.extended.size() >= kLegacyFloating) {
    registers.floating.assign(
        registers.extended.begin(),
        registers.extended.begin() + static_cast<std::ptrdiff_t>(kLegacyFloating));
  } else {
    registers.floating = read_set(tid, NT_PRFPREG);
  }
  return registers;
}

ThreadState thread_state(pid_t tid, std::uint16_t machine, const std::byte* general,
                         std::size_t size) {
  const Layout& layout = machine == EM_X86_64 ? kX86 : kArm;
  ThreadState state;
  state.tid = tid;
  state.registers.resize(std::min(size / sizeof(std::uint64_t), layout.registers));
  std::memcpy(state.registers.data(), general, state.registers.size() * sizeof(std::uint64_t));
  if (state.registers.size() == layout.registers) {
    state.program_counter = state.registers[layout.program_counter];
    state.stack_pointer = state.registers[layout.stack_pointer];
    if (layout.thread_pointer < layout.registers) {
      state.thread_pointer = state.registers[layout.thread_pointer];
    }
  }
  return state;
}

ThreadState thread_state(pid_t tid, const ThreadRegisters& registers) {
  ThreadState state =
      thread_state(tid, kMachine, registers.general.data(), registers.general.size());
  if (kMachine == EM_AARCH64 && registers.extended.size() >= sizeof state.thread_pointer) {
    std::memcpy(&state.thread_pointer, registers.extended.data(), sizeof state.thread_pointer);
  }
  return state;
}

}  // namespace forensics
