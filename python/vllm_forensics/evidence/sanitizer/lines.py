"""Turns one physical line of a log into the lines that the program wrote, and names their stream.

A stream is what the prefixes say apart from times: a service, a pod, a process. Lines of two
streams never belong to one report.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.asked import without_requests
from vllm_forensics.evidence.sanitizer.json_lines import from_json
from vllm_forensics.evidence.sanitizer.markup import is_marked, parted, plain_text
from vllm_forensics.evidence.sanitizer.prefixes import strip_prefixes

MAX_LINE: Final = 1 << 18
"""Longer lines are cut: no runtime prints one, and reading must stay linear."""

MAX_TEXT: Final = 8_192
"""Of a line as the program wrote it, so much is read: names made of templates are long."""

_ODD: Final = bytes((*b"\0\n\r\x1b\\", *range(0x80, 0x100)))
"""Lines that hold these are looked at closely."""
_TELLING: Final = _ODD + b"^&#<=[]"
"""With one of these, each mark begins that a clean line has none of."""
_ANSI: Final = re.compile(
    r"(?:\x1b|#033|\^\[|\\u001b|\\x1b|\\033)(?:\[[0-?]*[ -/]*[@-~]|\](?>[^\x07]{0,200})(?:\x07|$))"
)
_ANSI_WITHOUT_ESCAPE: Final = re.compile(r"\[\d{0,2}(?:;\d{1,3}){0,4}m")
_PLAIN: Final = ("    #", "  0x", "=>0x", "==", "0x", "SUMMARY: ", "READ of", "WRITE of")
_WRITTEN_NEWLINE: Final = re.compile(r"\\n(?=\s{0,8}#\d|==|=>|SUMMARY|READ|WRITE|\s{0,4}0x|freed)")
_ESCAPED_NEWLINE: Final = re.compile(r"(?:\\{1,4}r)?\\{1,4}n")
_MARKDOWN: Final = re.compile(r"\\([*_<>\[\]])")
_BOX: Final = ("\u2502", "\u2503")
_BOXES: Final = re.compile("[ \t]{0,400}[\u2502\u2503]{2} ?")
"""Where two lines of a window were joined when it was copied."""
_NESTED: Final = 2
"""A container runtime puts the lines of a program that writes JSON into JSON of its own."""
_MAX_INDENT: Final = 8
_DRIVE: Final = re.compile(r"[A-Za-z]:\\")
_MARK: Final = re.compile("[;\xa0\ufeff\x1b]|<[/bp!]")
"""What makes a closer look at a line's markup worth while."""


def logical_lines(raw: bytes) -> list[tuple[str, str]]:
    """One physical line, without its newline, as the program's own lines, each with its stream."""
    raw = without_requests(raw)
    text = raw[:MAX_LINE].decode("utf-8", "replace")
    if text.startswith(_PLAIN) and text.find("#", 6) < 0 and _MARK.search(text) is None:
        return [("", text[:MAX_TEXT].rstrip("\r\0"))]
    if is_clean(raw, text):
        stream, text = strip_prefixes(text)
        if text[:1] != "{":
            return [(stream, text[:MAX_TEXT])]
    elif "\r" in text.rstrip("\r\0"):  # a progress bar, which writes over its line
        return [
            line for part in raw[:MAX_LINE].split(b"\r") if part for line in logical_lines(part)
        ]
    else:
        text = plain_text(_uncolored(text.replace("\0", "")).rstrip("\r"))
        stream, text = strip_prefixes(_unboxed(text))
    for _ in range(_NESTED):
        is_json = text.startswith("{") and text.rstrip().endswith("}")
        inner = from_json(text) if is_json else None
        if inner is None:
            break
        tag, text = inner
        own, text = strip_prefixes(_uncolored(text.replace("\0", "")))
        stream = " ".join(filter(None, (stream, tag, own)))
    return _split(stream, text)


def _split(stream: str, text: str) -> list[tuple[str, str]]:
    """A text whose newlines were lost or written out, line by line."""
    if "#012" in text:  # rsyslog writes a newline so
        text = text.replace("#012", "\n")
    elif "\\n" in text and _WRITTEN_NEWLINE.search(text):
        text = _ESCAPED_NEWLINE.sub("\n", text)
    elif " 0x" in text:
        text = parted(text)
    if "\n" not in text:
        return [(stream, text[:MAX_TEXT])]
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [(stream, line.rstrip("\r")[:MAX_TEXT]) for line in lines]


def is_clean(raw: bytes, text: str) -> bool:
    """Is a line as the program wrote it, but for prefixes? Of most lines one look tells."""
    size = len(raw)
    if len(raw.translate(None, _TELLING)) != size and (
        len(raw.translate(None, _ODD)) != size or is_marked(text)
    ):
        return False
    may_be_many = "0x" in text and (
        "Sanitizer: " in text or "???:0 " in text or text.count("#") > 1
    )
    return size <= MAX_LINE and not may_be_many


def without_colors(text: str) -> str:
    """A line without what makes a terminal color it."""
    is_written = "\\" in text and ("1b[" in text or "\\033[" in text)
    if is_written or "\x1b" in text or "#033[" in text or "^[[" in text:
        text = _ANSI.sub("", text)
    if "[0m" in text or "[1m" in text:
        text = _ANSI_WITHOUT_ESCAPE.sub("", text)
    return text


def _uncolored(text: str) -> str:
    text = without_colors(text)
    if "\\" in text and ("\\_" in text or "\\*" in text):
        # a bug tracker's export: third\_party, char\*
        text = text.replace("\\*", "*") if _DRIVE.search(text) else _MARKDOWN.sub(r"\1", text)
    return text


def _unboxed(text: str) -> str:
    """A line without what a terminal's window draws around it."""
    inner = text.lstrip(" \t")
    if inner[:1] not in _BOX or len(text) - len(inner) > _MAX_INDENT:
        return text
    inner = inner[2 if inner[1:2] == " " else 1 :].rstrip(" \t")
    inner = inner[:-1].rstrip(" \t") if inner.endswith(_BOX) else inner
    return _BOXES.sub("\n", inner)
