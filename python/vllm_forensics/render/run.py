"""The JSON of `forensics run`, and what a person reads after the program's own output."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from rich.text import Text

from vllm_forensics.model.run import RunReport
from vllm_forensics.model.sanitized import SanitizedReport, SanitizedRun
from vllm_forensics.render.json_text import as_wire, json_text
from vllm_forensics.render.rows import advice, paragraph
from vllm_forensics.render.sanitizer_wire import SanitizerReportWire, report_to_wire
from vllm_forensics.render.terminal import TerminalStyle, render_parts
from vllm_forensics.render.wire import CrashWire, FailureWire, crash_to_wire


class ProcessWire(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the tree; `exit` is minus the signal's number where one ended it."""

    pid: int
    parent: int | None
    command: str | None
    exit: int | None


class SyscallWire(msgspec.Struct, frozen=True, kw_only=True):
    """What system calls prove about one process's death."""

    pid: int
    kind: str
    sentence: str
    proof: list[str]


class PythonFrameWire(msgspec.Struct, frozen=True, kw_only=True):
    """One Python function; innermost first."""

    index: int
    function: str
    file: str | None
    line: int | None
    kind: Literal["python"]


class RunSanitizerReportWire(SanitizerReportWire, frozen=True, kw_only=True):
    """A sanitizer's report of one process of the run, as in forensics.asan/1, and what joins it."""

    python: list[PythonFrameWire]
    """What Python did at that moment; empty where that is not known."""
    python_thread: Literal["current", "main"] | None
    """Whose stack that is: of the thread of the report, or of the main one, where that has none."""
    core: str | None
    conclusion: str


class SanitizedWire(msgspec.Struct, frozen=True, kw_only=True):
    """How a sanitizer, or its like, watched."""

    name: str
    method: Literal["launcher", "preload", "preload-only", "linked", "valgrind", "sample"]
    verdict: str
    notes: list[str]


class RunReportWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics run --format json`."""

    schema: Literal["forensics.run/1"]
    command: str
    status: int
    processes: list[ProcessWire]
    crashes: list[CrashWire]
    reports: list[RunSanitizerReportWire]
    sanitized: SanitizedWire | None
    """Null where none watched."""
    endings: list[str]
    syscalls: list[SyscallWire]
    given_up: list[str]
    failures: list[FailureWire]


def render_run_json(report: RunReport) -> str:
    """The report as JSON, ending in a newline."""
    wire = RunReportWire(
        schema="forensics.run/1",
        command=report.command,
        status=report.status,
        processes=as_wire(report.processes, list[ProcessWire]),
        crashes=[crash_to_wire(crash) for crash in report.crashes],
        reports=[_sanitizer_report(found) for found in report.sanitized.reports]
        if report.sanitized
        else [],
        sanitized=_sanitized(report.sanitized) if report.sanitized else None,
        endings=list(report.endings),
        syscalls=as_wire(report.syscalls, list[SyscallWire]),
        given_up=list(report.given_up),
        failures=as_wire(report.failures, list[FailureWire]),
    )
    return json_text(wire)


def _sanitizer_report(found: SanitizedReport) -> RunSanitizerReportWire:
    base = report_to_wire(found.report, found.log)
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    fields["pid"] = base.pid if base.pid is not None else found.pid
    python = found.python
    return RunSanitizerReportWire(
        **fields,
        python=[
            PythonFrameWire(
                index=index,
                function=frame.function,
                file=frame.file,
                line=frame.line,
                kind="python",
            )
            for index, frame in enumerate(python.frames)
        ]
        if python is not None
        else [],
        python_thread=python.thread.value if python is not None else None,
        core=found.core,
        conclusion=found.conclusion,
    )


def _sanitized(run: SanitizedRun) -> SanitizedWire:
    return SanitizedWire(
        name=run.plan.name,
        method=run.plan.method.value,
        verdict=run.verdict,
        notes=list(run.plan.notes),
    )


def render_endings(report: RunReport, style: TerminalStyle) -> str:
    """What system calls prove, deaths without a core, and what went wrong with the capture."""
    lines = [Text(line) for line in report.endings]
    for found in report.syscalls:
        proof = "".join(f"\n  {line}" for line in found.proof)
        lines.append(Text(found.sentence).append(proof, style="quiet"))
    for failure in report.failures:
        lines += [Text(failure.error), advice(f"→ {failure.remedy}")]
    if lines or report.crashes:
        lines += [Text(line, style="quiet") for line in report.given_up]
    if not lines:
        return ""
    return render_parts([paragraph(line) for line in lines], style)


def schema() -> dict[str, Any]:
    """The JSON schema of the report."""
    return msgspec.json.schema(RunReportWire)
