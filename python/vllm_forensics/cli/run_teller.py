"""Tells what came of a run: on standard error, which the program has left, or in a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_forensics.cli.output import emit, terminal_width, wants_color
from vllm_forensics.render.clean import clean

if TYPE_CHECKING:
    from vllm_forensics.model.run import RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTeller:
    """How and where to tell, as the options say."""

    output_format: str
    output: str | None
    include_secrets: bool
    no_store: bool
    no_color: bool
    always: bool
    """Tell of an uneventful run too."""

    def tell(self, report: RunReport) -> bool:
        """Tell it; returns whether there was anything to keep the evidence for."""
        eventful = _is_eventful(report)
        if report.crashes and not self.no_store:
            from vllm_forensics.investigate.cases import run_with_cases

            report = run_with_cases(report)
        if eventful or self.always or report.sanitized is not None:
            self._write(clean(report, include_secrets=self.include_secrets))
        return eventful or self.always

    def _write(self, report: RunReport) -> None:
        from vllm_forensics.render.run import render_run_json

        if self.output_format == "json":
            emit(render_run_json(report), self.output)
            return
        color = self.output is None and wants_color(no_color=self.no_color, to_file=False)
        text = _text(report, color=color)
        if self.output is not None:
            emit(text or f"Nothing crashed; the status was {report.status}.\n", self.output)
        else:
            sys.stderr.write(text)


def _is_eventful(report: RunReport) -> bool:
    reports = report.sanitized is not None and report.sanitized.reports
    return bool(reports or report.crashes or report.endings or report.syscalls or report.failures)


def _text(report: RunReport, *, color: bool) -> str:
    from vllm_forensics.investigate.triage import group, own_frames
    from vllm_forensics.model.report import Report
    from vllm_forensics.render.core_screen import render_cores
    from vllm_forensics.render.run import render_endings
    from vllm_forensics.render.sanitized import render_sanitized
    from vllm_forensics.render.terminal import TerminalStyle

    style = TerminalStyle(width=terminal_width(), color=color)
    sanitized = report.sanitized
    told = {found.core for found in sanitized.reports} if sanitized is not None else set()
    left = tuple(crash for crash in report.crashes if crash.core not in told)
    crashes = Report(crashes=left, groups=group(left), failures=())
    explained = render_cores(crashes, style, own_frames(crashes)) if left else ""
    said = render_sanitized(sanitized, style) if sanitized is not None else ""
    return said + explained + render_endings(report, style)
