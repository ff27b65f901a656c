"""Tells what a file of evidence is by how it begins, whatever it is called."""

from __future__ import annotations

import json
import re
from typing import Final

from vllm_forensics.evidence.journal_records import is_journal_export
from vllm_forensics.evidence.unicode_text import encoding_of
from vllm_forensics.model.event import EventKind
from vllm_forensics.model.joined import SourceKind

HEAD: Final = 1 << 14
"""So many bytes of a file are enough."""
_TRACED: Final = re.compile(
    rb"\d{1,10} +(?:\d{1,2}:\d\d:\d\d|\d{9,12})(?:\.\d{1,9})? "
    rb"(?:[a-z_][a-z0-9_]{0,40}\(|\+\+\+ |--- |<\.\.\. )"
    rb"|\d{1,10} +(?:[a-z_][a-z0-9_]{0,40}\(.{0,8000}(?:\) += |<unfinished \.\.\.>$)|"
    rb"\+\+\+ |--- SIG|<\.\.\. [a-z_][a-z0-9_]{0,40} resumed>)"
)
_SUPERVISED: Final = {"start", "exec", "exit", "fault", "core", "snapshot", "error", "fork"}
_EVENTS: Final = {kind.value for kind in EventKind}
_MAX_LINES: Final = 20
_MAX_LINE: Final = 1 << 13
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x1b\x08\x00"))
_HOLE: Final = re.compile(rb"\0{64,1000000}")
"""What is left of a text where its file was cut while a process wrote on."""
_MAX_CONTROLS: Final = 0.05
_MAX_ZEROS: Final = 0.3
_JSON_ANSWER: Final = re.compile(rb'\s*\{\s*"schema": ?"(forensics\.[a-z]{1,20}/\d{1,3})"')
_TEXT_ANSWER: Final = re.compile(
    "(?:\x1b\\[[\\d;]{1,20}m)?(━━ (?:SIG[A-Z]{2,7}|.{1,80} died first)|"
    "[\\d,]{1,9} (?:(?:core|source|incident)s?(?: ·|: )|"
    "(?:report|incident)s? in [\\d,]{1,15} lines?)|"
    "[✓!✗] core pattern  |Nothing crashed; )".encode()
)
_OTHER_ANSWER: Final = re.compile(
    "## (.{1,160} died first(?= · )|[\\d,]{1,9} bugs? in [\\d,]{1,15} lines? of sanitizer logs)|"
    r"\s*\{[^{}]{0,400}\{\s*\"tool\": ?\{\s*\"driver\": ?\{\s*\"name\": ?\"(vllm-forensics)\"|"
    r"(?:<\?xml[^>]{0,80}>\s*)?<testsuites[^>]{0,120}>\s*"
    r"<testsuite name=\"(forensics \w{1,20})\"".encode()
)
"""As Markdown, SARIF and JUnit."""
_BINARY: Final = (b"\x7fELF", b"\x89PNG", b"SQLite format 3\0", b"\x80\x02", b"%PDF")


def kind_of(head: bytes) -> SourceKind | None:
    """The kind of a file that is no core; None where it is neither text nor one of ours.

    `head` is how it begins, expanded.
    """
    is_archive = head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar"
    if is_archive or is_journal_export(head):
        return SourceKind.LOG
    if _is_binary(head):
        return None
    lines = [line[:_MAX_LINE] for line in head.splitlines() if line.strip()][:_MAX_LINES]
    if lines and 2 * sum(_TRACED.match(line) is not None for line in lines) > len(lines):
        return SourceKind.STRACE
    objects = [found for line in lines if (found := _object(line)) is not None]
    if objects:
        if any(one.get("event") in _SUPERVISED and "pid" in one for one in objects):
            return SourceKind.SUPERVISOR
        is_recording = str(objects[0].get("schema")).startswith("forensics.sandbox_events/")
        if is_recording or all(one.get("kind") in _EVENTS and "block" in one for one in objects):
            return SourceKind.SANDBOX
    return SourceKind.LOG


def answer_in(head: bytes) -> str | None:
    """What answer of this tool a file is, which is no evidence; None: it is none.

    Its schema where it is JSON, else the words of its first line.
    """
    match = _JSON_ANSWER.match(head) or _TEXT_ANSWER.match(head) or _OTHER_ANSWER.match(head)
    return match[match.lastindex or 0].decode() if match else None


def _is_binary(head: bytes) -> bool:
    if encoding_of(head) is not None:  # every other byte of UTF-16 is zero
        return False
    if head.startswith(_BINARY):
        return True
    head = _HOLE.sub(b"", head) or head
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > _MAX_CONTROLS * len(head) or head.count(0) > _MAX_ZEROS * len(head)


def _object(line: bytes) -> dict[str, object] | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
