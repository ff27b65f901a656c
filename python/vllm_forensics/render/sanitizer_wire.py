"""The JSON of `forensics asan`: forensics.asan/1. Fields are added freely, renamed never."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from vllm_forensics.model.sanitizer import (
    Culprit,
    ExplainedLog,
    ExplainedReport,
    PrintedReport,
    Role,
    SanitizerAnswer,
    StackEvent,
)
from vllm_forensics.model.sanitizer_sieve import BaselineOutcome
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.sanitizer_locations_wire import (
    SymbolizationWire,
    symbolization_to_wire,
)
from vllm_forensics.render.wire import FailureWire


class PrintedFrameWire(msgspec.Struct, frozen=True, kw_only=True):
    """A frame as printed."""

    index: int
    pc: str | None
    function: str | None
    file: str | None
    line: int | None
    column: int | None
    module: str | None
    offset: str | None
    build_id: str | None
    symbolized: Literal["proved", "likely"] | None
    own: bool


class StackEventWire(msgspec.Struct, frozen=True, kw_only=True):
    """A stack and what it stands for."""

    role: Literal[
        "allocate",
        "free",
        "use",
        "previous_access",
        "origin",
        "thread_create",
        "lock_acquire",
        "leak",
    ]
    thread: str | None
    created_by: str | None
    what: str | None
    frames: list[PrintedFrameWire]


class AccessWire(msgspec.Struct, frozen=True, kw_only=True):
    """The memory access."""

    type: Literal["READ", "WRITE"] | None
    size: int | None


class RegionWire(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that the address belongs to, or lies beside."""

    kind: str
    start: str | None
    end: str | None
    size: int | None
    offset: int | None
    relation: Literal["inside", "before", "after"] | None
    name: str | None
    place: str | None


class CulpritWire(msgspec.Struct, frozen=True, kw_only=True):
    """The first own frame."""

    function: str | None
    file: str | None
    line: int | None
    role: str


class LeakWire(msgspec.Struct, frozen=True, kw_only=True):
    """One leak record. `stack` is the place of its frames in the report's `chain`, from 0."""

    direct: bool
    size: int
    objects: int
    signature: str | None
    culprit: CulpritWire | None
    interpreter_only: bool
    stack: int | None


class SeverityWire(msgspec.Struct, frozen=True, kw_only=True):
    """How dangerous, and why."""

    level: Literal["high", "medium", "low"]
    why: list[str]


class SanitizerReportWire(msgspec.Struct, frozen=True, kw_only=True):
    """One report."""

    sanitizer: str
    kind: str
    pid: int | None
    thread: str | None
    access: AccessWire
    address: str | None
    location: str | None
    message: str | None
    chain: list[StackEventWire]
    region: RegionWire | None
    shadow: str | None
    leaks: list[LeakWire]
    locks: list[str]
    hints: list[str]
    culprit: CulpritWire | None
    severity: SeverityWire
    cwe: str | None
    truncated: bool
    lines: list[int]
    occurrences: int
    signature: str
    summary: str | None
    explanation: str
    next_steps: list[str]
    raw: str
    log: str


class LogWire(msgspec.Struct, frozen=True, kw_only=True):
    """An input."""

    path: str
    bytes: int
    lines: int
    truncated: bool


class SanitizerGroupWire(msgspec.Struct, frozen=True, kw_only=True):
    """Reports with one signature; with `of` leaks: leak records, out of whatever reports."""

    signature: str
    count: int
    of: Literal["reports", "leaks"]


class SuppressionWire(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of --suppressions, its line, and how many reports and leak records it left out."""

    rule: str
    line: int
    reports: int
    leaks: int


class BaselineWire(msgspec.Struct, frozen=True, kw_only=True):
    """What --baseline left out; `gone` are its signatures that were not seen."""

    path: str
    known: int
    known_leaks: int
    new: int
    gone: list[str]


class SanitizerAnswerWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics asan --format json`; `log` is the first of `logs`."""

    schema: Literal["forensics.asan/1"]
    log: LogWire | None
    logs: list[LogWire]
    reports: list[SanitizerReportWire]
    groups: list[SanitizerGroupWire]
    symbolization: SymbolizationWire | None
    baseline: BaselineWire | None
    suppressed: list[SuppressionWire]
    failures: list[FailureWire]


def render_sanitizer_json(answer: SanitizerAnswer) -> str:
    """The answer as JSON, ending in a newline."""
    logs = [_log(log) for log in answer.logs]
    wire = SanitizerAnswerWire(
        schema="forensics.asan/1",
        log=logs[0] if logs else None,
        logs=logs,
        reports=[report_to_wire(report, log.path) for log in answer.logs for report in log.reports],
        groups=[
            SanitizerGroupWire(
                signature=group.signature,
                count=group.count,
                of="leaks" if group.of_leaks else "reports",
            )
            for group in answer.groups
        ],
        baseline=_baseline(answer.baseline),
        suppressed=[
            SuppressionWire(
                rule=count.suppression.text,
                line=count.suppression.line,
                reports=count.reports,
                leaks=count.leaks,
            )
            for count in answer.suppressed
        ],
        symbolization=symbolization_to_wire(answer.symbolization),
        failures=[
            FailureWire(path=failure.path, error=failure.error, remedy=failure.remedy)
            for failure in answer.failures
        ],
    )
    return json_text(wire)


def schema() -> dict[str, Any]:
    """The JSON schema that docs/schemas/forensics.asan.1.json holds."""
    return msgspec.json.schema(SanitizerAnswerWire)


def report_to_wire(report: ExplainedReport, log: str) -> SanitizerReportWire:
    """One report of the log at the path `log`."""
    printed = report.printed
    own = frozenset(report.own)
    access = printed.access
    return SanitizerReportWire(
        sanitizer=printed.sanitizer,
        kind=printed.kind,
        pid=printed.pid,
        thread=printed.thread,
        access=AccessWire(
            type=_access_type(access.type) if access else None,
            size=access.size if access else None,
        ),
        address=printed.address,
        location=printed.location,
        message=printed.message,
        chain=[_event(at, event, own) for at, event in enumerate(printed.chain)],
        region=_region(printed),
        shadow=printed.shadow,
        leaks=_leaks(report) if printed.leaks else [],
        locks=list(printed.locks),
        hints=list(printed.hints),
        culprit=_culprit(report.culprit),
        severity=SeverityWire(level=report.severity.value, why=list(report.why)),
        cwe=report.cwe,
        truncated=printed.truncated,
        lines=list(printed.lines),
        occurrences=printed.occurrences,
        signature=report.signature,
        summary=printed.summary,
        explanation=report.explanation,
        next_steps=list(report.next_steps),
        raw=printed.raw,
        log=log,
    )


def _culprit(culprit: Culprit | None) -> CulpritWire | None:
    if culprit is None:
        return None
    return CulpritWire(
        function=culprit.function,
        file=culprit.file,
        line=culprit.line,
        role=culprit.role.value,
    )


def _leaks(report: ExplainedReport) -> list[LeakWire]:
    places = [at for at, event in enumerate(report.printed.chain) if event.role is Role.LEAK]
    wires = []
    for number, leak in enumerate(report.printed.leaks):
        judged = report.leaks[number] if number < len(report.leaks) else None
        wires.append(
            LeakWire(
                direct=leak.direct,
                size=leak.size,
                objects=leak.objects,
                signature=judged.signature if judged else None,
                culprit=_culprit(judged.culprit) if judged else None,
                interpreter_only=judged.interpreter_only if judged else False,
                stack=places[number] if number < len(places) else None,
            )
        )
    return wires


def _baseline(baseline: BaselineOutcome | None) -> BaselineWire | None:
    if baseline is None:
        return None
    return BaselineWire(
        path=baseline.path,
        known=baseline.known,
        known_leaks=baseline.known_leaks,
        new=baseline.new,
        gone=list(baseline.gone),
    )


def _access_type(words: str | None) -> Literal["READ", "WRITE"] | None:
    if words == "READ":
        return "READ"
    return "WRITE" if words == "WRITE" else None


def _event(at: int, event: StackEvent, own: frozenset[tuple[int, int]]) -> StackEventWire:
    return StackEventWire(
        role=event.role.value,
        thread=event.thread,
        created_by=event.created_by,
        what=event.what,
        frames=[
            PrintedFrameWire(
                index=frame.index,
                pc=frame.pc,
                function=frame.function,
                file=frame.file,
                line=frame.line,
                column=frame.column,
                module=frame.module,
                offset=frame.offset,
                build_id=frame.build_id,
                symbolized=frame.symbolized.value if frame.symbolized else None,
                own=(at, position) in own,
            )
            for position, frame in enumerate(event.frames)
        ],
    )


def _region(printed: PrintedReport) -> RegionWire | None:
    region = printed.region
    if region is None:
        return None
    return RegionWire(
        kind=region.kind,
        start=region.start,
        end=region.end,
        size=region.size,
        offset=region.offset,
        relation=region.relation.value if region.relation else None,
        name=region.name,
        place=region.place,
    )


def _log(log: ExplainedLog) -> LogWire:
    return LogWire(path=log.path, bytes=log.size_bytes, lines=log.lines, truncated=log.truncated)
