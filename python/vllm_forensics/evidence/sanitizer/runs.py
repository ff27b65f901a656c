"""Lines that come in runs, read many at a time: a stack's frames, a shadow dump and its legend.

They are most of what a report holds. A run is read only where nothing stands before its lines and
each is of the plainest form; what `plain` and the builder say of one such line holds for each of
them. The first line that is of another form ends the run.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from vllm_forensics.evidence.sanitizer.plain import FRAME, frame_of
from vllm_forensics.model.sanitizer import PrintedFrame

LEGEND_NAMES: Final = (
    r"(?:Addressable|Partially addressable|Heap left redzone|Heap right redzone|"
    r"Freed heap region|Stack [a-z ]+|Global [a-z ]+|Poisoned by user|Container overflow|"
    r"Array cookie|Intra object redzone|ASan internal|Left alloca redzone|"
    r"Right alloca redzone|Shadow gap)"
)
"""What a byte of AddressSanitizer's shadow may stand for."""
RUN_BEGINS: Final = (b"    #", b"  0x", b"=>0x", b"Shadow byte", b"  Addressable:")
"""How most runs begin; one that does not is read line by line."""
_WINDOW: Final = 1 << 13
"""So many bytes are looked at for one run."""
_FRAME_LINE: Final = re.compile(rf" {{1,5}}(?!#0\d){FRAME}\n", re.ASCII)
"""Not `#012`: that is how syslog writes a newline."""
_SHADOW: Final = re.compile(
    r"(?:Shadow bytes around the buggy address:\n)?"
    r"(?:(?:=>|  )0x[0-9a-f]{6,16}:(?:[ \[\]][0-9a-f]{2}){16}\]?\n)+"
)
_MARK: Final = re.compile(r"\[([0-9a-f]{2})")
_LEGEND: Final = re.compile(
    r"(?:Shadow byte legend \(one shadow byte represents \d{1,2} application bytes\):\n)?"
    rf"(?:  {LEGEND_NAMES}: {{1,24}}[0-9a-f]{{2}}(?: [0-9a-f]{{2}})* ?\n)+"
)


class Run(NamedTuple):
    """What a run of lines says."""

    size: int
    """In bytes, with the newlines."""
    blank: int
    """1 where an empty line ends the run, which is none of `lines`; else 0."""
    lines: list[str]
    frames: tuple[PrintedFrame, ...] = ()
    shadow_byte: str | None = None
    legend: tuple[tuple[str, list[str]], ...] = ()
    """What each kind of shadow byte stands for, and its values."""


def read_run(data: bytes, position: int, end: int, *, after: int) -> Run | None:
    """The run that begins at a line's start, if one does; `after` is the last frame's number."""
    text = data[position : min(end, position + _WINDOW)].decode("latin-1")
    frames: list[PrintedFrame] = []
    at = 0
    while (match := _FRAME_LINE.match(text, at)) is not None:
        frame = frame_of(match)
        if frame is None or frame.index <= after:
            break
        frames.append(frame)
        after, at = frame.index, match.end()
    if frames:
        blank = int(text.startswith("\n", at))
        return Run(at + blank, blank, text[: at - 1].split("\n"), tuple(frames))
    match = _SHADOW.match(text)
    if match is not None:
        marks = _MARK.findall(match[0])
        byte = marks[0] if marks else None
        return Run(match.end(), 0, _lines(match), shadow_byte=byte) if len(marks) < 2 else None
    match = _LEGEND.match(text)
    if match is None:
        return None
    lines = _lines(match)
    entries = (line.strip().partition(":") for line in lines if line[0] == " ")
    legend = tuple((name.lower(), values.split()) for name, _, values in entries)
    return Run(match.end(), 0, lines, legend=legend)


def _lines(match: re.Match[str]) -> list[str]:
    return match[0][:-1].split("\n")
