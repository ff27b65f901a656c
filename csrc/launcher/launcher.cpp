// Python, linked anew with a sanitizer: as `python`, in a virtual environment's bin, it needs no
// LD_PRELOAD, and neither do the interpreters that it starts; other programs stay as they are.

#include <Python.h>

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

int main(int argc, char** argv) {
  PyPreConfig config;
  PyPreConfig_InitPythonConfig(&config);
  // Python's own allocator takes small objects out of arenas that no sanitizer looks into.
  config.allocator = PYMEM_ALLOCATOR_MALLOC;
  const PyStatus status = Py_PreInitializeFromBytesArgs(&config, argc, argv);
  if (PyStatus_Exception(status) != 0) {
    Py_ExitStatusException(status);
  }
  return Py_BytesMain(argc, argv);
}
