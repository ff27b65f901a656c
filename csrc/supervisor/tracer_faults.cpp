// Half of the tracer: which faults are the end of a process, and what is written of them.

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/proc_files.h"
#include "supervisor/ptrace_request.h"
#include "supervisor/tracer.h"

namespace forensics {
namespace {

constexpr std::chrono::milliseconds kStopPatience{200};
constexpr std::chrono::milliseconds kHandlerMemory{50};
constexpr std::size_t kMostSnapshots = 256;  // each of about 12 kB

bool contains(std::uint64_t mask, int signal) {
  return ((mask >> static_cast<unsigned int>(signal - 1)) & 1U) != 0;
}

}  // namespace

/// Before the delivery of a signal whose default is to dump core. Where a handler is installed, the
/// program may survive: JVMs, Go and guard pages do, thousands of times a second.
void Tracer::handle_fatal(TracedThread& thread, const siginfo_t& signal) {
  const bool is_raised = signal.si_code <= 0;
  const Disposition known = is_raised ? ask_disposition(thread, signal.si_signo)
                                      : recall_disposition(thread, signal.si_signo);
  if (known == Disposition::ignored) {
    return;
  }
  if (known == Disposition::fatal) {
    capture(thread, signal);
    return;
  }
  std::optional<FaultSnapshot> taken = take_snapshot(thread.process, thread.tid, signal);
  if (!taken) {
    return;
  }
  if (thread.snapshot != nullptr && is_same_place(*thread.snapshot, *taken) &&
      ask_disposition(thread, signal.si_signo) == Disposition::fatal) {
    capture(thread, signal);  // The handler took itself away and returned to the fault.
    return;
  }
  if (thread.snapshot == nullptr || !is_echo(thread, *taken)) {
    remember(thread, std::move(*taken));
  }
}

Tracer::Disposition Tracer::ask_disposition(const TracedThread& thread, int signal) {
  TracedProcess* process = table_.process(thread.process);
  const std::optional<SignalMasks> masks = read_signal_masks(thread.tid);
  process->caught = masks ? masks->caught : 0;
  process->caught_at = Clock::now();
  if (masks && contains(masks->ignored, signal)) {
    return Disposition::ignored;
  }
  return contains(process->caught, signal) ? Disposition::handled : Disposition::fatal;
}

/// Not asked each time: that costs as much as all the rest of a handled fault.
Tracer::Disposition Tracer::recall_disposition(const TracedThread& thread, int signal) {
  const TracedProcess* process = table_.process(thread.process);
  if (contains(process->caught, signal) && Clock::now() - process->caught_at < kHandlerMemory) {
    return Disposition::handled;
  }
  return ask_disposition(thread, signal);
}

/// A handler that raises again, or faults itself, must not displace the fault that it was called
/// for.
bool Tracer::is_echo(const TracedThread& thread, const FaultSnapshot& taken) {
  if (holds_signal_frame(taken.stack, *thread.snapshot)) {
    return true;
  }
  return taken.signal.si_code <= 0 &&
         is_inside_handler(thread.process, thread.tid, *thread.snapshot);
}

void Tracer::remember(TracedThread& thread, FaultSnapshot taken) {
  if (!thread.snapshot) {
    remembered_.push_back(thread.tid);
    if (remembered_.size() > kMostSnapshots) {
      if (TracedThread* oldest = table_.thread(remembered_.front())) {
        oldest->snapshot.reset();
      }
      remembered_.pop_front();
    }
  }
  thread.snapshot = std::make_unique<FaultSnapshot>(std::move(taken));
}

/// The last stop of a thread, its memory still there: for deaths without a stop before delivery, as
/// by seccomp, or by a signal whose handler could not be called.
void Tracer::handle_last_stop(TracedThread& thread) {
  unsigned long message = 0;
  if (::ptrace(PTRACE_GETEVENTMSG, thread.tid, nullptr, &message) != 0) {
    return;
  }
  const auto status = static_cast<int>(message);
  if (!WIFSIGNALED(status) || !is_fatal_kind(WTERMSIG(status))) {
    return;
  }
  siginfo_t signal{};
  signal.si_signo = WTERMSIG(status);
  signal.si_code = SI_KERNEL;
  capture(thread, signal);
}

void Tracer::capture(TracedThread& crashed, const siginfo_t& signal) {
  TracedProcess* process = table_.process(crashed.process);
  if (process == nullptr || process->core_written) {
    return;
  }
  process->core_written = true;  // once: an error will not go away by trying again
  const Clock::time_point begin = Clock::now();
  DyingProcess dying;
  dying.missing_threads = stop_others(crashed);
  const TracedThread* first = find_first_fault(crashed, signal);
  dying.pid = process->pid;
  dying.crashed = first != nullptr ? first->tid : crashed.tid;
  dying.signal = signal;
  dying.snapshot = first != nullptr ? first->snapshot.get() : nullptr;
  events_.fault(process->pid, dying.crashed, first != nullptr ? first->snapshot->signal : signal,
                first != nullptr);
  for (const pid_t tid : process->threads) {
    const TracedThread* other = table_.thread(tid);
    if (tid != dying.crashed && other != nullptr && other->state == TraceState::stopped) {
      dying.others.push_back(tid);
    }
  }
  std::sort(dying.others.begin(), dying.others.end());
  try {
    const WrittenCore core = write_minicore(dying, options_);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    events_.core(dying.pid, core.path, core.bytes, static_cast<std::uint64_t>(spent.count()));
  } catch (const std::exception& error) {
    events_.error(dying.pid, std::string("no minicore was written: ") + error.what());
  }
  dying.others.erase(std::remove(dying.others.begin(), dying.others.end(), crashed.tid),
                     dying.others.end());
  resume_stopped(dying.others);
}

/// Those with a status of their own go on when it is handled.
void Tracer::resume_stopped(const std::vector<pid_t>& tids) {
  for (const pid_t tid : tids) {
    const bool waits = std::any_of(queued_.begin(), queued_.end(),
                                   [&](const auto& entry) { return entry.first == tid; });
    TracedThread* thread = table_.thread(tid);
    if (!waits && thread != nullptr) {
      resume(*thread, 0);
    }
  }
}

/// Somebody wants to see what the program does: a hang leaves no signal.
void Tracer::snapshot_all() {
  for (const pid_t pid : table_.pids()) {
    snapshot(pid);
  }
}

void Tracer::snapshot(pid_t pid) {
  const Clock::time_point begin = Clock::now();
  TracedThread nobody;
  nobody.process = pid;
  DyingProcess living;
  living.pid = pid;
  living.missing_threads = stop_others(nobody);
  std::vector<pid_t> stopped;
  for (const pid_t tid : table_.process(pid)->threads) {
    const TracedThread* thread = table_.thread(tid);
    if (thread != nullptr && thread->state == TraceState::stopped) {
      stopped.push_back(tid);
    }
  }
  std::sort(stopped.begin(), stopped.end());
  // The first thread may have ended before the others.
  const bool has_first = std::binary_search(stopped.begin(), stopped.end(), pid);
  living.crashed = has_first || stopped.empty() ? pid : stopped.front();
  std::copy_if(stopped.begin(), stopped.end(), std::back_inserter(living.others),
               [&](pid_t tid) { return tid != living.crashed; });
  try {
    const WrittenCore core = write_minicore(living, options_);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    events_.snapshot(pid, core.path, core.bytes, static_cast<std::uint64_t>(spent.count()));
  } catch (const std::exception& error) {
    events_.error(pid, std::string("no snapshot was written: ") + error.what());
  }
  resume_stopped(stopped);
}

/// Whose handler is it that sent `signal`, or died in it? Call it while the threads are stopped.
const TracedThread* Tracer::find_first_fault(const TracedThread& thread, const siginfo_t& signal) {
  const auto is_handling = [](const TracedThread* other) {
    return other != nullptr && other->state == TraceState::stopped && other->snapshot != nullptr &&
           is_inside_handler(other->process, other->tid, *other->snapshot);
  };
  if (is_handling(&thread)) {
    return &thread;
  }
  if (signal.si_code > 0 || signal.si_pid != thread.process) {
    return nullptr;
  }
  // The process sent it to itself: perhaps for another thread, whose handler waits for the end.
  for (const pid_t tid : table_.process(thread.process)->threads) {
    if (const TracedThread* other = table_.thread(tid); is_handling(other)) {
      return other;
    }
  }
  return nullptr;
}

/// Stops every other thread of the process, so that memory and registers belong together; returns
/// how many would not stop in time (one that waits for its vfork's child cannot).
std::size_t Tracer::stop_others(const TracedThread& crashed) {
  const TracedProcess* process = table_.process(crashed.process);
  std::vector<pid_t> waited;
  for (const pid_t tid : process->threads) {
    const TracedThread* other = table_.thread(tid);
    if (tid != crashed.tid && other != nullptr && other->state != TraceState::stopped &&
        trace(PTRACE_INTERRUPT, tid) == 0) {
      waited.push_back(tid);
    }
  }
  const Clock::time_point deadline = Clock::now() + kStopPatience;
  std::chrono::microseconds pause{20};
  while (!waited.empty() && Clock::now() < deadline) {
    const auto is_done = [&](pid_t tid) {
      int status = 0;
      const pid_t got = ::waitpid(tid, &status, WNOHANG | __WALL);
      if (got == tid) {
        TracedThread* other = table_.thread(tid);
        const bool is_interrupt = WIFSTOPPED(status) &&
                                  static_cast<unsigned int>(status) >> 16U == PTRACE_EVENT_STOP &&
                                  WSTOPSIG(status) == SIGTRAP;
        if (WIFSTOPPED(status)) {
          other->state = TraceState::stopped;
        }
        if (!is_interrupt) {
          queued_.emplace_back(tid, status);
        }
      }
      return got != 0;
    };
    waited.erase(std::remove_if(waited.begin(), waited.end(), is_done), waited.end());
    if (!waited.empty()) {
      ::usleep(static_cast<useconds_t>(pause.count()));
      pause = std::min<std::chrono::microseconds>(pause * 2, std::chrono::milliseconds{2});
    }
  }
  return waited.size();
}

}  // namespace forensics
