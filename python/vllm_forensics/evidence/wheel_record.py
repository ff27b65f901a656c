"""A wheel's RECORD, which has each file's hash and size (PyPA, "Recording installed projects")."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Mapping
from typing import Final

from vllm_forensics.errors import EvidenceError

ALGORITHMS: Final = ("sha256", "sha384", "sha512")


def recorded_hashes(text: str) -> dict[str, str]:
    """Each file's hash as RECORD has it: `sha256=…`, or nothing for RECORD itself."""
    rows = (_row(line) for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= 2}


def rewrite_record(text: str, changed: Mapping[str, tuple[str, int]]) -> str:
    """RECORD with new hash and size for the files that changed; all other lines as they are.

    Raises:
        EvidenceError: one of them has no line.

    """
    missing = set(changed)
    lines = []
    for line in text.splitlines(keepends=True):
        row = _row(line)
        if row and row[0] in changed:
            missing.discard(row[0])
            digest, size = changed[row[0]]
            ending = line[len(line.rstrip("\r\n")) :]
            lines.append(f"{_quoted(row[0])},{digest},{size}{ending}")
        else:
            lines.append(line)
    if missing:
        raise EvidenceError(
            f"RECORD does not list {sorted(missing)[0]}", remedy="build the wheel again"
        )
    return "".join(lines)


def encode_hash(algorithm: str, digest: bytes) -> str:
    """As RECORD writes it: URL-safe base64 without padding."""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode('ascii')}"


def new_hash(recorded: str) -> tuple[str, hashlib._Hash]:
    """The algorithm that a recorded hash was made with, ready to be fed.

    Raises:
        EvidenceError: it is none of those that wheels may use.

    """
    algorithm = recorded.partition("=")[0]
    if algorithm not in ALGORITHMS:
        raise EvidenceError(
            f"RECORD has a hash of kind {algorithm or 'none'!r}", remedy="build the wheel again"
        )
    return algorithm, hashlib.new(algorithm)


def _row(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name
