"""Reports of several processes whose lines alternate with nothing before them to tell whose.

What names its report is certain: a line with the process, one with the address of the fault, a
frame with the very pc of the header, a frame whose number only one open stack is waiting for. What
could be either's is nobody's: the stacks that it might have belonged to end there, cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder

_MAX_RIVALS: Final = 8
_FAR: Final = 60
"""A report that was silent for so many lines was cut, not interrupted."""
_INSTRUCTION: Final = 8
_PID: Final = re.compile(r"==(\d{1,18})==")
_FRAME: Final = re.compile(r"#(\d{1,4})[: \t]+(?:0x([0-9a-fA-F]{1,16}))?")
_ADDRESSED: Final = re.compile(
    r"(?:READ|WRITE|ACCESS) of size \d+ at (0x[0-9a-f]+)"
    r"|(?:Address )?(0x[0-9a-f]+) is (?:located|a )"
)
_LATER_STACK: Final = re.compile(r"freed by |(?:previously )?allocated by |Thread T\d+ ")
"""Printed behind the stack of the access."""
_SUMMARY: Final = re.compile(r"SUMMARY: (\w+Sanitizer): (.*)")


def may_interleave(known: ReportBuilder, report: ReportBuilder) -> bool:
    """Could a report still go on behind the header of this one, of another process?"""
    return (
        known.pid is not None
        and report.pid is not None
        and known.pid != report.pid
        and known.summary is None
        and not known.done
        and known.runtime.ends_with_summary
        and report.runtime.ends_with_summary
        and report.first_line - known.last_line <= _FAR
    )


class Rivals:
    """The open reports of one unprefixed stream, the newest last."""

    def __init__(self, reports: Iterable[ReportBuilder]) -> None:
        """Begin with two."""
        self._reports = list(reports)
        self._doubtful = False
        """Has the newest read a line that another could have printed as well?"""
        self._took_sections = False
        self.mixed = False
        """Has a line of another than the newest come behind the newest one's header?"""

    def add(self, report: ReportBuilder) -> bool:
        """Take another in, where one of these may still go on."""
        if len(self._reports) >= _MAX_RIVALS or not any(
            may_interleave(known, report) for known in self._reports
        ):
            return False
        self._reports.append(report)
        self._doubtful = self._took_sections = False
        return True

    def feed(self, text: str, number: int) -> bool:
        """Hand a line to the report whose it is for certain."""
        stripped = text.strip()
        if not stripped:
            return True
        running = [
            report
            for report in self._reports
            if not report.done and (report is self._reports[-1] or not self._silent(report, number))
        ]
        owners = _owners(stripped, running)
        newest = self._reports[-1]
        if owners is not None and len(owners) < 2:
            return bool(owners) and self._feed_certain(owners[0], text, number, running)
        if not self.mixed:
            if newest.would_read(stripped):
                self._doubtful = True
                self._took_sections = self._took_sections or not stripped.startswith("#")
            return not newest.done and newest.feed(text, number)
        if len(running) == 1:
            return running[0].feed(text, number)
        for report in owners or running:
            if report.would_read(stripped):
                report.lose_stack()
        return False

    def _feed_certain(
        self, owner: ReportBuilder, text: str, number: int, running: list[ReportBuilder]
    ) -> bool:
        newest = self._reports[-1]
        if owner is not newest and not self.mixed:
            frame = _FRAME.match(text.strip())
            goes_on = frame is not None and frame[1] != "0" and int(frame[1]) == owner.due
            # Where it was inside of a stack, and goes on there, nobody took its lines.
            self._doubtful = self._doubtful or (self._took_sections and not goes_on)
            self._mix(running)
        used = owner.feed(text, number)
        if newest.done or newest.summary is not None:
            # Had another's lines come between, one of them would have told.
            self._doubtful = False
        return used

    def _mix(self, running: list[ReportBuilder]) -> None:
        """They do alternate: what the newest has read since may have been another's."""
        self.mixed = True
        if not self._doubtful:
            return
        for report in running:
            if report is not self._reports[-1]:
                report.lose_stack()
        self._reports[-1].lose_stacks()

    def _silent(self, report: ReportBuilder, number: int) -> bool:
        return number - report.last_line > _FAR


def _owners(line: str, reports: list[ReportBuilder]) -> list[ReportBuilder] | None:
    """The reports that the line may belong to; None where it is of no form that is known."""
    named = _PID.match(line)
    if named is not None:
        return [report for report in reports if report.pid == int(named[1])]
    frame = _FRAME.match(line)
    if frame is not None:
        return _waiting_for(int(frame[1]), frame[2], reports) or None
    addressed = _ADDRESSED.match(line)
    if addressed is not None:
        address = addressed[1] or addressed[2]
        known = [report for report in reports if report.address == address]
        if len(known) > 1 and addressed[1] is not None:
            return [report for report in known if report.access_size is None] or known
        return known
    summary = _SUMMARY.match(line)
    if summary is not None:
        return _summed_up(summary[1], summary[2], reports)
    reading = [report for report in reports if report.would_read(line)]
    if _LATER_STACK.match(line):
        reading = [report for report in reading if not report.awaits_use]
    # Behind a summary come no stacks but a thread's, and those of old runtimes only.
    return [report for report in reading if report.summary is None] or reading or None


def _waiting_for(index: int, pc: str | None, reports: list[ReportBuilder]) -> list[ReportBuilder]:
    """Those whose next frame this may be: of which it is the number, or whose place is lost."""
    here = int(pc, 16) if pc is not None else None
    found = []
    for report in reports:
        if (report.runtime.name == "ThreadSanitizer") != (pc is None):  # it prints no pc
            continue
        known = report.awaits_pc
        if known is not None and here is not None and index == 0:
            # The header's pc is the frame's, or the next instruction's.
            if 0 <= known - here <= _INSTRUCTION:
                return [report]
        elif report.due is None or report.due == index:
            found.append(report)
    return found


def _summed_up(tool: str, words: str, reports: list[ReportBuilder]) -> list[ReportBuilder]:
    """Those of that kind; of several, the one whose innermost place it names."""
    said = "-".join(words.lower().split())
    of_threads = tool == "ThreadSanitizer"
    alike = [
        report
        for report in reports
        if (report.runtime.name == "ThreadSanitizer") == of_threads
        and (report.kind is None or said.startswith(report.kind) or "leaked" in words)
    ]
    at_top = [report for report in alike if (top := report.top_place) and top in words]
    return at_top if len(at_top) == 1 else alike
