// Instructions that the CPU refuses.
#include <cstdlib>

#include "victim.h"

namespace victims {

VICTIM(misaligned_vector_read) {
  alignas(16) static std::uint8_t buffer[64];
  auto* address = HIDE(static_cast<std::uint8_t*>(buffer) + 4);
  announce("address", address);
  asm volatile(  // CRASH:misaligned_vector_read
      "movaps (%0), %%xmm0"
      :
      : "r"(address)
      : "xmm0", "memory");
  sink = 1;
}

VICTIM(misaligned_vector_write) {
  alignas(16) static std::uint8_t buffer[64];
  auto* address = HIDE(static_cast<std::uint8_t*>(buffer) + 8);
  announce("address", address + 0x10);
  asm volatile(  // CRASH:misaligned_vector_write
      "movaps %%xmm0, 0x10(%0)"
      :
      : "r"(address)
      : "memory");
  sink = 1;
}

// With the AC flag set, the CPU refuses what it otherwise allows: SIGBUS, BUS_ADRALN, no address.
VICTIM(misaligned_with_alignment_check) {
  alignas(16) static std::uint8_t buffer[64];
  auto* address = HIDE(static_cast<std::uint8_t*>(buffer) + 3);
  announce("address", address);
  asm volatile(  // CRASH:misaligned_with_alignment_check
      "lea -128(%%rsp), %%rsp\n\tpushf\n\torl $0x40000, (%%rsp)\n\tpopf\n\tlea 128(%%rsp), "
      "%%rsp\n\t"
      "mov (%0), %%rax"
      :
      : "r"(address)
      : "rax", "memory", "cc");
  sink = 1;
}

// The assembler gives no line to bytes alone; they share the line of the `nop`.
VICTIM(illegal_opcode) {
  asm volatile("nop\n\t.byte 0x06");  // CRASH:illegal_opcode
  sink = 1;
}

// vphaddbd %xmm1, %xmm0 of AMD's XOP, which no Intel CPU and no Zen has.
VICTIM(illegal_xop_instruction) {
  asm volatile(  // CRASH:illegal_xop_instruction
      "nop\n\t.byte 0x8f, 0xe9, 0x78, 0xc2, 0xc1"
      :
      :
      : "xmm0");
  sink = 1;
}

// A privileged instruction faults as a general protection: SIGSEGV of the kernel, address 0.
VICTIM(privileged_instruction) {
  asm volatile("hlt");  // CRASH:privileged_instruction
  sink = 1;
}

VICTIM(builtin_trap) {
  if (HIDE(1) == 1) __builtin_trap();  // CRASH:builtin_trap
  sink = 1;
}

// The pc in the core is already behind the breakpoint.
VICTIM(breakpoint) {
  asm volatile("int3");  // CRASH:breakpoint
  sink = 1;
}

VICTIM(divide_by_zero) {
  const std::int32_t divisor = HIDE(0);
  sink = static_cast<std::uint64_t>(HIDE(100) / divisor);  // CRASH:divide_by_zero
  sink = 1;
}

VICTIM(divide_by_zero_64) {
  const std::int64_t divisor = HIDE(std::int64_t{0});
  sink =
      static_cast<std::uint64_t>(HIDE(std::int64_t{1} << 40) / divisor);  // CRASH:divide_by_zero_64
  sink = 1;
}

VICTIM(modulo_by_zero) {
  const std::uint32_t divisor = HIDE(0U);
  sink = HIDE(17U) % divisor;  // CRASH:modulo_by_zero
  sink = 1;
}

}  // namespace victims
