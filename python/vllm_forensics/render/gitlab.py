"""GitLab's code quality report: docs.gitlab.com, "Code Quality report format"."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from vllm_forensics.model.sanitizer import SanitizerAnswer, Severity
from vllm_forensics.render.entries import LARGEST, Entry, entries

_SEVERITIES: Final = {Severity.HIGH: "critical", Severity.MEDIUM: "major", Severity.LOW: "minor"}


def render_gitlab(answer: SanitizerAnswer, root: str | None) -> str:
    """The answer as a JSON list; an empty one where nothing is wrong. Strings must be clean."""
    found = entries(answer, root)[:LARGEST]
    return json.dumps([_issue(entry) for entry in found], indent=2) + "\n"


def _issue(entry: Entry) -> dict[str, Any]:
    return {
        "description": f"{entry.title}: {entry.text}",
        "check_name": entry.rule,
        "fingerprint": hashlib.sha256(entry.signature.encode("utf-8", "replace")).hexdigest(),
        "severity": _SEVERITIES[entry.severity],
        "location": {"path": entry.place.path, "lines": {"begin": entry.place.line}},
    }
