"""What to do next, by kind; the most useful first."""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.sanitizer import PrintedReport, Role

_BY_KIND: Final = {
    "heap-use-after-free": (
        "make the user own the block, or end its use before the free: the three places are above",
    ),
    "double-free": ("leave one owner: a unique_ptr, or an id that is checked before the free",),
    "bad-free": ("free only what an allocation gave back, at its first byte",),
    "alloc-dealloc-mismatch": ("pair malloc with free, new with delete, new[] with delete[]",),
    "new-delete-type-mismatch": ("delete through the type that was made; a virtual destructor",),
    "heap-buffer-overflow": ("check the index against the size of the allocation above",),
    "stack-buffer-overflow": ("check the index against the size of the variable above",),
    "global-buffer-overflow": ("check the index against the size of the variable above",),
    "container-overflow": ("compare with size(), not with capacity()",),
    "stack-use-after-scope": ("declare the variable outside of the block that ends too early",),
    "stack-use-after-return": ("return by value; no pointer to a local may leave its function",),
    "stack-overflow": ("end the recursion, or make it a loop; ulimit -s only moves the limit",),
    "use-of-uninitialized-value": (
        "set the value where it is created",
        "MSAN_OPTIONS=... with -fsanitize-memory-track-origins=2 names that place",
    ),
    "data-race": ("guard both accesses with one mutex, or make the variable atomic",),
    "lock-order-inversion": ("take the locks in one order everywhere, or both with std::lock",),
    "memory-leak": ("give the allocation an owner; direct leaks first, the others go with them",),
    "odr-violation": ("rename one, or put it into an anonymous namespace",),
    "out-of-memory": ("find what grows: -malloc_limit_mb=N stops at the first large request",),
    "check-failed": ("the runtime itself failed: try its newest version, then report it there",),
}


def next_steps(report: PrintedReport) -> tuple[str, ...]:
    """Actions and commands for this report."""
    steps = list(_BY_KIND.get(report.kind, ()))
    free, use = report.first(Role.FREE), report.first(Role.USE)
    if free is not None and use is not None and free.thread != use.thread and free.thread:
        steps.append("forensics build --tsan finds the race itself")
    if report.kind == "segv":
        steps.append("see which pointer was null or wild: forensics core CORE, where one was kept")
    if report.sanitizer == "MemorySanitizer" and report.first(Role.ORIGIN) is None:
        steps.insert(0, "build with -fsanitize-memory-track-origins=2 to learn where it comes from")
    if report.sanitizer == "UndefinedBehaviorSanitizer" and not report.chain:
        steps.append("UBSAN_OPTIONS=print_stacktrace=1 shows who called")
    frames = [frame for event in report.chain for frame in event.frames]
    if frames and not any(frame.function for frame in frames):
        steps.append(
            "no names: forensics asan --symbolize LOG, on a machine with the build that ran"
        )
    if report.truncated:
        steps.append("the report is cut off: get the whole log, or write it to a file (log_path=…)")
    return tuple(steps)
