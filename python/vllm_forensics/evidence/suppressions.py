"""Suppression files, as the sanitizers read them, with three rule types of our own.

Sources: the pages of AddressSanitizer, LeakSanitizer, ThreadSanitizer and
UndefinedBehaviorSanitizer on clang.llvm.org, and sanitizer_suppressions.cpp: one `TYPE:PATTERN`
a line, `#` begins a comment line.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.sanitizer_sieve import Suppression, UnreadRule

OWN_TYPES: Final = frozenset({"signature", "kind", "culprit"})
RUNTIME_TYPES: Final = frozenset(
    {
        "leak",
        *("race", "race_top", "thread", "mutex", "signal", "deadlock", "called_from_lib"),
        *("interceptor_name", "interceptor_via_fun", "interceptor_via_lib"),
        *("odr_violation", "alloc_dealloc_mismatch", "vptr_check"),
    }
)
UBSAN_CHECKS: Final = frozenset(
    {
        *("alignment", "array-bounds", "bool", "bounds", "builtin", "cfi", "enum"),
        *("float-cast-overflow", "float-divide-by-zero", "function", "implicit-conversion"),
        *("implicit-bitfield-conversion", "implicit-integer-sign-change"),
        *("implicit-integer-truncation", "implicit-signed-integer-truncation"),
        *("implicit-unsigned-integer-truncation", "integer", "integer-divide-by-zero"),
        *("local-bounds", "nonnull-attribute", "null", "nullability", "nullability-arg"),
        *("nullability-assign", "nullability-return", "object-size", "pointer-overflow"),
        *("return", "returns-nonnull-attribute", "shift", "shift-base", "shift-exponent"),
        *("signed-integer-overflow", "undefined", "unreachable", "unsigned-integer-overflow"),
        *("unsigned-shift-base", "vla-bound", "vptr"),
    }
)
_COMPILE_TIME: Final = frozenset({"fun", "src", "type", "mainfile", "global"})
_MAX_RULES: Final = 10_000
_LONGEST: Final = 4096


def parse_suppressions(text: str) -> tuple[tuple[Suppression, ...], tuple[UnreadRule, ...]]:
    """The rules in order, and the lines that are none."""
    rules: list[Suppression] = []
    unread: list[UnreadRule] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip().removeprefix("\ufeff")
        if not line or line.startswith("#"):
            continue
        kind, colon, pattern = line.partition(":")
        why = _why_not(kind, colon, pattern)
        if why is None and len(rules) >= _MAX_RULES:
            why = f"only the first {_MAX_RULES:,} rules are read"
        if why is not None:
            unread.append(UnreadRule(line=number, text=line[:200], why=why))
            if len(unread) >= _MAX_RULES:
                break
        else:
            rules.append(Suppression(type=kind, pattern=pattern, line=number))
    return tuple(rules), tuple(unread)


def _why_not(kind: str, colon: str, pattern: str) -> str | None:
    if not colon:
        return "a rule is TYPE:PATTERN"
    if kind in _COMPILE_TIME or kind.startswith("["):
        return f"{kind}: belongs to the compiler's -fsanitize-ignorelist"
    if kind not in OWN_TYPES | RUNTIME_TYPES | UBSAN_CHECKS:
        return f"no sanitizer has a suppression of the type {kind[:40]!r}"
    if not pattern or len(pattern) > _LONGEST:
        return "its pattern is empty" if not pattern else "its pattern is too long"
    return None
