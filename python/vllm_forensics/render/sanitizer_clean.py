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
                function=line(printed.function) if printed.function else printed.function,
                file=line(printed.file) if printed.file else printed.file,
                module=line(printed.module) if printed.module else printed.module,
            )

        self.line = line
        self.frame = frame
        self._include_secrets = include_secrets

    def explained(self, report: ExplainedReport) -> ExplainedReport:
        """Everything of one report."""
        rest = replace(report, printed=_EMPTY)
        return replace(
            clean(rest, include_secrets=self._include_secrets),
            printed=self._printed(report.printed),
        )

    def _printed(self, printed: PrintedReport) -> PrintedReport:
        rest = replace(printed, chain=(), raw="", summary=None, message=None)
        return replace(
            clean(rest, include_secrets=self._include_secrets),
            chain=tuple(self._event(event) for event in printed.chain),
            # Line by line: no secret of a report goes over a line's end.
            raw="\n".join(map(self.line, printed.raw.split("\n"))),
            summary=self.line(printed.summary) if printed.summary else printed.summary,
            message=self.line(printed.message) if printed.message else printed.message,
        )

    def _event(self, event: StackEvent) -> StackEvent:
        return replace(
            event,
            thread=self.line(event.thread) if event.thread else event.thread,
            what=self.line(event.what) if event.what else event.what,
            frames=tuple(map(self.frame, event.frames)),
        )


_EMPTY: Final = PrintedReport(sanitizer="", kind="")
