"""The lines that most reports are made of, read at once: no prefix, no markup, no oddity.

What is said here is what `lines` and `frames` say too, at a tenth of their cost; where a line is
not of the plainest form, they have to look.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.frames import parse_frame
from vllm_forensics.model.sanitizer import PrintedFrame

_MAX_PLAIN: Final = 4_000
_LETTERS: Final = (
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:/+-*()[]<>#=~'\"@!?$%"
)
_ESCAPED: Final = (b"#012", b"#033")
_MARKUP: Final = re.compile(rb"<[/bp!]|\[[01]m|=3D|=C2=A0")
_HEADS: Final = (
    *(b"==", b"=>0x", b"0x", b"READ of ", b"WRITE of ", b"freed by ", b"previously "),
    *(b"Shadow byte", b"HINT: ", b"Direct leak ", b"Indirect leak "),
)
"""No prefix begins so. Most begin with a letter, a digit or a bracket, none with a blank."""

FRAME: Final = (
    r"#(\d{1,4}) (?:(0x[0-9a-fA-F]+) in |(?!in |pc ))"
    r"([A-Za-z_~][\w:~]*(?:operator (?:new|delete)(?:\[\])?)?(?:\([\w:,*& ]*\))?)"
    r"(?: ([\w./+-]+):(\d{1,9})(?::(\d{1,9}))?| <null>(?= \()|(?= \())"
    r"(?: \(([\w./-]+)\+(0x[0-9a-fA-F]+)\))?(?: \(BuildId: ([0-9a-fA-F]+)\))?"
)
"""The plainest form of a frame, for ASCII text; `frame_of` reads what it matches."""
_FRAME: Final = re.compile(FRAME, re.ASCII)


def plain_line(raw: bytes) -> str | None:
    """A line without its newline as the program wrote it, where nothing had to be taken away."""
    if len(raw) > _MAX_PLAIN or raw.translate(None, _LETTERS):
        return None
    number = raw.rfind(b"#")
    if number > 5 or raw.startswith(_ESCAPED, number) or b"???:0 " in raw:  # UCX's frames in a row
        return None
    if raw.startswith(b" "):
        if raw.lstrip(b" ").startswith((b">", b"[", b"(")):  # quoted, or a process's name
            return None
    elif raw and not raw.startswith(_HEADS):
        return None
    if (b"<" in raw or b"[" in raw or b"=" in raw) and _MARKUP.search(raw) is not None:
        return None
    return raw.decode("ascii")


def read_frame(text: str) -> PrintedFrame | None:
    """One frame out of a stripped line; what `parse_frame` makes of it."""
    match = _FRAME.fullmatch(text)
    frame = frame_of(match) if match is not None else None
    return frame if frame is not None else parse_frame(text)


def frame_of(match: re.Match[str]) -> PrintedFrame | None:
    """The frame that `FRAME` has matched; None where it says neither file nor module."""
    index, pc, function, file, line, column, module, offset, build_id = match.groups()
    if file is None and module is None:
        return None
    return PrintedFrame(
        index=int(index),
        pc=pc,
        function=function,
        file=file,
        line=int(line) or None if line else None,
        column=int(column) or None if column else None,
        module=module,
        offset=offset,
        build_id=build_id,
    )
