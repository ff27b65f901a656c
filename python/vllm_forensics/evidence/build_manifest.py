"""Reads build.json, which `forensics build` writes beside what it built."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.build import BuildManifest

MANIFEST_NAME: Final = "build.json"
_SCHEMA: Final = "forensics.build/1"


def parse_build_manifest(data: bytes) -> BuildManifest:
    """The manifest in the bytes of a build.json; fields that are not known here are passed over.

    Raises:
        EvidenceError: not JSON, not this schema, or a field is missing or of another type.

    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"no JSON: {error}", remedy=_AGAIN) from error
    found = value.get("schema") if isinstance(value, dict) else None
    if found != _SCHEMA:
        raise EvidenceError(
            f"not a build's manifest: its schema is {found!r}, not {_SCHEMA!r}", remedy=_AGAIN
        )
    try:
        return msgspec.convert(value, BuildManifest)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"not a whole manifest: {error}", remedy=_AGAIN) from error


_AGAIN: Final = "build again: forensics build --asan --source DIR"
