"""Does a suppression match a report, or one of its leaks? By the rules of each runtime.

Patterns (sanitizer_common's TemplateMatch): a part of the text anywhere; `*` is any text, `^` and
`$` are its ends. They are held against a frame's function, file and module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.sanitizer import (
    Culprit,
    ExplainedReport,
    PrintedFrame,
    PrintedReport,
    Role,
    StackEvent,
)
from vllm_forensics.model.sanitizer_sieve import Suppression, signature_key

_INTERCEPTOR: Final = re.compile(
    r"_{0,3}(?:interceptor_)+\w+|__(?:a|hwa|t|m)san_mem\w+|(?:mem|str|wcs)\w+|\w*(?:printf|scanf)|f?(?:read|write)|recv\w*"
    r"|send\w*|malloc|free|calloc|realloc|operator (?:new|delete)(?:\[\])?|pthread_\w+"
)
_PREFIX: Final = re.compile(r"^_*(?:(?:interceptor|asan|hwasan|tsan|msan)_)+")
_PLACE: Final = re.compile(r"(.+?)(?::\d+){1,2}")
_CHECKS_OF: Final = {
    "integer": (
        *("signed-integer-overflow", "unsigned-integer-overflow", "integer-divide-by-zero"),
        *("shift-base", "shift-exponent", "implicit-conversion"),
    ),
    "shift": ("shift-base", "shift-exponent"),
    "unsigned-shift-base": ("shift-base",),
    "array-bounds": ("bounds",),
    "local-bounds": ("bounds",),
    "nullability": ("nonnull-attribute", "returns-nonnull-attribute", "null"),
    "vptr_check": ("vptr",),
}


def matches_pattern(pattern: str, text: str | None) -> bool:
    """The runtimes' own matching; its time is linear in the text for each `*`."""
    if not text:
        return False
    at_start, at_end = pattern.startswith("^"), pattern.endswith("$")
    body = pattern[at_start : len(pattern) - at_end]
    pieces = body.split("*")
    if at_start and at_end and len(pieces) == 1:
        return text == body
    if at_start and not text.startswith(pieces[0]):
        return False
    place = 0
    for position, piece in enumerate(pieces):
        if at_end and position == len(pieces) - 1:
            return len(text) - len(piece) >= place and text.endswith(piece)
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def suppresses(rule: Suppression, report: ExplainedReport) -> bool:
    """Does the rule leave out the whole report?"""
    printed = report.printed
    by_conclusion = {
        "signature": lambda: _is_signature(rule, report.signature),
        "kind": lambda: matches_pattern(f"^{rule.pattern}$", printed.kind),
        "culprit": lambda: not printed.leaks and _is_culprit(rule, report.culprit),
    }
    by_runtime = {
        "AddressSanitizer": _address_rule,
        "ThreadSanitizer": _thread_rule,
        "UndefinedBehaviorSanitizer": _undefined_rule,
    }
    if rule.type in by_conclusion:
        return by_conclusion[rule.type]()
    return printed.sanitizer in by_runtime and by_runtime[printed.sanitizer](rule, printed)


def suppresses_leak(rule: Suppression, report: ExplainedReport, number: int) -> bool:
    """Does the rule leave out this one of the report's leaks?"""
    leak = report.leaks[number]
    if rule.type == "signature":
        return _is_signature(rule, leak.signature)
    if rule.type == "culprit":
        return _is_culprit(rule, leak.culprit)
    stacks = report.printed.stacks(Role.LEAK)
    return (
        rule.type == "leak"
        and number < len(stacks)
        and _in_frames(rule.pattern, stacks[number].frames)
    )


def _is_signature(rule: Suppression, signature: str) -> bool:
    return signature_key(rule.pattern) == signature_key(signature) or (
        "*" in rule.pattern and matches_pattern(f"^{rule.pattern}$", signature)
    )


def _is_culprit(rule: Suppression, culprit: Culprit | None) -> bool:
    if culprit is None:
        return False
    place = f"{culprit.file}:{culprit.line}" if culprit.file and culprit.line else culprit.file
    return any(
        matches_pattern(rule.pattern, text)
        for text in (culprit.function, _plain(culprit.function), place, culprit.file)
    )


def _thread_rule(rule: Suppression, printed: PrintedReport) -> bool:
    stacks = printed.chain
    accesses = (*printed.stacks(Role.USE), *printed.stacks(Role.PREVIOUS_ACCESS))
    if rule.type == "called_from_lib":
        return any(_called_from(rule.pattern, stack) for stack in accesses)
    fits = _thread_type(printed.kind)
    if rule.type == "race_top" and fits == "race":
        return any(_in_frames(rule.pattern, stack.frames[:1]) for stack in accesses)
    if rule.type != fits:
        return False
    name = printed.region.name if printed.region else None
    return matches_pattern(rule.pattern, name) or any(
        _in_frames(rule.pattern, stack.frames) for stack in stacks
    )


def _thread_type(kind: str) -> str | None:
    """Which type of suppression a kind of ThreadSanitizer's has."""
    if kind == "lock-order-inversion":
        return "deadlock"
    for word, fits in (("mutex", "mutex"), ("thread-leak", "thread"), ("signal", "signal")):
        if word in kind:
            return fits
    return "race" if "race" in kind or "use-after-free" in kind else None


def _undefined_rule(rule: Suppression, printed: PrintedReport) -> bool:
    checks = _CHECKS_OF.get(rule.type, (rule.type,))
    if rule.type != "undefined" and printed.kind not in checks:
        return False
    if printed.kind == "vptr" and any(
        matches_pattern(rule.pattern, name) for name in re.findall("'([^']*)'", _words(printed))
    ):
        return True
    use = printed.first(Role.USE)
    file = _PLACE.fullmatch(printed.location or "")
    return (file is not None and matches_pattern(rule.pattern, file[1])) or (
        use is not None and _in_frames(rule.pattern, use.frames[:1])
    )


def _words(printed: PrintedReport) -> str:
    return "\n".join((printed.message or "", *printed.hints))


def _address_rule(rule: Suppression, printed: PrintedReport) -> bool:
    if rule.type == "odr_violation":
        name = (printed.summary or "").partition("global ")[2].partition(" at ")[0]
        variable = printed.region.name if printed.region else None
        return printed.kind == "odr-violation" and any(
            matches_pattern(rule.pattern, text) for text in (name.strip("'"), variable)
        )
    use = printed.first(Role.USE)
    if use is None or not use.frames:
        return False
    if rule.type == "alloc_dealloc_mismatch":
        return printed.kind == "alloc-dealloc-mismatch" and _in_frames(rule.pattern, use.frames)
    top = _plain(use.frames[0].function) or ""
    return _INTERCEPTOR.fullmatch(top) is not None and _interceptor_rule(rule, top, use)


def _interceptor_rule(rule: Suppression, top: str, use: StackEvent) -> bool:
    if rule.type == "interceptor_name":
        return matches_pattern(rule.pattern, _PREFIX.sub("", top))
    if rule.type == "interceptor_via_fun":
        return any(_is_function(rule.pattern, frame) for frame in use.frames)
    return rule.type == "interceptor_via_lib" and any(
        matches_pattern(rule.pattern, frame.module) for frame in use.frames
    )


def _called_from(pattern: str, stack: StackEvent) -> bool:
    """An interceptor was called by this library."""
    return (
        len(stack.frames) > 1
        and _INTERCEPTOR.fullmatch(_plain(stack.frames[0].function) or "") is not None
        and matches_pattern(pattern, stack.frames[1].module)
    )


def _in_frames(pattern: str, frames: Iterable[PrintedFrame]) -> bool:
    return any(
        _is_function(pattern, frame)
        or matches_pattern(pattern, frame.file)
        or matches_pattern(pattern, frame.module)
        for frame in frames
    )


def _is_function(pattern: str, frame: PrintedFrame) -> bool:
    return matches_pattern(pattern, frame.function) or (
        # A C++ name was printed with or without its arguments: `^f$` is meant for both.
        matches_pattern(pattern, _plain(frame.function))
    )


def _plain(function: str | None) -> str | None:
    return plain_name(function) if function is not None else None
