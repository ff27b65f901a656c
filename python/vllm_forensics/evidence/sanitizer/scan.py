"""Finds the reports in a log of any size: a byte search first, lines only while a report is open.

The log is read once, in pieces, and what is kept is one unfinished line and the open reports: time
is linear in its size and memory does not grow with it, only with the reports found.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.headers import NEEDLES, open_report
from vllm_forensics.evidence.sanitizer.learned import learn
from vllm_forensics.evidence.sanitizer.lines import LogicalLine, logical_lines
from vllm_forensics.evidence.sanitizer.streams import Stream
from vllm_forensics.model.sanitizer import LogReading, PrintedReport

_MAX_UNFINISHED: Final = 1 << 20
"""Of a line without an end, so much is kept."""
_FAR: Final = 400
"""After so many lines of any stream without one of its own, a report is taken to have ended."""
_SEEN_MAX: Final = 5
_MENTION: Final = re.compile(r"\b\w{0,24}Sanitizer|libFuzzer|runtime error:|GWP-ASan|Scudo")


def parse_sanitizer_log(pieces: Iterable[bytes]) -> LogReading:
    """Every report in a log that is handed over in pieces of any size; raises on none."""
    scanner = _Scanner()
    for piece in _as_utf8(pieces):
        scanner.feed(piece)
    return scanner.close()


def _as_utf8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """PowerShell redirects into UTF-16; a byte order mark says so."""
    decoder: codecs.IncrementalDecoder | None = None
    head = b""
    started = False
    for piece in pieces:
        data = piece
        if not started:
            head += piece
            if len(head) < 2:
                continue
            started = True
            data = head
            if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(data).encode("utf-8", "replace") if decoder else data
    if not started:
        yield head


class _Scanner:
    def __init__(self) -> None:
        self._rest = b""
        self._line = 0
        self._size = 0
        self._open: dict[str, Stream] = {}
        self._newest: Stream | None = None
        self._done: list[PrintedReport] = []
        self._seen: list[str] = []

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        self._size += len(piece)
        data = self._rest + piece if self._rest else piece
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) < _MAX_UNFINISHED:
            self._rest = data
            return
        if end == 0:  # a line without end: cut it
            end = len(data)
        self._read(data, end)
        self._rest = data[end:]

    def close(self) -> LogReading:
        """The end of the log: close what is open."""
        if self._rest:
            self._read(self._rest + b"\n", len(self._rest) + 1)
        truncated = any(stream.unfinished for stream in self._open.values())
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
        position = 0
        hits = _Hits(data, end)
        while position < end:
            if not self._open:
                hit = hits.next(position)
                if hit < 0:
                    self._line += data.count(b"\n", position, end)
                    return
                start = data.rfind(b"\n", position, hit) + 1
                if start > position:
                    self._line += data.count(b"\n", position, start)
                    position = start
            stop = data.find(b"\n", position, end)
            if stop < 0:
                stop = end
            self._line += 1
            for line in logical_lines(data[position:stop]):
                self._take(line)
            position = stop + 1

    def _take(self, line: LogicalLine) -> None:
        text = line.text
        if (
            "Sanitizer" in text
            or "runtime error:" in text
            or "libFuzzer" in text
            or "GWP-ASan" in text
            or "Scudo" in text
        ):
            found = open_report(text, self._line)
            if found is not None:
                self._begin(line.stream, *found)
                return
            mentioned = True
        else:
            mentioned = False
        stream = self._open.get(line.stream)
        if stream is None and line.stream and self._open:
            stream = self._counted(line.stream)
        used = stream is not None and stream.feed(text, self._line)
        if used:
            if stream is not None and stream.done:
                self._expire()
            return
        if mentioned:
            self._see(self._line, text)
        if self._open and ((self._line & 15) == 0 or (stream is not None and stream.exhausted)):
            self._expire()

    def _see(self, number: int, text: str) -> None:
        match = _MENTION.search(text)
        if match is not None and len(self._seen) < _SEEN_MAX:
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


class _Hits:
    """Where the needles stand, each searched for once."""

    def __init__(self, data: bytes, end: int) -> None:
        self._data = data
        self._end = end
        self._at = dict.fromkeys(NEEDLES, -2)

    def next(self, position: int) -> int:
        """The first hit from `position`, or -1."""
        best = -1
        for needle in NEEDLES:
            at = self._at[needle]
            if at != -1 and at < position:
                at = self._data.find(needle, position, self._end)
                self._at[needle] = at
            if at >= 0 and (best < 0 or at < best):
                best = at
        return best


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
