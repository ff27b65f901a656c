#ifndef VLLM_FORENSICS_SUPERVISOR_LAUNCHER_H_
#define VLLM_FORENSICS_SUPERVISOR_LAUNCHER_H_

#include <sys/types.h>

#include <csignal>

#include "supervisor/unique_fd.h"

namespace forensics {

/// The signals that the supervisor takes by sigwaitinfo: all but those that its own faults raise.
[[nodiscard]] sigset_t awaited_signals();

/// A program that was forked and waits, before its exec, for the word to go on. If the supervisor
/// dies meanwhile, it goes on.
class Launcher {
 public:
  /// Blocks the awaited signals here; the program gets the mask that was there before.
  /// Afterwards the supervisor holds none of the files that it was started with, but for `keep`.
  /// `command` is an argument vector that ends in a null pointer. Throws std::system_error.
  Launcher(char* const* command, int keep);

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Lets the program begin.
  void release();

 private:
  pid_t pid_ = 0;
  UniqueFd go_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_LAUNCHER_H_
