"""The newer and smaller runtimes of LLVM.

compiler-rt's rtsan_diagnostics.cpp, nsan.cpp, tysan.cpp, dfsan.cpp, ubsan_minimal_handlers.cpp.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import HEX, SIGNAL_RULES
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime

NEEDLE: Final = b"ubsan: "


def _hint(report: ReportBuilder, match: re.Match[str]) -> None:
    report.hints.append(match[0].strip())


def _said(report: ReportBuilder, match: re.Match[str]) -> None:
    report.message = match[0]


def _typed_access(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type = "READ" if match["type"] == "READ" else "WRITE"
    report.access_size = int(match["size"])
    report.address = match["address"]
    report.message = match["types"]


REALTIME: Final = Runtime(
    name="RealtimeSanitizer",
    rules=(
        Fact(r"(?:Intercepted call to real-time unsafe|Call to blocking) function `.*`.*", _said),
        *SIGNAL_RULES,
    ),
)
NUMERICAL: Final = Runtime(
    name="NumericalStabilitySanitizer",
    rules=(
        Fact(r"(?:float|double|long double|__float128|half)\s+precision\s.*"),
        Fact(r"(?:Relative|Absolute) error: .*|\(?[\d.]+ ULPs .*", _hint),
        Fact(r"(?:S|s)hadow truncated to .*"),
        *SIGNAL_RULES,
    ),
    ends_with_summary=False,
    patience=12,
)
TYPE: Final = Runtime(
    name="TypeSanitizer",
    rules=(
        Fact(
            rf"(?P<type>READ|WRITE|ATOMIC UPDATE) of size (?P<size>\d+) at (?P<address>{HEX}) "
            r"(?P<types>with type .{1,400}? (?:partially )?accesses .{1,400})",
            _typed_access,
        ),
        *SIGNAL_RULES,
    ),
    ends_with_summary=False,
    patience=8,
)
DATA_FLOW: Final = Runtime(
    name="DataFlowSanitizer", rules=SIGNAL_RULES, ends_with_summary=False, patience=2
)


def realtime_kind(message: str) -> str | None:
    """`unsafe-library-call`, `blocking-call`: the header is the kind and nothing else."""
    match = re.fullmatch(r"(unsafe-library-call|blocking-call)\W*", message)
    return match[1] if match is not None else None


def numerical_kind(message: str) -> str | None:
    """The shadow computation in a wider type came to another value, or to no number."""
    if message.startswith("inconsistent shadow results"):
        return "inconsistent-shadow-results"
    if message.startswith("floating-point comparison results depend on precision"):
        return "inconsistent-comparison"
    return "nan-detected" if message.startswith("NaN detected") else None


def type_kind(message: str) -> str | None:
    """`type-aliasing-violation`, the only one."""
    return "type-aliasing-violation" if message.startswith("type-aliasing-violation") else None


def data_flow_kind(message: str) -> str | None:
    """`call to uninstrumented function`: labels are lost there."""
    known = ("call to uninstrumented function", "call to uninstrumented vararg function")
    return "uninstrumented-call" if message.startswith(known) else None


MINIMAL: Final = Runtime(
    name="UndefinedBehaviorSanitizer", first_role=None, ends_with_summary=False, patience=0
)
_MINIMAL_HEADER: Final = re.compile(
    rf"(?:^|[\s:|>\]])ubsan: (?P<handler>[a-z][a-z-]{{2,40}})(?: by (?P<pc>{HEX}))?"
    rf"(?: address (?P<address>{HEX}))?(?: \([^)]*\))?\s*$"
)
_HANDLERS: Final = {
    "alignment-assumption": "alignment",
    "out-of-bounds": "bounds",
    "local-out-of-bounds": "local-bounds",
    "builtin-unreachable": "unreachable",
    "missing-return": "return",
    "vla-bound-not-positive": "vla-bound",
    "float-cast-overflow": "float-cast-overflow",
    "invalid-builtin": "builtin",
    "invalid-objc-cast": "objc-cast",
    "function-type-mismatch": "function",
    "implicit-conversion": "implicit-conversion",
    "nonnull-arg": "nonnull-attribute",
    "nonnull-return": "returns-nonnull-attribute",
    "nullability-arg": "nullability-arg",
    "nullability-return": "nullability-return",
    "pointer-overflow": "pointer-overflow",
    "cfi-check-fail": "cfi",
    "dynamic-type-cache-miss": "vptr",
    # One handler of several checks: which one, the message does not say.
    "type-mismatch": "type-mismatch",
    "add-overflow": "add-overflow",
    "sub-overflow": "sub-overflow",
    "mul-overflow": "mul-overflow",
    "negate-overflow": "negate-overflow",
    "divrem-overflow": "divrem-overflow",
    "shift-out-of-bounds": "shift-out-of-bounds",
    "load-invalid-value": "load-invalid-value",
}


def open_minimal(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """The minimal runtime's one line, `ubsan: mul-overflow by 0x4010f2`."""
    match = _MINIMAL_HEADER.search(text)
    kind = _HANDLERS.get(match["handler"]) if match is not None else None
    if match is None or kind is None:
        return None
    report = ReportBuilder(MINIMAL, kind, number, match[0].strip())
    report.message = match[0].strip()
    report.pc = match["pc"]
    report.address = match["address"]
    return report, text[: match.start()]
