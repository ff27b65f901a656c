// Writes the Python stack beside each report of a sanitizer, and the reports where they can be
// read.
//
// A sanitizer sees native frames only. At a report this asks CPython for the Python frames of every
// thread, with the function that faulthandler uses: it takes no lock and allocates nothing.
//
// Linked into the launcher, or preloaded behind the sanitizer's runtime where Python cannot be
// linked anew. It uses libc alone: a C++ runtime may not be in the process at all. Without
// FORENSICS_REPORTS in the environment it does nothing.

#include "launcher/python_stack.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kPrefixVariable[] = "FORENSICS_REPORTS";
constexpr int kMaxStacks = 100;
constexpr int kMaxRuntimes = 8;

/// const char* _Py_DumpTracebackThreads(int, PyInterpreterState*, PyThreadState*): exported by
/// CPython. Null for both states lets it find them.
using DumpThreads = const char* (*)(int, void*, void*);
using DeathCallback = void (*)();
using SetDeathCallback = void (*)(DeathCallback);
using SetReportPath = void (*)(const char*);

/// What the reports' paths begin with; empty: nobody asked.
char prefix[PATH_MAX];
DumpThreads dump_threads = nullptr;
int stacks_written = 0;
pid_t told_by = 0;
int handler_fd = -1;
int handler_signal = 0;

template <typename Function>
Function find(void* handle, const char* name) {
  return reinterpret_cast<Function>(dlsym(handle, name));
}

/// Is the descriptor still what use_faulthandler was given? Daemons close what they do not know.
bool is_null_device(int fd) {
  struct stat state{};
  struct stat null{};
  return fstat(fd, &state) == 0 && stat("/dev/null", &null) == 0 && state.st_rdev == null.st_rdev &&
         S_ISCHR(state.st_mode);
}

/// A signal to oneself is handled before the call returns, unless it is blocked: nothing then.
void dump_by_faulthandler(int fd) {
  if (!is_null_device(handler_fd)) {
    return;
  }
  const auto null = static_cast<int>(syscall(SYS_dup, handler_fd));
  (void)syscall(SYS_dup3, fd, handler_fd, O_CLOEXEC);
  (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), handler_signal);
  (void)syscall(SYS_dup3, null, handler_fd, O_CLOEXEC);
  (void)syscall(SYS_close, null);
}

void tell(const char* sanitizer) {
  told_by = getpid();
  forensics::write_python_stack(sanitizer);
}

/// Every runtime calls it before it ends the process; only the launcher hears of each report too.
void before_death() {
  if (told_by != getpid()) {
    forensics::write_python_stack("death");
  }
}

/// False, and an empty path, where it does not fit.
bool copy_path(const char* path, char (&target)[PATH_MAX]) {
  const std::size_t length = std::strlen(path);
  if (length >= sizeof(target)) {
    target[0] = '\0';
    return false;
  }
  std::memcpy(target, path, length + 1);
  return true;
}

struct Runtimes {
  char paths[kMaxRuntimes][PATH_MAX];
  int count;
};

bool is_runtime(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  constexpr const char* kNames[] = {"libasan.so", "libubsan.so", "libtsan.so", "libclang_rt."};
  for (const char* const known : kNames) {
    if (std::strncmp(name, known, std::strlen(known)) == 0) {
      return true;
    }
  }
  return false;
}

int collect_runtime(dl_phdr_info* info, std::size_t size, void* data) {
  (void)size;
  auto* const found = static_cast<Runtimes*>(data);
  if (found->count < kMaxRuntimes && info->dlpi_name != nullptr && is_runtime(info->dlpi_name) &&
      copy_path(info->dlpi_name, found->paths[found->count])) {
    ++found->count;
  }
  return 0;
}

/// Each runtime has its own callback and its own report file, also beside another one.
void hook_runtime(void* handle, bool is_gcc_ubsan) {
  if (const auto set = find<SetDeathCallback>(handle, "__sanitizer_set_death_callback")) {
    set(before_death);
  }
  // GCC's libubsan does not heed log_path beside libasan, and its reports would be lost in the
  // standard error that pytest captures. A file of its own: each runtime truncates what it opens.
  if (is_gcc_ubsan) {
    if (const auto set = find<SetReportPath>(handle, "__sanitizer_set_report_path")) {
      static char path[PATH_MAX];
      if (std::snprintf(path, sizeof(path), "%s.ubsan", prefix) < PATH_MAX) {
        set(path);
      }
    }
  }
}

[[gnu::constructor]] void start() {
  const char* const wanted = std::getenv(kPrefixVariable);
  if (wanted == nullptr || !copy_path(wanted, prefix)) {
    return;
  }
  dump_threads = find<DumpThreads>(RTLD_DEFAULT, "_Py_DumpTracebackThreads");
  static Runtimes runtimes;
  (void)dl_iterate_phdr(collect_runtime, &runtimes);
  for (int at = 0; at < runtimes.count; ++at) {
    if (void* const handle = dlopen(runtimes.paths[at], RTLD_LAZY | RTLD_NOLOAD)) {
      hook_runtime(handle, std::strstr(runtimes.paths[at], "libubsan.so") != nullptr);
    }
  }
  if (runtimes.count == 0) {  // The runtime is linked into the executable.
    hook_runtime(RTLD_DEFAULT, false);
  }
}

}  // namespace

namespace forensics {

const char* report_prefix() { return prefix; }

int open_beside_report(const char* suffix) {
  if (prefix[0] == '\0') {
    return -1;
  }
  char path[PATH_MAX + 32];
  const auto pid = static_cast<int>(syscall(SYS_getpid));
  (void)std::snprintf(path, sizeof(path), "%s.%d%s", prefix, pid, suffix);
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0600));
}

void write_python_stack(const char* sanitizer) {
  if ((dump_threads == nullptr && handler_fd < 0) || stacks_written >= kMaxStacks) {
    return;
  }
  ++stacks_written;
  const int fd = open_beside_report(".python");
  if (fd < 0) {
    return;
  }
  char line[64];
  const int length =
      std::snprintf(line, sizeof(line), "== %s %ld\n", sanitizer, syscall(SYS_gettid));
  (void)syscall(SYS_write, fd, line, static_cast<std::size_t>(length));
  if (dump_threads != nullptr) {
    (void)dump_threads(fd, nullptr, nullptr);
  } else {
    dump_by_faulthandler(fd);
  }
  (void)syscall(SYS_close, fd);
}

bool needs_faulthandler() { return prefix[0] != '\0' && dump_threads == nullptr; }

void use_faulthandler(int fd, int signal) {
  handler_fd = fd;
  handler_signal = signal;
}

}  // namespace forensics

// The runtimes call these where the executable defines them: a report need not be a death.
// NOLINTBEGIN(bugprone-reserved-identifier): the names are the runtimes'
extern "C" {
[[gnu::visibility("default")]] void __asan_on_error() { tell("AddressSanitizer"); }
[[gnu::visibility("default")]] void __ubsan_on_report() { tell("UndefinedBehaviorSanitizer"); }
[[gnu::visibility("default")]] void __tsan_on_report(void* report) {
  (void)report;
  tell("ThreadSanitizer");
}
}
// NOLINTEND(bugprone-reserved-identifier)
