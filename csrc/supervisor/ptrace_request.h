#ifndef VLLM_FORENSICS_SUPERVISOR_PTRACE_REQUEST_H_
#define VLLM_FORENSICS_SUPERVISOR_PTRACE_REQUEST_H_

#include <sys/ptrace.h>
#include <sys/types.h>

#include <csignal>

namespace forensics {

/// ptrace(2) with a number for its data, and no address.
template <typename Request>
long trace(Request request, pid_t tid, long data = 0) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace(2) takes numbers as its pointers
  return ::ptrace(request, tid, nullptr, reinterpret_cast<void*>(data));
}

/// Is this a signal of a fault, whose default is to dump core?
[[nodiscard]] inline bool is_fatal_kind(int signal) {
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

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_PTRACE_REQUEST_H_
