"""A baseline: an earlier answer in JSON, or a list of signatures, one a line; else it is a log."""

from __future__ import annotations

import json
from typing import Any, Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.sanitizer_sieve import SIGNATURE

REMEDY: Final = "make one: forensics asan --format json LOG > BASELINE"
_SCHEMAS: Final = ("forensics.asan/", "forensics.run/")


def parse_baseline(data: bytes) -> tuple[str, ...] | None:
    """The signatures in it, of whatever version; None: it is neither an answer nor a list.

    Raises:
        EvidenceError: it is another JSON, or a list with a line that is no signature.

    """
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        return _from_json(text)
    return _from_list(text)


def _from_json(text: str) -> tuple[str, ...] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None  # many a log has one object a line
    if not isinstance(document, dict):
        return None
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith("forensics."):
        return None
    reports = document.get("reports")
    if not schema.startswith(_SCHEMAS) or not isinstance(reports, list):
        raise EvidenceError(f"is an answer of another kind: {schema[:60]}", remedy=REMEDY)
    found = [name for report in reports if isinstance(report, dict) for name in _of_report(report)]
    return tuple(dict.fromkeys(found))


def _of_report(report: dict[str, Any]) -> list[str]:
    """The signatures of its leaks, where each has one; else its own."""
    leaks = report.get("leaks")
    entries = [leak for leak in leaks if isinstance(leak, dict)] if isinstance(leaks, list) else []
    names = [leak.get("signature") for leak in entries]
    if not names or None in names:
        names = [report.get("signature")]
    return [name for name in names if isinstance(name, str)]


def _from_list(text: str) -> tuple[str, ...] | None:
    found: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if SIGNATURE.fullmatch(line) is not None:
            found.append(line)
        elif found:
            raise EvidenceError(f"is no signature in line {number}: {line[:80]}", remedy=REMEDY)
        else:
            return None
    return tuple(dict.fromkeys(found))
