#ifndef VLLM_FORENSICS_CHECK_H_
#define VLLM_FORENSICS_CHECK_H_

#include <cstdio>
#include <cstdlib>

#if defined(__GLIBC__)
// Declared here because <cassert> hides it when NDEBUG is set; the function is always in glibc.
// The GNU spelling: glibc declares it so, and [[noreturn]] may not be added to that later.
// NOLINTBEGIN(bugprone-reserved-identifier): reserved for glibc, and this is glibc's
extern "C" __attribute__((__noreturn__)) void __assert_fail(const char* assertion, const char* file,
                                                            unsigned int line,
                                                            const char* function) noexcept;
// NOLINTEND(bugprone-reserved-identifier)
#endif

namespace vllm {

/// Where a check stands, and what it says.
struct FailedCheck {
  const char* condition;
  const char* file;
  unsigned int line;
  const char* function;
};

/// Prints `file:line: function: check failed: condition` to stderr and returns: a function that
/// does not return would stand on the stack above the one whose check failed, and look like the
/// culprit.
#if defined(__GNUC__)
__attribute__((__noinline__))
#endif
inline void print_failed_check(const FailedCheck& check) noexcept {
  static_cast<void>(std::fprintf(stderr, "%s:%u: %s: check failed: %s\n", check.file, check.line,
                                 check.function, check.condition));
}

}  // namespace vllm

// With glibc a failed check ends in __assert_fail, which leaves the text in __abort_msg for readers
// of the core; that costs a second line on stderr.
#if defined(__GLIBC__)
#define FORENSICS_ABORT(condition, file, line, function) \
  ::__assert_fail((condition), (file), (line), (function))
#else
#define FORENSICS_ABORT(condition, file, line, function) std::abort()
#endif

/// States what must hold if this code is right; a failure is our mistake, never the caller's.
/// On in every build: plain assert vanishes where crashes happen, in release builds. The first
/// frame of ours on the stack is the function whose check failed.
#define FORENSICS_CHECK(condition)                                                    \
  (static_cast<bool>(condition)                                                       \
       ? static_cast<void>(0)                                                         \
       : (::vllm::print_failed_check(                                                 \
              {#condition, __FILE__, static_cast<unsigned int>(__LINE__), __func__}), \
          FORENSICS_ABORT(#condition, __FILE__, static_cast<unsigned int>(__LINE__), __func__)))

#endif  // VLLM_FORENSICS_CHECK_H_
