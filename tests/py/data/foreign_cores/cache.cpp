// A program without a C library that dies in a nested member call: small enough to be kept, and the
// same on every architecture. The first letter of its first argument chooses how it dies.

namespace cache {

struct Block {
  long tokens;
  long references;
};

struct Table {
  Block* blocks[4];
  long divisor;

  __attribute__((noinline)) long read(int index) const { return blocks[index]->references + 1; }
  __attribute__((noinline)) long call() const {
    return reinterpret_cast<long (*)()>(blocks[0])() + 1;
  }
  __attribute__((noinline)) long share(int index) const { return index * 100 / divisor + 1; }
};

struct Worker {
  Table table;

  __attribute__((noinline)) long step(char how) const;
};

/// i386's libraries call the kernel through its own code page: AT_SYSINFO of the auxiliary vector.
long system_call = 0;

void find_system_call(char** arguments) {
  while (*arguments != nullptr) ++arguments;
  ++arguments;
  while (*arguments != nullptr) ++arguments;
  const long* pair = reinterpret_cast<const long*>(arguments + 1);
  while (pair[0] != 0 && pair[0] != 32) pair += 2;
  system_call = pair[1];
}

/// kill(getpid(), SIGABRT), by the system calls themselves.
__attribute__((noinline)) long abort_now() {
#if defined(__aarch64__)
  register long number asm("x8") = 172;
  register long first asm("x0") = 0;
  register long second asm("x1") = 6;
  asm volatile("svc #0" : "+r"(first) : "r"(number) : "memory");
  number = 129;
  asm volatile("svc #0" : "+r"(first) : "r"(number), "r"(second) : "memory");
  return first;
#elif defined(__riscv)
  register long number asm("a7") = 172;
  register long first asm("a0") = 0;
  register long second asm("a1") = 6;
  asm volatile("ecall" : "+r"(first) : "r"(number) : "memory");
  number = 129;
  asm volatile("ecall" : "+r"(first) : "r"(number), "r"(second) : "memory");
  return first;
#elif defined(__powerpc64__)
  register long number asm("r0") = 20;
  register long first asm("r3") = 0;
  register long second asm("r4") = 6;
  asm volatile("sc" : "+r"(first), "+r"(number) : : "memory", "cr0", "ctr", "r9", "r10", "r11", "r12");
  number = 37;
  second = 6;
  asm volatile("sc" : "+r"(first), "+r"(number), "+r"(second) : : "memory", "cr0", "ctr", "r9", "r10", "r11", "r12");
  return first;
#elif defined(__s390x__)
  register long number asm("r1") = 20;
  register long first asm("r2") = 0;
  register long second asm("r3") = 6;
  asm volatile("svc 0" : "+d"(first) : "d"(number) : "memory");
  number = 37;
  asm volatile("svc 0" : "+d"(first) : "d"(number), "d"(second) : "memory");
  return first;
#elif defined(__i386__)
  long first = 20;
  asm volatile("call *%1" : "+a"(first) : "m"(system_call) : "memory");
  long result = 37;
  asm volatile("call *%3" : "+a"(result) : "b"(first), "c"(6), "m"(system_call) : "memory");
  return result;
#endif
}

long Worker::step(char how) const {
  if (how == 'd') return table.share(2) + 1;
  if (how == 'c') return table.call() + 1;
  if (how == 'a') return abort_now() + 1;
  return table.read(3) + 1;
}

}  // namespace cache

extern "C" __attribute__((noinline, used)) int start(long argc, char** argv) {
  cache::find_system_call(argv);
  volatile cache::Worker worker = {};
  const char how = argc > 1 ? argv[1][0] : 'n';
  return static_cast<int>(const_cast<cache::Worker&>(worker).step(how)) + 1;
}

#ifndef AS_LIBRARY
// The kernel leaves argc at the stack pointer. The outermost frame has no caller.
#if defined(__aarch64__)
asm(".globl _start\n.type _start,%function\n_start:\n.cfi_startproc\n.cfi_undefined x30\n"
    "ldr x0, [sp]\nadd x1, sp, #8\nbl start\nbrk #1\n.cfi_endproc\n.size _start, .-_start\n");
#elif defined(__riscv)
// Its return address is 0 rather than undefined: gdb saves the stack up to the outermost frame.
asm(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n"
    "ld a0, 0(sp)\naddi a1, sp, 8\naddi sp, sp, -16\n.cfi_def_cfa_offset 16\n"
    "sd zero, 8(sp)\n.cfi_offset ra, -8\ncall start\nebreak\n.cfi_endproc\n"
    ".size _start, .-_start\n");
#elif defined(__powerpc64__)
asm(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n.cfi_undefined 65\n"
    "addis 2, 12, .TOC.-_start@ha\naddi 2, 2, .TOC.-_start@l\n.localentry _start, .-_start\n"
    "ld 3, 0(1)\naddi 4, 1, 8\nli 0, 0\nstdu 0, -128(1)\nbl start\nnop\ntrap\n.cfi_endproc\n.size _start, .-_start\n");
#elif defined(__s390x__)
asm(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n.cfi_undefined 14\n"
    "lg %r2, 0(%r15)\nla %r3, 8(%r15)\naghi %r15, -160\nbrasl %r14, start\n.long 0\n.cfi_endproc\n.size _start, .-_start\n");
#elif defined(__i386__)
asm(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n.cfi_undefined eip\n"
    "mov (%esp), %eax\nlea 4(%esp), %edx\npush %edx\npush %eax\ncall start\nud2\n.cfi_endproc\n.size _start, .-_start\n");
#endif
#endif
