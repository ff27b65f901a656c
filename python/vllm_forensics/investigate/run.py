"""Explains whatever a supervised program left behind."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.endings import explain_endings
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.triage import TriageOptions, triage
from vllm_forensics.model.report import Failure, Report
from vllm_forensics.model.run import RunReport

_NOTHING: Final = Report(crashes=(), groups=(), failures=())


def explain_run(
    command: Sequence[str], status: int, events: str, options: TriageOptions
) -> RunReport:
    """Every process that a fault ended, from its own core; the others from the supervisor's words.

    `status` and `events` are what `capture.supervisor.run_supervised` gave back.
    """
    seen = parse_supervisor_log(events)
    report = triage(list(seen.cores), options) if seen.cores else _NOTHING
    explained = frozenset(crash.pid for crash in report.crashes)
    errors = tuple(
        Failure(path=command[0], error=error, remedy="forensics doctor tells what is allowed here")
        for error in seen.errors
    )
    return RunReport(
        command=shlex.join(command),
        status=status,
        processes=seen.processes,
        crashes=report.crashes,
        failures=(*report.failures, *errors),
        endings=explain_endings(seen, explained),
    )
