"""What is left of a sanitizer's report whose beginning was cut off."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from vllm_forensics.evidence.log.phrases import base_name
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

_TAIL: Final = re.compile(
    rb"\b0x[0-9a-f]{4,16} is located (?:in stack of thread T\d{1,7}|\d{1,12} bytes "
    rb"(?:inside of|to the (?:right|left) of|after|before) "
    rb"(?:\d{1,16}-byte region|global variable))[^\n]{0,80}"
)
"""What AddressSanitizer says of the address below the stack that used it."""
_END: Final = re.compile(rb"(?m)^==(?P<pid>\d{1,9})==ABORTING\b")
_LEGEND: Final = b"Shadow byte"
"""Above its last line AddressSanitizer explains the bytes around the address."""
_MAX_SUMMARIES: Final = 8
_SUMMARY: Final = re.compile(
    rb"SUMMARY: (?P<name>[A-Z]\w{2,20})Sanitizer: (?P<kind>[A-Za-z][\w-]{2,60}) "
    rb"(?:\((?P<module>[^()\n]{1,240})\+0x[0-9a-f]{1,16}\)(?: \(BuildId: [0-9a-f]{4,64}\))?|"
    rb"\S{1,400})(?: in (?P<function>[^\n]{1,300}))?"
)
"""The last line of a report."""
_RUNTIME: Final = re.compile(r"lib(?:[ahlt]|hw)san\b|libclang_rt\.")
SIGNALS: Final = {
    "segv": "SIGSEGV",
    "stack-overflow": "SIGSEGV",
    "bus": "SIGBUS",
    "fpe": "SIGFPE",
    "ill": "SIGILL",
    "abrt": "SIGABRT",
    "trap": "SIGTRAP",
}
"""The kinds of reports that a fatal signal is told by, whichever tool catches it."""
_SIGNAL: Final = "unknown-signal"
_MEMORYS: Final = {"AddressSanitizer", "HWAddressSanitizer", "MemorySanitizer"}
"""These end the program at each of their reports."""
_GAVE_UP: Final = re.compile(
    r"check-failed|out-of-memory|rss-limit-exceeded|allocation-size-too-big|\w{2,12}alloc-overflow|"
    r"invalid-.{2,40}-alignment|odr-violation|initialization-order-fiasco|"
    r"use-of-uninitialized-value|bad-_.{1,60}"
)
"""Kinds of reports that tell of no damage in memory."""


def kind_of_end(tool: str, kind: str) -> ClueKind | None:
    """What a tool's report of that kind tells of the end; None where the program goes on."""
    if kind in SIGNALS or kind == _SIGNAL:
        return ClueKind.SIGNAL
    if kind == "check-failed" or tool == "RealtimeSanitizer":
        return ClueKind.ABORT
    if tool not in _MEMORYS:
        return None
    return ClueKind.ABORT if _GAVE_UP.fullmatch(kind) is not None else ClueKind.HEAP


def summaries(data: bytes, lines_before: int) -> list[Clue]:
    """What last lines tell that have lost the rest of their reports."""
    clues = list[Clue]()
    for match in islice(_SUMMARY.finditer(data), _MAX_SUMMARIES):
        groups = {
            name: text.decode("utf-8", "replace").strip() if text else None
            for name, text in match.groupdict().items()
        }
        tool, kind, module = f"{groups['name']}Sanitizer", groups["kind"] or "", groups["module"]
        told = kind_of_end(tool, kind.lower())
        if told is None:
            continue
        call = NativeCall(function=groups["function"], module=base_name(module))
        is_place = call.function or call.module
        if _RUNTIME.match(call.module or "") is not None:  # its own memcpy, and not the caller
            is_place = None
        signal = SIGNALS.get(kind.lower())
        clues.append(
            Clue(
                kind=told,
                source=tool,
                line=lines_before + data.count(b"\n", 0, match.start()) + 1,
                text=match[0].decode("utf-8", "replace"),
                signal=signal,
                detail=None if signal is not None else kind,
                native=(call,) if is_place else (),
            )
        )
    return clues


def tail(data: bytes, lines_before: int) -> list[Clue]:
    """A report whose beginning and end were cut off: the stacks that are left show no place."""
    end = _END.search(data) if _LEGEND in data else None
    match = _TAIL.search(data) or end
    if match is None:
        return []
    text = match[0].decode("utf-8", "replace")
    return [
        Clue(
            kind=ClueKind.HEAP,
            source="AddressSanitizer",
            line=lines_before + data.count(b"\n", 0, match.start()) + 1,
            text=text,
            detail=text if match is not end else "a wrong use of memory, whose kind was cut off",
            pid=int(end["pid"]) if end is not None else None,
        )
    ]
