"""Finds the reports in a log of any size: a byte search first, lines only while a report is open.

The log is read once, in pieces, and what is kept is one unfinished line and the open reports: time
is linear in its size and memory does not grow with it, only with the reports found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.headers import (
    LATE_NEEDLES,
    LINES_ABOVE,
    NEEDLES,
    may_begin,
    open_report,
)
from vllm_forensics.evidence.sanitizer.learned import learn
from vllm_forensics.evidence.sanitizer.lines import logical_lines
from vllm_forensics.evidence.sanitizer.needles import Search, words
from vllm_forensics.evidence.sanitizer.plain import plain_line
from vllm_forensics.evidence.sanitizer.runs import RUN_BEGINS, read_run
from vllm_forensics.evidence.sanitizer.streams import Stream
from vllm_forensics.evidence.sanitizer.symbolizer_markup import SymbolizerMarkup
from vllm_forensics.evidence.sanitizer.valgrind_xml import NEEDLE as XML_NEEDLE
from vllm_forensics.evidence.sanitizer.valgrind_xml import EmbeddedXml
from vllm_forensics.evidence.unicode_text import as_utf8
from vllm_forensics.model.sanitizer import LogReading, PrintedReport

_MAX_UNFINISHED: Final = 1 << 20
"""Of a line without an end, so much is kept."""
_MAX_ABOVE: Final = 1 << 13
_WORDS: Final = words((*NEEDLES, *LATE_NEEDLES))
_FAR: Final = 400
"""After so many lines of any stream without one of its own, a report is taken to have ended."""
_SEEN_MAX: Final = 5
_MENTION: Final = re.compile(
    r"\b\w{0,24}Sanitizer|libFuzzer|runtime error:|GWP-ASan|Scudo|DATA RACE|K[ACM]SAN: |UBSAN: "
)


def parse_sanitizer_log(pieces: Iterable[bytes]) -> LogReading:
    """Every report in a log that is handed over in pieces of any size; raises on none."""
    scanner = _Scanner()
    for piece in as_utf8(pieces):
        scanner.feed(piece)
    return scanner.close()


class _Scanner:
    def __init__(self) -> None:
        self._rest = b""
        self._line = 0
        self._size = 0
        self._open: dict[str, Stream] = {}
        self._newest: Stream | None = None
        self._xml = EmbeddedXml()
        self._markup = SymbolizerMarkup()
        self._done: list[PrintedReport] = []
        self._seen: list[str] = []

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        self._size += len(piece)
        data = self._rest + piece if self._rest else piece
        end = data.rfind(b"\n") + 1
        if end:
            end = _line_above(data, end)
        elif len(data) >= _MAX_UNFINISHED:  # a line without end: cut it
            end = len(data)
        if end == 0:
            self._rest = data
            return
        self._read(data, end)
        self._rest = data[end:]

    def close(self) -> LogReading:
        """The end of the log: close what is open."""
        if self._rest:
            data = self._rest if self._rest.endswith(b"\n") else self._rest + b"\n"
            self._read(data, len(data))
        truncated = self._xml.is_open or any(stream.unfinished for stream in self._open.values())
        self._xml.close()
        self._done.extend(self._xml.reports)
        for stream in list(self._open.values()):
            self._close(stream)
        reports = sorted(self._done, key=lambda report: report.lines[0])
        return LogReading(
            reports=_without_repeats(reports),
            size_bytes=self._size,
            lines=self._line,
            truncated=truncated,
            seen_instead=tuple(self._seen),
        )

    def _read(self, data: bytes, end: int) -> None:
        position, hit, line_of_hit = 0, -1, 0
        search = Search(data, _WORDS)
        while position < end:
            if hit < position:
                hit, lines = search.skip(position)
                line_of_hit = self._line + 1 + lines
            if not self._open and not self._xml.is_open:
                start = _header_line(data, position, hit)
                if start >= end:
                    self._line = line_of_hit - 1 - data.count(b"\n", end, hit)
                    return
                if start > position:
                    self._line = line_of_hit - 1 - data.count(b"\n", start, hit)
                    position = start
            if self._open and data.startswith(RUN_BEGINS, position):
                size = self._take_run(data, position, data.rfind(b"\n", position, min(end, hit)))
                if size:
                    position += size
                    continue
            stop = data.find(b"\n", position, end)
            if stop < 0:
                stop = end
            self._line += 1
            self._take(data[position:stop], has_needle=hit < stop)
            position = stop + 1

    def _take_run(self, data: bytes, position: int, end: int) -> int:
        """Read the run of lines that begins here; its size, or 0 where there is none."""
        stream = self._open.get("")
        report = stream.reader_of_runs if stream is not None else None
        if report is None or end < position or self._xml.is_open:
            return 0
        run = read_run(data, position, end + 1, after=report.last_index)
        if run is None or not report.take_run(run, self._line + len(run.lines) + run.blank):
            return 0
        self._line += len(run.lines) + run.blank
        return run.size

    def _take(self, raw: bytes, *, has_needle: bool) -> None:
        """Read one line, whether it begins a report or goes on with one."""
        if b"{{{" in raw:
            raw = self._markup.plain(raw)
        if not (has_needle or self._xml.is_open or b"== " in raw or b", tid: " in raw):
            text = plain_line(raw)
            if text is not None:
                self._go_on("", text)
                return
        if (self._xml.is_open or XML_NEEDLE in raw) and self._xml.take(raw, self._line):
            return
        for name, text in logical_lines(raw):
            is_worth_a_look = may_begin(text)
            found = open_report(text, self._line) if is_worth_a_look else None
            if found is not None:
                self._begin(name, *found)
            elif not self._go_on(name, text) and is_worth_a_look:
                self._see(self._line, text)

    def _go_on(self, name: str, text: str) -> bool:
        """Hand a line to the open report that it belongs to; False where there is none."""
        stream = self._open.get(name)
        if stream is None and name and self._open:
            stream = self._counted(name)
        if stream is not None and stream.feed(text, self._line):
            if stream.done:
                self._expire()
            return True
        if self._open and ((self._line & 15) == 0 or (stream is not None and stream.exhausted)):
            self._expire()
        return False

    def _see(self, number: int, text: str) -> None:
        match = _MENTION.search(text) if len(self._seen) < _SEEN_MAX else None
        if match is not None:
            start = max(0, match.start() - 40)
            self._seen.append(f"line {number}: {text[start : match.end() + 60].strip()}")

    def _counted(self, name: str) -> Stream | None:
        """The newest stream, if its name differs by a line number only: `12: `, `[step:12]`."""
        newest = self._newest
        if newest is None or not newest.counts_to(name, self._line):
            return None
        return newest if self._open.get(newest.name) is newest else None

    def _begin(self, name: str, report: ReportBuilder, before: str) -> None:
        stream = self._open.get(name)
        if stream is None and name and self._open:
            stream = self._counted(name)
            if stream is not None and not stream.is_counted:
                stream = None
        if stream is not None and stream.is_repeated_by(report):
            return
        learned = learn(before, self._line)
        if stream is not None:
            if stream.begin(report, learned):
                return
            self._close(stream)
        self._newest = self._open[name] = Stream(name, report, learned, line=self._line)

    def _expire(self) -> None:
        for stream in list(self._open.values()):
            if stream.exhausted or self._line - stream.last_line > _FAR:
                self._close(stream)

    def _close(self, stream: Stream) -> None:
        self._open.pop(stream.name, None)
        for report in stream.reports:
            if report.provisional and not report.has_evidence:
                self._see(report.first_line, report.message or report.runtime.name)
                continue
            self._done.append(report.build())


def _header_line(data: bytes, position: int, hit: int) -> int:
    """Where the line of the hit begins, or one above it where a late needle is near."""
    start = max(position, data.rfind(b"\n", position, hit) + 1)
    for needle in LATE_NEEDLES:
        at = data.find(needle, start, hit + _MAX_ABOVE)
        if at >= 0:
            start = min(start, max(position, _line_above(data, at)))
    return start


def _line_above(data: bytes, at: int) -> int:
    """Where the line begins that is so far above as a late needle may be from its header."""
    floor, start, newline = max(0, at - _MAX_ABOVE), at, at
    for _ in range(LINES_ABOVE + 1):
        newline = data.rfind(b"\n", floor, newline)
        if newline < 0:
            return start if floor else 0
        start = newline + 1
    return start


def _without_repeats(reports: list[PrintedReport]) -> tuple[PrintedReport, ...]:
    """An exact repeat raises `occurrences`: a retry's log, pytest's copy, a symbolised copy."""
    kept: dict[tuple[object, ...], PrintedReport] = {}
    for report in reports:
        key = _identity(report)
        known = kept.get(key)
        if known is None:
            kept[key] = report
            continue
        better = known if _names(known) >= _names(report) else report
        kept[key] = replace(
            better,
            lines=known.lines if better is known else report.lines,
            occurrences=known.occurrences + 1,
        )
    return tuple(kept.values())


def _identity(report: PrintedReport) -> tuple[object, ...]:
    places: tuple[object, ...] = tuple(
        (event.role, event.thread, frame.pc or (frame.function, frame.offset))
        for event in report.chain
        for frame in event.frames[:3]
    )
    if not places and report.pc is None:
        places = (report.summary, report.message)
    if report.sanitizer == "UndefinedBehaviorSanitizer" and report.location is not None:
        return (report.sanitizer, report.pid, report.location, report.message, places)
    if report.pc is None or report.pid is None:
        leaks = tuple((leak.size, leak.objects) for leak in report.leaks)
        return (report.sanitizer, report.kind, report.pid, report.address, places, leaks)
    return (report.sanitizer, report.kind, report.pid, report.address, report.pc)


def _names(report: PrintedReport) -> int:
    return sum(frame.function is not None for event in report.chain for frame in event.frames)
