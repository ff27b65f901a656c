"""Reads logs and says of each which process died first, of what, and what is only echo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vllm_forensics.capture.compressed import Source
from vllm_forensics.capture.logs import STANDARD_INPUT, find_logs, open_logs
from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.diagnosis.incident.steps import with_log
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.evidence.journal_text import as_log
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.source_kind import HEAD
from vllm_forensics.investigate.not_a_log import not_a_log
from vllm_forensics.model.incident import Incident, IncidentAnswer, IncidentReading
from vllm_forensics.model.report import Failure

if TYPE_CHECKING:  # few runs need it
    from vllm_forensics.investigate.log_symbols import LogNamer


def investigate_incidents(paths: Sequence[str], namer: LogNamer | None = None) -> IncidentAnswer:
    """The incident of every log. An input that cannot be read is a failure and stops no other.

    `namer` names the native frames that the logs do not name.

    Raises:
        UsageError: no log was named.

    """
    if not paths:
        raise UsageError("no log was named", remedy="forensics log LOG…, or - for standard input")
    incidents: list[Incident] = []
    failures: list[Failure] = []
    complete = True
    size, lines = 0, 0
    for path in find_logs(paths):
        for name, reading, failure in _read(path):
            if failure is not None:
                failures.append(failure)
                complete = False
            if reading is None:
                continue
            size += reading.size_bytes
            lines += reading.lines
            if namer is not None:
                reading = namer.named(reading)
            found = explain_incidents(reading, name)
            if path != STANDARD_INPUT:
                found = tuple(
                    replace(one, next_steps=with_log(one.next_steps, path)) for one in found
                )
            incidents.extend(found)
            if not found and failure is None:
                failures.append(_nothing(name, reading))
    return IncidentAnswer(
        incidents=tuple(incidents),
        failures=tuple(failures),
        complete=complete,
        size_bytes=size,
        lines=lines,
        symbolization=namer.outcome if namer is not None else None,
    )


def _read(path: str) -> Iterator[tuple[str, IncidentReading | None, Failure | None]]:
    try:
        for log in open_logs(path):
            errors: list[EvidenceError] = []
            source = Source(log.pieces)
            head = source.peek(HEAD)
            binary = not_a_log(log.name, head)
            if binary is not None:
                yield log.name, None, binary
                continue
            reading = parse_incident_log(as_log(head, _until_damage(source.rest(), errors)))
            failure = None
            if errors:
                failure = Failure(path=log.name, error=errors[0].message, remedy=errors[0].remedy)
            yield log.name, reading, failure
    except EvidenceError as error:
        yield path, None, Failure(path=path, error=error.message, remedy=error.remedy)


def _until_damage(pieces: Iterator[bytes], errors: list[EvidenceError]) -> Iterator[bytes]:
    try:
        yield from pieces
    except EvidenceError as error:
        errors.append(error)


def _nothing(path: str, reading: IncidentReading) -> Failure:
    name = "standard input" if path == STANDARD_INPUT else path
    if reading.size_bytes == 0:
        error = "is empty: nobody died in it"
    else:
        error = f"tells of no death in {reading.lines:,} line{'' if reading.lines == 1 else 's'}"
        if reading.seen_instead:
            error += "; mentioned only: " + " · ".join(reading.seen_instead)
    return Failure(
        path=path,
        error=error,
        remedy="dmesg -T | tail -100    # if a process died, neither its own output nor its "
        f"parent's word is in {name}",
    )
