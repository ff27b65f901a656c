"""What each kind of evidence gives: one function a kind, and one shape for all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vllm_forensics.capture.compressed import Source as CompressedSource
from vllm_forensics.capture.evidence_files import EvidenceFile
from vllm_forensics.capture.logs import Log, open_logs, read_log
from vllm_forensics.diagnosis.incident.names import with_numbers
from vllm_forensics.diagnosis.incident.threads import with_processes
from vllm_forensics.diagnosis.joined.statement import Statement, of_log, of_report
from vllm_forensics.diagnosis.joined.statement_core import of_core
from vllm_forensics.diagnosis.joined.statement_traces import of_supervisor, of_trace
from vllm_forensics.diagnosis.syscalls import explain_syscalls
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.journal_text import as_log
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.source_kind import HEAD, answer_in, kind_of
from vllm_forensics.evidence.strace import parse_strace_log
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.investigate.log_symbols import LogNamer
from vllm_forensics.investigate.sanitizer import AsanOptions, investigate_logs
from vllm_forensics.model.incident import IncidentReading
from vllm_forensics.model.joined import Fact, SanitizerFound, Source, SourceKind
from vllm_forensics.model.report import Crash, Failure
from vllm_forensics.model.syscalls import SyscallFinding
from vllm_forensics.sandbox.recording_reader import parse_recording

_MAX_LOG: Final = 2 << 30
"""Of one log so much is read: twenty seconds of it."""
_MAX_TEXT: Final = 64 << 20
"""Of a trace, which is held whole, each line as an object."""
_HINTS: Final = (b"Sanitizer", b"runtime error:", b"libFuzzer")
_OVERLAP: Final = 32
_DATE: Final = (
    rb"(?m)^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,16}) "
)
_DATED: Final = re.compile(_DATE)
_HOST_ZONE: Final = 1 << 16
_SYSLOG: Final = re.compile(_DATE + rb"([A-Za-z0-9][\w.-]{0,62}) [\w./-]{1,48}(?:\[\d{1,9}\])?: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one source gave; no source where it gave nothing but a failure."""

    source: Source | None = None
    told: tuple[Statement, ...] = ()
    reading: IncidentReading | None = None
    loose: tuple[Fact, ...] = ()
    crash: Crash | None = None
    reports: tuple[SanitizerFound, ...] = ()
    syscalls: tuple[SyscallFinding, ...] = ()
    failure: Failure | None = None
    is_evidence: bool = True
    """False where the failure takes nothing from the answer: it is no evidence by its nature."""


def of_crash(crash: Crash, file: EvidenceFile) -> Found:
    """What a core gave."""
    one = of_core(crash, file.written_s)
    summary = f"core of process {crash.pid} ({one.program or '?'})"
    return Found(
        source=_source(file, SourceKind.CORE, summary, host=one.host), told=(one,), crash=crash
    )


def of_text(file: EvidenceFile, namer: LogNamer | None) -> Iterator[Found]:
    """What any file gives that is no core. `namer` names the offsets in logs."""
    answer = answer_in(file.head)
    kind = kind_of(file.head)
    if answer is not None:
        error = f"is an answer ({answer.strip(' :·━')}), not evidence: not read"
        yield _passed_over(file, error, "give what it was made of")
    elif kind is None:
        error = "is neither a core nor text: not read"
        yield _passed_over(file, error, "modules and debug information: --symbols PLACE")
    elif kind in _OF_TRACES:
        text, error_met = _whole(file.path)
        yield _OF_TRACES[kind](file, text)
        if error_met is not None:
            yield _failed(file.path, error_met)
    else:
        yield from _of_logs(file, namer)


def _strace(file: EvidenceFile, text: str) -> Found:
    trace = parse_strace_log(text)
    findings = explain_syscalls(trace)
    summary = f"{len(trace.calls):,} system calls, {len(trace.ends):,} ends"
    return Found(
        source=_source(file, SourceKind.STRACE, summary),
        told=tuple(of_trace(file.path, trace, findings)),
        syscalls=findings,
    )


def _supervisor(file: EvidenceFile, text: str) -> Found:
    run = parse_supervisor_log(text)
    summary = f"{len(run.processes):,} processes, {len(run.faults):,} faults"
    return Found(
        source=_source(file, SourceKind.SUPERVISOR, summary),
        told=tuple(of_supervisor(file.path, run)),
    )


def _sandbox(file: EvidenceFile, text: str) -> Found:
    """What a scheduler decided. It names no process: it stands beside the others."""
    lines = text.encode().splitlines()
    recording = parse_recording(lines, file.path)
    vllm = f" of vLLM {recording.version}" if recording.version else ""
    summary = f"{len(recording.steps):,} steps of a scheduler{vllm}"
    ended = f"; it {recording.outcome.value}" if recording.outcome is not None else ""
    why = " ".join(filter(None, (recording.error, recording.why)))
    told = f"{summary}{ended}" + (f": {why}" if why else "")
    return Found(
        source=_source(file, SourceKind.SANDBOX, summary),
        loose=(Fact(source=file.path, line=len(lines), text=told),),
    )


_OF_TRACES: Final[Mapping[SourceKind, Callable[[EvidenceFile, str], Found]]] = {
    SourceKind.STRACE: _strace,
    SourceKind.SUPERVISOR: _supervisor,
    SourceKind.SANDBOX: _sandbox,
}
"""Kinds that are read whole."""


def _of_logs(file: EvidenceFile, namer: LogNamer | None) -> Iterator[Found]:
    """A log, or the logs of an archive; what a sanitizer says in them is told once more by it."""
    hosts: dict[str, str | None] = {}
    for log in open_logs(file.path):
        found, watch = _of_log(log, namer)
        if watch is not None and watch.error is not None:
            yield _failed(log.name, watch.error)
        elif watch is not None and watch.is_sanitized:
            hosts[log.name] = watch.host
        yield found
        if found.reading is not None and found.reading.left_out:
            yield _too_much(log.name, found.reading.left_out)
    if not hosts:
        return
    for explained in investigate_logs([file.path], AsanOptions(with_source=False)).logs:
        path = explained.path
        yield Found(
            told=tuple(of_report(path, hosts.get(path), one) for one in explained.reports),
            reports=tuple(SanitizerFound(log=path, report=one) for one in explained.reports),
        )


def _of_log(log: Log, namer: LogNamer | None) -> tuple[Found, _Watch | None]:
    pieces = CompressedSource(log.pieces)
    head = pieces.peek(HEAD)
    if log.in_archive and kind_of(head) is None:
        error = EvidenceError("is no text: not read", remedy="unpack the archive, give its folder")
        return _failed(log.name, error), None
    watch = _Watch(as_log(head, pieces.rest()))
    reading = with_numbers(with_processes(parse_incident_log(watch.pieces())))
    if log.in_archive and not reading.clues:
        return Found(), watch
    if namer is not None:
        reading = namer.named(reading)
    count = len(reading.clues)
    deaths = f"{count:,} of them tell of a death" if count else "no word of a death"
    return Found(
        source=Source(
            path=log.name,
            kind=SourceKind.SANITIZER if watch.is_sanitized else SourceKind.LOG,
            size_bytes=reading.size_bytes,
            host=watch.host,
            summary=f"{reading.lines:,} lines, {deaths}",
        ),
        told=tuple(of_log(log.name, watch.host, reading)),
        reading=reading,
    ), watch


def _source(
    file: EvidenceFile, kind: SourceKind, summary: str, *, host: str | None = None
) -> Source:
    return Source(path=file.path, kind=kind, size_bytes=file.size_bytes, host=host, summary=summary)


def _failed(path: str, error: EvidenceError) -> Found:
    return Found(failure=Failure(path=path, error=error.message, remedy=error.remedy))


def _too_much(path: str, count: int) -> Found:
    error = f"tells of deaths {count:,} times more than is kept: its middle is not told"
    remedy = "cut out the minutes around the death"
    return Found(failure=Failure(path=path, error=error, remedy=remedy), is_evidence=False)


def _passed_over(file: EvidenceFile, error: str, remedy: str) -> Found:
    return Found(failure=Failure(path=file.path, error=error, remedy=remedy), is_evidence=False)


def _whole(path: str) -> tuple[str, EvidenceError | None]:
    watch = _Watch(read_log(path), limit=_MAX_TEXT)
    text = b"".join(watch.pieces()).decode("utf-8", "replace")
    return text, watch.error


class _Watch:
    """Hands pieces on, and notes on the way what else they hold; never more than a bound."""

    def __init__(self, pieces: Iterable[bytes], limit: int = _MAX_LOG) -> None:
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
    """The machine that syslog's lines are from, where all name one.

    What Kubernetes dates may look so, once in a while: `2026-01-15T08:12:45Z Extension modules: a`.
    """
    head = piece[:_HOST_ZONE]
    hosts = _SYSLOG.findall(head)
    is_syslog = len(set(hosts)) == 1 and 2 * len(hosts) > len(_DATED.findall(head))
    return hosts[0].decode() if is_syslog else None
