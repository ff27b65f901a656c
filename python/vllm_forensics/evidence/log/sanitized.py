"""Sanitizer reports in a log, read by their own reader, which is started when one may be near."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from vllm_forensics.evidence.log.phrases import base_name
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall
from vllm_forensics.model.sanitizer import PrintedReport, Role

_NEEDLE: Final = b"Sanitizer: "
_FUZZERS: Final = b"libFuzzer: "
_TAILS_NEEDLE: Final = b" is located "
_HEAD: Final = 1 << 16
"""The end of a report alone is a short text."""
_TAIL: Final = re.compile(
    rb"\b0x[0-9a-f]{4,16} is located (?:in stack of thread T\d{1,7}|\d{1,12} bytes "
    rb"(?:inside of|to the (?:right|left) of|after|before) "
    rb"(?:\d{1,16}-byte region|global variable))[^\n]{0,80}"
)
"""What AddressSanitizer says of the address below the stack that used it."""
_MAX_KEPT: Final = 1 << 23
"""Of a log so much is kept for the reader: the first reports tell what died first."""
_MAX_SUMMARIES: Final = 8
_FUZZER: Final = "libFuzzer"
_FATAL: Final = {"AddressSanitizer", "HWAddressSanitizer", "MemorySanitizer", _FUZZER}
_FUZZED: Final = {"deadly-signal": ClueKind.SIGNAL, "timeout": ClueKind.HANG}
"""Of what libFuzzer's target died, which it names no signal for; else it ended by itself."""
_SUMMARY: Final = re.compile(
    rb"SUMMARY: (?P<name>Address|HWAddress|Memory)Sanitizer: (?P<kind>[A-Za-z][\w-]{2,60}) "
    rb"(?:\((?P<module>[^()\n]{1,240})\+0x[0-9a-f]{1,16}\)(?: \(BuildId: [0-9a-f]{4,64}\))?|"
    rb"\S{1,400})(?: in (?P<function>[^\n]{1,300}))?"
)
"""The last line of a report whose beginning was cut off."""
_RUNTIME: Final = re.compile(r"lib(?:[ahlt]|hw)san\b|libclang_rt\.")
_SIGNALS: Final = {
    "segv": "SIGSEGV",
    "stack-overflow": "SIGSEGV",
    "bus": "SIGBUS",
    "fpe": "SIGFPE",
    "ill": "SIGILL",
    "abrt": "SIGABRT",
}


class SanitizedPart:
    """The part of a log that begins with the first mention of a sanitizer, up to a bound."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._kept: list[bytes] = []
        self._size = 0
        self._before = 0

    def feed(self, data: bytes, lines_before: int) -> None:
        """Whole lines of the log, and how many lines stood before them."""
        if self._size >= _MAX_KEPT:
            return
        if not self._kept:
            at = data.find(_NEEDLE)
            fuzzed = data.find(_FUZZERS, 0, at if at >= 0 else len(data))
            at = fuzzed if fuzzed >= 0 else at
            if at < 0 and not lines_before:
                at = data.find(_TAILS_NEEDLE, 0, _HEAD)
            if at < 0:
                return
            start = data.rfind(b"\n", 0, at) + 1
            self._before = lines_before + data.count(b"\n", 0, start)
            data = data[start:]
        self._kept.append(data)
        self._size += len(data)

    def close(self) -> list[Clue]:
        """One clue for each report of a fault that ends a process."""
        if not self._kept:
            return []
        # Most texts hold no such report, and its reader takes long to load.
        from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log

        reports = parse_sanitizer_log(self._kept).reports
        clues = [self._clue(report) for report in reports if report.sanitizer in _FATAL]
        return clues if reports else self._summaries() or self._tail()

    def _tail(self) -> list[Clue]:
        """A report whose beginning and end were cut off: the stacks that are left show no place."""
        data = b"".join(self._kept)
        match = _TAIL.search(data)
        if match is None:
            return []
        text = match[0].decode("utf-8", "replace")
        return [
            Clue(
                kind=ClueKind.HEAP,
                source="AddressSanitizer",
                line=self._before + data.count(b"\n", 0, match.start()) + 1,
                text=text,
                detail=text,
            )
        ]

    def _summaries(self) -> list[Clue]:
        """What last lines tell that have lost the rest of their reports."""
        data, clues = b"".join(self._kept), list[Clue]()
        for match in islice(_SUMMARY.finditer(data), _MAX_SUMMARIES):
            groups = {
                name: text.decode("utf-8", "replace").strip() if text else None
                for name, text in match.groupdict().items()
            }
            kind, module = groups["kind"] or "", groups["module"]
            signal = _SIGNALS.get(kind.lower())
            call = NativeCall(function=groups["function"], module=base_name(module))
            is_place = call.function or call.module
            if _RUNTIME.match(call.module or "") is not None:  # its own memcpy, and not the caller
                is_place = None
            clues.append(
                Clue(
                    kind=ClueKind.HEAP if signal is None else ClueKind.SIGNAL,
                    source=f"{groups['name']}Sanitizer",
                    line=self._before + data.count(b"\n", 0, match.start()) + 1,
                    text=match[0].decode("utf-8", "replace"),
                    signal=signal,
                    detail=kind,
                    native=(call,) if is_place else (),
                )
            )
        return clues

    def _clue(self, report: PrintedReport) -> Clue:
        signal = _SIGNALS.get(report.kind)
        used = next((event for event in report.chain if event.role is Role.USE), None)
        kind = ClueKind.HEAP if signal is None else ClueKind.SIGNAL
        if report.sanitizer == _FUZZER:
            kind = _FUZZED.get(report.kind, ClueKind.ABORT)
        return Clue(
            kind=kind,
            source=report.sanitizer,
            line=self._before + report.lines[0],
            text=report.summary or f"{report.sanitizer}: {report.kind}",
            pid=report.pid,
            signal=signal,
            detail=report.kind,
            native=tuple(
                NativeCall(
                    function=frame.function,
                    module=frame.module.rsplit("/", 1)[-1] if frame.module else None,
                    offset=frame.offset,
                    build_id=frame.build_id,
                    file=frame.file,
                    line=frame.line,
                )
                for frame in (used.frames if used else ())
            ),
        )
