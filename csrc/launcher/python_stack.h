#ifndef VLLM_FORENSICS_LAUNCHER_PYTHON_STACK_H_
#define VLLM_FORENSICS_LAUNCHER_PYTHON_STACK_H_

namespace forensics {

/// What FORENSICS_REPORTS says the reports' paths begin with; empty where nobody asked.
[[nodiscard]] const char* report_prefix();

/// Opens PREFIX.PID and the suffix for appending; -1 where that cannot be, or nobody asked. It
/// enters no interceptor of a sanitizer that is in the middle of a report.
[[nodiscard]] int open_beside_report(const char* suffix);

/// Does CPython hide the function that writes the stacks? It does since 3.13.
[[nodiscard]] bool needs_faulthandler();

/// Says that faulthandler writes every thread's stack to `fd` when this thread gets `signal`. The
/// descriptor is of /dev/null, and is so again after each stack.
void use_faulthandler(int fd, int signal);

/// Appends the Python stack of every thread to PREFIX.PID.python, below a line that names the
/// sanitizer. Fit for a signal handler.
void write_python_stack(const char* sanitizer);

}  // namespace forensics

#endif  // VLLM_FORENSICS_LAUNCHER_PYTHON_STACK_H_
