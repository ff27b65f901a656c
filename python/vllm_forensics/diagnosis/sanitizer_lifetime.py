"""How a block's life went wrong, read from the frames of its free: only what the stacks show."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.sanitizer_frames import IsOwn, first_own, name_of, place_of
from vllm_forensics.model.sanitizer import PrintedFrame, PrintedReport, Role, StackEvent

_WAYS: Final = (
    (
        r"std::.*(?:_M_realloc_\w+|_M_fill_insert|_M_default_append|_M_range_insert|push_back"
        r"|emplace_back|reserve|resize|_M_rehash\w*|rehash|_M_mutate|_M_append|append|_M_assign"
        r"|_M_reallocate_map|__\w+_slow_path|__grow_by\w*|__split_buffer)\b.*",
        "The free is inside a container that grew ({name}): pointers, references and iterators "
        "into it from before are invalid.",
    ),
    (
        r"(?:__interceptor_|__asan_)?realloc(?:array)?|Py(?:Mem|Object)_Realloc",
        "The free is a realloc: the block was moved, and the old address was kept.",
    ),
    (
        r"std::.*(?:erase|clear|pop_back|pop_front|pop|_M_erase\w*|shrink_to_fit|extract)\b.*",
        "The free is the removal of an element from a container ({name}), and a pointer to the "
        "element was kept.",
    ),
    (
        r"std::.*(?:unique_ptr.*(?:reset|operator=|~unique_ptr)|default_delete.*)",
        "The free is its owner's, a unique_ptr ({name}): the pointer that was used does not own.",
    ),
    (
        r"std::.*(?:_Sp_counted\w*|shared_ptr|__shared_count|__shared_weak_count|_M_release).*",
        "The free is the last shared_ptr's ({name}): the pointer that was used holds no count.",
    ),
    (
        r"std::.*(?:~vector|~basic_string|~_Vector_base|~map|~list|~deque|~unordered_map).*",
        "The free is the end of a container's life ({name}).",
    ),
    (
        r"(?:.*::)?(?:_Py_Dealloc|\w*_dealloc|subtype_dealloc|Py_DECREF)",
        "The free is Python's: the last reference was dropped while native code held the memory.",
    ),
    (r"(?!std::).*::~\w+", "The free is in a destructor ({name})."),
)
_PATTERNS: Final = tuple((re.compile(pattern), words) for pattern, words in _WAYS)


def lifetime(report: PrintedReport, is_own: IsOwn) -> list[str]:
    """Who allocated, who freed and how, and how far the free and the use are apart."""
    allocated, freed = report.first(Role.ALLOCATE), report.first(Role.FREE)
    used = report.first(Role.USE)
    sentences = []
    doers = []
    for event, verb in ((allocated, "allocated by"), (freed, "freed by")):
        where = _where(event, is_own)
        if event is not None and where is not None:
            thread = f" in {event.thread}" if event.thread else ""
            doers.append(f"{verb} {where}{thread}")
    if doers:
        sentences.append(f"The block was {' and '.join(doers)}.")
    if freed is None:
        return sentences
    way = way_of_free(freed)
    if way is not None:
        sentences.append(way)
    if used is None:
        return sentences
    if freed.thread and used.thread and freed.thread != used.thread:
        sentences.append(
            f"{freed.thread} freed it while {used.thread} still held the pointer: nothing in the "
            "report orders the two."
        )
        return sentences
    common = _common(used, freed, is_own)
    if common is not None:
        sentences.append(common)
    return sentences


def way_of_free(freed: StackEvent) -> str | None:
    """The kind of free, by the outermost telling frame, or None where none tells."""
    for pattern, words in _PATTERNS:
        for frame in freed.frames:
            if frame.function is not None:
                name = name_of(frame)
                if pattern.fullmatch(name):
                    return words.format(name=_short(name))
    return None


def _common(used: StackEvent, freed: StackEvent, is_own: IsOwn) -> str | None:
    """The innermost own function that both stacks go through, and its two lines."""
    by_name: dict[str, PrintedFrame] = {}
    for frame in freed.frames:
        if is_own(frame) and frame.function is not None:
            by_name.setdefault(frame.function, frame)
    for frame in used.frames:
        if frame.function is None or not is_own(frame):
            continue
        other = by_name.get(frame.function)
        if other is None:
            continue
        name = name_of(frame)
        if frame.line is None or other.line is None:
            return f"Both happen below {name}."
        if frame.line == other.line:
            return f"Both happen below {name}, in the same line {place_of(frame)}."
        return (
            f"Both happen below {name}: line {other.line} leads to the free, "
            f"line {frame.line} to the use."
        )
    return None


def _where(event: StackEvent | None, is_own: IsOwn) -> str | None:
    if event is None or not event.frames:
        return None
    frame = first_own(event, is_own) or event.frames[0]
    place = place_of(frame)
    return f"{name_of(frame)} ({place})" if place else name_of(frame)


def _short(name: str) -> str:
    """Template arguments left out."""
    depth, kept = 0, []
    for letter in name:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(letter)
    return "".join(kept)
