"""Explains whatever a supervised program left behind."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.capture.kernel_log import out_of_memory_kills
from vllm_forensics.capture.strace import StracedResult, find_kernel_cores
from vllm_forensics.capture.supervisor import SupervisedResult
from vllm_forensics.diagnosis.endings import explain_endings
from vllm_forensics.diagnosis.joined.traced_processes import lineage_of
from vllm_forensics.diagnosis.syscalls import explain_syscalls
from vllm_forensics.evidence.strace import parse_strace_log
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.triage import TriageOptions, triage
from vllm_forensics.model.report import Failure, Report
from vllm_forensics.model.run import RunReport, SupervisedRun

_GIVEN_UP: Final = (
    "A process has one tracer, and here it was strace: no minicore was written. A core that the "
    "kernel writes is explained (ulimit -c unlimited); without --strace there is a minicore anyway."
)
_NOTHING: Final = Report(crashes=(), groups=(), failures=())


def explain_run(
    command: Sequence[str],
    result: SupervisedResult,
    options: TriageOptions,
    *,
    prefer_kernel_cores: bool = False,
) -> RunReport:
    """Every process that a fault ended, from its own core; the others from the supervisor's words.

    `prefer_kernel_cores`: where the kernel wrote a core of the same process meanwhile, it is used
    instead of the supervisor's.
    """
    kills = out_of_memory_kills(result.started_monotonic_s) or frozenset()
    seen = replace(parse_supervisor_log(result.events), kernel_kills=kills)
    cores = [
        _kernel_core(core, result.started_s) or core if prefer_kernel_cores else core
        for core in seen.cores
    ]
    report = triage(cores, options) if cores else _NOTHING
    explained = frozenset(crash.pid for crash in report.crashes)
    errors = tuple(
        Failure(path=command[0], error=error, remedy="forensics doctor tells what is allowed here")
        for error in seen.errors
    )
    return RunReport(
        command=shlex.join(command),
        status=result.status,
        processes=seen.processes,
        crashes=report.crashes,
        failures=(*report.failures, *errors),
        endings=explain_endings(seen, explained),
    )


def _kernel_core(minicore: str, since_s: float) -> str | None:
    """The kernel's core of the process that a minicore is of: core.NAME.PID.SECONDS."""
    pid = minicore.rsplit(".", 2)[-2]
    found = find_kernel_cores([int(pid)], since_s) if pid.isdigit() else []
    return found[0] if found else None


def explain_straced_run(
    command: Sequence[str], result: StracedResult, options: TriageOptions
) -> RunReport:
    """What the last system calls prove, joined with the cores that the kernel wrote meanwhile."""
    trace = parse_strace_log(result.log, shm_free=result.shm_free)
    lineage = lineage_of(trace)
    dumped = [end.tid for end in lineage.ends() if end.dumped_core]
    cores = find_kernel_cores(dumped, result.started_s)
    report = triage(cores, options) if cores else _NOTHING
    findings = explain_syscalls(trace)
    explained = {crash.pid for crash in report.crashes} | {finding.pid for finding in findings}
    seen = SupervisedRun(
        processes=lineage.records(), faults=(), cores=tuple(cores), oom_kills=None, errors=()
    )
    return RunReport(
        command=shlex.join(command),
        status=result.status,
        processes=seen.processes,
        crashes=report.crashes,
        failures=(*report.failures, *_untraced(command, result)),
        endings=explain_endings(seen, frozenset(explained)),
        syscalls=findings,
        given_up=(_GIVEN_UP,),
    )


def _untraced(command: Sequence[str], result: StracedResult) -> tuple[Failure, ...]:
    if result.log:
        return ()
    if result.status in {126, 127}:
        error = "not found" if result.status == 127 else "is not executable"
        return (Failure(path=command[0], error=f"{command[0]}: {error}", remedy="check the path"),)
    return (
        Failure(
            path=command[0],
            error="strace recorded nothing: it may not trace here, and has said why",
            remedy="docker run --cap-add SYS_PTRACE, or leave out --strace",
        ),
    )
