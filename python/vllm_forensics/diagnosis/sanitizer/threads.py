"""What a report says about threads: the other access, the locks held, cycles, who made whom."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.diagnosis.sanitizer.frames import IsOwn, where_of
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.sanitizer import PrintedReport, Role, StackEvent

_HELD: Final = re.compile(r"\(mutexes: ([^()]{1,2000})\)")
_ACQUIRED: Final = re.compile(
    r"Mutex (M\d+) acquired here while holding mutex (M\d+) in (?:thread )?(.+?):?"
)
_FREES: Final = re.compile(
    r"(?:_*interceptor_)?(?:free|realloc|cfree|munmap)|operator delete(?:\[\])?|_?PyObject_Free"
)


def other_access(report: PrintedReport, is_own: IsOwn) -> list[str]:
    """ThreadSanitizer's second access, and which locks each thread held."""
    previous, use = report.first(Role.PREVIOUS_ACCESS), report.first(Role.USE)
    if previous is None:
        return []
    where = where_of(previous, is_own) or "another place"
    thread = f" in {previous.thread}" if previous.thread else ""
    if _is_free(previous):
        sentences = [f"The other access is the free itself, in {where}{thread}."]
    else:
        words = (previous.what or "").partition(" at ")[0].removeprefix("Previous ") or "access"
        article = "an" if words[0] in "aeiou" else "a"
        sentences = [f"The other access, {article} {words}, is in {where}{thread}."]
    if _is_free(use):
        sentences.append("This access is a free: the block's end races with its use.")
    if "race" in report.kind and _tells_locks(report):
        sentences += _locks(use, previous)
    return sentences


def deadlock(report: PrintedReport, is_own: IsOwn) -> list[str]:
    """Each step of a cycle of locks: who takes what while holding what, and where."""
    sentences = []
    for event in (*report.stacks(Role.USE), *report.stacks(Role.LOCK_ACQUIRE)):
        match = _ACQUIRED.fullmatch((event.what or "").strip())
        where = where_of(event, is_own)
        if match is not None and where is not None:
            sentences.append(f"{match[3]} takes {match[1]} while it holds {match[2]}, in {where}.")
    cycle = next((lock for lock in report.locks if lock.startswith("Cycle")), None)
    if cycle is not None:
        order = re.sub(r" ?\(0x[0-9a-f]+\)", "", cycle.partition(": ")[2])
        sentences.append(
            f"The locks form a cycle, {order}: threads that meet in it can wait for ever."
        )
    return sentences


def creations(report: PrintedReport, is_own: IsOwn) -> list[str]:
    """Who made the threads, those of one place together."""
    made: dict[tuple[str, str], list[str]] = {}
    for created in report.stacks(Role.THREAD_CREATE):
        where = where_of(created, is_own)
        if where and created.thread:
            by = f" by {created.created_by}" if created.created_by else ""
            made.setdefault((by, where), []).append(created.thread)
    sentences = []
    for (by, where), threads in made.items():
        verb = "was" if len(threads) == 1 else "were"
        sentences.append(f"{', '.join(sorted(threads))} {verb} created{by} in {where}.")
    return sentences


def _tells_locks(report: PrintedReport) -> bool:
    """Go's and the kernel's race detectors, and Valgrind's in XML, do not say what was held."""
    said = (report.message or "").startswith("data race")
    return said and report.sanitizer == "ThreadSanitizer"


def _is_free(event: StackEvent | None) -> bool:
    frames = event.frames if event else ()
    return bool(frames) and _FREES.fullmatch(plain_name(frames[0].function or "")) is not None


def _locks(use: StackEvent | None, previous: StackEvent) -> list[str]:
    ours, theirs = _held(use), _held(previous)
    if not ours and not theirs:
        return ["Neither thread held a lock that the runtime knows."]
    common = sorted(set(ours) & set(theirs))
    if common:
        shared = ", ".join(common)
        return [f"Both held {shared}, which did not part them: as a reader's lock, for example."]
    one, two = (_named(held, event) for held, event in ((ours, use), (theirs, previous)))
    return [f"{one}, {two}: no lock in common."]


def _held(event: StackEvent | None) -> list[str]:
    """`(mutexes: write M0, read M1)`: the names."""
    match = _HELD.search((event.what if event else None) or "")
    return [item.split()[-1] for item in match[1].split(",") if item.strip()] if match else []


def _named(held: list[str], event: StackEvent | None) -> str:
    thread = (event.thread if event else None) or "the other thread"
    return f"{thread} held {', '.join(held) or 'none'}"
