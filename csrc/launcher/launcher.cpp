// Python, linked anew with a sanitizer: as `python`, in a virtual environment's bin, it needs no
// LD_PRELOAD, and neither do the interpreters that it starts; other programs stay as they are.

#include <Python.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "launcher/python_stack.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the runtimes'
// Where nobody sets ASAN_OPTIONS: CPython leaks on purpose at exit, and abort() shows a debugger
// or a core what was found.
extern "C" {
[[gnu::visibility("default")]] const char* __asan_default_options() {
  return "detect_leaks=0:abort_on_error=1:handle_segv=2:allocator_may_return_null=1";
}
[[gnu::visibility("default")]] const char* __ubsan_default_options() {
  return "print_stacktrace=1";
}
}
// NOLINTEND(bugprone-reserved-identifier)

namespace {

// ThreadSanitizer puts signals off until its report is out, and then complains of the handler.
#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsWork = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kSignalsWork = false;
#else
constexpr bool kSignalsWork = true;
#endif
#else
constexpr bool kSignalsWork = true;
#endif

/// Far from what a program opens: it may count its descriptors.
constexpr int kHandlerFd = 900;

void require(const PyStatus& status) {
  if (PyStatus_Exception(status) != 0) {
    Py_ExitStatusException(status);
  }
}

/// faulthandler's own handler writes the stacks where CPython does not let us do it.
void register_faulthandler() {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int fd = fcntl(null, F_DUPFD_CLOEXEC, kHandlerFd);
  (void)close(null);
  if (fd < 0) {
    return;
  }
  const int number = SIGRTMAX - 2;
  char code[128];
  (void)std::snprintf(code, sizeof(code),
                      "import faulthandler\n"
                      "faulthandler.register(%d, file=%d, all_threads=True)\n"
                      "del faulthandler\n",
                      number, fd);
  if (PyRun_SimpleString(code) == 0) {
    forensics::use_faulthandler(fd, number);
  }
}

}  // namespace

int main(int argc, char** argv) {
  PyPreConfig before;
  PyPreConfig_InitPythonConfig(&before);
  // Python's own allocator takes small objects out of arenas that no sanitizer looks into.
  before.allocator = PYMEM_ALLOCATOR_MALLOC;
  require(Py_PreInitializeFromBytesArgs(&before, argc, argv));
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  require(PyConfig_SetBytesArgv(&config, argc, argv));
  require(Py_InitializeFromConfig(&config));
  PyConfig_Clear(&config);
  if (kSignalsWork && forensics::needs_faulthandler()) {
    register_faulthandler();
  }
  return Py_RunMain();
}
