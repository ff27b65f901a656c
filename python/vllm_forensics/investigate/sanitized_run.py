"""Explains what a sanitizer, Python and the supervisor left of one run, joined by process."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from vllm_forensics.capture.logs import find_logs
from vllm_forensics.capture.sanitized_program import read_head, read_python_stacks, start_once
from vllm_forensics.diagnosis.sanitized import conclude_run, verdict
from vllm_forensics.diagnosis.sanitizer.traps import find_traps, trap_of_abort
from vllm_forensics.errors import ToolError
from vllm_forensics.evidence.python_stack import parse_python_stacks
from vllm_forensics.investigate.sanitizer import AsanOptions, investigate_logs
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.run import RunReport
from vllm_forensics.model.sanitized import (
    Method,
    PythonFrame,
    PythonStack,
    PythonThread,
    RunPlan,
    SanitizedReport,
    SanitizedRun,
)
from vllm_forensics.model.sanitizer import ExplainedLog, ExplainedReport
from vllm_forensics.model.stack import FrameKind

_UBSAN: Final = ".ubsan."
_INTERPRETER: Final = re.compile(
    r"/(?:libpython3|python[\d.]*$|libc[.-]|libm[.-]|ld-|libpthread|vgpreload_)[^/]*$"
)


def require_start(plan: RunPlan) -> None:
    """See that the program's Python starts with the runtime in it, before anything is at stake.

    Raises:
        ToolError: it does not; the runtime's own words are told, or what they are known to mean.

    """
    done = start_once(plan)
    if done is None or done.status == 0:
        return
    said = done.stderr.decode("utf-8", "replace")
    for trap in find_traps(said):
        raise ToolError(f"{plan.interpreter} does not start: {trap.what}", remedy=trap.remedy)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ended = f"status {done.status}" if done.status > 0 else signal.Signals(-done.status).name
    raise ToolError(
        f"{plan.interpreter} does not start with {plan.name} ({ended}): "
        f"{lines[0] if lines else 'it says nothing'}",
        remedy="forensics doctor checks what the runtimes need",
    )


def with_sanitizer(report: RunReport, plan: RunPlan) -> RunReport:
    """The report of a run with every sanitizer report joined to its Python stack and its core."""
    logs = find_logs([plan.reports])
    logs = [log for log in logs if log != plan.reports]  # a family without members names itself
    failures: tuple[Failure, ...] = ()
    joined: tuple[SanitizedReport, ...] = ()
    notes = plan.notes
    if logs:
        # GWP-ASan prints modules and offsets; they are here, as they were a moment ago.
        symbolizer = Symbolizer() if plan.method is Method.SAMPLE else None
        answer = investigate_logs(logs, AsanOptions(symbolizer=symbolizer))
        stacks = {
            pid: parse_python_stacks(text) for pid, text in read_python_stacks(plan.reports).items()
        }
        cores = {crash.pid: crash for crash in report.crashes}
        logs_read = answer.logs
        if plan.method is Method.VALGRIND:
            logs_read, left_out = _without_interpreter(logs_read)
            notes += left_out
        joined = tuple(found for log in logs_read for found in _join(log, logs_read, stacks, cores))
        failures = tuple(failure for told in answer.failures for failure in _trapped(told))
    failures += tuple(_unwatched(report.crashes, joined))
    return replace(
        report,
        failures=(*report.failures, *failures),
        sanitized=SanitizedRun(
            plan=replace(plan, notes=notes),
            reports=joined,
            verdict=verdict(plan, len(joined), report.status),
        ),
    )


def _unwatched(
    crashes: tuple[Crash, ...], joined: tuple[SanitizedReport, ...]
) -> Iterator[Failure]:
    """Processes that a runtime ended without a report, where it is known why."""
    reported = {found.pid for found in joined}
    for crash in crashes:
        if crash.fault.kind is FaultKind.SANITIZER_ABORT and crash.pid not in reported:
            trap = trap_of_abort(crash)
            if trap is not None:
                yield Failure(
                    path=crash.program or "",
                    error=f"process {crash.pid} could not be watched: {trap.what}",
                    remedy=trap.remedy,
                )


def _without_interpreter(
    logs: tuple[ExplainedLog, ...],
) -> tuple[tuple[ExplainedLog, ...], tuple[str, ...]]:
    """Leave out uninitialised values that Python and the C library hand to themselves alone.

    CPython multiplies a digit that it never wrote by a size of 0 (medium_value in longobject.c):
    to valgrind the product is uninitialised, and so is all that is reached by it.
    """
    kept = tuple(
        replace(log, reports=tuple(one for one in log.reports if not _in_interpreter(one)))
        for log in logs
    )
    count = sum(len(log.reports) for log in logs) - sum(len(log.reports) for log in kept)
    if not count:
        return logs, ()
    return kept, (
        f"Left out: {count} uses of uninitialised values inside the interpreter alone, where "
        "CPython's arithmetic looks so to valgrind.",
    )


def _in_interpreter(report: ExplainedReport) -> bool:
    printed = report.printed
    if printed.kind != "use-of-uninitialized-value":
        return False
    frames = [frame for event in printed.chain for frame in event.frames]
    return all(
        frame.module is not None and _INTERPRETER.search(frame.module) is not None
        for frame in frames
    )


def _trapped(failure: Failure) -> tuple[Failure, ...]:
    """A log without a report: what the runtime says in it, where that is known."""
    traps = find_traps(read_head(failure.path))
    if not traps:
        return (failure,)
    return tuple(
        Failure(
            path=failure.path, error=f"{_pid_words(failure.path)}{trap.what}", remedy=trap.remedy
        )
        for trap in traps
    )


def _pid_words(path: str) -> str:
    pid = _pid_of(path)
    return f"process {pid} could not be watched: " if pid is not None else ""


def _join(
    log: ExplainedLog,
    logs: tuple[ExplainedLog, ...],
    stacks: Mapping[int, tuple[PythonStack, ...]],
    cores: Mapping[int, Crash],
) -> list[SanitizedReport]:
    pid = _pid_of(log.path)
    written = stacks.get(pid, ()) if pid is not None else ()
    by_report = _python_of(log, written, is_last=_is_last_of_process(log, logs))
    crash = cores.get(pid) if pid is not None else None
    last = len(log.reports) - 1
    joined = []
    for at, (report, python) in enumerate(zip(log.reports, by_report, strict=True)):
        # A process dies of one report: the last.
        own = crash if at == last and _is_last_of_process(log, logs) else None
        if python is None and own is not None:
            python = _python_of_core(own)
        joined.append(
            SanitizedReport(
                report=report,
                log=log.path,
                pid=pid,
                python=python,
                core=own.core if own is not None else None,
                conclusion=conclude_run(report, python, own),
            )
        )
    return joined


def _python_of_core(crash: Crash) -> PythonStack | None:
    """The Python frames of the thread that died, else of the main one, as the core holds them.

    CPython 3.13 hides the function that would have written them at the moment of the report.
    """
    by_thread = sorted(crash.threads, key=lambda thread: (not thread.crashed, thread.tid))
    for thread in by_thread:
        frames = tuple(
            PythonFrame(function=frame.function or "?", file=frame.file, line=frame.line)
            for frame in thread.stack.frames
            if frame.kind is FrameKind.PYTHON
        )
        if frames and (thread.crashed or thread.tid == crash.pid):
            whose = PythonThread.CURRENT if thread.crashed else PythonThread.MAIN
            return PythonStack(sanitizer=None, thread=whose, frames=frames)
    return None


def _is_last_of_process(log: ExplainedLog, logs: tuple[ExplainedLog, ...]) -> bool:
    """GCC's libubsan has a file of its own; a process that also has an ASan report died of that."""
    if _UBSAN not in log.path:
        return True
    other = log.path.replace(_UBSAN, ".")
    return not any(found.path == other and found.reports for found in logs)


def _python_of(
    log: ExplainedLog, written: tuple[PythonStack, ...], *, is_last: bool
) -> list[PythonStack | None]:
    """The stack of each report: the n-th of its sanitizer, or the one written at the end.

    Where a report was printed several times, the order no longer tells: none is given then.
    """
    found: list[PythonStack | None] = [None] * len(log.reports)
    names = {report.printed.sanitizer for report in log.reports}
    for name in names:
        places = [at for at, one in enumerate(log.reports) if one.printed.sanitizer == name]
        own = [stack for stack in written if stack.sanitizer == name]
        repeated = any(log.reports[at].printed.occurrences > 1 for at in places)
        if repeated and len(places) > 1:
            continue
        for at, stack in zip(places, own, strict=False):
            found[at] = stack
    at_death = [stack for stack in written if stack.sanitizer is None]
    if found and found[-1] is None and at_death and is_last:
        found[-1] = at_death[-1]
    return [stack if stack is not None and stack.frames else None for stack in found]


def _pid_of(path: str) -> int | None:
    last = path.rsplit(".", 1)[-1]
    return int(last) if last.isdigit() else None
