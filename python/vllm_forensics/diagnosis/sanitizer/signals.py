"""The first sentence about a report of a signal: SEGV, BUS, FPE, ILL, ABRT."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.sanitizer.frames import name_of
from vllm_forensics.diagnosis.sanitizer.kinds import is_jump, is_null_page
from vllm_forensics.model.sanitizer import PrintedReport, Role

_HIGH_VALUE: Final = "high value address"
_ABORTS: Final = (
    (r"__assert(?:_fail|_perror_fail|_rtn)?(?:_base)?|__GI___assert_fail", "a failed assert()"),
    (
        r"std::(?:__1::)?terminate.*|__cxxabiv1::__terminate.*",
        "std::terminate: an exception that nothing caught, or a thread that was not joined",
    ),
    (r"__cxa_pure_virtual", "a call of a pure virtual function"),
    (r"__stack_chk_fail|__fortify_fail.*|__chk_fail", "the C library's own check of a buffer"),
    (r"Py_FatalError|_Py_FatalError\w*|fatal_error\w*", "the Python interpreter's fatal error"),
    (r"malloc_printerr|__libc_message.*", "the C library's check of its heap"),
    (r"(?:google|absl)::.*(?:Fatal|Fail|Flush).*", "a CHECK or a fatal log message"),
    (r"c10::detail::torchCheckFail|c10::.*Error.*", "a check of PyTorch's"),
    (r"(?:std::panicking|core::panicking)::.*|rust_panic\w*", "a Rust panic"),
)
_ABORT_FRAMES: Final = tuple((re.compile(pattern), words) for pattern, words in _ABORTS)


def segv(report: PrintedReport, where: str) -> str | None:
    """A bad address: a null pointer, a field of one, a wild pointer, or a jump."""
    thread = in_thread(report)
    if is_jump(report):
        is_known = bool(report.chain) and not where.startswith("0x")
        who = f"{where}{thread} calls or jumps" if is_known else f"The program{thread} jumps"
        what = "a wild function pointer"
        if is_null_page(report):
            is_null = int(report.address or "0", 16) == 0
            what = "a null function pointer" if is_null else "a small number taken for a function"
        return f"{who} to {report.address}, where no code is: {what}: {report.kind}."
    verb = verb_of(report)
    if any(_HIGH_VALUE in hint for hint in report.hints) or "address (pc" in (report.message or ""):
        return (
            f"{where} {verb}{thread} at an address that is not printed, because no program can "
            "have it (not canonical, or the kernel's): a wild pointer, not a null one: segv."
        )
    if report.address is None:
        return None
    if is_null_page(report):
        at = int(report.address, 16)
        what = (
            f"a field {at} bytes into an object whose pointer is null" if at else "a null pointer"
        )
        return f"{where} {verb} at {report.address}{thread}: {what}: segv."
    return (
        f"{where} {verb} at {report.address}{thread}, far from null, where nothing is mapped or "
        "the access is not allowed: a wild or stale pointer: segv."
    )


def bus(report: PrintedReport, where: str) -> str:
    """A page that is mapped and cannot be had."""
    at = f" at {report.address}" if report.address else ""
    return (
        f"{where} {verb_of(report)}{at}{in_thread(report)}: bus: the page is mapped and cannot be "
        "had, as beyond the end of a file or of /dev/shm, or the address is misaligned."
    )


def verb_of(report: PrintedReport) -> str:
    """What the access does."""
    kind = report.access.type if report.access else None
    return {"READ": "reads memory", "WRITE": "writes memory"}.get(kind or "", "accesses memory")


def fpe(report: PrintedReport, where: str) -> str:
    """A division."""
    return (
        f"{where} divides{in_thread(report)}: fpe: an integer division by zero, or of the "
        "smallest number by -1."
    )


def ill(report: PrintedReport, where: str) -> str:
    """An instruction that the processor refuses."""
    return (
        f"{where} comes to an instruction that the processor refuses{in_thread(report)}: ill: a "
        "trap that the compiler placed, or a feature that this CPU lacks."
    )


def abrt(report: PrintedReport, where: str) -> str:
    """The program ended itself, and by which check, where a frame tells."""
    way = _abort_way(report)
    by = f", by {way}" if way else ""
    return f"The program ended itself{by}, in {where}{in_thread(report)}: {report.kind}."


def _abort_way(report: PrintedReport) -> str | None:
    use = report.first(Role.USE)
    for pattern, words in _ABORT_FRAMES:
        for frame in use.frames if use else ():
            if frame.function is not None and pattern.fullmatch(name_of(frame)):
                return words
    return None


def in_thread(report: PrintedReport) -> str:
    """` in T1`, or nothing."""
    return f" in {report.thread}" if report.thread else ""
