"""One short name for one bug, the same in every log of it: never pid, thread, address or size.

Version 1: sanitizer, kind, access, the first three own frames of the use, the first own frame of
the free and of the allocation, by their plain names (`sanitizer_names`). A race is an unordered
pair; a deadlock is the set of places that lock; MemorySanitizer adds where the value was created,
UndefinedBehaviorSanitizer the place; a recursion is its cycle; each leak has a signature of its
own, and a report of several is the set of them. Own frames are those that are no runtime's,
wherever the log is read. docs/signature.md says the same to a user.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Final

from vllm_forensics.diagnosis.sanitizer.frames import first_own, name_of, own_by_default
from vllm_forensics.diagnosis.sanitizer.names import stable_name
from vllm_forensics.model.sanitizer import (
    PrintedFrame,
    PrintedReport,
    Role,
    StackEvent,
)
from vllm_forensics.model.sanitizer_sieve import SIGNATURE_VERSION
from vllm_forensics.model.signature import SignaturePart

USE_FRAMES: Final = 3
NOTHING: Final = "-"
_DEADLOCK: Final = "lock-order-inversion"
_BELOW: Final = " < "
_FOR_THE_EYE: Final = 80


def signature_of(report: PrintedReport) -> str:
    """`v1:KIND:NAME:HASH`; NAME is for the eye, HASH covers all that counts."""
    return _signature(report.kind, _for_the_eye(report), signature_parts(report))


def leak_signature(report: PrintedReport, stack: StackEvent | None) -> str:
    """The signature of one leak: the one of a report that held this leak alone."""
    names = _own_names(stack)
    eye = names[0] if names else report.sanitizer
    return _signature(report.kind, eye, (*_head(report), _leak_part(stack)))


def signature_parts(report: PrintedReport) -> tuple[SignaturePart, ...]:
    """All that counts, in words, in a fixed order."""
    head = _head(report)
    if report.leaks or report.kind == "memory-leak":
        parts = {part.value: part for part in map(_leak_part, report.stacks(Role.LEAK))}
        return (*head, *(parts[value] for value in sorted(parts)))
    use, other = report.first(Role.USE), report.first(Role.PREVIOUS_ACCESS)
    if other is not None:
        pair = sorted((_joined(use), _joined(other)))
        return (*head[:2], _part("one access", pair[0]), _part("other access", pair[1]))
    if report.kind == _DEADLOCK:
        return (*head[:2], *(_part("lock frame", name) for name in _locking(report)))
    return (*head, *_use_parts(report, use), *_other_parts(report, with_creation=use is None))


def _signature(kind: str, name: str, parts: Iterable[SignaturePart]) -> str:
    text = "\n".join(f"{part.name} {part.value}" for part in parts)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"v{SIGNATURE_VERSION}:{kind}:{name[:_FOR_THE_EYE]}:{digest[:12]}"


def _head(report: PrintedReport) -> tuple[SignaturePart, ...]:
    access = report.access.type if report.access and report.access.type else NOTHING
    return (
        _part("sanitizer", report.sanitizer),
        _part("kind", report.kind),
        _part("access", access),
    )


def _part(name: str, value: str) -> SignaturePart:
    return SignaturePart(name=name, value=value)


def _leak_part(stack: StackEvent | None) -> SignaturePart:
    return _part("leak", _joined(stack))


def _use_parts(report: PrintedReport, use: StackEvent | None) -> list[SignaturePart]:
    if report.kind == "stack-overflow":
        return [_part("recursion", _cycle(use))]
    return [_part(f"use frame {number}", name) for number, name in enumerate(_names(use), start=1)]


def _other_parts(report: PrintedReport, *, with_creation: bool) -> list[SignaturePart]:
    parts = []
    for role, name in ((Role.FREE, "free frame"), (Role.ALLOCATE, "allocate frame")):
        parts += _first(name, report.first(role))
    # What created the value stands first, before the places that stored it.
    parts += _first("origin frame", report.first(Role.ORIGIN))
    parts += [_part("lock frame", name) for name in _first_names(report, Role.LOCK_ACQUIRE)]
    if with_creation:
        parts += _first("creation frame", report.first(Role.THREAD_CREATE))
    if report.location is not None:
        parts.append(_part("place", _place(report.location)))
    if report.kind == "odr-violation" and report.summary:
        parts.append(_part("variable", report.summary.partition("global ")[2].partition(" at ")[0]))
    return parts


def _locking(report: PrintedReport) -> list[str]:
    """Where the locks of a cycle are taken; the report begins it anywhere."""
    return _first_names(report, Role.USE, Role.LOCK_ACQUIRE)


def _first_names(report: PrintedReport, *roles: Role) -> list[str]:
    stacks = (stack for role in roles for stack in report.stacks(role))
    return sorted({name for stack in stacks if (name := _own_name(stack)) is not None})


def _place(location: str) -> str:
    """FILE:LINE; the column is the compiler's choice."""
    file, _, rest = location.replace("\\", "/").rpartition("/")[2].partition(":")
    return f"{file}:{rest.partition(':')[0]}"


def _first(name: str, stack: StackEvent | None) -> list[SignaturePart]:
    value = _own_name(stack)
    return [_part(name, value)] if value is not None else []


def _joined(stack: StackEvent | None) -> str:
    return _BELOW.join(_names(stack)) or NOTHING


def _names(stack: StackEvent | None) -> tuple[str, ...]:
    """The first own names, each once; where no frame is own, the first of all."""
    if stack is None:
        return ()
    return _own_names(stack) or _distinct(stack.frames)


def _own_names(stack: StackEvent | None) -> tuple[str, ...]:
    return _distinct(frame for frame in stack.frames if own_by_default(frame)) if stack else ()


def _own_name(stack: StackEvent | None) -> str | None:
    frame = first_own(stack, own_by_default)
    return frame_name(frame) if frame is not None else None


def _distinct(frames: Iterable[PrintedFrame]) -> tuple[str, ...]:
    names: list[str] = []
    for frame in frames:
        name = frame_name(frame)
        if name not in names:
            names.append(name)
        if len(names) == USE_FRAMES:
            break
    return tuple(names)


def _cycle(stack: StackEvent | None) -> str:
    """The functions that call themselves: those printed more than once, in no order."""
    if stack is None:
        return NOTHING
    counts = Counter(frame_name(frame) for frame in stack.frames if own_by_default(frame))
    again = sorted(name for name, count in counts.items() if count > 1)
    return _BELOW.join(again or sorted(_names(stack))) or NOTHING


def frame_name(frame: PrintedFrame) -> str:
    """Unsymbolised: the module, its offset and its BuildId; a bare pc says nothing stable."""
    if frame.function is not None:
        return stable_name(frame.function)
    if frame.offset is None:
        return "?"
    return f"{name_of(frame)}@{frame.build_id}" if frame.build_id else name_of(frame)


def _for_the_eye(report: PrintedReport) -> str:
    if report.kind == _DEADLOCK:
        return (_locking(report) or [report.sanitizer])[0]
    use = _own_name(report.first(Role.USE))
    other = _own_name(report.first(Role.PREVIOUS_ACCESS))
    if use is not None and other is not None:  # a race has no first
        return min(use, other)
    for role in (Role.USE, Role.LEAK, Role.THREAD_CREATE, Role.FREE, Role.ALLOCATE):
        name = _own_name(report.first(role))
        if name is not None:
            return name
    return _place(report.location) if report.location else report.sanitizer
