"""What is known of each kind: its class in the CWE list, how dangerous it is and why."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.sanitizer import PrintedReport, Relation, Role, Severity

_CWE: Final = {
    "heap-use-after-free": 416,
    "use-after-free": 416,
    "double-free": 415,
    "stack-use-after-return": 562,
    "stack-use-after-scope": 825,
    "bad-free": 590,
    "invalid-free": 590,
    "alloc-dealloc-mismatch": 762,
    "new-delete-type-mismatch": 762,
    "stack-overflow": 674,
    "fpe": 369,
    "abrt": 617,
    "memory-leak": 401,
    "data-race": 362,
    "data-race-on-vptr": 362,
    "lock-order-inversion": 833,
    "unlock-of-an-unlocked-mutex": 832,
    "double-lock-of-a-mutex": 764,
    "destroy-of-a-locked-mutex": 667,
    "thread-leak": 772,
    "signal-unsafe-call-inside-of-a-signal": 479,
    "use-of-uninitialized-value": 457,
    "allocation-size-too-big": 789,
    "out-of-memory": 789,
    "rss-limit-exceeded": 789,
    "timeout": 835,
    "calloc-overflow": 190,
    "reallocarray-overflow": 190,
    "pvalloc-overflow": 190,
    "negative-size-param": 195,
    "memcpy-param-overlap": 475,
    "initialization-order-fiasco": 696,
    "invalid-pointer-pair": 469,
    "signed-integer-overflow": 190,
    "unsigned-integer-overflow": 190,
    "integer-divide-by-zero": 369,
    "shift-exponent": 1335,
    "shift-base": 1335,
    "bounds": 129,
    "null": 476,
    "nonnull-attribute": 476,
    "returns-nonnull-attribute": 476,
    "float-cast-overflow": 681,
    "implicit-conversion": 197,
    "vptr": 843,
    "function": 843,
    "object-size": 119,
    "pointer-overflow": 823,
    "vla-bound": 131,
    "unreachable": 758,
    "return": 758,
    "builtin": 758,
    "alignment": 758,
    "local-bounds": 129,
    "add-overflow": 190,
    "sub-overflow": 190,
    "mul-overflow": 190,
    "negate-overflow": 190,
    "shift-out-of-bounds": 1335,
    # Valgrind
    "invalid-read": 125,
    "invalid-write": 787,
    "invalid-jump": 822,
    "invalid-parameter": 822,
    "unlock-of-a-foreign-mutex": 832,
    "unlock-of-an-invalid-mutex": 832,
    "exit-with-a-locked-mutex": 772,
    # the kernel
    "slab-use-after-free": 416,
    "null-ptr-deref": 476,
    "wild-memory-access": 822,
    "user-memory-access": 822,
    "uninit-value": 457,
    "kernel-infoleak": 200,
    # the smaller runtimes
    "type-aliasing-violation": 843,
    "inconsistent-shadow-results": 1339,
    "inconsistent-comparison": 1339,
}
_NULL_PAGE: Final = 1 << 16
_MEMORY: Final = re.compile(
    r".*(?:buffer-overflow|buffer-underflow|container-overflow|tag-mismatch|out-of-bounds)"
)
_RACE: Final = re.compile(r"data-race|lock-|(?:un|double-)lock-|exit-with-a-locked|thread-api")
_OWN_MEMORY: Final = re.compile(r"data-race|type-aliasing")
"""Such a write goes to memory that the program does own."""
_INVALID: Final = {"invalid-read", "invalid-write", "invalid-jump", "null-ptr-deref"}
_ALWAYS_HIGH: Final = {
    "heap-use-after-free": "freed memory may by now belong to another object",
    "use-after-free": "freed memory may by now belong to another object",
    "slab-use-after-free": "freed memory may by now belong to another object",
    "double-free": "the allocator's lists are damaged by a second free",
    "bad-free": "the allocator is handed an address that it never gave out",
    "invalid-free": "the allocator is handed an address that it never gave out",
    "misaligned-pointer": "the allocator is handed an address that it never gave out",
    "invalid-chunk-state": "the block was freed before, or its header was overwritten",
    "corrupted-chunk-header": "memory before the block was overwritten",
    "stack-use-after-return": "the frame may by now be another call's",
    "vptr": "a call through this object's table may go anywhere",
    "function": "a call through a pointer of the wrong type may go anywhere",
    "cfi": "a call may go anywhere",
}
_MEDIUM: Final = {
    "segv": "the program ends at once; where the pointer leads is chance",
    "bus": "the program ends at once; the memory behind the address is gone",
    "alloc-dealloc-mismatch": "undefined: it works only where both allocators are one underneath",
    "new-delete-type-mismatch": "the wrong destructor runs, and the allocator gets a wrong size",
    "stack-use-after-scope": "the variable's place may by now hold another variable",
    "use-after-poison": "it reads memory that its owner marked as unused",
    "negative-size-param": "taken as a huge size: the copy would leave the block",
    "initialization-order-fiasco": "whether the value is set depends on the order of linking",
    "invalid-pointer-pair": "the result depends on where the allocator put the blocks",
    "deadly-signal": "the input ends the program",
    "overwrites-const-input": "the fuzzer's input is damaged: its results are void",
}
_LOW: Final = {
    "memory-leak": "memory is lost, nothing is corrupted",
    "thread-leak": "a thread is never joined, nothing is corrupted",
    "out-of-memory": "the program ends, nothing is corrupted",
    "rss-limit-exceeded": "the program ends, nothing is corrupted",
    "allocation-size-too-big": "the request is refused, nothing is corrupted",
    "timeout": "the program hangs or is slow, nothing is corrupted",
    "fuzz-target-exited": "the target ended itself",
    "abrt": "the program ended itself",
    "fpe": "the program ends at once, nothing is corrupted",
    "ill": "the program ends at once, nothing is corrupted",
    "trap": "the program ends at once, nothing is corrupted",
    "null": "a null pointer is caught by the processor, nothing is corrupted",
    "unsigned-integer-overflow": "defined behaviour: it wraps",
    "implicit-conversion": "defined behaviour: the value changes",
    "odr-violation": "two definitions of one name: which one is used is chance",
    "unsafe-library-call": "a deadline may be missed, nothing is corrupted",
    "blocking-call": "a deadline may be missed, nothing is corrupted",
    "inconsistent-shadow-results": "a result is less exact than it looks, nothing is corrupted",
    "inconsistent-comparison": "a decision rests on rounding, nothing is corrupted",
    "nan-detected": "a result is no number, nothing is corrupted",
    "uninstrumented-call": "labels are lost in that call, nothing is corrupted",
    "realloc-size-zero": "what it does differs between C libraries",
    "stack-overflow": "the guard page stops it, nothing is corrupted",
}


def is_null_page(report: PrintedReport) -> bool:
    """Was the address below 64 KiB: a null pointer, or a field of one?"""
    return report.address is not None and int(report.address, 16) < _NULL_PAGE


def is_jump(report: PrintedReport) -> bool:
    """Did the processor fetch code from the bad address: a jump, whatever access is printed?"""
    if report.kind == "invalid-jump":
        return True
    use = report.first(Role.USE)
    top = use.frames[0] if use is not None and use.frames else None
    nowhere = top is not None and top.function is None and top.file is None and not top.offset
    pc = report.pc or (top.pc if top is not None and nowhere else None)
    return (
        report.kind == "segv"
        and report.address is not None
        and pc is not None
        and int(report.address, 16) == int(pc, 16)
    )


def cwe_of(report: PrintedReport) -> str | None:
    """The class of the weakness, where one fits."""
    number = _CWE.get(report.kind)
    if number is None and _MEMORY.fullmatch(report.kind):
        number = _memory_cwe(report)
    if report.kind == "segv":
        number = 476 if is_null_page(report) else 119
    elif report.kind in _INVALID and is_null_page(report):
        number = 476
    elif report.kind == "bad-free" and report.region is not None:
        number = 761 if report.region.kind == "heap" else 590
    elif report.kind.endswith("-param-overlap"):
        number = 475
    return f"CWE-{number}" if number is not None else None


def _memory_cwe(report: PrintedReport) -> int:
    writes = report.access is not None and report.access.type == "WRITE"
    if report.kind == "tag-mismatch":
        return 416 if any("use-after-free" in hint for hint in report.hints) else 119
    before = report.region is not None and report.region.relation is Relation.BEFORE
    if before or "underflow" in report.kind:
        return 124 if writes else 127
    if not writes:
        return 125
    if report.kind.startswith("heap"):
        return 122
    return 121 if "stack" in report.kind else 787


def severity_of(report: PrintedReport) -> tuple[Severity, tuple[str, ...]]:
    """How dangerous, and the reasons."""
    kind = report.kind
    writes = report.access is not None and report.access.type == "WRITE"
    writes = writes and not _OWN_MEMORY.match(kind)
    why: list[str] = []
    if writes and not is_null_page(report):
        why.append(f"it writes {_size(report)} of memory that it does not own")
    if kind in _ALWAYS_HIGH:
        return Severity.HIGH, (*why, _ALWAYS_HIGH[kind])
    if is_jump(report) and not is_null_page(report):
        return Severity.HIGH, ("control goes to an address that the program did not mean",)
    if (kind == "segv" or kind in _INVALID) and is_null_page(report):
        return Severity.LOW, ("the address is in the null page: caught, nothing is corrupted",)
    if kind in _LOW:
        return Severity.LOW, (_LOW[kind],)
    if writes and report.sanitizer != "ThreadSanitizer":
        return Severity.HIGH, tuple(why)
    return Severity.MEDIUM, (_medium(report),)


def _is_race(report: PrintedReport) -> bool:
    """Threads that disagree, about memory or locks."""
    return report.sanitizer == "ThreadSanitizer" or bool(_RACE.match(report.kind))


def _medium(report: PrintedReport) -> str:
    if _is_race(report):
        return "what happens depends on timing"
    if report.sanitizer.endswith("UndefinedBehaviorSanitizer") or report.kind.startswith("type-"):
        return "the compiler may assume that this never happens"
    if _MEMORY.fullmatch(report.kind):
        return "it reads memory that it does not own: wrong data, or a leak of it"
    if report.kind == "use-of-uninitialized-value":
        return "a decision rests on a value that nobody set"
    if report.kind in {"uninit-value", "kernel-infoleak"}:
        return "a value that nobody set is used, or leaves the kernel"
    return _MEDIUM.get(report.kind, f"{report.kind} ends or misleads the program")


def _size(report: PrintedReport) -> str:
    size = report.access.size if report.access else None
    if size is None:
        return "a piece"
    return f"{size} byte{'s' if size != 1 else ''}"
