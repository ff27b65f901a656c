"""What to do next, by kind; the most useful first."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.sanitizer.frames import own_by_default
from vllm_forensics.diagnosis.sanitizer.kinds import is_jump, is_null_page
from vllm_forensics.model.sanitizer import PrintedReport, Role, StackEvent

_OVERFLOW: Final = "check the index or length against the size of the {} above, before the access"
_MUTEX: Final = "hold locks with std::lock_guard, and let their owner outlive every thread"
_OVERLAP: Final = "use memmove, which allows an overlap, or separate buffers"
_LIMIT: Final = "check the size where it comes from: it was not meant to be this large"
_CHECK: Final = "print the value just before this line, and test it where it comes from"
_BY_KIND: Final = {
    "heap-use-after-free": (
        "let the user own the block (shared_ptr, or a copy), or end its use before the free",
    ),
    "double-free": (
        "leave one owner: a unique_ptr, or an id that is checked before the free",
        "a copied object that frees in its destructor: delete or define its copy and move",
    ),
    "bad-free": ("free only what an allocation gave back, at its first byte",),
    "bad-malloc_usable_size": ("ask only for blocks that malloc gave, at their first byte",),
    "alloc-dealloc-mismatch": ("pair malloc with free, new with delete, new[] with delete[]",),
    "new-delete-type-mismatch": (
        "delete through the type that was made, or give the base a virtual destructor",
    ),
    "heap-buffer-overflow": (_OVERFLOW.format("allocation"),),
    "stack-buffer-overflow": (_OVERFLOW.format("variable"),),
    "stack-buffer-underflow": ("check the index: it fell below zero",),
    "dynamic-stack-buffer-overflow": (
        "check the index against the length of the array; prefer a std::vector with at()",
    ),
    "global-buffer-overflow": (_OVERFLOW.format("variable"),),
    "container-overflow": (
        "compare with size(), not with capacity(); resize() instead of reserve()",
        "if a module that is linked in was built without ASan, it may be a false alarm: "
        "detect_container_overflow=0",
    ),
    "use-after-poison": (
        "the program's own allocator marked these bytes as unused: find who gave them back",
    ),
    "stack-use-after-scope": ("declare the variable outside of the block that ends too early",),
    "stack-use-after-return": ("return by value; no pointer to a local may leave its function",),
    "stack-overflow": ("end the recursion, or make it a loop; ulimit -s only moves the limit",),
    "initialization-order-fiasco": (
        "make the global a function's static, or constinit: then no order matters",
    ),
    "invalid-pointer-pair": (
        "compare or subtract pointers into one block only; std::less orders any two",
    ),
    "negative-size-param": ("check the size before it becomes unsigned: it was computed below 0",),
    "allocation-size-too-big": (_LIMIT, "allocator_may_return_null=1 lets the program handle it"),
    "calloc-overflow": (_LIMIT,),
    "out-of-memory": (
        "find what grows: -malloc_limit_mb=N stops at the first large request",
        "run the input that libFuzzer wrote alone: ./fuzzer oom-…",
    ),
    "rss-limit-exceeded": (
        "find what grows: a heap profiler, or a lower hard_rss_limit_mb to stop earlier",
    ),
    "timeout": ("run the input that libFuzzer wrote alone, under a profiler: ./fuzzer timeout-…",),
    "deadly-signal": ("run the input that libFuzzer wrote alone, under gdb: ./fuzzer crash-…",),
    "fuzz-target-exited": ("return from the target instead of calling exit()",),
    "overwrites-const-input": (
        "copy the input before changing it: the target may not write to it",
    ),
    "use-of-uninitialized-value": ("set the value where it is created",),
    "data-race": ("guard both accesses with one mutex, or make the variable atomic",),
    "data-race-on-vptr": (
        "end or join the other thread before the destructor, or the constructor's end, is reached",
    ),
    "thread-leak": ("join() the thread, or detach() it",),
    "lock-order-inversion": (
        "take the locks in one order everywhere, or both with std::scoped_lock",
    ),
    "unlock-of-an-unlocked-mutex": (_MUTEX,),
    "double-lock-of-a-mutex": (_MUTEX,),
    "destroy-of-a-locked-mutex": (_MUTEX,),
    "signal-unsafe-call-inside-of-a-signal": (
        "do nothing in the handler but set a flag or write(): man 7 signal-safety",
    ),
    "memory-leak": ("give the allocation an owner; direct leaks first, the others go with them",),
    "odr-violation": ("rename one, or put it into an anonymous namespace",),
    "bus": ("compare the file's length with what is mapped; df /dev/shm, if it is shared memory",),
    "fpe": ("test the divisor before the division",),
    "ill": ("forensics core CORE names the instruction, and the CPU feature that it needs",),
    "abrt": ("read the lines above the report: what aborted says why there",),
    "invalid-parameter": ("check the argument against the function's manual page",),
    "check-failed": ("the runtime itself failed: try its newest version, then report it there",),
    "signed-integer-overflow": ("compute in a wider type, or with __builtin_add_overflow",),
    "unsigned-integer-overflow": (
        'if it is meant to wrap, say so: __attribute__((no_sanitize("unsigned-integer-overflow")))',
    ),
    "implicit-conversion": ("cast explicitly where the loss is meant; check the range elsewhere",),
    "integer-divide-by-zero": ("test the divisor before the division",),
    "float-divide-by-zero": ("test the divisor, or handle the infinity that comes of it",),
    "float-cast-overflow": ("clamp the value to the type's range before the cast",),
    "shift-exponent": ("keep the exponent below the type's width; shift in a wider type",),
    "shift-base": ("shift unsigned values",),
    "bounds": ("check the index against the array's length; std::array::at()",),
    "null": ("find who gave the null pointer: a frame above, or a failed lookup",),
    "nonnull-attribute": ("do not call with null, even for a length of 0",),
    "returns-nonnull-attribute": ("return a valid pointer, or take the attribute away",),
    "alignment": ("read through memcpy into a local, or align the buffer with alignas",),
    "object-size": ("check the offset against the object's size",),
    "pointer-overflow": ("check the offset before it is added; null plus an offset is no pointer",),
    "vptr": (
        "the object is of another type, destroyed, or not yet constructed: run with ASan too",
    ),
    "function": ("declare the pointer with the function's own type, do not cast it",),
    "enum": (_CHECK,),
    "bool": (_CHECK,),
    "vla-bound": ("check that the length is above 0; prefer a std::vector",),
    "unreachable": ("the code that was promised unreachable is reached: handle that case",),
    "return": ("return a value on every path: -Wreturn-type names them",),
    "builtin": ("test for 0 before __builtin_clz and __builtin_ctz",),
    "cfi": ("call through the function's own type; a freed object's table is not one: run ASan",),
    "unsafe-library-call": ("allocate, lock and do I/O before the real-time function is entered",),
    "blocking-call": ("hand the work to another thread, through a queue that never blocks",),
    "type-aliasing-violation": (
        "copy with memcpy or std::bit_cast instead of casting the pointer",
    ),
    "inconsistent-shadow-results": (
        "reorder the computation so that no nearly equal values are subtracted, or widen the type",
    ),
    "inconsistent-comparison": ("compare with a tolerance that fits the rounding errors",),
    "thread-api-error": ("check the call's result: the error's name is in the report",),
    "thread-api-misuse": ("man 3 of the call named above says what it requires",),
}
_ALIASES: Final = {
    # GWP-ASan, Scudo, the kernel
    "use-after-free": "heap-use-after-free",
    "slab-use-after-free": "heap-use-after-free",
    "buffer-overflow": "heap-buffer-overflow",
    "buffer-underflow": "heap-buffer-overflow",
    "slab-out-of-bounds": "heap-buffer-overflow",
    "stack-out-of-bounds": "stack-buffer-overflow",
    "global-out-of-bounds": "global-buffer-overflow",
    "invalid-free": "bad-free",
    "misaligned-pointer": "bad-free",
    "invalid-chunk-state": "double-free",
    "uninit-value": "use-of-uninitialized-value",
    "reallocarray-overflow": "calloc-overflow",
    "pvalloc-overflow": "calloc-overflow",
    # HWAddressSanitizer: freed or out of bounds, which the shadow's tags cannot tell
    "tag-mismatch": "heap-buffer-overflow",
    # the minimal runtime of UndefinedBehaviorSanitizer
    "add-overflow": "signed-integer-overflow",
    "sub-overflow": "signed-integer-overflow",
    "mul-overflow": "signed-integer-overflow",
    "negate-overflow": "signed-integer-overflow",
    "divrem-overflow": "integer-divide-by-zero",
    "shift-out-of-bounds": "shift-exponent",
    "out-of-bounds": "bounds",
    "type-mismatch": "null",
    "missing-return": "return",
    "builtin-unreachable": "unreachable",
    "vla-bound-not-positive": "vla-bound",
    "load-invalid-value": "enum",
    "invalid-builtin": "builtin",
    "nonnull-arg": "nonnull-attribute",
    "nonnull-return": "returns-nonnull-attribute",
    "nullability-arg": "nonnull-attribute",
    "nullability-return": "returns-nonnull-attribute",
    "function-type-mismatch": "function",
    "dynamic-type-cache-miss": "vptr",
    "local-bounds": "bounds",
    # Valgrind
    "unlock-of-a-foreign-mutex": "unlock-of-an-unlocked-mutex",
    "unlock-of-an-invalid-mutex": "unlock-of-an-unlocked-mutex",
    "exit-with-a-locked-mutex": "unlock-of-an-unlocked-mutex",
}
"""Other runtimes' names of the same faults."""
_BAD_ADDRESSES: Final = {"segv", "invalid-read", "invalid-write", "invalid-jump", "null-ptr-deref"}
_SHORT: Final = 4


def next_steps(report: PrintedReport) -> tuple[str, ...]:
    """Actions and commands for this report."""
    steps = list(_BY_KIND.get(_ALIASES.get(report.kind, report.kind), ()))
    if report.region is None:  # nothing of the block was printed
        steps = [re.sub(r"(allocation|variable) above", r"\1", step) for step in steps]
    if report.kind.endswith("-param-overlap"):
        steps.append(_OVERLAP)
    free, use = report.first(Role.FREE), report.first(Role.USE)
    if free is not None and use is not None and free.thread != use.thread and free.thread:
        steps.append("forensics build --tsan finds the race itself")
    if report.kind in _BAD_ADDRESSES:
        steps += _segv(report)
    if report.sanitizer == "MemorySanitizer" and report.first(Role.ORIGIN) is None:
        steps.insert(0, "build with -fsanitize-memory-track-origins=2 to learn where it comes from")
    if report.sanitizer == "UndefinedBehaviorSanitizer" and not report.chain:
        steps.append(
            "UBSAN_OPTIONS=print_stacktrace=1 shows who called"
            if report.location
            else "build without -fsanitize-minimal-runtime: the full runtime names the place"
        )
    if not steps:
        steps.append("the first own frame above is the place to look; the raw text is in the JSON")
    return (*steps, *_to_see_more(report))


def _segv(report: PrintedReport) -> list[str]:
    if is_jump(report):
        return ["find who called through the pointer: the first own frame; a core tells its value"]
    if is_null_page(report):
        step = "find who left the pointer null: a failed lookup, a reset(), a moved-from owner"
    else:
        step = "find who computed the address: an index, or an object that was overwritten"
    return [step, "forensics core CORE tells the pointer's value, where a core was kept"]


def _to_see_more(report: PrintedReport) -> list[str]:
    steps = []
    frames = [frame for event in report.chain for frame in event.frames]
    if frames and not any(frame.function for frame in frames):
        steps.append(
            "no names: forensics asan --symbolize LOG, where the build that ran is; else run it "
            "again with symbolize=1, -g and llvm-symbolizer on PATH"
        )
    if any(_is_cut_short(report.first(role)) for role in (Role.ALLOCATE, Role.FREE)):
        steps.append("ASAN_OPTIONS=fast_unwind_on_malloc=0 prints the callers that are missing")
    if report.truncated:
        steps.append("the report is cut off: get the whole log, or write it to a file (log_path=…)")
    return steps


def _is_cut_short(event: StackEvent | None) -> bool:
    """Does the stack end in a runtime: the fast unwinder found no frame pointer there?"""
    return (
        event is not None
        and 0 < len(event.frames) <= _SHORT
        and not any(own_by_default(frame) for frame in event.frames)
    )
