"""What the functions of a stack tell by themselves: the signal, a damaged heap, a handler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from vllm_forensics.evidence.log.writers.accelerators import WATCHDOG
from vllm_forensics.model.incident import UNNAMED, Clue, ClueKind, NativeCall

_SIGNALLED: Final = re.compile(
    r"(?i)(?<![a-z])(?:sig(?:nal|segv|abrt|bus|fpe|ill)?_?|segv_?|crash_?)handler\b"
)
_OF_SIGNAL: Final = re.compile(
    r"(?i)(?:[\w:]{1,80}?(?:::|_))?(?:sig_?(?P<sig>segv|bus|ill|fpe)(?:_?handler\w{0,20})?|"
    r"(?P<own>segv)_?(?:signal_?)?handler\w{0,20})(?:\(|::|$)"
)
_GAVE_UP: Final = re.compile(
    r"(?:__GI_)?(?:raise|abort)\b|_*pthread_kill|__kmp_abort|gsignal$|node::Abort|Py_FatalError|"
    r"fatal_error|(?:\w+::)?_*(?:\w+_)?assert_?fail|std::terminate\b|ggml_(?:abort|uncaught_exception)"
)
_ALLOCATES: Final = re.compile(
    r"_?int_(?:free|malloc|realloc)|malloc_consolidate|unlink_chunk|_{0,2}(?:libc_)?(?:c?free|malloc)$"
)
_SAYS: Final = re.compile(
    r"(?:\b|_GI_)(?P<by>malloc_printerr|__libc_fatal|__fortify_fail\w{0,8}|__assert_fail\w{0,8}|Py_FatalError\w{0,8}|fatal_error\w{0,8})"
    r" \([^\"]{0,120}?\b(?:str|ptr|message|assertion|msg)=[^\s\"]{1,60} "
    r"\"(?P<words>(?:[^\"\\]|\\.){3,200})\""
)
"""What glibc and Python print before they end a program, among gdb's arguments."""
_ASSERTED_AT: Final = re.compile(
    r"\bfile=(?:\w{1,12}@entry=)?0x[0-9a-f]{4,16} \"(?P<file>[^\"\n]{1,240})\", "
    r"line=(?:\w{1,12}@entry=)?(?P<line>\d{1,7})"
    r"(?:,\s{1,20}function=(?:\w{1,12}@entry=)?0x[0-9a-f]{4,16} (?:<[^<>\n]{1,200}> )?"
    r"\"(?P<function>[^\"\n]{1,400}))?"
)
_GIVEN: Final = re.compile(
    r"[( ](?:sig|signo|signum|sig_?num|signal|signr|sig_?no)=(?:\w{1,12}@entry=)?"
    r"(?P<number>\d{1,2})\b"
)
"""The argument of a signal's handler, as gdb prints it: `crash (sig=7, siginfo=0x…)`."""
_AT: Final = re.compile(
    r"[( ]pc=(?:pc@entry=)?0x[0-9a-f]{4,16} "
    r"<(?P<function>[^<>+]{1,200}(?:<[^<>]{0,200}>)?)\+\d{1,9}>"
)
"""Where the signal hit, among a handler's arguments, as gdb prints them: the JVM's."""
_FATAL: Final = {4: "SIGILL", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
_NEAR_THE_TOP: Final = 6
_LIBC: Final = re.compile(r"lib(?:c|pthread)[.-]")
_RAISES: Final = re.compile(
    r"(?:\w{1,60}::){0,6}(?P<name>\w{0,60}(?:Error|Exception))::(?P=name)\b"
)
"""An exception's own constructor, which takes down where it was called."""


def signal_by(calls: Sequence[NativeCall]) -> str | None:
    """The signal that its handler's name tells: Ruby's `sigsegv`; or that of who gave up."""
    names = [call.function for call in calls if call.function]
    handled = next(filter(None, map(_OF_SIGNAL.match, names)), None)
    if handled is not None:
        return f"SIG{(handled['sig'] or handled['own']).upper()}"
    return "SIGABRT" if any(_GAVE_UP.match(name) for name in names) else None


def of_handled(clue: Clue, handler: str) -> Clue:
    """A debugger's stack tells a death where the frame of its handler shows a fatal signal."""
    given = _GIVEN.search(handler) if clue.kind is ClueKind.STACK else None
    signal = _FATAL.get(int(given["number"])) if given is not None else None
    if signal is None:
        return clue
    return replace(clue, kind=ClueKind.SIGNAL, signal=signal, source=UNNAMED)


def given_to_handler(frame: str) -> tuple[str | None, NativeCall | None]:
    """The fatal signal and the place that stand among the arguments of a frame's function."""
    given, at = _GIVEN.search(frame), _AT.search(frame)
    signal = _FATAL.get(int(given["number"])) if given is not None else None
    return signal, NativeCall(function=at["function"], module=None) if at is not None else None


def words_of_end(frame: str) -> tuple[ClueKind, str] | None:
    """What a function that ends a program was given to say, and the kind of end that it is."""
    said = _SAYS.search(frame) if '"' in frame else None
    if said is None:
        return None
    words = said["words"].replace("\\n", " ").strip()
    if said["by"] == "malloc_printerr":
        return ClueKind.HEAP, words
    is_assertion = said["by"].startswith("__assert")
    return ClueKind.ABORT, f"Assertion `{words}' failed" if is_assertion else words


def source_of_end(text: str) -> str | None:
    """Where glibc's assertion failed, as gdb shows it: its file, its line and its function."""
    told = _ASSERTED_AT.search(text) if " line=" in text and "file=" in text else None
    if told is None:
        return None
    function = f"{told['function']}: " if told["function"] else ""
    return f"{told['file']}:{told['line']}: {function}"


def is_of_allocator(calls: Sequence[NativeCall]) -> bool:
    """Did glibc's allocator give up? Its function that says so may have been inlined."""
    names = [call.function or "" for call in calls]
    told = ("__libc_message", "malloc_printerr")
    return "malloc_printerr" in names or any(
        upper.startswith(told) and _ALLOCATES.match(lower) is not None
        for upper, lower in pairwise(names)
    )


def of_heap(clue: Clue) -> Clue:
    """Names a damaged heap where glibc's function that tells of one stands in the stack."""
    is_heap = clue.kind in {ClueKind.SIGNAL, ClueKind.STACK} and clue.signal == "SIGABRT"
    words = "malloc_printerr: the heap was found damaged"
    return replace(clue, kind=ClueKind.HEAP, detail=words) if is_heap else clue


def of_watchdog(clue: Clue) -> Clue | None:
    """NCCL's, by the function in which it raises; its own words stood above."""
    (own,) = WATCHDOG.phrases
    names = (call.function or "" for call in clue.native[:_NEAR_THE_TOP])
    if not any(own.needle in name for name in names):
        return None
    return replace(clue, source=WATCHDOG.source, detail=own.detail)


def of_handler(clue: Clue) -> Clue:
    """A stack that begins in a signal's handler tells a death, also without a word."""
    handler = next(
        (
            call.function
            for call in clue.native[:_NEAR_THE_TOP]
            if call.function is not None and _SIGNALLED.search(call.function) is not None
        ),
        None,
    )
    if handler is None and (_is_raised(clue.native) or not _has_way_back(clue.native)):
        return clue
    return replace(clue, kind=ClueKind.SIGNAL, source=UNNAMED)


def _is_raised(calls: Sequence[NativeCall]) -> bool:
    """Is it an exception's stack? Whether somebody catches that it does not tell."""
    return bool(calls) and _RAISES.match(calls[0].function or "") is not None


def _has_way_back(calls: Sequence[NativeCall]) -> bool:
    """Does the stack hold the kernel's way back out of a handler?

    It has no name: `libc.so.6(+0x42520)`, `(()+0x12980)`, above what the signal hit.
    libc's own beginning of a program has none either, and stands at the stack's end.
    """
    return any(
        upper.function is None
        and (_LIBC.match(upper.module or "") or (upper.module is None and upper.offset))
        and _LIBC.match(lower.module or "") is None
        and not (lower.function or "_start").startswith(("_start", "__libc_start"))
        for upper, lower in pairwise(calls[:_NEAR_THE_TOP])
    )
