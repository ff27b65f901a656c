"""Causes that the functions of a stack tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Cause, CauseClass, Clue

_ALLOCATORS: Final = re.compile(
    r"_int_(?:malloc|free|realloc|memalign)\w{0,20}|malloc_consolidate|unlink_chunk|"
    r"tcache_(?:get|put)\w{0,12}|__libc_(?:malloc|calloc)\w{0,12}|sysmalloc|largebin_index"
)
"""Functions of glibc's allocator that trip over what was written over its lists."""
_TRAPS: Final = re.compile(
    r"(?i)\w{0,40}(?:crash|fatal|panic|abort|assert|unreachable|(?:check|verify)_?fail|break_?debugger|"
    r"trap\b|\bdie\b|out_?of_?memory|terminate)\w{0,40}"
)
"""How functions are called that end their process with an instruction that nobody knows."""
_GLIB_SAYS: Final = re.compile(r"_?g_log\w{0,40}|g_assertion_\w{1,40}|g_error")
"""GLib's functions that print a fatal message and end the program by a breakpoint."""
_TOP: Final = 8
"""So deep in a stack the functions stand that ended a program."""


def cause(kind: CauseClass, detail: str, certainty: Certainty) -> Cause:
    """A cause of that kind."""
    return Cause(kind=kind, detail=detail, certainty=certainty)


def signal_of(first: Clue, account: Sequence[Clue]) -> str | None:
    """The first signal that is told."""
    return next((clue.signal for clue in (first, *account) if clue.signal is not None), None)


def allocator(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """A fault within malloc or free, `#0 _int_malloc`: what others had written over its lists."""
    signal = signal_of(first, account)
    stack = next((one.native for one in (first, *account) if one.native), ())
    where = _ALLOCATORS.fullmatch(stack[0].function or "") if stack else None
    if signal not in {"SIGSEGV", "SIGBUS"} or where is None:
        return None
    words = f"{signal} in {where[0]}, within the allocator: what it keeps there was overwritten"
    return cause(CauseClass.HEAP_CORRUPTION, words, Certainty.LIKELY)


def trapped(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """SIGILL or SIGTRAP in a function that is called to give up, as `ns::Crash`, or GLib's."""
    signal = signal_of(first, account)
    stack = next((one.native for one in (first, *account) if one.native), ())
    names = [plain_name(call.function or "") for call in stack[:_TOP]]
    named = [name for name in names[:1] if _TRAPS.fullmatch(name.rsplit("::", 1)[-1])]
    name = next(iter((*named, *filter(_GLIB_SAYS.fullmatch, names))), None)
    if signal not in {"SIGILL", "SIGTRAP"} or name is None:
        return None
    words = f"{signal} in {name}: a deliberate trap"
    return cause(CauseClass.ABORT_EXCEPTION, words, Certainty.LIKELY)
