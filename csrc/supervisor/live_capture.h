#ifndef VLLM_FORENSICS_SUPERVISOR_LIVE_CAPTURE_H_
#define VLLM_FORENSICS_SUPERVISOR_LIVE_CAPTURE_H_

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/thread_registers.h"

namespace forensics {

/// What a signal handler is about to overwrite, kept until it is known whether the process
/// survives.
struct FaultSnapshot {
  siginfo_t signal{};
  ThreadRegisters registers;
  std::uint64_t stack_start = 0;
  std::vector<std::byte> stack;
};

/// Takes one of a thread that stopped before a signal's delivery; a few system calls.
[[nodiscard]] std::optional<FaultSnapshot> take_snapshot(pid_t process, pid_t tid,
                                                         const siginfo_t& signal);

/// Does `stack`, from the present stack pointer up, hold the frame that the kernel pushed when it
/// called a handler for `snapshot`? It is recognised by the registers in it.
[[nodiscard]] bool holds_signal_frame(const std::vector<std::byte>& stack,
                                      const FaultSnapshot& snapshot);

/// Is a stopped thread still inside the handler that the snapshot's signal started, or back at the
/// very instruction?
[[nodiscard]] bool is_inside_handler(pid_t process, pid_t tid, const FaultSnapshot& snapshot);

/// Are two moments of a thread at the same instruction and the same depth?
[[nodiscard]] bool is_same_place(const FaultSnapshot& first, const FaultSnapshot& second);

/// Where cores go and what they may hold.
struct CaptureOptions {
  std::string folder;
  std::uint64_t budget = std::uint64_t{64} << 20U;
  bool everything = false;
  bool include_secrets = false;
};

/// A process that died, every thread of it stopped.
struct DyingProcess {
  pid_t pid = 0;
  pid_t crashed = 0;                        // the thread
  std::vector<pid_t> others;                // its other stopped threads
  std::size_t missing_threads = 0;          // those that could not be stopped in time
  siginfo_t signal{};                       // the fatal one
  const FaultSnapshot* snapshot = nullptr;  // borrowed; the first one, if a handler ran since
};

/// A core that was written.
struct WrittenCore {
  std::string path;
  std::uint64_t bytes = 0;
};

/// Writes a minicore. Throws std::exception with the reason.
WrittenCore write_minicore(const DyingProcess& process, const CaptureOptions& options);

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_LIVE_CAPTURE_H_
