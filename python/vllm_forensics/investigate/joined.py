"""Reads every file of a folder by its content, and joins what they say into incidents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vllm_forensics.capture.evidence_files import EvidenceFile, find_evidence
from vllm_forensics.diagnosis.joined.explain import join, report_of
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.evidence.source_kind import HEAD
from vllm_forensics.investigate.evidence_sources import Found, of_crash, of_text
from vllm_forensics.investigate.log_symbols import LogNamer
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.investigate.triage import TriageOptions, triage
from vllm_forensics.model.incident import IncidentReading
from vllm_forensics.model.joined import Fact, JoinedReport, SanitizerFound, Source
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.syscalls import SyscallFinding


@dataclass(slots=True)
class _Gathered:
    sources: list[Source] = field(default_factory=list)
    told: list[Statement] = field(default_factory=list)
    readings: dict[str, IncidentReading] = field(default_factory=dict)
    loose: list[Fact] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    reports: list[SanitizerFound] = field(default_factory=list)
    syscalls: list[SyscallFinding] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    complete: bool = True

    def take(self, found: Found) -> None:
        """All that one source gave."""
        if found.source is not None:
            self.sources.append(found.source)
            if found.reading is not None:
                self.readings[found.source.path] = found.reading
        self.told += found.told
        self.loose += found.loose
        self.reports += found.reports
        self.syscalls += found.syscalls
        if found.crash is not None:
            self.crashes.append(found.crash)
        if found.failure is not None:
            self.failures.append(found.failure)
            self.complete = self.complete and not found.is_evidence


def investigate_report(paths: Sequence[str], options: TriageOptions) -> JoinedReport:
    """The incidents of all that the paths hold. What cannot be read stops nothing else.

    Raises:
        UsageError: nothing was named.

    """
    if not paths:
        raise UsageError("no evidence was named", remedy="forensics report FOLDER, or FILE FILE …")
    files, failures, noted = find_evidence(paths, HEAD)
    if not files and not failures:
        remedy = "forensics report FOLDER_WITH_EVIDENCE"
        failures.append(Failure(path=", ".join(paths), error="holds no file", remedy=remedy))
    gathered = _Gathered()
    for found in _of_cores([file for file in files if file.is_core], options):
        gathered.take(found)
    namer = _namer(options, gathered.crashes)
    for file in files:
        if not file.is_core:
            for found in _of_file(file, namer):
                gathered.take(found)
    return report_of(
        join(gathered.told, gathered.readings, gathered.loose),
        JoinedReport(
            sources=tuple(gathered.sources),
            first_death=None,
            visible_error_is_echo=False,
            explanation="",
            processes=(),
            echoes=(),
            unattached=(),
            crashes=tuple(gathered.crashes),
            reports=tuple(gathered.reports),
            syscalls=tuple(gathered.syscalls),
            next_steps=(),
            symbolization=namer.outcome if namer is not None else None,
            failures=(*gathered.failures, *failures, *noted),
            complete=gathered.complete and not failures and bool(gathered.sources),
        ),
    )


def _of_cores(files: Sequence[EvidenceFile], options: TriageOptions) -> Iterator[Found]:
    if not files:
        return
    written = {file.path: file for file in files}
    report = triage([file.path for file in files], options)
    yield from (Found(failure=failure) for failure in report.failures)
    yield from (of_crash(crash, written[crash.core]) for crash in report.crashes)


def _of_file(file: EvidenceFile, namer: LogNamer | None) -> Iterator[Found]:
    try:
        yield from of_text(file, namer)
    except EvidenceError as error:
        yield Found(failure=Failure(path=file.path, error=error.message, remedy=error.remedy))


def _namer(options: TriageOptions, crashes: Sequence[Crash]) -> LogNamer | None:
    if not options.symbols:
        return None
    return LogNamer(Symbolizer(options.symbols), options.symbols, _build_ids(crashes))


def _build_ids(crashes: Sequence[Crash]) -> dict[str, str]:
    """The builds of the modules in the cores, where all cores have the same."""
    found: dict[str, set[str]] = {}
    for crash in crashes:
        for module in crash.modules:
            if module.build_id is not None:
                found.setdefault(module.path.rsplit("/", 1)[-1], set()).add(module.build_id)
    return {name: next(iter(ids)) for name, ids in found.items() if len(ids) == 1}
