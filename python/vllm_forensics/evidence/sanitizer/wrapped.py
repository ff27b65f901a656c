"""Lines that a mail, a terminal or a form has broken in two, made whole again.

A mail breaks at a blank, a terminal at its last column; quoted-printable says so with a `=`.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.frames import parse_frame
from vllm_forensics.model.sanitizer import PrintedFrame

_TERMINALS: Final = frozenset({80, 100, 120, 132, 140, 150, 160, 180, 200})
_PLACE_ALONE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\([^()\s]+\+0x|<null> |\(BuildId: |in ")


def joined(previous: str, text: str, *, width: int) -> str:
    """Two halves as one; `width` is that of the line that `previous` ended with."""
    head, tail = previous.rstrip("\r"), text.strip()
    if head.endswith("="):
        return head[:-1].lstrip() + tail
    blank = not (
        width in _TERMINALS and not head.endswith((" ", ",")) and not _PLACE_ALONE.match(tail)
    )
    return f"{head.strip()} {tail}".lstrip() if blank else head.lstrip() + tail


def better_frame(known: PrintedFrame, whole: str) -> PrintedFrame | None:
    """The frame that a rejoined line is, where it says more about the same call than was known."""
    frame = parse_frame(whole)
    if frame is None or frame.index != known.index or frame.pc != known.pc:
        return None
    if known.module is not None:
        return frame if known.build_id is None and frame.build_id is not None else None
    if known.line is not None:
        return frame if frame.module is not None and frame.line == known.line else None
    said_more = frame.line is not None or frame.module is not None or known.file is None
    return frame if said_more and (frame.file or frame.module) is not None else None


def unfinished(whole: str) -> bool:
    """Is this still not all of a frame: are there brackets that nothing closes?"""
    return whole.count("(") > whole.count(")") or whole.count("<") > whole.count(">")
