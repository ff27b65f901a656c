"""What a tracer saw, strace or our supervisor, as statements that logs are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.joined.statement import Statement, base_name
from vllm_forensics.diagnosis.joined.traced_processes import Lineage, lineage_of
from vllm_forensics.model.incident import ITSELF, Clue, ClueKind
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.run import SupervisedRun
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.syscalls import (
    SignalEvent,
    SyscallFinding,
    SyscallKind,
    SyscallTrace,
)

_STRACE: Final = "strace"
_SUPERVISOR: Final = "the supervisor"
_FIRST_CLOCK: Final = 1_000_000_000
"""Seconds of strace -ttt; smaller ones are a time of day."""


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
            program=base_name(lineage.command.get(pid)),
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
            clue=_end(lineage, end.tid, cause, fault.name if fault is not None else signal, sent)
            if signal is not None
            else None,
            signal=signal,
            exit=end.status if end.status >= 0 else None,
            ends=True,
            program=base_name(lineage.command.get(end.tid)),
            parent=lineage.parent[end.tid][0] if end.tid in lineage.parent else None,
        )
    for finding in findings:
        yield Statement(source=path, kind=SourceKind.STRACE, text=finding.sentence, pid=finding.pid)


def _end(
    lineage: Lineage, pid: int, text: str, signal: str | None, sent: SyscallFinding | None
) -> Clue:
    """That a signal ended a process. By its own parents it was cleared away: that is no death."""
    clue = _told(_STRACE, text, pid=pid, signal=signal)
    if sent is not None and sent.sender is None and signal == "SIGKILL":
        return replace(clue, sender=ITSELF)  # abort() is its own word: it tells of no sender
    if sent is None or sent.sender is None:
        return clue
    is_parents = sent.sender in set(lineage.ancestry(pid))
    kind = ClueKind.NOT_MEMORY if is_parents else ClueKind.CHILD
    return replace(clue, kind=kind, of_another=True, sender=lineage.name(sent.sender))


def of_supervisor(path: str, run: SupervisedRun) -> Iterator[Statement]:
    """First faults, and how each process ended."""
    programs = {one.pid: base_name(one.command) for one in run.processes}
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
            clue=_told(_SUPERVISOR, text, pid=fault.pid, signal=name),
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
                _SUPERVISOR,
                f"process {process.pid} ended with {ended}",
                pid=process.pid,
                signal=signal,
            )
            if signal is not None and process.pid not in first
            else None,
            signal=signal,
            exit=process.exit if process.exit >= 0 else None,
            ends=True,
            program=programs.get(process.pid),
            parent=process.parent,
        )


def _told(source: str, text: str, *, pid: int, signal: str | None) -> Clue:
    return Clue(kind=ClueKind.SIGNAL, source=source, line=0, text=text, pid=pid, signal=signal)


def _clock(time_s: float) -> float | None:
    return time_s if time_s > _FIRST_CLOCK else None
