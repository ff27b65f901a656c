"""Every kind that each runtime can print, in the form that its own sources give it.

The lists were made from compiler-rt (asan_errors.cpp, sanitizer_allocator_report.cpp,
hwasan_report.cpp, lsan_common.cpp, msan_report.cpp, tsan_report.cpp, ubsan_handlers.cpp,
ubsan_minimal_handlers.cpp, FuzzerLoop.cpp, segv_handler_posix.cpp, scudo's report.cpp,
rtsan_diagnostics.cpp, nsan.cpp, tysan.cpp, dfsan.cpp), Linux (mm/kasan, kernel/kcsan, mm/kmsan,
lib/ubsan.c), Valgrind (mc_errors.c, hg_errors.c, drd_error.c), debuggerd and Go. Names and
addresses are made up.
"""

# ruff: noqa: E501 - a runtime's own lines stay whole

from typing import NamedTuple

import pytest

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport

STACK = "    #0 0x10 in fill(int) a.cc:1:2\n    #1 0x11 in main a.cc:9:2\n\n"
FREED = "freed by thread T1 here:\n    #0 0x20 in free rt.cc:1\n    #1 0x21 in drop() a.cc:5\n\n"
MADE = "previously allocated by thread T0 here:\n    #0 0x30 in malloc rt.cc:2\n    #1 0x31 in make() a.cc:3\n\n"
USE, LIFE = ("use",), ("allocate", "free", "use")


class Case(NamedTuple):
    """A report's text and what it says: kind, access, roles."""

    sanitizer: str
    text: str
    kind: str
    access: tuple[str | None, int | None] | None = None
    roles: tuple[str, ...] = USE


Access = tuple[str | None, int | None]


def asan(
    message: str,
    kind: str,
    body: str = STACK,
    access: Access | None = None,
    roles: tuple[str, ...] = USE,
) -> Case:
    text = f"==7==ERROR: AddressSanitizer: {message}\n{body}"
    return Case("AddressSanitizer", text, kind, access, roles)


def access_of(kind: str) -> Case:
    body = f"WRITE of size 4 at 0x6010 thread T0\n{STACK}SUMMARY: AddressSanitizer: {kind} a.cc:1:2 in fill(int)\n"
    return asan(
        f"{kind} on address 0x6010 at pc 0x1 bp 0x2 sp 0x3", kind, body, access=("WRITE", 4)
    )


ASAN_ACCESS = (
    "heap-buffer-overflow", "stack-buffer-underflow", "initialization-order-fiasco",
    "stack-buffer-overflow", "stack-use-after-return", "use-after-poison", "container-overflow",
    "stack-use-after-scope", "global-buffer-overflow", "intra-object-overflow",
    "dynamic-stack-buffer-overflow", "unknown-crash",
)  # fmt: skip
ALLOCATOR = (
    (
        "calloc parameters overflow: count * size (9 * 8) cannot be represented in type size_t",
        "calloc-overflow",
    ),
    (
        "reallocarray parameters overflow: count * size (9 * 8) cannot be represented in type size_t",
        "reallocarray-overflow",
    ),
    (
        "pvalloc parameters overflow: size 0xff rounded up to system page size 0x1000 cannot be represented in type size_t",
        "pvalloc-overflow",
    ),
    (
        "invalid allocation alignment: 17, alignment must be a power of two",
        "invalid-allocation-alignment",
    ),
    (
        "invalid alignment requested in aligned_alloc: 17, alignment must be a power of two and the requested size 0x2 must be a multiple of alignment",
        "invalid-aligned-alloc-alignment",
    ),
    (
        "invalid alignment requested in aligned_alloc: 17, the requested size 0x2 must be a multiple of alignment",
        "invalid-aligned-alloc-alignment",
    ),
    (
        "invalid alignment requested in posix_memalign: 17, alignment must be a power of two and a multiple of sizeof(void*) == 8",
        "invalid-posix-memalign-alignment",
    ),
    (
        "requested allocation size 0xfff exceeds maximum supported size of 0x100",
        "allocation-size-too-big",
    ),
    ("out of memory: allocator is trying to allocate 0x6 bytes", "out-of-memory"),
    ("allocator exceeded the RSS limit", "rss-limit-exceeded"),
)
SIGNALS = (
    ("SEGV on unknown address 0x000000000010 (pc 0x1 bp 0x2 sp 0x3 T0)", "segv"),
    ("SEGV on unknown address (pc 0x1 bp 0x2 sp 0x3 T0)", "segv"),
    ("BUS on unknown address 0x7f10 (pc 0x1 bp 0x2 sp 0x3 T0)", "bus"),
    ("FPE on unknown address 0x5510 (pc 0x1 bp 0x2 sp 0x3 T0)", "fpe"),
    ("ILL on unknown address 0x5510 (pc 0x1 bp 0x2 sp 0x3 T0)", "ill"),
    ("ABRT on unknown address 0x3e8 (pc 0x1 bp 0x2 sp 0x3 T0)", "abrt"),
    ("TRAP on unknown address 0x5510 (pc 0x1 bp 0x2 sp 0x3 T0)", "trap"),
    ("stack-overflow on address 0x7ff0 (pc 0x1 bp 0x2 sp 0x3 T0)", "stack-overflow"),
    ("UNKNOWN SIGNAL on unknown address 0x10 (pc 0x1 bp 0x2 sp 0x3 T0)", "unknown-signal"),
)
ASAN = (
    *map(access_of, ASAN_ACCESS),
    asan(
        "heap-use-after-free on address 0x6010 at pc 0x1 bp 0x2 sp 0x3",
        "heap-use-after-free",
        f"READ of size 8 at 0x6010 thread T2\n{STACK}"
        f"0x6010 is located 0 bytes inside of 64-byte region [0x6010,0x6050)\n{FREED}{MADE}",
        access=("READ", 8),
        roles=LIFE,
    ),
    asan("unknown-crash on address 0x6010 at pc 0x1", "unknown-crash", f"ACCESS of size 0 at 0x6010 thread T0\n{STACK}", access=(None, 0)),
    asan("heap-buffer-overflow on amdgpu device 0 at pc 0x7f10", "heap-buffer-overflow", "WRITE of size 4 in workgroup id (1,0,0)\n  #0 0x7f10 in fill at a.hip:4:1\n", access=("WRITE", 4)),
    *(asan(message, kind) for message, kind in SIGNALS),
    *(asan(f"{message} (thread T0)", kind) for message, kind in ALLOCATOR[:7]),
    asan("requested allocation size 0xfff (0x1000 after adjustments for alignment, red zones etc.) exceeds maximum supported size of 0x100 (thread T0)", "allocation-size-too-big"),
    asan("specified RSS limit exceeded, currently set to soft_rss_limit_mb=8", "rss-limit-exceeded"),
    asan("allocator is out of memory trying to allocate 0x6 bytes", "out-of-memory"),
    asan("attempting double-free on 0x6010 in thread T0:", "double-free", f"{STACK}{FREED}{MADE}", roles=LIFE),
    asan("attempting free on address which was not malloc()-ed: 0x6010 in thread T0", "bad-free"),
    asan("new-delete-type-mismatch on 0x6010 in thread T0:", "new-delete-type-mismatch", "  object passed to delete has wrong type:\n  size of the allocated type:   8 bytes;\n  size of the deallocated type: 1 bytes.\n" + STACK),
    asan("alloc-dealloc-mismatch (operator new [] vs operator delete) on 0x6010", "alloc-dealloc-mismatch"),
    asan("attempting to call malloc_usable_size() for pointer which is not owned: 0x6010", "bad-malloc_usable_size"),
    asan("attempting to call __sanitizer_get_allocated_size() for pointer which is not owned: 0x6010", "bad-__sanitizer_get_allocated_size"),
    asan("strcpy-param-overlap: memory ranges [0x10,0x20) and [0x18, 0x28) overlap", "strcpy-param-overlap"),
    asan("negative-size-param: (size=-5)", "negative-size-param"),
    asan("bad parameters to __sanitizer_annotate_contiguous_container:", "bad-__sanitizer_annotate_contiguous_container", "      beg     : 0x10\n      end     : 0x20\n      old_mid : 0x12\n      new_mid : 0x30\n" + STACK),
    asan("odr-violation (0x6010):", "odr-violation", "  [1] size=4 'limit' a.cc:3:5\n  [2] size=8 'limit' b.cc:3:5\nSUMMARY: AddressSanitizer: odr-violation: global 'limit' at a.cc:3:5\n", roles=()),
    asan("invalid-pointer-pair: 0x6010 0x6020", "invalid-pointer-pair"),
)  # fmt: skip
OTHERS_WITH_SIGNALS = tuple(
    Case(name, f"==7==ERROR: {name}: {message}\n{STACK}", kind)
    for name in ("HWAddressSanitizer", "MemorySanitizer", "ThreadSanitizer", "LeakSanitizer", "UndefinedBehaviorSanitizer")
    for message, kind in SIGNALS
)  # fmt: skip
OTHERS_WITH_ALLOCATORS = tuple(
    Case(name, f"==7==ERROR: {name}: {message}\n{STACK}SUMMARY: {name}: {kind} a.cc:1 in fill\n", kind)
    for name in ("HWAddressSanitizer", "MemorySanitizer")
    for message, kind in ALLOCATOR
)  # fmt: skip
HWASAN = (
    Case("HWAddressSanitizer", f"==7==ERROR: HWAddressSanitizer: tag-mismatch on address 0x6010 at pc 0x1\nREAD of size 8 at 0x6010 tags: 2c/a1 (ptr/mem) in thread T0\n{STACK}\nCause: use-after-free\n0x6010 is located 0 bytes inside a 64-byte region [0x6010,0x6050)\n{FREED}{MADE}", "tag-mismatch", ("READ", 8), LIFE),
    Case("HWAddressSanitizer", f"==7==ERROR: HWAddressSanitizer: tag-mismatch on address 0x6010 at pc 0x1\nWRITE of size 1 at 0x6010 tags: 2c/08(2c) (ptr/mem) in thread T0\nInvalid access starting at offset 0\n{STACK}", "tag-mismatch", ("WRITE", 1)),
    Case("HWAddressSanitizer", f"==7==ERROR: HWAddressSanitizer: invalid-free on address 0x6010 at pc 0x1 on thread T0\ntags: 2c/a1 (ptr/mem)\n{STACK}", "invalid-free"),
    Case("HWAddressSanitizer", "==7==ERROR: HWAddressSanitizer: allocation-tail-overwritten; heap object [0x6010,0x6024) of size 20\n\nStack of invalid access unknown. Issue detected at deallocation time.\ndeallocated here:\n    #0 0x20 in free rt.cc:1\nallocated here:\n    #0 0x30 in malloc rt.cc:2\nTail contains: .. .. 2a\n", "allocation-tail-overwritten", None, ("allocate", "free")),
)  # fmt: skip
LSAN = (
    Case("LeakSanitizer", "==7==ERROR: LeakSanitizer: detected memory leaks\n\nDirect leak of 8 byte(s) in 1 object(s) allocated from:\n    #0 0x30 in malloc rt.cc:2\n\nIndirect leak of 4 byte(s) in 2 object(s) allocated from:\n    #0 0x30 in malloc rt.cc:2\n\nSUMMARY: LeakSanitizer: 12 byte(s) leaked in 3 allocation(s).\n", "memory-leak", None, ("leak", "leak")),
)  # fmt: skip
MSAN = (
    Case("MemorySanitizer", f"==7==WARNING: MemorySanitizer: use-of-uninitialized-value\n{STACK}  Uninitialized value was stored to memory at\n    #0 0x20 in copy a.cc:4\n\n  Uninitialized value was created by a heap allocation\n    #0 0x30 in malloc rt.cc:2\n", "use-of-uninitialized-value", None, ("origin", "origin", "use")),
    Case("MemorySanitizer", f"==7==WARNING: MemorySanitizer: use-of-uninitialized-value\n{STACK}  Memory was marked as uninitialized\n    #0 0x20 in __msan_allocated_memory rt.cc:4\n", "use-of-uninitialized-value", None, ("origin", "use")),
    Case("MemorySanitizer", f"==7==ERROR: MemorySanitizer: heap-use-after-free on address 0x6010\n{STACK}", "heap-use-after-free"),
)  # fmt: skip
MOP = "  Write of size 8 at 0x7b10 by thread T1:\n    #0 fill(int) a.cc:1 (app+0x10)\n\n  Previous read of size 8 at 0x7b10 by main thread:\n    #0 main a.cc:9 (app+0x11)\n\n"
TSAN_KINDS = (
    ("data race", "data-race"), ("data race on vptr (ctor/dtor vs virtual call)", "data-race-on-vptr"),
    ("heap-use-after-free", "heap-use-after-free"),
    ("heap-use-after-free (virtual call vs free)", "heap-use-after-free"),
    ("race on external object", "race-on-external-object"), ("Swift access race", "swift-access-race"),
)  # fmt: skip
TSAN_PLAIN = (
    ("thread leak", "thread-leak"), ("destroy of a locked mutex", "destroy-of-a-locked-mutex"),
    ("double lock of a mutex", "double-lock-of-a-mutex"),
    ("use of an invalid mutex (e.g. uninitialized or destroyed)", "use-of-an-invalid-mutex"),
    ("unlock of an unlocked mutex (or by a wrong thread)", "unlock-of-an-unlocked-mutex"),
    ("read lock of a write locked mutex", "read-lock-of-a-write-locked-mutex"),
    ("read unlock of a write locked mutex", "read-unlock-of-a-write-locked-mutex"),
    ("signal-unsafe call inside of a signal", "signal-unsafe-call-inside-of-a-signal"),
    ("signal handler spoils errno", "signal-handler-spoils-errno"),
    ("mutex held in the wrong context", "mutex-held-in-the-wrong-context"),
)  # fmt: skip
TSAN = (
    *(Case("ThreadSanitizer", f"WARNING: ThreadSanitizer: {words} (pid=7)\n{MOP}", kind, ("WRITE", 8), ("previous_access", "use")) for words, kind in TSAN_KINDS),
    *(Case("ThreadSanitizer", f"WARNING: ThreadSanitizer: {words} (pid=7)\n    #0 fill(int) a.cc:1 (app+0x10)\n\nSUMMARY: ThreadSanitizer: {words} a.cc:1 in fill\n", kind) for words, kind in TSAN_PLAIN),
    Case("ThreadSanitizer", "WARNING: ThreadSanitizer: lock-order-inversion (potential deadlock) (pid=7)\n  Cycle in lock order graph: M1 (0x7b10) => M2 (0x7b20) => M1\n\n  Mutex M2 acquired here while holding mutex M1 in main thread:\n    #0 lock rt.cc:1 (app+0x1)\n\n  Mutex M1 previously acquired by the same thread here:\n    #0 lock rt.cc:1 (app+0x1)\n\n", "lock-order-inversion", None, ("use", "lock_acquire")),
    Case("ThreadSanitizer", "==================\nWARNING: DATA RACE\nWrite at 0x00c000014098 by goroutine 7:\n  main.fill()\n      /src/main.go:9 +0x3c\n\nPrevious read at 0x00c000014098 by main goroutine:\n  main.main()\n      /src/main.go:12 +0x8c\n\nGoroutine 7 (running) created at:\n  main.main()\n      /src/main.go:8 +0x7a\n==================\n", "data-race", ("WRITE", None), ("previous_access", "use", "thread_create")),
)  # fmt: skip
UBSAN_KINDS = (
    ("load of null pointer of type 'int'", "null"), ("store to null pointer of type 'int'", "null"),
    ("reference binding to null pointer of type 'T'", "null"), ("member access within null pointer of type 'T'", "null"),
    ("member call on null pointer of type 'T'", "null"), ("constructor call on null pointer of type 'T'", "null"),
    ("downcast of null pointer of type 'T'", "null"), ("upcast of null pointer of type 'T'", "null"),
    ("cast to virtual base of null pointer of type 'T'", "null"), ("dynamic operation on null pointer of type 'T'", "null"),
    ("_Nonnull binding to null pointer of type 'T'", "nullability-assign"),
    ("load of misaligned address 0x7f11 for type 'int', which requires 4 byte alignment", "alignment"),
    ("constructor call on misaligned address 0x7f11 for type 'T', which requires 8 byte alignment", "alignment"),
    ("load of address 0x7f10 with insufficient space for an object of type 'T'", "object-size"),
    ("assumption of 32 byte alignment for pointer of type 'int *' failed", "alignment"),
    ("assumption of 32 byte alignment (with offset of 4 byte) for pointer of type 'int *' failed", "alignment"),
    ("signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'", "signed-integer-overflow"),
    ("unsigned integer overflow: 0 - 1 cannot be represented in type 'unsigned int'", "unsigned-integer-overflow"),
    ("negation of -2147483648 cannot be represented in type 'int'; cast to an unsigned type to negate this value to itself", "signed-integer-overflow"),
    ("negation of 1 cannot be represented in type 'unsigned int'", "unsigned-integer-overflow"),
    ("division of -2147483648 by -1 cannot be represented in type 'int'", "signed-integer-overflow"),
    ("division by zero", "integer-divide-by-zero"),
    ("shift exponent -1 is negative", "shift-exponent"), ("shift exponent 32 is too large for 32-bit type 'int'", "shift-exponent"),
    ("left shift of negative value -1", "shift-base"), ("left shift of 1 by 31 places cannot be represented in type 'int'", "shift-base"),
    ("index 4 out of bounds for type 'int[4]'", "bounds"), ("access out of bounds", "local-bounds"),
    ("execution reached an unreachable program point", "unreachable"), ("execution reached a __builtin_unreachable() call", "unreachable"),
    ("execution reached the end of a value-returning function without returning a value", "return"),
    ("variable length array bound evaluates to non-positive value -1", "vla-bound"),
    ("1e+300 is outside the range of representable values of type 'int'", "float-cast-overflow"),
    ("load of value 3, which is not a valid value for type 'bool'", "bool"), ("load of value 3, which is not a valid value for type 'const bool'", "bool"),
    ("load of value 9, which is not a valid value for type 'Colour'", "enum"),
    ("implicit conversion from type 'int' of value -1 (32-bit, signed) to type 'unsigned char' changed the value to 255 (8-bit, unsigned)", "implicit-conversion"),
    ("implicit conversion from type 'int' of value 9 (32-bit, signed) to type 'int' changed the value to 1 (3-bit bitfield, signed)", "implicit-conversion"),
    ("passing zero to __builtin_ctz(), which is not a valid argument", "builtin"), ("assumption is violated during execution", "builtin"),
    ("invalid ObjC cast, object is a 'NSString', but expected a 'NSNumber'", "objc-cast"),
    ("null pointer returned from function declared to never return null", "returns-nonnull-attribute"),
    ("null pointer passed as argument 1, which is declared to never be null", "nonnull-attribute"),
    ("applying zero offset to null pointer", "pointer-overflow"), ("applying non-zero offset 8 to null pointer", "pointer-overflow"),
    ("applying non-zero offset to non-null pointer 0x7f10 produced null pointer", "pointer-overflow"),
    ("addition of unsigned offset to 0x7f10 overflowed to 0x10", "pointer-overflow"),
    ("subtraction of unsigned offset from 0x10 overflowed to 0x7f10", "pointer-overflow"),
    ("pointer index expression with base 0x7f10 overflowed to 0xff10", "pointer-overflow"),
    ("call to function fill(int) through pointer to incorrect function type 'void (*)(long)'", "function"),
    ("member call on address 0x7f10 which does not point to an object of type 'T'", "vptr"),
    ("control flow integrity check for type 'void (int)' failed during indirect function call", "cfi"),
    ("control flow integrity check for type 'T' failed during non-virtual pointer to member function call", "cfi"),
    ("control flow integrity check for type 'T' failed during virtual call (vtable address 0x7f10)", "cfi"),
    ("control flow integrity check for type 'T' failed during base-to-derived cast (vtable address 0x7f10)", "cfi"),
)  # fmt: skip


def access_in(message: str, kind: str) -> Access | None:
    if kind in {"null", "alignment", "object-size"}:
        for words, access in (("load of ", "READ"), ("store to ", "WRITE")):
            if message.startswith(words):
                return access, None
    return None


UBSAN = tuple(
    Case(
        "UndefinedBehaviorSanitizer",
        f"a.cc:3:5: runtime error: {message}\n",
        kind,
        access_in(message, kind),
        (),
    )
    for message, kind in UBSAN_KINDS
)
MINIMAL_KINDS = (
    ("type-mismatch", "type-mismatch"), ("alignment-assumption", "alignment"), ("add-overflow", "add-overflow"),
    ("sub-overflow", "sub-overflow"), ("mul-overflow", "mul-overflow"), ("negate-overflow", "negate-overflow"),
    ("divrem-overflow", "divrem-overflow"), ("shift-out-of-bounds", "shift-out-of-bounds"), ("out-of-bounds", "bounds"),
    ("local-out-of-bounds", "local-bounds"), ("builtin-unreachable", "unreachable"), ("missing-return", "return"),
    ("vla-bound-not-positive", "vla-bound"), ("float-cast-overflow", "float-cast-overflow"),
    ("load-invalid-value", "load-invalid-value"), ("invalid-builtin", "builtin"), ("invalid-objc-cast", "objc-cast"),
    ("function-type-mismatch", "function"), ("implicit-conversion", "implicit-conversion"),
    ("nonnull-arg", "nonnull-attribute"), ("nonnull-return", "returns-nonnull-attribute"),
    ("nullability-arg", "nullability-arg"), ("nullability-return", "nullability-return"),
    ("pointer-overflow", "pointer-overflow"), ("cfi-check-fail", "cfi"),
)  # fmt: skip
MINIMAL = tuple(
    Case("UndefinedBehaviorSanitizer", f"ubsan: {handler} by 0x0000004010f2\n", kind, roles=())
    for handler, kind in MINIMAL_KINDS
)
FUZZER_KINDS = (
    ("deadly signal", "deadly-signal"), ("fuzz target exited", "fuzz-target-exited"),
    ("fuzz target overwrites its const input", "overwrites-const-input"),
    ("timeout after 61 seconds", "timeout"), ("out-of-memory (used: 2100Mb; limit: 2048Mb)", "out-of-memory"),
    ("out-of-memory (malloc(4294967296))", "out-of-memory"),
)  # fmt: skip
FUZZER = tuple(
    Case(
        "libFuzzer", f"==7== ERROR: libFuzzer: {words}\n{STACK}SUMMARY: libFuzzer: {words}\n", kind
    )
    for words, kind in FUZZER_KINDS
)


def gwp(words: str, kind: str, roles: tuple[str, ...]) -> Case:
    frames = "  #0 ./app(+0x2711) [0x5510]\n"
    freed = f"0x7f10 was deallocated by thread 8 here:\n{frames}" if "free" in roles else ""
    made = f"0x7f10 was allocated by thread 7 here:\n{frames}" if "allocate" in roles else ""
    text = f"*** GWP-ASan detected a memory error ***\n{words} by thread 7 here:\n{frames}{freed}{made}*** End GWP-ASan report ***\n"
    return Case("GWP-ASan", text, kind, None, roles)


GWP_ASAN = (
    gwp("Use After Free at 0x7f18 (8 bytes into a 32-byte allocation at 0x7f10)", "use-after-free", LIFE),
    gwp("Use After Free (warning: buffer overflow/underflow detected on a free()'d allocation. This is likely bogus) at 0x7f40 (48 bytes to the right of a 32-byte allocation at 0x7f10)", "use-after-free", LIFE),
    gwp("Double Free at 0x7f10 (a 32-byte allocation)", "double-free", LIFE),
    gwp("Invalid (Wild) Free at 0x7f11 (1 byte to the right of a 32-byte allocation at 0x7f10)", "invalid-free", ("allocate", "use")),
    gwp("Buffer Overflow at 0x7f30 (32 bytes to the right of a 32-byte allocation at 0x7f10)", "buffer-overflow", ("allocate", "use")),
    gwp("Buffer Underflow at 0x7f0f (1 byte to the left of a 32-byte allocation at 0x7f10)", "buffer-underflow", ("allocate", "use")),
    Case("GWP-ASan", "*** GWP-ASan detected a memory error ***\nGWP-ASan cannot provide any more information about this error. This may occur due to a wild memory access into the GWP-ASan pool, or an overflow/underflow that is > 512B in length.\n*** End GWP-ASan report ***\n", "unknown", None, ()),
)  # fmt: skip
SCUDO_KINDS = (
    ("CHECK failed @ x.cpp:1 Size > 0 ((u64)op1=0, (u64)op2=0)", "check-failed"),
    ("corrupted chunk header at address 0x7f10: most likely due to memory corruption", "corrupted-chunk-header"),
    ("maximum possible offset doesn't fit in header", "check-failed"),
    ("invalid allocation alignment: 9 exceeds maximum supported alignment of 8", "invalid-allocation-alignment"),
    ("invalid allocation alignment: 9, alignment must be a power of two", "invalid-allocation-alignment"),
    ("requested allocation size 99 (120 after adjustments) exceeds maximum supported size of 90", "allocation-size-too-big"),
    ("BatchClass region is used up, can't hold any free block", "out-of-batch-class"),
    ("out of memory trying to allocate 99 bytes", "out-of-memory"),
    ("invalid chunk state when deallocating address 0x7f10", "invalid-chunk-state"),
    ("misaligned pointer when deallocating address 0x7f10", "misaligned-pointer"),
    ("allocation type mismatch when deallocating address 0x7f10 (0 vs 1)", "allocation-type-mismatch"),
    ("invalid sized delete when deallocating address 0x7f10 (8 vs 9)", "invalid-sized-delete"),
    ("calloc parameters overflow: count * size (9 * 9) cannot be represented with type size_t", "calloc-overflow"),
    ("invalid alignment requested in posix_memalign: 3, alignment must be a power of two and a multiple of sizeof(void *) == 8", "invalid-posix-memalign-alignment"),
    ("pvalloc parameters overflow: size 9 rounded up to system page size 4096 cannot be represented in type size_t", "pvalloc-overflow"),
    ("invalid alignment requested in aligned_alloc: 3, alignment must be a power of two and the requested size 9 must be a multiple of alignment", "invalid-aligned-alloc-alignment"),
    ("race on chunk header at address 0x7f10", "race-on-chunk-header"),
    ("internal map failure (error desc=Out of memory)", "internal-map-failure"),
)  # fmt: skip
SCUDO = tuple(
    Case("Scudo", f"Scudo ERROR: {words}\n", kind, roles=()) for words, kind in SCUDO_KINDS
)
SMALL = (
    Case("RealtimeSanitizer", f"==7==ERROR: RealtimeSanitizer: unsafe-library-call\nIntercepted call to real-time unsafe function `malloc` in real-time context!\n{STACK}SUMMARY: RealtimeSanitizer: unsafe-library-call a.cc:1:2 in fill(int)\n", "unsafe-library-call"),
    Case("RealtimeSanitizer", f"==7==ERROR: RealtimeSanitizer: blocking-call\nCall to blocking function `wait()` in real-time context!\n{STACK}", "blocking-call"),
    *(Case("NumericalStabilitySanitizer", f"WARNING: NumericalStabilitySanitizer: {words}\ndouble     precision  (native): dec: 1.1  hex: 0x1p+0\n__float128 precision  (shadow): dec: 1.2  hex: 0x1p+0\nshadow truncated to double   : dec: 1.2  hex: 0x1p+0\nRelative error: 9% (2^5 epsilons)\n{STACK}", kind) for words, kind in (
        ("inconsistent shadow results while checking return value", "inconsistent-shadow-results"),
        ("inconsistent shadow results while checking store to address 0x7f10", "inconsistent-shadow-results"),
        ("floating-point comparison results depend on precision", "inconsistent-comparison"),
        ("NaN detected", "nan-detected"),
    )),
    *(Case("TypeSanitizer", f"==7==ERROR: TypeSanitizer: type-aliasing-violation on address 0x7f10 (pc 0x1 bp 0x2 sp 0x3 tid 7)\n{said}\n{STACK}", "type-aliasing-violation", access) for said, access in (
        ("READ of size 4 at 0x7f10 with type float accesses an existing object of type int", ("READ", 4)),
        ("WRITE of size 4 at 0x7f10 with type float accesses part of an existing object of type long that starts at offset -4", ("WRITE", 4)),
        ("ATOMIC UPDATE of size 4 at 0x7f10 with type float partially accesses an object of type short that continues at offset 2", ("WRITE", 4)),
    )),
    Case("DataFlowSanitizer", "==7==WARNING: DataFlowSanitizer: call to uninstrumented function fill\n", "uninstrumented-call", None, ()),
    Case("DataFlowSanitizer", "==7==WARNING: DataFlowSanitizer: call to uninstrumented vararg function fill\n", "uninstrumented-call", None, ()),
)  # fmt: skip
TRACE = "Call Trace:\n <TASK>\n dump_stack_lvl+0x1/0x2\n ? skip+0x1/0x2\n fill+0x1/0x2 [app]\n </TASK>\n\nAllocated by task 7:\n make+0x1/0x2\n\nFreed by task 8:\n drop+0x1/0x2\n"
KASAN_KINDS = (
    "slab-use-after-free", "use-after-free", "slab-out-of-bounds", "out-of-bounds", "stack-out-of-bounds",
    "global-out-of-bounds", "vmalloc-out-of-bounds", "alloca-out-of-bounds", "wild-memory-access",
    "user-memory-access", "null-ptr-deref", "stack-use-after-scope", "invalid-access",
)  # fmt: skip
KERNEL = (
    *(
        Case(
            "KFENCE",
            f"BUG: KFENCE: {words} in fill+0x1/0x2\n\n{words.capitalize()} at 0xffff888237e04b98 (in kfence-#79):\n"
            " fill+0x1/0x2\n\nkfence-#79: 0xffff888237e04b98-0xffff888237e04bb7, size=32, cache=kmalloc-32\n\n"
            "allocated by task 194 on cpu 7 at 18.136s:\n make+0x1/0x2\n\n"
            "freed by task 195 on cpu 7 at 18.137s:\n drop+0x1/0x2\n",
            kind,
            access,
            LIFE,
        )
        for words, kind, access in (
            ("use-after-free read", "use-after-free", ("READ", None)),
            ("out-of-bounds write", "out-of-bounds", ("WRITE", None)),
            ("invalid read", "invalid-read", ("READ", None)),
            ("invalid free", "invalid-free", None),
            ("memory corruption", "memory-corruption", None),
        )
    ),
    *(Case("KernelAddressSanitizer", f"BUG: KASAN: {kind} in fill+0x1/0x2 [app]\nWrite of size 4 at addr ffff888100000010 by task app/7\n\n{TRACE}", kind, ("WRITE", 4), LIFE) for kind in KASAN_KINDS),
    *(Case("KernelAddressSanitizer", f"BUG: KASAN: {kind} in drop+0x1/0x2\nFree of addr ffff888100000010 by task app/7\n\n{TRACE}", kind, None, LIFE) for kind in ("double-free", "invalid-free")),
    Case("KernelAddressSanitizer", "KASAN: null-ptr-deref in range [0x0000000000000010-0x0000000000000017]\nCall Trace:\n fill+0x1/0x2\n", "null-ptr-deref"),
    Case("KernelAddressSanitizer", "KASAN: maybe wild-memory-access in range [0xdead000000000010-0xdead000000000017]\nCall trace:\n fill+0x1/0x2\n", "wild-memory-access"),
    Case("KernelConcurrencySanitizer", "BUG: KCSAN: data-race in fill / main\n\nwrite to 0xffff888100000010 of 8 bytes by task 7 on cpu 1:\n fill+0x1/0x2\n\nread (marked) to 0xffff888100000010 of 8 bytes by interrupt on cpu 0:\n main+0x1/0x2\n\nvalue changed: 0x1 -> 0x2\n", "data-race", ("WRITE", 8), ("previous_access", "use")),
    Case("KernelConcurrencySanitizer", "BUG: KCSAN: data-race in fill\n\nrace at unknown origin, with read to 0xffff888100000010 of 8 bytes by task 7 on cpu 1:\n fill+0x1/0x2\n", "data-race", ("READ", 8)),
    *(Case("KernelMemorySanitizer", f"BUG: KMSAN: {kind} in fill+0x1/0x2 a.c:4\n fill+0x1/0x2 a.c:4\n\nUninit was created at:\n make a.c:1 [inline]\n", kind, None, ("origin", "use")) for kind in ("uninit-value", "kernel-infoleak", "kernel-usb-infoleak", "use-after-free")),
    *(Case("KernelUndefinedBehaviorSanitizer", f"UBSAN: {words} in drivers/a.c:4:2\n{said}\nCall Trace:\n fill+0x1/0x2\n", kind) for words, said, kind in (
        ("array-index-out-of-bounds", "index 5 is out of range for type 'int [4]'", "bounds"),
        ("shift-out-of-bounds", "shift exponent 64 is too large for 64-bit type 'long'", "shift-exponent"),
        ("shift-out-of-bounds", "left shift of 3 by 31 places cannot be represented in type 'int'", "shift-base"),
        ("signed-integer-overflow", "2147483647 + 1 cannot be represented in type 'int'", "signed-integer-overflow"),
        ("division-overflow", "division by zero", "integer-divide-by-zero"),
        ("invalid-load", "load of value 7 is not a valid value for type '_Bool'", "bool"),
        ("misaligned-access", "load of misaligned address 00000000abcd for type 'int'", "alignment"),
        ("null-ptr-deref", "member access within null pointer of type 'struct s'", "null"),
        ("object-size-mismatch", "load of address 00000000abcd with insufficient space", "object-size"),
        ("Undefined behaviour", "signed integer overflow:", "signed-integer-overflow"),
    )),
)  # fmt: skip


def tombstone(cause: str, tool: str, kind: str, code: str = "9 (SEGV_MTESERR)") -> Case:
    text = (
        "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***\n"
        "pid: 7, tid: 8, name: app  >>> /system/bin/app <<<\n"
        f"signal 11 (SIGSEGV), code {code}, fault addr 0x0a00007f2b10 (write)\n{cause}\n\nbacktrace:\n"
        "      #00 pc 0000000000002b40  /system/bin/app (fill+12)\n\n"
        "deallocated by thread 9:\n      #00 pc 0000000000002c40  /system/bin/app (drop+12)\n\n"
        "allocated by thread 8:\n      #00 pc 0000000000002d40  /system/bin/app (make+12)\n"
    )
    return Case(tool, text, kind, ("WRITE", None), LIFE)


ANDROID = (
    *(tombstone(f"Cause: [MTE]: {words} allocation at 0x7f2b10", "MTE", kind) for words, kind in (
        ("Use After Free, 0 bytes into a 32-byte", "use-after-free"),
        ("Buffer Overflow, 0 bytes right of a 32-byte", "buffer-overflow"),
        ("Buffer Underflow, 1 byte left of a 32-byte", "buffer-underflow"),
        ("Double Free, 0 bytes into a 32-byte", "double-free"),
        ("Invalid (Wild) Free, 4 bytes into a 32-byte", "invalid-free"),
    )),
    tombstone("", "MTE", "tag-mismatch", "8 (SEGV_MTEAERR)"),
    tombstone("Cause: [GWP-ASan]: Use After Free, 0 bytes into a 32-byte allocation at 0x7f2b10", "GWP-ASan", "use-after-free", "2 (SEGV_ACCERR)"),
)  # fmt: skip
AT = "==7==    at 0x1091C5: fill (a.c:5)\n==7==    by 0x109261: main (a.c:10)\n"


def valgrind(
    header: str,
    kind: str,
    below: str = "",
    access: Access | None = None,
    roles: tuple[str, ...] = USE,
) -> Case:
    return Case("Valgrind", f"==7== {header}\n{AT}{below}==7== \n", kind, access, roles)


BLOCK = "==7==  Address 0x4a40048 is {} a block of size 40 {}\n" + AT
CREATED = "==7==  Block was alloc'd at\n" + AT
VALGRIND = (
    valgrind("Invalid read of size 8", "heap-use-after-free", BLOCK.format("8 bytes inside", "free'd") + CREATED, access=("READ", 8), roles=LIFE),
    valgrind("Invalid write of size 1", "heap-buffer-overflow", BLOCK.format("0 bytes after", "alloc'd"), access=("WRITE", 1), roles=("allocate", "use")),
    valgrind("Invalid write of size 1", "heap-buffer-overflow", BLOCK.format("4 bytes before", "alloc'd"), access=("WRITE", 1), roles=("allocate", "use")),
    valgrind("Invalid read of size 4", "invalid-read", "==7==  Address 0x0 is not stack'd, malloc'd or (recently) free'd\n", access=("READ", 4)),
    valgrind("Invalid write of size 4", "invalid-write", "==7==  Address 0x1ffefff0 is on thread 1's stack\n", access=("WRITE", 4)),
    valgrind("Jump to the invalid address stated on the next line", "invalid-jump"),
    valgrind("Conditional jump or move depends on uninitialised value(s)", "use-of-uninitialized-value", "==7==  Uninitialised value was created by a heap allocation\n" + AT, roles=("origin", "use")),
    valgrind("Use of uninitialised value of size 8", "use-of-uninitialized-value"),
    valgrind("Syscall param write(buf) points to uninitialised byte(s)", "use-of-uninitialized-value"),
    valgrind("Syscall param exit_group(status) contains uninitialised byte(s)", "use-of-uninitialized-value"),
    valgrind("Uninitialised byte(s) found during client check request", "use-of-uninitialized-value"),
    valgrind("Unaddressable byte(s) found during client check request", "invalid-parameter"),
    valgrind("Syscall param write(buf) points to unaddressable byte(s)", "heap-use-after-free", BLOCK.format("8 bytes inside", "free'd"), roles=("free", "use")),
    valgrind("Invalid free() / delete / delete[] / realloc()", "double-free", BLOCK.format("0 bytes inside", "free'd") + CREATED, roles=LIFE),
    valgrind("Invalid free() / delete / delete[] / realloc()", "bad-free", BLOCK.format("8 bytes inside", "alloc'd"), roles=("allocate", "use")),
    valgrind("Mismatched free() / delete / delete []", "alloc-dealloc-mismatch", BLOCK.format("0 bytes inside", "alloc'd"), roles=("allocate", "use")),
    valgrind("Mismatched new/delete size value: 8", "new-delete-type-mismatch"),
    valgrind("Source and destination overlap in memcpy(0x1ffefff4, 0x1ffefff0, 16)", "memcpy-param-overlap"),
    valgrind("Argument 'size' of function malloc has a fishy (possibly negative) value: -3", "negative-size-param"),
    valgrind("realloc() with size 0", "realloc-size-zero"),
    valgrind("Invalid alignment value: 3 (should be power of 2)", "invalid-allocation-alignment"),
    valgrind("posix_memalign() invalid size value: 0", "invalid-allocation-size"),
    valgrind("Illegal memory pool address", "bad-memory-pool"),
    *(valgrind(f"1,108 (8 direct, 1,100 indirect) bytes in 1 blocks are {how} in loss record 2 of 2", "memory-leak", roles=("leak",)) for how in ("definitely lost", "indirectly lost", "possibly lost", "still reachable")),
    valgrind("40 bytes in 1 blocks are possibly lost in new loss record 2 of 2", "memory-leak", roles=("leak",)),
    *(valgrind(f"Process terminating with default action of signal {number} ({name})", kind) for number, name, kind in ((11, "SIGSEGV", "segv"), (7, "SIGBUS", "bus"), (8, "SIGFPE", "fpe"), (4, "SIGILL", "ill"), (6, "SIGABRT", "abrt"), (5, "SIGTRAP", "trap"))),
    valgrind("Possible data race during write of size 4 at 0x10C060 by thread #1", "data-race", f"==7== \n==7== This conflicts with a previous read of size 4 by thread #2\n==7== Locks held: none\n{AT}", access=("WRITE", 4), roles=("previous_access", "use")),
    Case("Valgrind", f'==7== Thread #1: lock order "0x10C080 before 0x10C0C0" violated\n==7== \n==7== Observed (incorrect) order is: acquisition of lock at 0x10C0C0\n{AT}==7== \n==7==  followed by a later acquisition of lock at 0x10C080\n{AT}==7== \n==7== Required order was established by acquisition of lock at 0x10C080\n{AT}', "lock-order-inversion", None, ("use", "lock_acquire", "lock_acquire")),
    valgrind("Thread #1 unlocked a not-locked lock at 0x10C080", "unlock-of-an-unlocked-mutex"),
    valgrind("Thread #1 unlocked lock at 0x10C080 currently held by thread #2", "unlock-of-a-foreign-mutex"),
    valgrind("Thread #1 unlocked an invalid lock at 0x10C080", "unlock-of-an-invalid-mutex"),
    valgrind("Thread #2: Exiting thread still holds 1 lock", "exit-with-a-locked-mutex"),
    valgrind("Thread #2: Attempt to re-lock a non-recursive lock I already hold", "double-lock-of-a-mutex"),
    valgrind("Thread #1's call to pthread_mutex_lock failed", "thread-api-error"),
    valgrind("Thread #1: pthread_cond_wait called with invalid mutex", "thread-api-misuse"),
    valgrind("Conflicting store by thread 1 at 0x0010c060 size 4", "data-race", access=("WRITE", 4)),
    valgrind("Conflicting load by thread 2/3 at 0x0010c060 size 4", "data-race", access=("READ", 4)),
    valgrind("Mutex not locked by calling thread: mutex 0x10c080, recursion count 0, owner 1.", "unlock-of-an-unlocked-mutex"),
    valgrind("Recursive locking not allowed: mutex 0x10c080, recursion count 1, owner 1.", "double-lock-of-a-mutex"),
    valgrind("Destroying locked mutex: mutex 0x10c080, recursion count 1, owner 1.", "destroy-of-a-locked-mutex"),
)  # fmt: skip
ALL = (
    *ASAN, *OTHERS_WITH_SIGNALS, *OTHERS_WITH_ALLOCATORS, *HWASAN, *LSAN, *MSAN, *TSAN, *UBSAN, *MINIMAL,
    *FUZZER, *GWP_ASAN, *SCUDO, *SMALL, *KERNEL, *ANDROID, *VALGRIND,
)  # fmt: skip


def said(report: PrintedReport) -> tuple[object, ...]:
    access = report.access
    return (
        report.sanitizer,
        report.kind,
        (access.type, access.size) if access is not None else None,
        tuple(event.role.value for event in report.chain),
    )


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.sanitizer}-{case.kind}")
def test_every_kind_is_read(case: Case) -> None:
    log = f"job 17 begins\n{case.text}job 17 ends\n"

    reports = parse_sanitizer_log([log.encode()]).reports

    assert [said(report) for report in reports] == [
        (case.sanitizer, case.kind, case.access, case.roles)
    ]


def test_all_kinds_in_one_log_are_told_apart() -> None:
    texts = [f"line {at}\n{case.text}line {at}\n" for at, case in enumerate(ALL)]
    lines = [text.count("\n") for text in texts]
    starts = [sum(lines[:at]) + 1 for at in range(len(lines) + 1)]

    reports = parse_sanitizer_log(["".join(texts).encode()]).reports

    assert sum(report.occurrences for report in reports) == len(ALL)
    for report in reports:
        at = next(at for at in range(len(ALL)) if report.lines[0] < starts[at + 1])
        assert (report.sanitizer, report.kind) == (ALL[at].sanitizer, ALL[at].kind), ALL[at].text
