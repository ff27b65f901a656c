"""One short name for one bug, the same in every log of it: never pid, thread, address or size.

Version 1: sanitizer, kind, access, the first three own frames of the use, the first own frame of
the free and of the allocation, by name without arguments, lines and compiler suffixes. A race is an
unordered pair; MemorySanitizer adds where the value came from; UndefinedBehaviorSanitizer adds
the place; a recursion is its cycle; leaks are the set of the places that allocated.
"""

from __future__ import annotations

import hashlib
from typing import Final

from vllm_forensics.diagnosis.sanitizer_frames import IsOwn, first_own, name_of
from vllm_forensics.model.sanitizer import PrintedFrame, PrintedReport, Role, StackEvent

_FRAMES: Final = 3


def signature_of(report: PrintedReport, is_own: IsOwn) -> str:
    """`v1:KIND:NAME:HASH`; NAME is for the eye, HASH covers all that counts."""
    parts = signature_parts(report, is_own)
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
    return f"v1:{report.kind}:{_for_the_eye(report, is_own)}:{digest[:12]}"


def signature_parts(report: PrintedReport, is_own: IsOwn) -> tuple[str, ...]:
    """All that counts, in words."""
    access = report.access.type if report.access and report.access.type else ""
    parts = [report.sanitizer, report.kind, f"access {access}"]
    use = _names(report.first(Role.USE), is_own)
    if report.kind == "stack-overflow":
        use = tuple(sorted(set(use)))
    if report.leaks:
        stacks = {" < ".join(_names(event, is_own)) for event in report.stacks(Role.LEAK)}
        return (*parts, *(f"leak {stack}" for stack in sorted(stacks)))
    other = report.first(Role.PREVIOUS_ACCESS)
    if other is not None:
        pair = sorted((" < ".join(use), " < ".join(_names(other, is_own))))
        return (*parts[:2], *(f"access in {stack}" for stack in pair))
    parts.append("use " + " < ".join(use))
    for role in (Role.FREE, Role.ALLOCATE, Role.ORIGIN, Role.LOCK_ACQUIRE, Role.THREAD_CREATE):
        if role is Role.THREAD_CREATE and use:
            continue
        frame = first_own(report.first(role), is_own)
        if frame is not None:
            parts.append(f"{role.value} {name_of(frame)}")
    if report.location is not None:
        file, _, rest = report.location.rpartition("/")[2].partition(":")
        parts.append(f"at {file}:{rest.partition(':')[0]}")
    if report.kind == "odr-violation" and report.summary:
        parts.append(report.summary.partition("global ")[2].partition(" at ")[0])
    return tuple(parts)


def _names(event: StackEvent | None, is_own: IsOwn) -> tuple[str, ...]:
    if event is None:
        return ()
    frames = [frame for frame in event.frames if is_own(frame)] or list(event.frames)
    names: list[str] = []
    for frame in frames:
        name = _stable(frame)
        if name not in names:
            names.append(name)
        if len(names) == _FRAMES:
            break
    return tuple(names)


def _stable(frame: PrintedFrame) -> str:
    """Unsymbolised: the module, its offset and its BuildId; a bare pc says nothing stable."""
    if frame.function is None and frame.offset is not None:
        return f"{name_of(frame)}@{frame.build_id or ''}"
    return name_of(frame) if frame.function is not None else "?"


def _for_the_eye(report: PrintedReport, is_own: IsOwn) -> str:
    other = first_own(report.first(Role.PREVIOUS_ACCESS), is_own)
    use = first_own(report.first(Role.USE), is_own)
    if other is not None and use is not None:  # a race has no first
        return min(name_of(other), name_of(use))[:80]
    for role in (Role.USE, Role.LEAK, Role.THREAD_CREATE, Role.FREE, Role.ALLOCATE):
        frame = first_own(report.first(role), is_own)
        if frame is not None:
            return name_of(frame)[:80]
    return (report.location or report.sanitizer).rpartition("/")[2][:80]
