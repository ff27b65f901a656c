// Only the way into libcache.so, for aarch64: a program whose code lies in a library.
.globl _start
.type _start, %function
_start:
  .cfi_startproc
  .cfi_undefined x30
  ldr x0, [sp]
  add x1, sp, #8
  bl start
  brk #1
  .cfi_endproc
.size _start, .-_start
