"""Reads logs, explains every sanitizer report in them, and groups equal ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from vllm_forensics.capture.files import is_regular_file, read_source
from vllm_forensics.capture.logs import STANDARD_INPUT, find_logs, repository_root
from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.diagnosis.sanitizer.frames import IsOwn, own_by_default
from vllm_forensics.diagnosis.sanitizer.sieve import Sieve
from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.sanitizer_inputs import read_baseline, read_suppressions
from vllm_forensics.investigate.sanitizer_logs import read_logs
from vllm_forensics.model.report import Failure, SourceExcerpt
from vllm_forensics.model.sanitizer import (
    ExplainedLog,
    ExplainedReport,
    LogReading,
    PrintedFrame,
    PrintedReport,
    SanitizerAnswer,
    SanitizerGroup,
    Severity,
)

if TYPE_CHECKING:  # few runs name frames by files of this machine
    from vllm_forensics.investigate.symbolize import Symbolizer

_AROUND: Final = 1
_ORDER: Final = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class AsanOptions:
    """What was asked for."""

    own: tuple[str, ...] = ()
    """Paths, or parts of them, that are the user's own code; none: the current repository."""
    with_source: bool = True
    """Read the source lines of own frames, where the files are here."""
    baseline: str | None = None
    """A file of reports that are known: they are left out."""
    suppressions: str | None = None
    """A file of rules for reports that are left out."""

    symbolizer: Symbolizer | None = None
    """Looks up frames that the log does not name; None: they stay so."""


def investigate_logs(paths: Sequence[str], options: AsanOptions) -> SanitizerAnswer:
    """Every report in every log. An input that cannot be read is a failure and stops no other.

    Raises:
        UsageError: no log was named, or the baseline or the suppressions cannot be read.

    """
    if not paths:
        raise UsageError("no log was named", remedy="forensics asan LOG…, or - for standard input")
    is_own = own_rule(options.own)
    rules, unread = read_suppressions(options.suppressions) if options.suppressions else ((), ())
    sieve = Sieve(
        suppressions=rules, baseline=read_baseline(options.baseline) if options.baseline else None
    )

    def explain(report: PrintedReport) -> ExplainedReport:
        return explain_report(report, is_own)

    logs: list[ExplainedLog] = []
    failures: list[Failure] = list(unread)
    complete = True
    inputs = [read for path in find_logs(paths) for read in read_logs(path)]
    symbolization = None
    if options.symbolizer is not None:
        from vllm_forensics.investigate.sanitizer_locations import with_locations_of

        inputs, symbolization = with_locations_of(inputs, options.symbolizer)
    for path, reading, failure in inputs:
        if failure is not None:
            failures.append(failure)
            complete = False
        if reading is None:
            continue
        sifted = (sieve.sift(explain(report), explain) for report in reading.reports)
        reports = tuple(
            _with_source(report) if options.with_source else report
            for report in sifted
            if report is not None
        )
        logs.append(
            ExplainedLog(
                path=path,
                size_bytes=reading.size_bytes,
                lines=reading.lines,
                truncated=reading.truncated,
                reports=reports,
            )
        )
        if not reading.reports and failure is None:
            failures.append(_nothing(path, reading))
    everything = [report for log in logs for report in log.reports]
    return SanitizerAnswer(
        logs=tuple(logs),
        groups=_groups(everything),
        failures=tuple(failures),
        complete=complete,
        symbolization=symbolization,
        suppressed=sieve.counts(),
        baseline=sieve.outcome(options.baseline) if options.baseline else None,
    )


def _nothing(path: str, reading: LogReading) -> Failure:
    name = "standard input" if path == STANDARD_INPUT else path
    if reading.size_bytes == 0:
        error = "is empty: no sanitizer report"
    else:
        lines = f"{reading.lines:,} line{'' if reading.lines == 1 else 's'}"
        error = f"holds no sanitizer report in {lines}"
        if reading.seen_instead:
            error += "; mentioned only: " + " · ".join(reading.seen_instead)
    return Failure(
        path=path,
        error=error,
        remedy=f"was standard error kept? program 2>&1 | tee log; {name} may also be another log",
    )


def _groups(reports: Sequence[ExplainedReport]) -> tuple[SanitizerGroup, ...]:
    """Equal reports counted: highest danger first, own code first, then the most frequent.

    Leak records are counted too, each by itself, behind the reports.
    """
    counts: dict[str, int] = {}
    rank: dict[str, tuple[int, bool]] = {}
    for report in reports:
        signature = report.signature
        counts[signature] = counts.get(signature, 0) + report.printed.occurrences
        rank.setdefault(signature, (_ORDER[report.severity], report.culprit is None))
    ordered = sorted(counts, key=lambda name: (*rank[name], -counts[name]))
    leaks: Counter[str] = Counter()
    for report in reports:
        leaks.update(leak.signature for leak in report.leaks if leak.signature not in counts)
    return (
        *(SanitizerGroup(signature=name, count=counts[name]) for name in ordered),
        *(
            SanitizerGroup(signature=name, count=count, of_leaks=True)
            for name, count in leaks.most_common()
        ),
    )


def own_rule(paths: tuple[str, ...]) -> IsOwn:
    """The rule for own frames: what was said, else what lies under the current repository."""
    root = repository_root()
    cleaned = tuple(path.rstrip("/").replace("\\", "/") for path in paths if path.strip("/"))

    @lru_cache(maxsize=8192)
    def lies_there(file: str | None, module: str | None) -> bool:
        if cleaned:
            return any(_lies_in(file, part) or _lies_in(module, part) for part in cleaned)
        return root is None or (file is not None and _here(file, root))

    def is_own(frame: PrintedFrame) -> bool:
        return own_by_default(frame) and lies_there(frame.file, frame.module)

    return is_own


def _lies_in(path: str | None, part: str) -> bool:
    if path is None:
        return False
    path = path.replace("\\", "/")
    part = part.removeprefix("./")
    return (
        path == part
        or path.startswith(part + "/")
        or f"/{part}/" in f"/{path}"
        or path.endswith("/" + part)
    )


def _here(file: str, root: str) -> bool:
    if os.path.isabs(file):  # noqa: PTH117 - paths inside evidence are str
        return file.startswith(root + "/")
    return is_regular_file(f"{root}/{file}")


def _with_source(report: ExplainedReport) -> ExplainedReport:
    """The source at the first own frame of each stack, where this machine has the file."""
    first: dict[int, int] = {}
    for stack, index in report.own:
        first.setdefault(stack, index)
    excerpts: list[SourceExcerpt | None] = []
    for at, event in enumerate(report.printed.chain):
        excerpts.append(_excerpt(event.frames[first[at]]) if at in first else None)
    return replace(report, excerpts=tuple(excerpts)) if any(excerpts) else report


def _excerpt(frame: PrintedFrame) -> SourceExcerpt | None:
    if frame.file is None or frame.line is None:
        return None
    lines = _source(frame.file, frame.line)
    if not lines:
        return None
    return SourceExcerpt(
        file=frame.file,
        first_line=max(1, frame.line - _AROUND),
        lines=lines,
        marked_line=frame.line,
    )


@lru_cache(maxsize=1024)
def _source(file: str, line: int) -> tuple[str, ...]:
    return read_source(file, max(1, line - _AROUND), line + _AROUND)
