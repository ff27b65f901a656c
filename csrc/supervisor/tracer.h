#ifndef VLLM_FORENSICS_SUPERVISOR_TRACER_H_
#define VLLM_FORENSICS_SUPERVISOR_TRACER_H_

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "supervisor/json_events.h"
#include "supervisor/launcher.h"
#include "supervisor/live_capture.h"
#include "supervisor/process_table.h"
#include "supervisor/signal_forwarder.h"

namespace forensics {

/// Runs a program and everything that it starts under ptrace, and writes a minicore of each process
/// that dies of a fatal signal, before it dies.
///
/// Attached by PTRACE_SEIZE without PTRACE_O_EXITKILL: when the supervisor is killed, the kernel
/// detaches and resumes every thread, so that the program runs on, unsupervised.
class Tracer {
 public:
  /// Borrows all, which must outlive this.
  Tracer(Launcher& program, const CaptureOptions& options, const JsonEvents& events);

  /// Returns the program's status as wait(2) gives it. Where ptrace is not permitted, the program
  /// runs all the same, and an event says so.
  int run(const char* command);

 private:
  using Clock = std::chrono::steady_clock;

  /// What will a signal do to a thread?
  enum class Disposition : std::uint8_t { ignored, handled, fatal };

  bool seize();
  void reap();
  void wait_for_signal();
  void handle(pid_t tid, int status);
  void handle_untraced(pid_t pid, int status);
  void handle_end(pid_t tid, int status);
  void handle_event(TracedThread& thread, int event, int signal);
  void handle_signal(TracedThread& thread, int signal);
  void handle_fatal(TracedThread& thread, const siginfo_t& signal);
  Disposition ask_disposition(const TracedThread& thread, int signal);
  Disposition recall_disposition(const TracedThread& thread, int signal);
  void handle_last_stop(TracedThread& thread);
  void handle_exec(pid_t pid);
  void handle_birth(const TracedThread& parent, int event);
  TracedThread& adopt(pid_t tid);
  void announce(pid_t process, pid_t parent);

  void capture(TracedThread& crashed, const siginfo_t& signal);
  void snapshot_all();
  void snapshot(pid_t pid);
  void resume_stopped(const std::vector<pid_t>& tids);
  std::size_t stop_others(const TracedThread& crashed);
  [[nodiscard]] const TracedThread* find_first_fault(const TracedThread& thread,
                                                     const siginfo_t& signal);
  [[nodiscard]] static bool is_echo(const TracedThread& thread, const FaultSnapshot& taken);
  void remember(TracedThread& thread, FaultSnapshot taken);
  void resume(TracedThread& thread, int signal);
  void stop_with_program();

  Launcher& launcher_;
  const CaptureOptions& options_;
  const JsonEvents& events_;
  pid_t root_;
  bool traced_ = false;
  bool ended_ = false;
  int root_status_ = 0;
  std::optional<std::uint64_t> oom_kills_;
  ProcessTable table_;
  SignalForwarder forwarder_;
  std::deque<std::pair<pid_t, int>> queued_;  // seen while a core was written
  std::deque<pid_t> remembered_;              // who has a snapshot, the oldest first
  std::optional<Clock::time_point> stop_wanted_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_TRACER_H_
