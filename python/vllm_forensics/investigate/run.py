"""Runs a program under the supervisor, then explains whatever it left."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.supervisor import CoreContents, run_supervised
from vllm_forensics.diagnosis.endings import explain_endings
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.triage import TriageOptions, triage
from vllm_forensics.model.report import Failure, Report
from vllm_forensics.model.run import RunReport

_NOTHING: Final = Report(crashes=(), groups=(), failures=())


def run_and_explain(
    command: Sequence[str],
    folder: Path,
    options: TriageOptions,
    keep: CoreContents,
) -> RunReport:
    """Run to the end; every process that a fault ended is explained from its own core."""
    result = run_supervised(command, folder, keep)
    seen = parse_supervisor_log(result.events)
    report = triage(list(seen.cores), options) if seen.cores else _NOTHING
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
