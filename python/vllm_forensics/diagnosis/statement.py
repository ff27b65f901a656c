"""What one place of one source says of one process; the unit in which sources are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from vllm_forensics.diagnosis.incident_first import subject_pid
from vllm_forensics.diagnosis.incident_where import place_of
from vllm_forensics.diagnosis.traced_processes import lineage_of
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import (
    Clue,
    ClueKind,
    IncidentReading,
    NativeCall,
    PythonCall,
)
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.report import Crash
from vllm_forensics.model.run import SupervisedRun
from vllm_forensics.model.sanitizer import ExplainedReport
from vllm_forensics.model.signals import code_name, signal_name
from vllm_forensics.model.stack import Frame, FrameKind
from vllm_forensics.model.syscalls import (
    SignalEvent,
    SyscallFinding,
    SyscallKind,
    SyscallTrace,
)

CORE_SOURCE: Final = "a core"
TRACE_SOURCE: Final = "strace"
SUPERVISOR_SOURCE: Final = "the supervisor"
_HEAP: Final = {FaultKind.HEAP_CORRUPTION, FaultKind.DOUBLE_FREE, FaultKind.INVALID_FREE}
_GIVEN_UP: Final = {
    FaultKind.UNCAUGHT_EXCEPTION,
    FaultKind.ASSERTION_FAILURE,
    FaultKind.PURE_VIRTUAL_CALL,
    FaultKind.FATAL_PYTHON_ERROR,
    FaultKind.STACK_SMASHING,
}
_NUMBER: Final = re.compile(r"(?P<what>segfault at|ip|sp)[ :](?P<value>[0-9a-f]{1,16})\b")
_ADDRESS_OF_CLOCK: Final = 1_000_000_000
"""Seconds of strace -ttt; smaller ones are a time of day."""


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


def of_core(crash: Crash, written_s: float | None) -> Statement:
    """A core, as a whole."""
    facts = dict(crash.kept_facts)
    thread = crash.threads[0] if crash.threads else None
    culprit = crash.culprit
    registers = thread.registers if thread is not None else {}
    time = facts.get("time")
    return Statement(
        source=crash.core,
        kind=SourceKind.CORE,
        text=_core_text(crash),
        time=time,
        time_s=moment(time) or written_s,
        host=facts.get("host"),
        pid=crash.pid,
        clue=_core_clue(crash, time),
        signal=signal_name(crash.signal.number),
        ends=False,
        address=crash.fault.address if crash.signal.from_kernel else None,
        pc=thread.fault_pc if thread is not None else None,
        sp=registers.get("rsp", registers.get("sp")),
        function=plain_name(culprit.function)
        if culprit and culprit.function and culprit.names_trusted
        else None,
        module=_base(culprit.module) if culprit else None,
        program=_base(crash.program),
        crash=crash,
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


def of_trace(
    path: str, trace: SyscallTrace, findings: tuple[SyscallFinding, ...]
) -> Iterator[Statement]:
    """What strace saw of every process that a signal ended or that failed."""
    lineage = lineage_of(trace)
    killed_by = {one.pid: one for one in findings if one.kind is SyscallKind.KILLED}
    first_fault: dict[int, SignalEvent] = {}
    for event in trace.signals:
        if event.address is None or event.sender is not None:
            continue
        pid = lineage.process_of(event.tid)
        first_fault[pid] = event  # the last: earlier ones were survived
        yield Statement(
            source=path,
            kind=SourceKind.STRACE,
            text=event.text,
            time_s=_clock(event.time_s),
            pid=pid,
            signal=event.name,
            address=event.address,
            program=_base(lineage.command.get(pid)),
        )
    for end in lineage.ends():
        signal = signal_name(-end.status) if end.status < 0 else None
        sent = killed_by.get(end.tid)
        fault = first_fault.get(end.tid)
        cause = sent.sentence if sent is not None else fault.text if fault is not None else end.text
        yield Statement(
            source=path,
            kind=SourceKind.STRACE,
            text=end.text,
            time_s=_clock(end.time_s),
            pid=end.tid,
            clue=_told(
                TRACE_SOURCE,
                cause,
                pid=end.tid,
                signal=fault.name if fault is not None else signal,
                name=_base(lineage.command.get(end.tid)),
            )
            if signal is not None and not (sent is not None and signal == "SIGKILL")
            else None,
            signal=signal,
            exit=end.status if end.status >= 0 else None,
            ends=True,
            program=_base(lineage.command.get(end.tid)),
        )
    for finding in findings:
        yield Statement(source=path, kind=SourceKind.STRACE, text=finding.sentence, pid=finding.pid)


def of_supervisor(path: str, run: SupervisedRun) -> Iterator[Statement]:
    """First faults, and how each process ended."""
    programs = {one.pid: _base(one.command) for one in run.processes}
    first: set[int] = set()
    for fault in run.faults:
        if fault.pid in first:
            continue
        first.add(fault.pid)
        name = signal_name(fault.signal)
        at = f" at {fault.address:#x}" if fault.address is not None else ""
        text = f"first fault: {name}{at}, thread {fault.tid}"
        yield Statement(
            source=path,
            kind=SourceKind.SUPERVISOR,
            text=text,
            pid=fault.pid,
            clue=_told(
                SUPERVISOR_SOURCE, text, pid=fault.pid, signal=name, name=programs.get(fault.pid)
            ),
            signal=name,
            address=fault.address if fault.code > 0 else None,
            program=programs.get(fault.pid),
        )
    for process in run.processes:
        if process.exit is None:
            continue
        signal = signal_name(-process.exit) if process.exit < 0 else None
        ended = signal or f"status {process.exit}"
        yield Statement(
            source=path,
            kind=SourceKind.SUPERVISOR,
            text=f"process {process.pid} ended with {ended}",
            pid=process.pid,
            clue=_told(
                SUPERVISOR_SOURCE,
                f"process {process.pid} ended with {ended}",
                pid=process.pid,
                signal=signal,
                name=programs.get(process.pid),
            )
            if signal is not None and process.pid not in first
            else None,
            signal=signal,
            exit=process.exit if process.exit >= 0 else None,
            ends=True,
            program=programs.get(process.pid),
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


def _told(source: str, text: str, *, pid: int, signal: str | None, name: str | None) -> Clue:
    return Clue(
        kind=ClueKind.SIGNAL, source=source, line=0, text=text, pid=pid, signal=signal, name=name
    )


def _core_clue(crash: Crash, time: str | None) -> Clue:
    kind, signal = ClueKind.SIGNAL, signal_name(crash.signal.number)
    detail: str | None = _fault_words(crash)
    if crash.fault.kind in _HEAP:
        kind, detail = ClueKind.HEAP, crash.fault.message or detail
    elif crash.fault.kind in _GIVEN_UP:
        kind, detail = ClueKind.ABORT, crash.fault.message or detail
    elif crash.fault.kind is FaultKind.TRUNCATED_MAPPING:
        kind = ClueKind.ENVIRONMENT
    elif crash.fault.kind is FaultKind.EXTERNAL_SIGNAL:
        kind, detail = ClueKind.CHILD, None
    frames = _fault_frames(crash)
    culprit = crash.culprit
    if culprit is not None and culprit.kind is not FrameKind.PYTHON:
        frames = (culprit, *(frame for frame in frames if frame.index != culprit.index))
    return Clue(
        kind=kind,
        source=CORE_SOURCE,
        line=0,
        text=_core_text(crash),
        pid=crash.pid,
        name=_base(crash.program),
        of_another=kind is ClueKind.CHILD,
        time=time,
        signal=signal,
        detail=detail,
        native=tuple(_native(frame) for frame in frames if frame.kind is not FrameKind.PYTHON),
        python=tuple(
            PythonCall(function=frame.function or "?", file=frame.file or "?", line=frame.line or 0)
            for frame in frames
            if frame.kind is FrameKind.PYTHON
        ),
    )


def _fault_frames(crash: Crash) -> tuple[Frame, ...]:
    if not crash.threads:
        return ()
    thread = crash.threads[0]
    return tuple(
        frame
        for frame in thread.stack.frames
        if frame.index >= thread.fault_index and frame.kind is not FrameKind.SIGNAL
    )


def _native(frame: Frame) -> NativeCall:
    return NativeCall(
        function=frame.function if frame.names_trusted else None,
        module=_base(frame.module),
        offset=f"{frame.module_offset:#x}" if frame.module_offset is not None else None,
    )


def _core_text(crash: Crash) -> str:
    signal = f"{signal_name(crash.signal.number)} ({code_name(crash.signal)})"
    return f"{signal}, {_fault_words(crash)}{_culprit_words(crash)}"


def _fault_words(crash: Crash) -> str:
    fault = crash.fault
    words = fault.kind.value.replace("-", " ")
    if fault.access is not None and fault.address is not None:
        words = f"{words}, {fault.access.value} at {fault.address:#x}"
    if fault.message:
        words = f'{words}: "{fault.message}"'
    return words


def _culprit_words(crash: Crash) -> str:
    culprit = crash.culprit
    if culprit is None:
        return ""
    if culprit.function is not None and culprit.names_trusted:
        at = f" {_base(culprit.file)}:{culprit.line}" if culprit.file and culprit.line else ""
        return f", in {culprit.function}{at}"
    return f", in {_base(culprit.module)}+{culprit.module_offset or 0:#x}" if culprit.module else ""


def _clock(time_s: float) -> float | None:
    return time_s if time_s > _ADDRESS_OF_CLOCK else None


def _base(path: str | None) -> str | None:
    return path.rsplit("/", 1)[-1] if path else None


def _hexadecimal(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) is None:
        return None
    return int(text, 16)
