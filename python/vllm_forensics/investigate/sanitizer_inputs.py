"""Reads what stands beside a log: a baseline of known reports, and suppressions."""

from __future__ import annotations

import itertools
from typing import Final

from vllm_forensics.capture.logs import STANDARD_INPUT, read_log
from vllm_forensics.diagnosis.sanitizer.explain import explain_report
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.evidence.baseline import REMEDY, parse_baseline
from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log
from vllm_forensics.evidence.suppressions import parse_suppressions
from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer_sieve import SIGNATURE, SIGNATURE_VERSION, Suppression

_LARGEST: Final = 512 << 20
_MAX_UNREAD: Final = 20


def read_baseline(path: str) -> tuple[str, ...]:
    """The signatures in a baseline: an answer in JSON, a list of signatures, or a log.

    Raises:
        UsageError: it cannot be read, is none of these, or was made by other signature rules.

    """
    data = _read(path)
    try:
        signatures = parse_baseline(data)
    except EvidenceError as error:
        raise UsageError(f"the baseline {path} {error.message}", remedy=error.remedy) from error
    if signatures is None:
        signatures = _of_log(data)
        if not signatures and not _is_blank(data):
            raise UsageError(
                f"the baseline {path} is no answer, no list of signatures, "
                "and no log with a sanitizer report",
                remedy=f"{REMEDY}; an empty file is a baseline that knows nothing",
            )
    versions = {int(match["version"]) for match in map(SIGNATURE.fullmatch, signatures) if match}
    foreign = sum(SIGNATURE.fullmatch(name) is None for name in signatures)
    if versions - {SIGNATURE_VERSION}:
        written = ", ".join(str(version) for version in sorted(versions))
        raise UsageError(
            f"the baseline {path} holds signatures of version {written}, "
            f"and this program makes version {SIGNATURE_VERSION}: they cannot be compared",
            remedy=f"{REMEDY} with this program, from the log that the baseline was made of",
        )
    if foreign:
        raise UsageError(
            f"the baseline {path} holds {foreign} signatures that are not well formed",
            remedy=REMEDY,
        )
    return signatures


def read_suppressions(path: str) -> tuple[tuple[Suppression, ...], tuple[Failure, ...]]:
    """The rules of a file, and one failure for each line that is none.

    Raises:
        UsageError: it cannot be read.

    """
    rules, unread = parse_suppressions(_read(path).decode("utf-8", "replace"))
    failures = [
        Failure(
            path=f"{path}:{line.line}",
            error=f"is not used: {line.why}: {line.text}",
            remedy="docs/suppressions.md lists the types",
        )
        for line in unread[:_MAX_UNREAD]
    ]
    if len(unread) > _MAX_UNREAD:
        failures.append(
            Failure(
                path=path,
                error=f"holds {len(unread) - _MAX_UNREAD:,} more lines that are not used",
                remedy="is it a file of suppressions?",
            )
        )
    return rules, tuple(failures)


def _read(path: str) -> bytes:
    if path == STANDARD_INPUT:
        raise UsageError("standard input is the log's", remedy="name a file, or <(command)")
    pieces, size = [], 0
    try:
        for piece in read_log(path):
            size += len(piece)
            if size > _LARGEST:
                raise UsageError(
                    f"{path} is larger than {_LARGEST >> 20} MiB",
                    remedy="give a list of signatures",
                )
            pieces.append(piece)
    except EvidenceError as error:
        raise UsageError(f"{path} {error.message}", remedy=error.remedy) from error
    return b"".join(pieces)


def _of_log(data: bytes) -> tuple[str, ...]:
    reports = [explain_report(report) for report in parse_sanitizer_log([data]).reports]
    names = ([leak.signature for leak in report.leaks] or [report.signature] for report in reports)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(names)))


def _is_blank(data: bytes) -> bool:
    return all(not line.strip() or line.strip().startswith(b"#") for line in data.splitlines())
