"""Turns one physical line of a log into the lines that the program wrote, and names their stream.

A stream is what the prefixes say apart from times: a service, a pod, a process. Lines of two
streams never belong to one report.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from vllm_forensics.evidence.sanitizer.markup import parted, plain_text

MAX_LINE: Final = 1 << 18
"""Longer lines are cut: no runtime prints one, and reading must stay linear."""

MAX_TEXT: Final = 8_192
"""Of a line as the program wrote it, so much is read: names made of templates are long."""


class LogicalLine(NamedTuple):
    """A line as the program wrote it."""

    stream: str
    text: str


_DATE: Final = (
    # GitHub Actions, Kubernetes CRI, docker -t, Jenkins: 2026-01-15T08:12:45.123Z
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?:Z| ?[+-]\d\d:?\d\d| UTC)?\]?(?:[ \t]|$)",
    # journald, syslog: Nov 29 12:25:00
    r"[A-Z][a-z]{2} [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d{1,9})? ",
    # logcat -v threadtime: 11-29 12:00:01.000
    r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9} ",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?[ \t]",
    # the kernel's clock: [  12.345678]
    r"\[ {0,8}\d{1,9}\.\d{1,9}\] ",
)
# A logger's level: INFO, [ERROR] -; but not the ERROR of a header without a process. It changes
# from line to line, and so names no stream.
_LEVEL: Final = (
    r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL|STDOUT|STDERR)\]?"
    r"(?: {1,4}- |: ?| )(?! {0,8}(?:\w{0,24}Sanitizer|libFuzzer|- ))"
)
_AFTER_DATE: Final = (
    # Kubernetes CRI: stderr F
    r"std(?:out|err) [FP](?: |$)",
    # GitLab: 00O
    r"\d\d[OE][ +]",
    # logcat: 4321  4321 I wrap.sh :
    r" {0,8}\d{1,9} {1,8}\d{1,9} [VDIWEF] [^:]{1,40}?: ?",
    # syslog: host program[123]:
    r"[^\s:\[\]=#(,]{1,64} (?!SUMMARY|ERROR|WARNING|HINT|Hint|Cause|Mutex|Thread)"
    r"[^\s:\[\]=#]{1,64}(?:\[\d{1,9}\])?: ?",
)
_ALWAYS: Final = (
    # docker compose, foreman: api-1  |
    r"[\w.@/-]{1,80} {0,40}\|(?: |$)",
    # kubectl logs --prefix, and other tags in brackets: [pod/name/container], [worker-3], [stderr]
    r"\[[A-Za-z][^\]\s]{0,120}\]:?(?: |$)",
    # Ray, vLLM: (EngineCore pid=12)
    r"\([^()=]{0,60}\b(?:pid|PID)=\d{1,9}[^()]{0,80}\)(?: |$)",
    r"\(raylet[^()]{0,80}\)(?: |$)",
    # mpirun --tag-output: [1,0]<stderr>:
    r"\[\d{1,6},\d{1,6}\]<std\w{3}>: ?",
    # ctest -V, srun -l: 12:
    r"\d{1,6}:(?: |$)",
    # pytest
    r"E(?: {3}|$)",
    # gh run view --log: job, step
    r"[^\t]{1,80}\t[^\t]{1,80}\t(?=\d{4}-)",
    r"(?:stderr|stdout|STDERR|STDOUT)(?::| \|)(?: |$)",
)
_QUOTES: Final = (
    # Quoted mail, a table's cell, a level that a CI puts before a line, a heading, Buildkite's
    # clock: part of the text around a log, which often stands before some of its lines only
    r"[ \t]{0,8}> ?",
    r"[ \t]{0,8}\|(?: |$)",
    r"##\[\w{1,12}\]",
    r"#{2,6} (?=\S)",
    r"\x1b?_bk;t=\d{10,16}\x07?",
)
# docker build: #12 3.456
_STEP: Final = r"#\d{1,4} \d{1,6}\.\d{1,4}(?: |$)"
_ANY: Final = re.compile(
    f"(?P<date>{'|'.join(_DATE)})|(?P<step>{_STEP})|(?P<tag>{'|'.join(_ALWAYS)})"
    f"|(?P<quote>{'|'.join(_QUOTES)})",
)
_AFTER: Final = re.compile(f"(?P<level>{_LEVEL})|(?P<tag>{'|'.join(_AFTER_DATE)})")
_ANSI: Final = re.compile(
    r"(?:\x1b|#033|\^\[|\\u001b|\\x1b|\\033)(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]{0,200}(?:\x07|$))"
)
_ANSI_WITHOUT_ESCAPE: Final = re.compile(r"\[\d{0,2}(?:;\d{1,3}){0,4}m")
_PLAIN: Final = ("    #", "  0x", "=>0x", "==", "0x", "SUMMARY: ", "READ of", "WRITE of")
_JSON_KEYS: Final = ("log", "message", "msg", "MESSAGE", "textPayload", "line")
_JSON_STREAMS: Final = ("pod", "pod_name", "container", "container_name", "_PID", "pid")
_WRITTEN_NEWLINE: Final = re.compile(r"\\n(?=\s{0,8}#\d|==|=>|SUMMARY|READ|WRITE|\s{0,4}0x|freed)")
_ESCAPED_NEWLINE: Final = re.compile(r"(?:\\{1,4}r)?\\{1,4}n")
_MARKDOWN: Final = re.compile(r"\\([*_<>\[\]])")
_DRIVE: Final = re.compile(r"[A-Za-z]:\\")
_MAX_PREFIXES: Final = 8
_MARK: Final = re.compile("[;\xa0\ufeff\x1b]|<[/bp!]")
"""What makes a closer look at a line's markup worth while."""


def logical_lines(raw: bytes) -> list[LogicalLine]:
    """One physical line, without its newline, as the program's own lines."""
    text = raw[:MAX_LINE].decode("utf-8", "replace")
    if text.startswith(_PLAIN) and text.find("#", 6) < 0 and _MARK.search(text) is None:
        return [LogicalLine("", text[:MAX_TEXT].rstrip("\r\0"))]
    text = plain_text(_uncolored(text.replace("\0", "")).rstrip("\r"))
    stream, text = strip_prefixes(text)
    if text.startswith("{") and text.rstrip().endswith("}"):
        inner = _from_json(text)
        if inner is not None:
            tag, text = inner
            stream += tag
            text = _uncolored(text.replace("\0", ""))
    if "#012" in text:  # rsyslog writes a newline so
        text = text.replace("#012", "\n")
    elif "\\n" in text and _WRITTEN_NEWLINE.search(text):
        text = _ESCAPED_NEWLINE.sub("\n", text)
    elif " 0x" in text:
        text = parted(text)
    if "\n" not in text:
        return [LogicalLine(stream, text[:MAX_TEXT])]
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [LogicalLine(stream, line.rstrip("\r")[:MAX_TEXT]) for line in lines]


def strip_prefixes(text: str) -> tuple[str, str]:
    """The stream that the prefixes name, and what follows them."""
    position, tags, dated = 0, [], False
    for _ in range(_MAX_PREFIXES):
        match = _ANY.match(text, position)
        if match is None and dated:
            match = _AFTER.match(text, position)
        if match is None:
            break
        if match.lastgroup == "date":
            dated = ":" in match[0]  # behind the kernel's clock stands the kernel's own text
        elif match.lastgroup in {"quote", "level"}:
            pass
        elif match.lastgroup == "step":
            tags.append(match[0].partition(" ")[0])
        else:
            tags.append(match[0].strip())
        position = match.end()
    return " ".join(tags), text[position:]


def _uncolored(text: str) -> str:
    if "\x1b" in text or "#033[" in text or "^[[" in text or "1b[" in text or "\\033[" in text:
        text = _ANSI.sub("", text)
    if "[0m" in text or "[1m" in text:
        text = _ANSI_WITHOUT_ESCAPE.sub("", text)
    if "\\_" in text or "\\*" in text:  # a bug tracker's export: third\_party, char\*
        text = text.replace("\\*", "*") if _DRIVE.search(text) else _MARKDOWN.sub(r"\1", text)
    return text


def _from_json(text: str) -> tuple[str, str] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    for key in _JSON_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            names = [str(record[name]) for name in _JSON_STREAMS if name in record]
            return " ".join(("json", *names)), value
    return None
