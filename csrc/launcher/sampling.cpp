// Preloaded beside Scudo with GWP-ASan: keeps its reports, and the handler that writes them.
//
// Scudo prints to standard error and names no process; that stream is the program's, and may be a
// terminal. What it writes there is copied to PREFIX.PID, and the Python stack beside it.

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "launcher/python_stack.h"

namespace {

constexpr char kStart[] = "*** GWP-ASan detected a memory error ***";
constexpr char kError[] = "Scudo ERROR: ";

struct Range {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
};

/// Where Scudo's code is. Looked up once: a signal handler may not ask the loader.
Range scudo;

int find_scudo(dl_phdr_info* info, std::size_t size, void* data) {
  (void)size;
  (void)data;
  if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "scudo") == nullptr) {
    return 0;
  }
  for (int at = 0; at < info->dlpi_phnum; ++at) {
    const auto& segment = info->dlpi_phdr[at];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
      scudo.start = info->dlpi_addr + segment.p_vaddr;
      scudo.end = scudo.start + segment.p_memsz;
    }
  }
  return 1;
}

bool is_scudo(const void* caller) {
  if (scudo.end == 0) {
    (void)dl_iterate_phdr(find_scudo, nullptr);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return address >= scudo.start && address < scudo.end;
}

using Write = ssize_t (*)(int, const void*, std::size_t);
using Sigaction = int (*)(int, const struct sigaction*, struct sigaction*);

// Plain pointers: a static inside a function would need the C++ runtime's guards.
Write real_write = nullptr;
Sigaction real_sigaction = nullptr;

bool starts_with(const void* bytes, std::size_t size, const char* text, std::size_t length) {
  return size >= length && std::memcmp(bytes, text, length) == 0;
}

void keep(const void* bytes, std::size_t size) {
  const int fd = forensics::open_beside_report("");
  if (fd < 0) {
    return;
  }
  (void)syscall(SYS_write, fd, bytes, size);
  (void)syscall(SYS_close, fd);
  if (starts_with(bytes, size, kStart, sizeof(kStart) - 1)) {
    forensics::write_python_stack("GWP-ASan");
  } else if (starts_with(bytes, size, kError, sizeof(kError) - 1)) {
    forensics::write_python_stack("Scudo");
  }
}

[[gnu::constructor]] void start() { (void)is_scudo(nullptr); }

}  // namespace

extern "C" {

/// As write(2); of what Scudo writes to standard error there is a copy.
[[gnu::visibility("default")]] ssize_t write(int fd, const void* bytes, std::size_t size) {
  if (real_write == nullptr) {
    real_write = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "write"));
  }
  if (fd == STDERR_FILENO && is_scudo(__builtin_return_address(0))) {
    keep(bytes, size);
  }
  return real_write != nullptr ? real_write(fd, bytes, size) : syscall(SYS_write, fd, bytes, size);
}

/// As sigaction(2), but nobody takes SIGSEGV away from GWP-ASan: its report is written in that
/// handler, and faulthandler, which pytest switches on, would end the process before.
[[gnu::visibility("default")]] int sigaction(int number, const struct sigaction* action,
                                             struct sigaction* before) {
  if (real_sigaction == nullptr) {
    real_sigaction = reinterpret_cast<Sigaction>(dlsym(RTLD_NEXT, "sigaction"));
  }
  const bool taken =
      number == SIGSEGV && action != nullptr && !is_scudo(__builtin_return_address(0));
  return real_sigaction(number, taken ? nullptr : action, before);
}
}
