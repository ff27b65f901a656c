"""Finds the two reports that are to be compared: in logs, by number or line, or by signature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from vllm_forensics.capture.files import is_regular_file
from vllm_forensics.capture.logs import find_logs, read_log
from vllm_forensics.diagnosis.sanitizer.sieve import with_leaks
from vllm_forensics.diagnosis.sanitizer.signature import leak_signature, signature_of
from vllm_forensics.diagnosis.sanitizer.why import why_reports, why_signatures
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.model.sanitizer import PrintedReport, Role
from vllm_forensics.model.sanitizer_sieve import SIGNATURE, signature_key
from vllm_forensics.model.sanitizer_why import Why, WhySide

_NUMBERED: Final = re.compile(r"(.+):(\d{1,9})", re.DOTALL)
_REMEDY: Final = "forensics asan --why A B, each a LOG, LOG:N (report or line) or a signature"


def investigate_why(one: str, other: str, logs: Sequence[str]) -> Why:
    """Compare two reports. Signatures are looked up in `logs`, where any are named.

    Raises:
        UsageError: one of the two cannot be found.

    """
    reader = _Reader(logs=tuple(logs))
    found = [reader.find(asked) for asked in (one, other)]
    (side, report), (other_side, other_report) = found
    if report is None or other_report is None:
        return why_signatures(side, other_side)
    return why_reports((side, report), (other_side, other_report))


@dataclass(kw_only=True)
class _Reader:
    """Reads each log once."""

    logs: tuple[str, ...]
    _read: dict[str, tuple[PrintedReport, ...]] = field(default_factory=dict)

    def find(self, asked: str) -> tuple[WhySide, PrintedReport | None]:
        if SIGNATURE.fullmatch(asked) is not None:
            return self._by_signature(asked)
        numbered = _NUMBERED.fullmatch(asked)
        if numbered is not None and not is_regular_file(asked):
            return self._in_log(asked, numbered[1], int(numbered[2]))
        return self._in_log(asked, asked, None)

    def _in_log(self, asked: str, log: str, wanted: int | None) -> tuple[WhySide, PrintedReport]:
        reports = self._reports(log)
        if not reports:
            raise UsageError(f"{log} holds no sanitizer report", remedy=_REMEDY)
        at = 0 if wanted is None else _place(reports, wanted)
        if at is None:
            lines = ", ".join(str(report.lines[0]) for report in reports[:10])
            raise UsageError(
                f"{log} has no report {wanted}, and none that begins in line {wanted}",
                remedy=f"it holds {len(reports)}, from the lines {lines}",
            )
        report = reports[at]
        side = WhySide(
            asked=asked,
            signature=signature_of(report),
            log=log,
            number=at + 1,
            line=report.lines[0],
            reports=len(reports),
        )
        return side, report

    def _by_signature(self, asked: str) -> tuple[WhySide, PrintedReport | None]:
        wanted = signature_key(asked)
        for log in find_logs(self.logs):
            reports = self._reports(log)
            for at, report in enumerate(reports):
                match = _the_one(report, wanted)
                if match is not None:
                    side = WhySide(
                        asked=asked,
                        signature=asked,
                        log=log,
                        number=at + 1,
                        line=report.lines[0],
                        reports=len(reports),
                    )
                    return side, match
        return WhySide(asked=asked, signature=asked), None

    def _reports(self, log: str) -> tuple[PrintedReport, ...]:
        if log not in self._read:
            try:
                self._read[log] = parse_sanitizer_log(read_log(log)).reports
            except EvidenceError as error:
                raise UsageError(f"{log} {error.message}", remedy=_REMEDY) from error
        return self._read[log]


def _place(reports: tuple[PrintedReport, ...], wanted: int) -> int | None:
    """By its number; else by its first line."""
    if 1 <= wanted <= len(reports):
        return wanted - 1
    lines = [report.lines[0] for report in reports]
    return lines.index(wanted) if wanted in lines else None


def _the_one(report: PrintedReport, key: str) -> PrintedReport | None:
    """The report, or the one of its leaks alone that has this signature."""
    if signature_key(signature_of(report)) == key:
        return report
    for number, stack in enumerate(report.stacks(Role.LEAK)):
        if signature_key(leak_signature(report, stack)) == key:
            return with_leaks(report, (number,))
    return None
