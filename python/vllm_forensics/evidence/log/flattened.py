"""Lines that a copy joined into one, with blanks for newlines: a traceback, a log of vLLM's.

A line that was written behind a progress bar is parted from it.

What has a form of its own at each line's beginning can be parted again: Python's frames, the words
between two tracebacks, c10's frames, the prefix that a logger puts before every line.
"""

from __future__ import annotations

import re
from typing import Final

_LEVEL: Final = rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_HEAD: Final = rb"(?:\([\w ]{1,40} pid=\d{1,9}\) ){1,2}"
_BEHIND: Final = rb"(?<!pid=\d\))(?<!\d\d\)) {1,4}"
"""No tag stands before it, which is of the same line."""
_ENTRY: Final = re.compile(
    # (EngineCore_DP0 pid=12) ERROR 11-08 11:01:29 [core.py:502]
    _BEHIND + rb"(?=(?:" + _HEAD + rb")?" + _LEVEL + rb" \d\d-\d\d \d\d:\d\d:\d\d \[)"
)
_TAG: Final = re.compile(_BEHIND + rb"(?=" + _HEAD + rb"\S)")
_TAGGED: Final = re.compile(_HEAD)
_MANY: Final = 4
"""So many tags stand in no line of one writer."""
_FRAME: Final = b'File "'
_PLACE: Final = rb'File "[^"]{1,400}", line \d{1,9}'
_HEADED: Final = re.compile(rb"\(most recent call last\):\s{1,40}File \"")
_BREAKS: Final = re.compile(
    rb"\s{1,8}(?=" + _PLACE + rb"\b|Traceback \(most recent call last\)|"
    rb"(?:Current thread|Thread) 0x[0-9a-f]{6,16} |"
    rb"(?:During handling of the above|The above) exception)"
)
_SOURCE: Final = re.compile(rb"(" + _PLACE + rb",? in (?:<\w{1,20}>|[\w.]{1,200}))[ \t]{1,8}(?=\S)")
"""Behind a frame stands its source, or nothing of it."""
_RAISED: Final = re.compile(
    rb" {1,4}(?=(?:[A-Za-z_]\w{0,40}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Exit|Interrupt|Timeout)"
    rb"(?:: |\s*$))"
)
_C10: Final = re.compile(rb"\s{1,8}(?=frame #\d{1,3}: )")
_MAX: Final = 1 << 16
_BAR: Final = re.compile(
    # Processed prompts:  50%|█████     | 2/4 [00:01<00:01, 1.52it/s]!!!!!!! Segfault encountered
    rb"[^\[\]()]{0,400}\| {0,4}[\w.?]{1,16}/[\w.?]{1,16} "
    rb"\[(?:\d{1,4}:){1,3}\d\d<[^\[\]\r]{1,160}/s[^\[\]\r]{0,160}\] {0,2}(?=[^\s])"
)
"""tqdm's, which ends without a newline: the next who writes does so right behind it."""


def without_bar(raw: bytes) -> bytes:
    """What was written behind a progress bar that stood in the terminal's last line."""
    start = raw.rfind(b"\r", 0, len(raw) - 1) + 1
    bar = _BAR.match(raw, start) if raw.find(b"<", start) >= 0 else None
    return raw if bar is None else raw[bar.end() :]


def unflattened(raw: bytes) -> list[bytes]:
    """The lines that one physical line was made of: itself alone where it is one."""
    if len(raw) > _MAX:
        return [raw]
    if raw.count(b"frame #") > 1:
        return _C10.split(raw)
    lines = [raw]
    if raw.count(b" pid=") >= _MANY:
        lines = _TAG.split(raw)
    elif raw.count(b".py:") > 1:
        lines = _ENTRY.split(raw)
    return [part for line in lines for part in _of_traceback(line)]


def _of_traceback(line: bytes) -> list[bytes]:
    """A traceback's lines, each behind the prefix that stands before the first."""
    if not line.count(_FRAME) or (line.count(_FRAME) == 1 and _HEADED.search(line) is None):
        return [line]
    tag = _TAGGED.match(line)
    prefix = tag[0] if tag is not None else b""
    return [prefix + part for part in _parts(line[len(prefix) :])]


def _parts(line: bytes) -> list[bytes]:
    parts: list[bytes] = []
    for part in _BREAKS.split(line):
        if not part.startswith(_FRAME):
            parts.append(part)
            continue
        frame, below = _SOURCE.sub(rb"\1\n", part, count=1).partition(b"\n")[::2]
        parts.append(b"  " + frame)
        source, *raised = _RAISED.split(b" " + below, maxsplit=1) if below else [b""]
        parts += [b"    " + source.strip()] if source.strip() else []
        parts += raised
    return parts
