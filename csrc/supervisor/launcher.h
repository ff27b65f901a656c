#ifndef VLLM_FORENSICS_SUPERVISOR_LAUNCHER_H_
#define VLLM_FORENSICS_SUPERVISOR_LAUNCHER_H_

#include <sys/types.h>

#include <csignal>
#include <string>

#include "supervisor/unique_fd.h"

namespace forensics {

/// The signals that the supervisor takes by sigwaitinfo: all but those that its own faults raise.
[[nodiscard]] sigset_t awaited_signals();

/// A program that was forked and waits, before its exec, for the word to go on. If the supervisor
/// dies meanwhile, it goes on.
class Launcher {
 public:
  /// Blocks the awaited signals here; the program gets the mask that was there before.
  /// `command` is an argument vector that ends in a null pointer. Throws std::system_error.
  explicit Launcher(char* const* command);

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Lets the program begin.
  void release();

  /// The errno of an exec that failed, 0 if it did not. Call it once the child has ended.
  [[nodiscard]] int exec_error() const;

 private:
  pid_t pid_ = 0;
  UniqueFd go_;
  UniqueFd failure_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_LAUNCHER_H_
