"""What one place of one source says of one process; the unit in which sources are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vllm_forensics.diagnosis.incident.clues import subject_pid
from vllm_forensics.diagnosis.incident.where import place_of
from vllm_forensics.diagnosis.joined.clocks import clock_s, moment, year_s
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Clue, ClueKind, IncidentReading
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer import ExplainedReport

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
    parent: int | None = None
    crash: Crash | None = None
    report: ExplainedReport | None = None
    kernels_pid: int | None = None
    """The number that the kernel's log has for it, where that is another one."""
    part: int = 0
    """The part of its source that it is from, see `parts`."""

    @property
    def clock_s(self) -> float | None:
        """When in its year; a clock that names no zone is taken for UTC's."""
        return clock_s(self.time) if self.time_s is None else year_s(self.time_s)

    @property
    def is_orderly_end(self) -> bool:
        """A tracer sees every process end, and few of them matter; a parent tells of those."""
        return self.ends and self.exit == 0 and self.clue is None

    @property
    def place(self) -> str:
        """`serve.log:12`, or the source alone."""
        return f"{self.source}:{self.line}" if self.line is not None else self.source


def of_log(path: str, host: str | None, reading: IncidentReading) -> Iterator[Statement]:
    """Every clue of a log."""
    for clue in reading.clues:
        where = place_of(clue.native)
        time = clue.time or clue.since
        numbers = {match["what"]: int(match["value"], 16) for match in _NUMBER.finditer(clue.text)}
        is_kernel = clue.source == "kernel"
        yield Statement(
            source=path,
            kind=SourceKind.LOG,
            text=clue.text,
            line=clue.line,
            time=time,
            time_s=moment(time),
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


def base_name(path: str | None) -> str | None:
    """A file's name without its folder; None stays None."""
    return path.rsplit("/", 1)[-1] if path else None


def _hexadecimal(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) is None:
        return None
    return int(text, 16)
