"""Go's race detector, which is ThreadSanitizer under another printer: runtime/race of Go.

    WARNING: DATA RACE
    Write at 0x00c000014098 by goroutine 7:
      main.main.func1()
          /src/main.go:9 +0x3c

A frame is two lines: the function, then its place.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import HEX
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import PrintedFrame, Role

HEADER: Final = "WARNING: DATA RACE"
NEEDLE: Final = HEADER.encode()
_FUNCTION: Final = re.compile(
    r"(?P<name>[\w./%~*-][^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\((?:\.\.\.)?\)$"
)
_PLACE: Final = re.compile(
    r"(?P<file>\S.*\.(?:go|s|c|cc|cpp|cgo)):(?P<line>\d{1,9})(?: \+0x[0-9a-f]+)?$"
)
_MAX_FRAMES: Final = 500


class GoRace(ReportBuilder):
    """One race."""

    __slots__ = ("_indented",)

    def feed(self, text: str, number: int) -> bool:
        """Read one line; only an indented one can be a frame."""
        self._indented = text[:1] in {" ", "\t"}
        return super().feed(text, number)

    def _read(self, stripped: str) -> bool:
        if self._rule(stripped):
            return True
        stack = self._stack
        place = _PLACE.match(stripped)
        if place is not None:
            if stack is not None and stack.frames and stack.frames[-1].file is None:
                last = stack.frames[-1]
                stack.frames[-1] = PrintedFrame(
                    index=last.index,
                    function=last.function,
                    file=place["file"],
                    line=int(place["line"]),
                )
            return stack is not None
        name = _FUNCTION.match(stripped)
        if name is None or not self._indented:
            return False
        if stack is not None and len(stack.frames) < _MAX_FRAMES:
            stack.frames.append(PrintedFrame(index=len(stack.frames), function=name["name"]))
        return True


def _access(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type = "WRITE" if match["type"].lower().endswith("write") else "READ"
    report.address = match["address"]
    report.thread = match["thread"]
    report.set_stack_thread(report.thread)


def _done(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.done = True


_BY: Final = r"by (?P<thread>goroutine \d+|main goroutine|finalizer goroutine)(?: \[.*\])?:"
RUNTIME: Final = Runtime(
    name="ThreadSanitizer",
    rules=(
        Section(
            rf"(?P<type>(?:Atomic )?(?:[Rr]ead|[Ww]rite)) at (?P<address>{HEX}) {_BY}",
            Role.USE,
            _access,
        ),
        Section(rf"Previous (?:atomic )?(?:read|write) at {HEX} {_BY}", Role.PREVIOUS_ACCESS),
        Section(
            r"Goroutine (?P<goroutine>\d+) \((?:running|finished)\) created at:",
            Role.THREAD_CREATE,
            lambda report, match: report.set_stack_thread(f"goroutine {match['goroutine']}"),
        ),
        Fact(r"\[failed to restore the stack\]"),
        Fact(r"={18}$", _done),
    ),
    first_role=None,
    ends_with_summary=False,
    patience=8,
)


def open_report(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """A report where the line is the header, and what stands before it."""
    before, found, after = text.partition(HEADER)
    if not found or after.strip():
        return None
    report = GoRace(RUNTIME, "data-race", number, HEADER)
    report.message = HEADER
    report.provisional = True
    return report, before
