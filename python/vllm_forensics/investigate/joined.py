"""Reads every file of a folder by its content, and joins what they say into one incident."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from vllm_forensics.capture.compressed import Source as CompressedSource
from vllm_forensics.capture.evidence_files import EvidenceFile, find_evidence
from vllm_forensics.capture.logs import open_logs, read_log
from vllm_forensics.diagnosis.joined import join, report_of
from vllm_forensics.diagnosis.statement import Statement, of_log, of_report
from vllm_forensics.diagnosis.statement_core import of_core
from vllm_forensics.diagnosis.statement_traces import of_supervisor, of_trace
from vllm_forensics.diagnosis.syscalls import explain_syscalls
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.source_kind import HEAD, answer_schema, kind_of
from vllm_forensics.evidence.strace import parse_strace_log
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.log_symbols import LogNamer
from vllm_forensics.investigate.sanitizer import AsanOptions, investigate_logs
from vllm_forensics.investigate.symbolize import Symbolizer
from vllm_forensics.investigate.triage import TriageOptions, triage
from vllm_forensics.model.incident import IncidentReading
from vllm_forensics.model.joined import (
    Fact,
    JoinedReport,
    SanitizerFound,
    Source,
    SourceKind,
)
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.syscalls import SyscallFinding
from vllm_forensics.sandbox.recording_reader import parse_recording

_MAX_LOG: Final = 2 << 30
"""Of one log so much is read: twenty seconds of it."""
_MAX_TEXT: Final = 64 << 20
"""Of a trace, which is held whole, each line as an object."""
_HINTS: Final = (b"Sanitizer", b"runtime error:", b"libFuzzer")
_OVERLAP: Final = 32
_SYSLOG: Final = re.compile(
    rb"(?m)^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,16}) "
    rb"([A-Za-z0-9][\w.-]{0,62}) [\w./-]{1,48}(?:\[\d{1,9}\])?: "
)


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
    namer: LogNamer | None = None

    def fail(self, path: str, error: str, remedy: str) -> None:
        self.failures.append(Failure(path=path, error=error, remedy=remedy))
        self.complete = False


def investigate_report(paths: Sequence[str], options: TriageOptions) -> JoinedReport:
    """One incident out of all that the paths hold. What cannot be read stops nothing else.

    Raises:
        UsageError: nothing was named.

    """
    if not paths:
        raise UsageError("no evidence was named", remedy="forensics report FOLDER, or FILE FILE …")
    files, failures, noted = find_evidence(paths, HEAD)
    gathered = _Gathered(complete=not failures)
    _cores([file for file in files if file.is_core], options, gathered)
    if options.symbols:
        gathered.namer = LogNamer(
            Symbolizer(options.symbols), options.symbols, _build_ids(gathered.crashes)
        )
    for file in files:
        if not file.is_core:
            _text(file, gathered)
    joined = join(gathered.told, gathered.readings, gathered.loose)
    gathered.failures += [*failures, *noted]
    if not files and not failures:
        gathered.fail(", ".join(paths), "holds no file", "forensics report FOLDER_WITH_EVIDENCE")
    return report_of(
        joined,
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
            symbolization=gathered.namer.outcome if gathered.namer is not None else None,
            failures=tuple(gathered.failures),
            complete=gathered.complete,
        ),
    )


def _cores(files: Sequence[EvidenceFile], options: TriageOptions, gathered: _Gathered) -> None:
    if not files:
        return
    written = {file.path: file for file in files}
    report = triage([file.path for file in files], options)
    gathered.failures += report.failures
    gathered.complete = gathered.complete and not report.failures
    gathered.crashes += report.crashes
    for crash in report.crashes:
        one = of_core(crash, written[crash.core].written_s)
        gathered.told.append(one)
        gathered.sources.append(
            Source(
                path=crash.core,
                kind=SourceKind.CORE,
                size_bytes=written[crash.core].size_bytes,
                host=one.host,
                summary=f"core of process {crash.pid} ({one.program or '?'})",
            )
        )


def _build_ids(crashes: Sequence[Crash]) -> dict[str, str]:
    """The builds of the modules in the cores, where all cores have the same."""
    found: dict[str, set[str]] = {}
    for crash in crashes:
        for module in crash.modules:
            if module.build_id is not None:
                found.setdefault(module.path.rsplit("/", 1)[-1], set()).add(module.build_id)
    return {name: next(iter(ids)) for name, ids in found.items() if len(ids) == 1}


def _text(file: EvidenceFile, gathered: _Gathered) -> None:
    schema = answer_schema(file.head)
    if schema is not None:
        gathered.failures.append(
            Failure(
                path=file.path,
                error=f"is an answer ({schema}), not evidence: not read",
                remedy="give what it was made of",
            )
        )
        return
    kind = kind_of(file.head)
    try:
        match kind:
            case None:
                gathered.failures.append(
                    Failure(
                        path=file.path,
                        error="is neither a core nor text: not read",
                        remedy="modules and debug information: --symbols PLACE",
                    )
                )
            case SourceKind.STRACE:
                _strace(file, gathered)
            case SourceKind.SUPERVISOR:
                _supervisor(file, gathered)
            case SourceKind.SANDBOX:
                _sandbox(file, gathered)
            case _:
                _logs(file, gathered)
    except EvidenceError as error:
        gathered.fail(file.path, error.message, error.remedy)


def _logs(file: EvidenceFile, gathered: _Gathered) -> None:
    watched: list[str] = []
    for log in open_logs(file.path):
        pieces = CompressedSource(log.pieces)
        if log.in_archive and kind_of(pieces.peek(HEAD)) is None:
            gathered.fail(log.name, "is no text: not read", "unpack the archive, give its folder")
            continue
        watch = _Watch(pieces.rest())
        reading = parse_incident_log(watch.pieces())
        if watch.error is not None:
            gathered.fail(log.name, watch.error.message, watch.error.remedy)
        if log.in_archive and not reading.clues:
            continue
        if gathered.namer is not None:
            reading = gathered.namer.named(reading)
        host = watch.host
        gathered.readings[log.name] = reading
        gathered.told += of_log(log.name, host, reading)
        found = len(reading.clues)
        gathered.sources.append(
            Source(
                path=log.name,
                kind=SourceKind.SANITIZER if watch.is_sanitized else SourceKind.LOG,
                size_bytes=reading.size_bytes,
                host=host,
                summary=f"{reading.lines:,} lines, {found:,} of them tell of a death"
                if found
                else f"{reading.lines:,} lines, no word of a death",
            )
        )
        if watch.is_sanitized and watch.error is None:
            watched.append(log.name)
    if not watched:
        return
    answer = investigate_logs([file.path], AsanOptions(with_source=False))
    for explained in answer.logs:
        for report in explained.reports:
            gathered.reports.append(SanitizerFound(log=explained.path, report=report))
            host = next((one.host for one in gathered.sources if one.path == explained.path), None)
            gathered.told.append(of_report(explained.path, host, report))


def _strace(file: EvidenceFile, gathered: _Gathered) -> None:
    trace = parse_strace_log(_whole(file.path, gathered))
    findings = explain_syscalls(trace)
    gathered.syscalls += findings
    gathered.told += of_trace(file.path, trace, findings)
    gathered.sources.append(
        Source(
            path=file.path,
            kind=SourceKind.STRACE,
            size_bytes=file.size_bytes,
            host=None,
            summary=f"{len(trace.calls):,} system calls, {len(trace.ends):,} ends",
        )
    )


def _supervisor(file: EvidenceFile, gathered: _Gathered) -> None:
    run = parse_supervisor_log(_whole(file.path, gathered))
    gathered.told += of_supervisor(file.path, run)
    gathered.sources.append(
        Source(
            path=file.path,
            kind=SourceKind.SUPERVISOR,
            size_bytes=file.size_bytes,
            host=None,
            summary=f"{len(run.processes):,} processes, {len(run.faults):,} faults",
        )
    )


def _sandbox(file: EvidenceFile, gathered: _Gathered) -> None:
    """What a scheduler decided. It names no process: it stands beside the others."""
    lines = _whole(file.path, gathered).encode().splitlines()
    recording = parse_recording(lines, file.path)
    vllm = f" of vLLM {recording.version}" if recording.version else ""
    summary = f"{len(recording.steps):,} steps of a scheduler{vllm}"
    gathered.sources.append(
        Source(
            path=file.path,
            kind=SourceKind.SANDBOX,
            size_bytes=file.size_bytes,
            host=None,
            summary=summary,
        )
    )
    ended = f"; it {recording.outcome.value}" if recording.outcome is not None else ""
    why = " ".join(filter(None, (recording.error, recording.why)))
    text = f"{summary}{ended}" + (f": {why}" if why else "")
    gathered.loose.append(Fact(source=file.path, line=len(lines), text=text))


def _whole(path: str, gathered: _Gathered) -> str:
    pieces: list[bytes] = []
    watch = _Watch(read_log(path), limit=_MAX_TEXT)
    pieces = list(watch.pieces())
    if watch.error is not None:
        gathered.fail(path, watch.error.message, watch.error.remedy)
    return b"".join(pieces).decode("utf-8", "replace")


class _Watch:
    """Hands pieces on, and notes on the way what else they hold; never more than a bound."""

    def __init__(self, pieces: Iterator[bytes], limit: int = _MAX_LOG) -> None:
        self._pieces = pieces
        self._limit = limit
        self.host: str | None = None
        self.is_sanitized = False
        self.error: EvidenceError | None = None

    def pieces(self) -> Iterator[bytes]:
        """The pieces up to damage or to the bound."""
        size, tail = 0, b""
        try:
            for piece in self._pieces:
                if size == 0:
                    self.host = _host_of(piece)
                if not self.is_sanitized:
                    text = tail + piece
                    self.is_sanitized = any(hint in text for hint in _HINTS)
                    tail = piece[-_OVERLAP:]
                size += len(piece)
                yield piece
                if size >= self._limit:
                    self.error = EvidenceError(
                        f"only its first {size >> 20:,} MiB were read",
                        remedy="cut out the minutes around the death",
                    )
                    return
        except EvidenceError as error:
            self.error = error


def _host_of(piece: bytes) -> str | None:
    """The machine that syslog's lines are from, where all name one."""
    hosts = set(_SYSLOG.findall(piece))
    return hosts.pop().decode() if len(hosts) == 1 else None
