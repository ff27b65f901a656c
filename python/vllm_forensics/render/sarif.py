"""SARIF 2.1.0 (OASIS), as code scanning of GitHub reads it.

A result without a physicalLocation makes GitHub refuse the whole file: each has one, if need be
the line of the log. It shows `codeFlows` and no `stacks`, takes the severity and the CWE from the
rule, and tells alerts apart by `partialFingerprints.primaryLocationLineHash`.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

from vllm_forensics.model.report import Failure
from vllm_forensics.model.sanitizer import SanitizerAnswer, Severity
from vllm_forensics.model.sanitizer_sieve import SIGNATURE
from vllm_forensics.render.entries import LARGEST, Entry, Place, Step, entries

_LEVELS: Final = {Severity.HIGH: "error", Severity.MEDIUM: "warning", Severity.LOW: "note"}
_SCORES: Final = {Severity.HIGH: "8.1", Severity.MEDIUM: "5.5", Severity.LOW: "3.1"}
_ORDER: Final = tuple(_LEVELS)
_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def render_sarif(answer: SanitizerAnswer, root: str | None, version: str) -> str:
    """The answer as SARIF. Strings must have been cleaned."""
    found = entries(answer, root)[:LARGEST]
    rules = list(dict.fromkeys(entry.rule for entry in found))
    run = {
        "tool": {
            "driver": {
                "name": "vllm-forensics",
                "semanticVersion": version,
                "rules": [_rule(name, found) for name in rules],
            }
        },
        "automationDetails": {"id": "forensics-asan/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": answer.complete,
                "toolExecutionNotifications": [_notification(one) for one in answer.failures],
            }
        ],
        "results": [_result(entry, rules.index(entry.rule)) for entry in found],
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _rule(name: str, found: tuple[Entry, ...]) -> dict[str, Any]:
    those = [entry for entry in found if entry.rule == name]
    worst = min((entry.severity for entry in those), key=_ORDER.index)
    sanitizer, _, kind = name.partition("/")
    cwes = sorted({entry.report.cwe for entry in those if entry.report.cwe is not None})
    steps = list(dict.fromkeys(step for entry in those for step in entry.report.next_steps))[:6]
    rule: dict[str, Any] = {
        "id": name,
        "name": "".join(word.title() for word in kind.replace("_", "-").split("-")),
        "shortDescription": {"text": f"{sanitizer}: {kind}"},
        "fullDescription": {"text": f"{kind}, as {sanitizer} reported it while the program ran."},
        "help": {"text": "\n".join(steps) or kind},
        "defaultConfiguration": {"level": _LEVELS[worst]},
        "properties": {
            "precision": "very-high",
            "security-severity": _SCORES[worst],
            "tags": ["security", *(f"external/cwe/{cwe.lower()}" for cwe in cwes)][:20],
        },
    }
    return rule


def _result(entry: Entry, index: int) -> dict[str, Any]:
    printed = entry.report.printed
    location: dict[str, Any] = {"physicalLocation": _physical(entry.place)}
    if entry.function:
        location["logicalLocations"] = [{"fullyQualifiedName": entry.function, "kind": "function"}]
    match = SIGNATURE.fullmatch(entry.signature)
    fingerprint = match["hash"] if match else entry.signature
    result: dict[str, Any] = {
        "ruleId": entry.rule,
        "ruleIndex": index,
        "level": _LEVELS[entry.severity],
        "message": {"text": entry.text},
        "locations": [location],
        "occurrenceCount": entry.count,
        "partialFingerprints": {
            "primaryLocationLineHash": f"{fingerprint}:1",
            "forensicsSignature/v1": entry.signature,
        },
        "properties": {
            "log": entry.log,
            "lines": list(printed.lines),
            "why": list(entry.report.why),
        },
    }
    if entry.steps:
        result["codeFlows"] = [
            {
                "threadFlows": [
                    {
                        "locations": [
                            _flow(step, order) for order, step in enumerate(entry.steps, start=1)
                        ]
                    }
                ]
            }
        ]
    return result


def _flow(step: Step, order: int) -> dict[str, Any]:
    return {
        "executionOrder": order,
        "importance": "essential" if step.is_event else "important",
        "nestingLevel": 0 if step.is_event else 1,
        "location": {
            "physicalLocation": _physical(step.place),
            "message": {"text": step.text},
        },
    }


def _physical(place: Place) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": place.line}
    if place.column is not None:
        region["startColumn"] = place.column
    return {"artifactLocation": _artifact(place), "region": region}


def _artifact(place: Place) -> dict[str, Any]:
    path = place.path.encode("utf-8", "surrogateescape")
    if place.in_repository:
        return {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
    if place.path.startswith("/"):
        return {"uri": "file://" + quote(path)}
    return {"uri": quote(path) if place.path.startswith("..") else "file:///" + quote(path)}


def _notification(failure: Failure) -> dict[str, Any]:
    text = f"{failure.path} {failure.error}"
    return {"level": "warning", "message": {"text": f"{text}: {failure.remedy or 'no remedy'}"}}
