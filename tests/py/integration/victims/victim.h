// What every victim shares: a registry, opaque values and the printed ground truth.
//
// Each victim is a function of namespace `victims` that main() reaches by its name. A faulting
// value goes through HIDE(), so that no optimiser can see the fault coming. The comment `//
// CRASH:name` marks the source line of the culprit; victim_cases.py looks the number up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#if defined(__clang__)
#define VICTIM_NOINLINE __attribute__((noinline))
#else
#define VICTIM_NOINLINE __attribute__((noinline, noclone))
#endif
#define VICTIM_INLINE inline __attribute__((always_inline))

// Defines a victim. The store after its fault keeps the last call from becoming a jump.
#define VICTIM(name)                                                     \
  void name();                                                           \
  static const ::victims::Registration registration_##name{#name, name}; \
  VICTIM_NOINLINE void name()

// The value, of which the compiler now knows nothing. A macro, so that its line is the user's own.
#define HIDE(expression)                                \
  ({                                                    \
    auto hidden_value = (expression);                   \
    asm volatile("" : "+r"(hidden_value) : : "memory"); \
    hidden_value;                                       \
  })

namespace victims {

using Crash = void (*)();

struct Registration {
  Registration(const char* name, Crash crash);
};

/// Results go here, so that no read is dead.
extern volatile std::uint64_t sink;

/// A hidden pointer to an address.
template <typename T>
VICTIM_INLINE T* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<T*>(HIDE(address));
}

/// Prints a fact that the harness takes as ground truth, such as `address=0x7f001000`.
VICTIM_INLINE void announce(const char* fact, std::uintptr_t value) {
  std::printf("%s=0x%zx\n", fact, static_cast<std::size_t>(value));
  std::fflush(stdout);
}

inline void announce(const char* fact, const volatile void* value) {
  announce(fact, reinterpret_cast<std::uintptr_t>(value));
}

}  // namespace victims
