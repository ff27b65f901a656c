#include "supervisor/tracer.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "supervisor/proc_files.h"
#include "supervisor/ptrace_request.h"

namespace forensics {
namespace {

constexpr std::chrono::seconds kStopMemory{10};

constexpr long kOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                          PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;

bool is_stop(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
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
