// The program of cache.cpp with a handler for SIGSEGV that ends it by another signal. With "plain"
// as its second argument the handler is one without SA_SIGINFO.
#define start start_unhandled
#include "cache.cpp"
#undef start

namespace cache {

long install(int number, const void* action) {
#if defined(__aarch64__)
  register long call asm("x8") = 134;
  register long first asm("x0") = number;
  register const void* second asm("x1") = action;
  register long third asm("x2") = 0;
  register long fourth asm("x3") = 8;
  asm volatile("svc #0" : "+r"(first) : "r"(call), "r"(second), "r"(third), "r"(fourth) : "memory");
  return first;
#elif defined(__riscv)
  register long call asm("a7") = 134;
  register long first asm("a0") = number;
  register const void* second asm("a1") = action;
  register long third asm("a2") = 0;
  register long fourth asm("a3") = 8;
  asm volatile("ecall" : "+r"(first) : "r"(call), "r"(second), "r"(third), "r"(fourth) : "memory");
  return first;
#elif defined(__powerpc64__)
  register long call asm("r0") = 173;
  register long first asm("r3") = number;
  register const void* second asm("r4") = action;
  register long third asm("r5") = 0;
  register long fourth asm("r6") = 8;
  asm volatile("sc"
               : "+r"(first), "+r"(call), "+r"(second), "+r"(third), "+r"(fourth)
               :
               : "memory", "cr0", "ctr", "r7", "r8", "r9", "r10", "r11", "r12");
  return first;
#elif defined(__s390x__)
  register long call asm("r1") = 174;
  register long first asm("r2") = number;
  register const void* second asm("r3") = action;
  register long third asm("r4") = 0;
  register long fourth asm("r5") = 8;
  asm volatile("svc 0" : "+d"(first) : "d"(call), "d"(second), "d"(third), "d"(fourth) : "memory");
  return first;
#elif defined(__i386__)
  long result = 174;
  asm volatile("call *%1"
               : "+a"(result)
               : "m"(system_call), "b"(number), "c"(action), "d"(0), "S"(8)
               : "memory");
  return result;
#endif
}

__attribute__((noinline)) void on_fault(int) { abort_now(); }

/// As the kernel has it, which is not as the C library does.
struct Action {
  void (*handler)(int);
  unsigned long flags;
#if !defined(__riscv)
  void (*restorer)();
#endif
  unsigned long long mask;
};

}  // namespace cache

extern "C" __attribute__((noinline, used)) int start(long argc, char** argv) {
  cache::find_system_call(argv);
  cache::Action action = {};
  action.handler = cache::on_fault;
  action.flags = argc > 2 ? 0 : 4;  // SA_SIGINFO
  cache::install(11, &action);
  return start_unhandled(argc, argv) + 1;
}
