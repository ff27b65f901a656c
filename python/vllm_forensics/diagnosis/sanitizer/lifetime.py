"""How a block's life went wrong, read from the frames of its free: only what the stacks show."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.sanitizer.frames import (
    IsOwn,
    first_own,
    name_of,
    place_of,
    where_of,
)
from vllm_forensics.diagnosis.sanitizer.names import stable_name
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.sanitizer import PrintedFrame, PrintedReport, Role, StackEvent

_WAYS: Final = (
    (
        r"std::.*(?:_M_realloc_\w+|_M_fill_insert|_M_default_append|_M_range_insert|push_back"
        r"|emplace_back|reserve|resize|_M_rehash\w*|rehash|_M_mutate|_M_append|append|insert|_M_insert\w*"
        r"|_M_emplace\w*|_M_reallocate_map|__\w+_slow_path|__grow_by\w*|__split_buffer)\b.*",
        "The free is inside a container that grew ({name}): pointers, references and iterators "
        "into it from before are invalid.",
    ),
    (
        r"std::(?!.*(?:unique_ptr|shared_ptr|__shared|_Sp_|optional)).*(?:operator=|(?:assign|swap|_M_move_assign\w*|_M_assign_aux)\b).*",
        "The free is inside a container that got new contents ({name}): pointers, references and "
        "iterators into it from before are invalid.",
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
        r"pybind11::(?:class_|detail::.*dealloc|clear_instance).*",
        "The free is pybind11's, as Python dropped the object ({name}): the holder owns it, and "
        "native code kept a pointer (return_value_policy and keep_alive say who owns).",
    ),
    (
        r"(?:.*::)?(?:PyBuffer_Release|bf_releasebuffer|PyMemoryView_\w+|memory_dealloc|mbuf_\w+)",
        "The free is the end of a Python buffer ({name}): its memory was used after the release.",
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
        r"std::.*(?:~vector|~basic_string|~optional|~any|~function|~set|~_Vector_base|~map|~list|~deque|~unordered_map).*",
        "The free is the end of a container's life ({name}).",
    ),
    (
        r"(?:.*::)?(?:_Py_Dealloc|\w*_dealloc|subtype_dealloc|Py_DECREF)",
        "The free is Python's: the last reference was dropped while native code held the memory.",
    ),
    (r"(?!std::).*::~\w+", "The free is in a destructor ({name})."),
)
_NEAR: Final = 6
"""Frames that belong to the use itself."""
_PATTERNS: Final = tuple((re.compile(pattern), words) for pattern, words in _WAYS)


_VIEWS: Final = re.compile(
    r"(?:std|absl|folly|llvm|gsl|c10|rocksdb|leveldb)::(?:__\w+::)?"
    r"(?:basic_string_view|string_view|span|Span|StringPiece|Range|StringRef|ArrayRef|Slice)::.*"
)
_ITERATORS: Final = re.compile(
    r".*\b(?:__normal_iterator|__wrap_iter|_Rb_tree_(?:const_)?iterator|_List_(?:const_)?iterator"
    r"|_Deque_iterator|_Node_(?:const_)?iterator|__hash_iterator|__tree_iterator)\b.*"
)
_CALLBACKS: Final = re.compile(
    r"std::(?:function|_Function_handler|__function|move_only_function|invoke|__invoke\w*)\b.*"
    r"|uv__\w+|event_base_\w+|boost::asio::.*"
)
_BUFFERS: Final = re.compile(r"PyObject_GetBuffer|PyMemoryView_\w+|memory_\w+|array_getbuffer")
_ENDS: Final = re.compile(r".*(?:::~\w+|default_delete::operator\(\)|_M_dispose|_M_release)")
"""Destructors, and what runs them."""


def lifetime(report: PrintedReport, is_own: IsOwn) -> list[str]:
    """Who allocated, who freed and how, and how far the free and the use are apart."""
    allocated, freed = report.first(Role.ALLOCATE), report.first(Role.FREE)
    used = report.first(Role.USE)
    sentences = []
    doers = []
    for event, verb in ((allocated, "allocated"), (freed, "freed")):
        if event is not None and event.frames:
            thread = f" in {event.thread}" if event.thread else ""
            doers.append(f"{verb} {_by(event, is_own)}{thread}")
    if doers:
        sentences.append(f"The block was {' and '.join(doers)}.")
    if freed is None:
        return sentences
    way = way_of_free(freed, is_own)
    if way is not None:
        sentences.append(way)
    if used is None:
        return sentences
    sentences += [] if report.kind == "double-free" else way_of_use(used)
    if freed.thread and used.thread and freed.thread != used.thread:
        held = "still held the pointer" if report.kind != "double-free" else "freed it too"
        sentences.append(
            f"{freed.thread} freed it while {used.thread} {held}: nothing in the report orders the "
            "two."
        )
        return sentences
    common = _common(used, freed, is_own)
    if common is not None:
        sentences.append(common)
    return sentences


def _by(event: StackEvent, is_own: IsOwn) -> str:
    """Who did it; where only a runtime's frames are printed, that this is so."""
    named = [frame for frame in event.frames if frame.function is not None]
    if first_own(event, is_own) is not None or not named:
        return f"by {where_of(event, is_own)}"
    return f"below {stable_name(named[-1].function or '')} (its callers are not printed)"


def way_of_free(freed: StackEvent, is_own: IsOwn) -> str | None:
    """The kind of free, by the most telling frame, or None where none tells."""
    for pattern, words in _PATTERNS:
        for at, frame in enumerate(freed.frames):
            if frame.function is None:
                continue
            name = plain_name(frame.function)
            if pattern.fullmatch(name):
                return words.format(name=_entry(freed, at, is_own))
    return None


def way_of_use(used: StackEvent) -> list[str]:
    """What the use goes through: a view, an iterator, a callback, a buffer."""
    names = [stable_name(frame.function) for frame in used.frames if frame.function is not None]
    sentences = []
    for pattern, words in (
        (_VIEWS, "The use goes through a view ({name}), which owns nothing."),
        (_ITERATORS, "The use goes through an iterator ({name})."),
        (_CALLBACKS, "The use is in a callback ({name})."),
        (_BUFFERS, "The use goes through a Python buffer ({name})."),
    ):
        name = next((name for name in names[:_NEAR] if pattern.fullmatch(name)), None)
        if name is not None:
            sentences.append(words.format(name=name))
    return sentences


def _entry(freed: StackEvent, at: int, is_own: IsOwn) -> str:
    """How the own code came into the library: `std::vector::push_back`, not what is below it."""
    name = stable_name(freed.frames[at].function or "?")
    if not name.startswith("std::"):
        return name
    for frame in freed.frames[at:]:
        if frame.function is None or is_own(frame):
            break
        outer = stable_name(frame.function)
        if not outer.startswith("std::"):
            break
        name = outer
    return name


def _common(used: StackEvent, freed: StackEvent, is_own: IsOwn) -> str | None:
    """The innermost own function that both stacks go through, and its two lines."""
    by_name: dict[str, PrintedFrame] = {}
    for frame in freed.frames:
        if is_own(frame) and frame.function is not None:
            by_name.setdefault(stable_name(frame.function), frame)
    for depth, frame in enumerate(used.frames):
        if frame.function is None or not is_own(frame):
            continue
        other = by_name.get(stable_name(frame.function))
        if other is None:
            continue
        shared = _shared(used.frames[depth:], freed, is_own)
        below = f"Both happen below {name_of(frame)}{shared}"
        if frame.line is None or other.line is None:
            return f"{below}."
        if frame.line == other.line:
            ends = any(_ENDS.fullmatch(stable_name(f.function or "")) for f in freed.frames)
            hint = ": a temporary of that line would end so" if ends and depth == 0 else ""
            return f"{below}, in the same line {place_of(frame)}{hint}."
        apart = abs(frame.line - other.line)
        return (
            f"{below}: line {other.line} leads to the free, line {frame.line} to the use, "
            f"{apart:,} line{'s' if apart != 1 else ''} apart."
        )
    return None


def _shared(callers: tuple[PrintedFrame, ...], freed: StackEvent, is_own: IsOwn) -> str:
    """How many own frames the two stacks have in common from there on."""
    theirs = {stable_name(frame.function) for frame in freed.frames if frame.function is not None}
    count = sum(
        frame.function is not None and is_own(frame) and stable_name(frame.function) in theirs
        for frame in callers
    )
    return f" ({count} own frames are common to both)" if count > 1 else ""
