"""Workflow commands of GitHub Actions: one annotation a bug, on its line.

Source: docs.github.com, "Workflow commands for GitHub Actions". Data escapes `%`, CR and LF,
properties also `:` and `,`.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import SanitizerAnswer, Severity
from vllm_forensics.render.entries import LARGEST, Entry, entries

_COMMANDS: Final = {Severity.HIGH: "error", Severity.MEDIUM: "warning", Severity.LOW: "notice"}
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render_github(answer: SanitizerAnswer, root: str | None) -> str:
    """The answer as workflow commands. Strings must have been cleaned."""
    lines = [_annotation(entry) for entry in entries(answer, root)[:LARGEST]]
    lines += [_failure(failure) for failure in answer.failures]
    return "".join(f"{line}\n" for line in lines)


def _annotation(entry: Entry) -> str:
    times = f" (seen {entry.count:,} times)" if entry.count > 1 else ""
    steps = "\n".join(entry.report.next_steps[:3])
    properties = {
        "file": entry.place.path,
        "line": str(entry.place.line),
        "title": f"{entry.title}{times}",
    }
    if entry.place.column is not None:
        properties["col"] = str(entry.place.column)
    text = f"{entry.text}\n{steps}" if steps else entry.text
    return _command(_COMMANDS[entry.severity], properties, text)


def _failure(failure: Failure) -> str:
    text = f"{failure.path} {failure.error}: {failure.remedy or ''}".rstrip(": ")
    return _command("warning", {"title": "forensics asan"}, text)


def _command(name: str, properties: dict[str, str], text: str) -> str:
    said = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{name} {said}::{text.translate(_DATA)}"
