"""Reads the reports of a log, and of every log in an archive."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_forensics.capture.compressed import Source
from vllm_forensics.capture.logs import open_logs
from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.evidence.source_kind import HEAD
from vllm_forensics.investigate.not_a_log import not_a_log
from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import LogReading


def read_logs(path: str) -> Iterator[tuple[str, LogReading | None, Failure | None]]:
    """Name, reading and failure of each log that a path stands for.

    Of an archive these are the members with a report or a failure; where none has a report, the
    archive itself comes last, as one log without any.
    """
    size, lines, silent = 0, 0, True
    try:
        for log in open_logs(path):
            source = Source(log.pieces)
            head = source.peek(HEAD)
            reading, failure = _read(log.name, source.rest())
            if failure is None and not reading.reports and not log.in_archive:
                failure = not_a_log(log.name, head)
            if log.in_archive and not reading.reports:
                size += reading.size_bytes
                lines += reading.lines
                if failure is not None:
                    yield log.name, None, failure
                continue
            silent = False
            yield log.name, reading if reading.size_bytes or failure is None else None, failure
    except EvidenceError as error:
        yield path, None, Failure(path=path, error=error.message, remedy=error.remedy)
        return
    if silent:
        yield path, LogReading(reports=(), size_bytes=size, lines=lines, truncated=False), None


def _read(name: str, pieces: Iterator[bytes]) -> tuple[LogReading, Failure | None]:
    errors: list[EvidenceError] = []

    def until_damage() -> Iterator[bytes]:
        try:
            yield from pieces
        except EvidenceError as error:
            errors.append(error)

    reading = parse_sanitizer_log(until_damage())
    if not errors:
        return reading, None
    return reading, Failure(path=name, error=errors[0].message, remedy=errors[0].remedy)
