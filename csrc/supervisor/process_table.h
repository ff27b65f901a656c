#ifndef VLLM_FORENSICS_SUPERVISOR_PROCESS_TABLE_H_
#define VLLM_FORENSICS_SUPERVISOR_PROCESS_TABLE_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "supervisor/live_capture.h"

namespace forensics {

/// Where a traced thread is, as its tracer knows it.
enum class TraceState : unsigned char { running, stopped, listening };

/// One traced thread.
struct TracedThread {
  pid_t tid = 0;
  pid_t process = 0;
  TraceState state = TraceState::running;
  std::unique_ptr<FaultSnapshot> snapshot;  // of the last fault that a handler took
};

/// One process of the tree.
struct TracedProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::vector<std::string> arguments;
  std::unordered_set<pid_t> threads;
  bool core_written = false;
  // The signals for which a handler was seen, and when: asked again after a moment.
  std::uint64_t caught = 0;
  std::chrono::steady_clock::time_point caught_at;
};

/// Who is traced: threads by their id, and the processes that they belong to.
class ProcessTable {
 public:
  /// Adds a thread, and its process if it is the first of it; does nothing if it is there.
  TracedThread& add(pid_t tid, pid_t process, pid_t parent);

  /// Removes a thread; the process goes when `tid` is its id, with whatever threads are left.
  void remove(pid_t tid);

  /// After an exec `process` has one thread, which bears the process's id.
  void collapse(pid_t process);

  [[nodiscard]] TracedThread* thread(pid_t tid);
  [[nodiscard]] TracedProcess* process(pid_t pid);
  [[nodiscard]] std::vector<pid_t> pids() const;
  [[nodiscard]] std::size_t size() const { return threads_.size(); }

 private:
  std::unordered_map<pid_t, TracedThread> threads_;
  std::unordered_map<pid_t, TracedProcess> processes_;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_PROCESS_TABLE_H_
