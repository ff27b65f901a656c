"""Sanitizer reports in a log, read by their own reader, which is started when one may be near."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.demangle import unescape
from vllm_forensics.evidence.log.sanitized_remains import SIGNALS, kind_of_end, summaries, tail
from vllm_forensics.evidence.log.writers.sanitizers import SANITIZERS
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall
from vllm_forensics.model.sanitizer import PrintedReport, Role

_SPEAKS: Final = re.compile(rb"Sanitizer(?:: | CHECK failed| failed to )")
_FINDS: Final = b" runtime error: "
"""UndefinedBehaviorSanitizer names itself only below what it found, or not at all."""
_FOUND: Final = 1 << 13
_FUZZERS: Final = b"libFuzzer: "
_TAILS_NEEDLES: Final = (b" is located ", b"Shadow byte")
_HEAD: Final = 1 << 16
"""The end of a report alone is a short text."""
_MAX_KEPT: Final = 1 << 23
"""Of a log so much is kept for the reader: the first reports tell what died first."""
_FUZZER: Final = "libFuzzer"
_FUZZED: Final = {"deadly-signal": ClueKind.SIGNAL, "timeout": ClueKind.HANG}
"""Of what libFuzzer's target died, which it names no signal for; else it ended by itself."""
_BEHAVIOR: Final = "UndefinedBehaviorSanitizer"
_ENDED: Final = re.compile(rb"^(?:==\d{1,18}==ABORTING$|.{0,120}?\bAborted\b)")
"""Right below a report after which the program would have gone on, were it not built otherwise."""
_BELOW: Final = 3
_RECOVERS: Final = re.compile(rb"-fsanitize-recover|\bhalt_on_error=(?:0|false)")
"""So built or so run, a program goes on."""
_MAX_TEXT: Final = 300
_MAX_LINES: Final = 10_000
_OWN: Final = {ClueKind.SIGNAL, ClueKind.ABORT, ClueKind.STACK}
"""What another reader may take a part of a report for."""


class SanitizedPart:
    """The part of a log that begins with the first mention of a sanitizer, up to a bound."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._kept: list[bytes] = []
        self._size = 0
        self._before = 0
        self._recovers = False

    def feed(self, data: bytes, lines_before: int) -> None:
        """Whole lines of the log, and how many lines stood before them."""
        if self._size >= _MAX_KEPT:
            return
        if not lines_before:
            self._recovers = _RECOVERS.search(data, 0, _HEAD) is not None
        if not self._kept:
            at = _first(data)
            fuzzed = data.find(_FUZZERS, 0, at if at >= 0 else len(data))
            at = fuzzed if fuzzed >= 0 else at
            if at < 0 and not lines_before:
                tails = (data.find(needle, 0, _HEAD) for needle in _TAILS_NEEDLES)
                at = min((tail for tail in tails if tail >= 0), default=-1)
            if at < 0:
                return
            start = data.rfind(b"\n", 0, at) + 1
            self._before = lines_before + data.count(b"\n", 0, start)
            data = data[start:]
        self._kept.append(data)
        self._size += len(data)

    def close(self, told: list[Clue]) -> list[Clue]:
        """What was told, and one clue for each report of a fault that ends a process."""
        if not self._kept:
            return told
        found, read = self._reports()
        return [*(clue for clue in told if not _is_read(clue, read)), *found]

    def _reports(self) -> tuple[list[Clue], set[int]]:
        """One clue for each report, and the lines that were read for them."""
        # Most texts hold no such report, and its reader takes long to load.
        from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log

        reports = parse_sanitizer_log(self._kept).reports
        clues, lines = list[Clue](), set[int]()
        for report in reports:
            clue = self._clue(report)
            if clue is not None:
                clues.append(clue)
                lines.update(self._before + line for line in _lines_of(report))
        if clues:
            return clues, lines
        data = b"".join(self._kept)
        left = summaries(data, self._before) or ([] if reports else tail(data, self._before))
        return left, lines

    def _clue(self, report: PrintedReport) -> Clue | None:
        kind = self._kind(report)
        if kind is None:
            return None
        signal = SIGNALS.get(report.kind)
        used = next((event for event in report.chain if event.role is Role.USE), None)
        return Clue(
            kind=kind,
            source=report.sanitizer,
            line=self._before + report.lines[0],
            text=report.raw.partition("\n")[0].strip()[:_MAX_TEXT],
            pid=report.pid,
            signal=signal,
            detail=_detail(report, signal),
            native=tuple(
                NativeCall(
                    function=unescape(frame.function) if frame.function else None,
                    module=frame.module.rsplit("/", 1)[-1] if frame.module else None,
                    offset=frame.offset,
                    build_id=frame.build_id,
                    file=frame.file,
                    line=frame.line,
                )
                for frame in (used.frames if used else ())
            ),
        )

    def _kind(self, report: PrintedReport) -> ClueKind | None:
        if report.sanitizer == _FUZZER:
            return _FUZZED.get(report.kind, ClueKind.ABORT)
        kind = kind_of_end(report.sanitizer, report.kind)
        if self._recovers and kind is not ClueKind.SIGNAL and not self._ended_below(report):
            return None
        if kind is None and report.sanitizer == _BEHAVIOR and self._ended_below(report):
            return ClueKind.ABORT
        return kind

    def _ended_below(self, report: PrintedReport) -> bool:
        """Was the program built to end at what UndefinedBehaviorSanitizer found?"""
        lines = b"".join(self._kept).split(b"\n", report.lines[1] + _BELOW)
        below = lines[report.lines[1] - 1 : report.lines[1] + _BELOW]
        return any(_ENDED.match(line) is not None for line in below)


def _first(data: bytes) -> int:
    """Where a sanitizer speaks first, or what it says of what it found right above; else -1."""
    match = _SPEAKS.search(data)
    if match is None:
        return -1
    above = data.find(_FINDS, max(0, match.start() - _FOUND), match.start())
    return above if above >= 0 else match.start()


def _lines_of(report: PrintedReport) -> range:
    first, last = report.lines
    return range(first, min(last, first + _MAX_LINES) + 1)


def _is_read(clue: Clue, lines: set[int]) -> bool:
    """Was it read of lines that a report's reader has read, or does it announce a report?"""
    if clue.source == SANITIZERS.source and clue.kind is not ClueKind.ENVIRONMENT:
        return bool(lines)
    return clue.line in lines and clue.kind in _OWN


def _detail(report: PrintedReport, signal: str | None) -> str:
    """Of a signal, which access to memory it was of; else the kind of fault."""
    if report.sanitizer == _BEHAVIOR and signal is None and report.message:
        return report.message
    if signal not in {"SIGSEGV", "SIGBUS"} or report.kind == "stack-overflow":
        return report.kind
    access = report.access.type if report.access is not None else None
    how = {"READ": "a read of", "WRITE": "a write to"}.get(access or "", "an access to")
    where = f"address {report.address}" if report.address else "memory"
    return f"{how} {where}"
