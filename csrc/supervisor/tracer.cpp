#include "supervisor/tracer.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "supervisor/proc_files.h"

namespace forensics {
namespace {

constexpr std::chrono::milliseconds kStopPatience{200};
constexpr std::chrono::seconds kStopMemory{10};
constexpr std::chrono::milliseconds kHandlerMemory{50};
constexpr std::size_t kMostSnapshots = 256;  // each of about 12 kB

constexpr long kOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                          PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;

template <typename Request>
long trace(Request request, pid_t tid, long data = 0) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace(2) takes numbers as its pointers
  return ::ptrace(request, tid, nullptr, reinterpret_cast<void*>(data));
}

bool is_fatal_kind(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGTRAP:
    case SIGABRT:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

bool is_stop(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

bool contains(std::uint64_t mask, int signal) {
  return ((mask >> static_cast<unsigned int>(signal - 1)) & 1U) != 0;
}

bool exists_in(pid_t process, pid_t tid) {
  const std::string path = "/proc/" + std::to_string(process) + "/task/" + std::to_string(tid);
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

Tracer::Tracer(Launcher& program, const CaptureOptions& options, const JsonEvents& events)
    : launcher_(program),
      options_(options),
      events_(events),
      root_(program.pid()),
      traced_(seize()),
      oom_kills_(read_oom_kills()),
      forwarder_(root_, traced_) {}

bool Tracer::seize() {
  // Orphans of the tree come to us, and their ends are seen.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (trace(PTRACE_SEIZE, root_, kOptions) == 0) {
    return true;
  }
  events_.error(root_, std::string("ptrace is not permitted here (") + std::strerror(errno) +
                           "): the program runs without a supervisor, no minicore will be written");
  return false;
}

int Tracer::run(const char* command) {
  table_.add(root_, root_, ::getpid());
  TracedProcess* root = table_.process(root_);
  root->arguments = {command};
  events_.start(root_, ::getpid(), root->arguments);
  launcher_.release();
  while (!ended_) {
    reap();
    if (!ended_) {
      wait_for_signal();
    }
  }
  return root_status_;
}

/// Takes every status that is there, without waiting.
void Tracer::reap() {
  for (;;) {
    int status = 0;
    pid_t tid = 0;
    if (!queued_.empty()) {
      std::tie(tid, status) = queued_.front();
      queued_.pop_front();
    } else {
      tid = ::waitpid(-1, &status, WNOHANG | __WALL | (traced_ ? 0 : WUNTRACED));
    }
    if (tid <= 0) {
      return;
    }
    if (traced_) {
      handle(tid, status);
    } else {
      handle_untraced(tid, status);
    }
  }
}

void Tracer::wait_for_signal() {
  const sigset_t set = awaited_signals();
  siginfo_t signal{};
  const auto due = forwarder_.next_due();
  int got = 0;
  if (due) {
    const auto left = std::max<std::chrono::nanoseconds>(*due - Clock::now(), {});
    const timespec time{0, std::min<long>(left.count(), 999'999'999)};
    got = ::sigtimedwait(&set, &signal, &time);
  } else {
    got = ::sigwaitinfo(&set, &signal);
  }
  forwarder_.send_due();
  if (got <= 0 || got == SIGCHLD) {
    return;
  }
  if (got == SIGUSR2 && traced_) {
    snapshot_all();
    return;
  }
  if (is_stop(got)) {
    stop_wanted_ = Clock::now();
    const TracedThread* root = table_.thread(root_);
    if (root != nullptr && root->state == TraceState::listening) {
      stop_with_program();
    }
  } else if (got == SIGCONT) {
    stop_wanted_.reset();
  }
  forwarder_.received(signal);
}

void Tracer::handle_untraced(pid_t pid, int status) {
  if (WIFSTOPPED(status)) {
    if (pid == root_) {
      table_.thread(root_)->state = TraceState::listening;
      stop_with_program();
    }
    return;
  }
  handle_end(pid, status);
}

void Tracer::handle(pid_t tid, int status) {
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    handle_end(tid, status);
    return;
  }
  if (!WIFSTOPPED(status)) {
    return;
  }
  const int signal = WSTOPSIG(status);
  const int event = static_cast<int>(static_cast<unsigned int>(status) >> 16U);
  if (event == PTRACE_EVENT_EXEC) {
    handle_exec(tid);
    return;
  }
  TracedThread& thread = adopt(tid);
  thread.state = TraceState::stopped;
  if (event != 0) {
    handle_event(thread, event, signal);
  } else {
    handle_signal(thread, signal);
  }
}

void Tracer::handle_end(pid_t tid, int status) {
  const TracedThread* thread = table_.thread(tid);
  const bool is_process = thread == nullptr || thread->process == tid;
  if (is_process && (thread != nullptr || tid == root_)) {
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    events_.exit(tid, status, killed ? oom_kills_ : std::nullopt,
                 killed ? read_oom_kills() : std::nullopt);
  }
  table_.remove(tid);
  if (tid == root_) {
    root_status_ = status;
    ended_ = true;
  }
}

void Tracer::handle_event(TracedThread& thread, int event, int signal) {
  switch (event) {
    case PTRACE_EVENT_STOP:
      if (is_stop(signal)) {  // a group stop: it stays stopped, and SIGCONT is seen
        thread.state = TraceState::listening;
        trace(PTRACE_LISTEN, thread.tid);
        if (thread.tid == root_) {
          stop_with_program();
        }
        return;
      }
      break;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
      handle_birth(thread, event);
      break;
    case PTRACE_EVENT_EXIT:
      handle_last_stop(thread);
      break;
    default:
      break;
  }
  resume(thread, 0);
}

void Tracer::handle_birth(const TracedThread& parent, int event) {
  unsigned long message = 0;
  if (::ptrace(PTRACE_GETEVENTMSG, parent.tid, nullptr, &message) != 0) {
    return;
  }
  const auto tid = static_cast<pid_t>(message);
  if (tid == 0 || table_.thread(tid) != nullptr) {
    return;
  }
  // clone(2) makes threads, and processes whose end sends another signal than SIGCHLD.
  const bool is_thread = event == PTRACE_EVENT_CLONE && exists_in(parent.process, tid);
  const pid_t process = is_thread ? parent.process : tid;
  const pid_t maker = parent.process;
  table_.add(tid, process, maker);
  if (!is_thread) {
    announce(tid, maker);
  }
}

/// A thread may stop for the first time before its parent's event tells of it.
TracedThread& Tracer::adopt(pid_t tid) {
  if (TracedThread* known = table_.thread(tid)) {
    return *known;
  }
  const Kinship kin = read_kinship(tid).value_or(Kinship{tid, 0});
  const bool is_new = table_.process(kin.process) == nullptr;
  TracedThread& thread = table_.add(tid, kin.process, kin.parent);
  if (is_new) {
    announce(kin.process, kin.parent);
  }
  return thread;
}

void Tracer::announce(pid_t process, pid_t parent) {
  TracedProcess* child = table_.process(process);
  const TracedProcess* maker = table_.process(parent);
  if (maker != nullptr) {
    child->arguments = maker->arguments;
  }
  events_.start(process, parent, child->arguments);
}

void Tracer::handle_exec(pid_t pid) {
  adopt(pid);
  table_.collapse(pid);
  if (events_.is_on()) {
    TracedProcess* process = table_.process(pid);
    process->arguments = read_arguments(pid);
    events_.exec(pid, process->arguments);
  }
  resume(*table_.thread(pid), 0);
}

void Tracer::handle_signal(TracedThread& thread, int signal) {
  siginfo_t info{};
  const bool is_fatal = is_fatal_kind(signal);
  if (is_fatal || thread.process == root_) {
    if (::ptrace(PTRACE_GETSIGINFO, thread.tid, nullptr, &info) == 0) {
      if (thread.process == root_) {
        forwarder_.saw_delivery(info);
      }
      if (is_fatal) {
        handle_fatal(thread, info);
      }
    }
  }
  resume(thread, signal);
}

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

void Tracer::resume(TracedThread& thread, int signal) {
  thread.state = TraceState::running;
  trace(PTRACE_CONT, thread.tid, signal);
}

/// A terminal's Ctrl-Z reaches the whole group. The program stopped first; now the shell must see
/// us stop, as it would see the program.
void Tracer::stop_with_program() {
  if (stop_wanted_ && Clock::now() - *stop_wanted_ < kStopMemory) {
    stop_wanted_.reset();
    ::raise(SIGSTOP);
    if (!traced_) {
      table_.thread(root_)->state = TraceState::running;
    }
  }
}

}  // namespace forensics
