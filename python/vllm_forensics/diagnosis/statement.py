"""What one place of one source says of one process; the unit in which sources are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from vllm_forensics.diagnosis.incident_first import subject_pid
from vllm_forensics.diagnosis.incident_where import place_of
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer import ExplainedReport

_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_DATED: Final = re.compile(
    rf"(?:(?P<month>\d\d)[-/](?P<day>\d\d)|(?P<name>{'|'.join(_MONTHS)}) (?P<day_of>[ \d]\d))"
    r"[T _](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
)
_NUMBER: Final = re.compile(r"(?P<what>segfault at|ip|sp)[ :](?P<value>[0-9a-f]{1,16})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement, with what can be compared."""

    source: str
    kind: SourceKind
    text: str
    line: int | None = None
    time: str | None = None
    time_s: float | None = None
    """Seconds since the epoch, where the source's clock says which moment it was."""
    host: str | None = None
    pid: int | None = None
    clue: Clue | None = None
    """For the judgement of what died first; None where it is no sign of a death."""
    signal: str | None = None
    exit: int | None = None
    ends: bool = False
    """Does `exit` or `signal` say how the whole process ended?"""
    address: int | None = None
    pc: int | None = None
    sp: int | None = None
    function: str | None = None
    module: str | None = None
    program: str | None = None
    crash: Crash | None = None
    report: ExplainedReport | None = None

    @property
    def place(self) -> str:
        """`serve.log:12`, or the source alone."""
        return f"{self.source}:{self.line}" if self.line is not None else self.source


def of_log(path: str, host: str | None, reading: IncidentReading) -> Iterator[Statement]:
    """Every clue of a log."""
    for clue in reading.clues:
        where = place_of(clue.native)
        numbers = {match["what"]: int(match["value"], 16) for match in _NUMBER.finditer(clue.text)}
        is_kernel = clue.source == "kernel"
        yield Statement(
            source=path,
            kind=SourceKind.LOG,
            text=clue.text,
            line=clue.line,
            time=clue.time,
            time_s=moment(clue.time),
            host=host,
            pid=subject_pid(clue),
            clue=clue,
            signal=clue.signal,
            exit=clue.exit,
            ends=clue.kind is ClueKind.CHILD and clue.exit is not None,
            address=numbers.get("segfault at") if is_kernel else None,
            pc=numbers.get("ip") if is_kernel else None,
            sp=numbers.get("sp") if is_kernel else None,
            function=plain_name(where.function) if where and where.function else None,
            module=where.module if where else None,
        )


def of_report(log: str, host: str | None, report: ExplainedReport) -> Statement:
    """A sanitizer's report. The sign of a death, where it is one, is the log's own."""
    printed = report.printed
    culprit = report.culprit
    return Statement(
        source=log,
        kind=SourceKind.SANITIZER,
        text=printed.summary or f"{printed.sanitizer}: {printed.kind}",
        line=printed.lines[0],
        host=host,
        pid=printed.pid,
        address=_hexadecimal(printed.address),
        pc=_hexadecimal(printed.pc),
        function=plain_name(culprit.function) if culprit and culprit.function else None,
        report=report,
    )


def moment(text: str | None) -> float | None:
    """Seconds since the epoch of a time with a zone; None where it is not said which moment."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo is not None else None


def naive_moment(text: str | None) -> float | None:
    """A dated time without a zone, as if it were UTC's."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return found.replace(tzinfo=UTC).timestamp() if found.tzinfo is None else None


def clock_s(text: str | None) -> float | None:
    """Seconds since the year began, for whatever clock wrote a dated time; months have 31 days."""
    match = _DATED.search(text) if text is not None else None
    if match is None:
        return None
    month = int(match["month"]) if match["month"] else 1 + _MONTHS.index(match["name"])
    days = 31 * month + int(match["day"] or match["day_of"])
    hours, minutes, seconds = match["clock"].replace(",", ".").split(":")
    return 86_400.0 * days + 3_600.0 * int(hours) + 60.0 * int(minutes) + float(seconds)


def base_name(path: str | None) -> str | None:
    """A file's name without its folder; None stays None."""
    return path.rsplit("/", 1)[-1] if path else None


def _hexadecimal(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) is None:
        return None
    return int(text, 16)
