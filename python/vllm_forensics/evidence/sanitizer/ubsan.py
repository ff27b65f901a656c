"""UndefinedBehaviorSanitizer: ubsan_handlers.cpp; a message stands for one -fsanitize= check."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import HEX, SIGNAL_RULES
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, first_of

CHECKS: Final = (
    (r"unsigned integer overflow|negation of \S+ cannot be .* 'unsigned",
     "unsigned-integer-overflow"),
    (r"signed integer overflow|negation of|division of \S+ by -1", "signed-integer-overflow"),
    (r"division by zero", "integer-divide-by-zero"),
    (r"shift exponent", "shift-exponent"),
    (r"left shift of", "shift-base"),
    (r"assumption of \d+ byte alignment|.*\bmisaligned address", "alignment"),
    (r".*\binsufficient space for an object", "object-size"),
    (r".*\bwhich does not point to an object of type", "vptr"),
    (r"(?:applying|pointer index expression|addition of unsigned|subtraction of unsigned)",
     "pointer-overflow"),
    (r"index \S+ out of bounds", "bounds"),
    (r"access out of bounds", "local-bounds"),
    (r"load of value .*, which is not a valid value for type "
     r"'(?:const |volatile )*(?:bool|_Bool|BOOL)", "bool"),
    (r"load of value .*, which is not a valid value for type", "enum"),
    (r".*is outside the range of representable values", "float-cast-overflow"),
    (r"variable length array bound", "vla-bound"),
    (r"execution reached (?:an unreachable program point|a __builtin_unreachable)", "unreachable"),
    (r"execution reached the end of a value-returning function", "return"),
    (r"null pointer passed as argument", "nonnull-attribute"),
    (r"null pointer returned from function", "returns-nonnull-attribute"),
    (r"call to function .* through pointer to incorrect function type", "function"),
    (r"control flow integrity check", "cfi"),
    (r"passing zero to|assumption is violated", "builtin"),
    (r"implicit conversion", "implicit-conversion"),
    (r"invalid Obj(?:ective-)?C cast", "objc-cast"),
    (r"_Nonnull binding to null pointer", "nullability-assign"),
    (r"(?:load of|store to|member access within|member call on|reference binding to|upcast of"
     r"|downcast of|cast to virtual base of|constructor call on|dynamic operation on"
     r"|memcpy|atomic).*\bnull pointer", "null"),
)  # fmt: skip
_CHECK: Final = first_of(pattern for pattern, _ in CHECKS)
_MARK: Final = re.compile(r":\s{0,4}runtime error: ")
_LINE: Final = re.compile(r":(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?$")
_NO_LINE: Final = re.compile(r"(?:<unknown>|\?\?|\([^()]{1,400}\+0x[0-9a-f]+\))$")
_BEFORE_PLACE: Final = re.compile(
    # A line's number, a comment's sign, a logger's name: none of them begins a path
    r"^(?:L?\d{1,7}(?:\t|:(?=\D)| *[|\u2502]) ?|// "
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{1,60}:)"
)
_PID: Final = re.compile(r"==(\d{1,18})==")
_ADDRESS: Final = re.compile(rf"(?:address|for pointer|base) ({HEX})")
_READ: Final = re.compile(r"load of (?:null|misaligned|address)|load of value")
_WRITE: Final = re.compile(r"store to (?:null|misaligned|address)")


def check_of(message: str) -> str | None:
    """The -fsanitize= check that a message stands for."""
    match = _CHECK.match(message)
    return CHECKS[int((match.lastgroup or "r0")[1:])][1] if match is not None else None


def open_report(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """A report where the line is one, and the text that stands before its place."""
    mark = _MARK.search(text)
    if mark is None:
        return None
    before = text[: mark.start()]
    has_line = _LINE.search(before) is not None
    if not has_line and _NO_LINE.search(before) is None:
        return None
    report = ReportBuilder(RUNTIME, None, number, text.strip())
    message = text[mark.end() :].strip()
    report.message = message
    report.kind = check_of(message)
    report.provisional = report.kind is None or not has_line
    pid = _PID.search(before)
    report.pid = int(pid[1]) if pid is not None else None
    report.location = _place(before[pid.end() :] if pid is not None else before)
    _read_access(report, message)
    return report, before.removesuffix(report.location)


def _read_access(report: ReportBuilder, message: str) -> None:
    address = _ADDRESS.search(message)
    if address is not None and report.kind in {"alignment", "vptr", "object-size"}:
        report.address = address[1]
    if report.kind in {"null", "alignment", "object-size"}:
        if _READ.match(message):
            report.access_type = "READ"
        elif _WRITE.match(message):
            report.access_type = "WRITE"


def _place(place: str) -> str:
    """Without the text that another program left on the same line."""
    place = _BEFORE_PLACE.sub("", place.strip())
    if " " not in place or place.startswith("/") or place[1:3] in {":\\", ":/"}:
        return place
    tail = place.rpartition(" ")[2]
    return tail if "/" in tail or "." in tail or "\\" in tail else place


RUNTIME: Final = Runtime(
    name="UndefinedBehaviorSanitizer",
    rules=(
        Fact(r".{0,1000}?: note: |[0-9a-f]{2}(?: {1,2}[0-9a-f]{2}){4,}|[\^~ ]+$|vptr for '"),
        Fact(r"(?:<memory cannot be printed>|object has |invalid vptr)"),
        *SIGNAL_RULES,
    ),
    ends_with_summary=False,
    last_words=re.compile(r":\d+ in$"),
    patience=4,
)
SIGNAL_RUNTIME: Final = Runtime(name="UndefinedBehaviorSanitizer", rules=SIGNAL_RULES)
"""A fatal signal that its handler caught is printed as AddressSanitizer prints one."""
