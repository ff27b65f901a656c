"""Cleans an answer line by line and frame by frame: what many reports share is looked at once.

`clean` searches every string for secrets. The same frames and lines stand in thousands of reports,
and in `raw` again; so each different one is cleaned once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from vllm_forensics.model.sanitizer import (
    ExplainedReport,
    PrintedFrame,
    PrintedReport,
    SanitizerAnswer,
    StackEvent,
)
from vllm_forensics.render.clean import clean

_CACHE: Final = 1 << 15


def clean_answer(answer: SanitizerAnswer, *, include_secrets: bool) -> SanitizerAnswer:
    """A copy with every string escaped, and masked unless told otherwise."""
    cleaner = _Cleaner(include_secrets=include_secrets)
    logs = tuple(
        replace(
            log,
            path=cleaner.line(log.path),
            reports=tuple(cleaner.explained(report) for report in log.reports),
        )
        for log in answer.logs
    )
    rest = clean(replace(answer, logs=()), include_secrets=include_secrets)
    return replace(rest, logs=logs)


class _Cleaner:
    def __init__(self, *, include_secrets: bool) -> None:
        @lru_cache(_CACHE)
        def line(text: str) -> str:
            return clean(text, include_secrets=include_secrets)

        @lru_cache(_CACHE)
        def frame(printed: PrintedFrame) -> PrintedFrame:
            return replace(
                printed,
                function=self.text(printed.function),
                file=self.text(printed.file),
                module=self.text(printed.module),
            )

        self.line = line
        self.frame = frame
        self._include_secrets = include_secrets

    def explained(self, report: ExplainedReport) -> ExplainedReport:
        """Everything of one report."""
        culprit = report.culprit
        return replace(
            report,
            printed=self._printed(report.printed),
            culprit=replace(
                culprit, function=self.text(culprit.function), file=self.text(culprit.file)
            )
            if culprit is not None
            else None,
            why=tuple(map(self.line, report.why)),
            signature=self.line(report.signature),
            explanation=self.line(report.explanation),
            next_steps=tuple(map(self.line, report.next_steps)),
            excerpts=clean(report.excerpts, include_secrets=self._include_secrets),
        )

    def text(self, text: str | None) -> str | None:
        """A string that may be missing."""
        return self.line(text) if text else text

    def _printed(self, printed: PrintedReport) -> PrintedReport:
        region = printed.region
        return replace(
            printed,
            kind=self.line(printed.kind),
            thread=self.text(printed.thread),
            message=self.text(printed.message),
            location=self.text(printed.location),
            chain=tuple(self._event(event) for event in printed.chain),
            region=replace(region, name=self.text(region.name), place=self.text(region.place))
            if region is not None
            else None,
            shadow=self.text(printed.shadow),
            locks=tuple(map(self.line, printed.locks)),
            hints=tuple(map(self.line, printed.hints)),
            summary=self.text(printed.summary),
            # Line by line: no secret of a report goes over a line's end.
            raw="\n".join(map(self.line, printed.raw.split("\n"))),
        )

    def _event(self, event: StackEvent) -> StackEvent:
        return replace(
            event,
            thread=self.text(event.thread),
            created_by=self.text(event.created_by),
            what=self.text(event.what),
            frames=tuple(map(self.frame, event.frames)),
        )
