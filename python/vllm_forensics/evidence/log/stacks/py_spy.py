"""py-spy's dump of a living process: who waits for what, and nobody dies.

Format: `Process 42: TITLE`, `Python v3.12.3 (…)`, then of each thread a heading and its frames,
innermost first: `    take (pool.py:12)`, with --native also `    f (libpool.so)`.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.model.incident import SPY, Clue, ClueKind, PythonCall

NEEDLES: Final = (b'): "MainThread"',)
_MAIN: Final = re.compile(
    r"\s{0,8}Thread (?P<tid>\d{1,9}|0x[0-9A-Fa-f]{1,16}) \((?:idle|active)(?:\+gil)?\): "
    r"\"MainThread\""
)
_PYTHON: Final = re.compile(
    r"\s{1,12}(?P<function>[\w<>.]{1,200}) \((?P<file>[^():]{1,240}):(?P<line>\d{1,9})\)\s*$"
)
_NATIVE: Final = re.compile(r"\s{1,12}\S.{0,600} \([^()\s]{1,240}\)\s*$")
_MAX_FRAMES: Final = 128


class SpyBlock:
    """The main thread of a dump."""

    def __init__(self, line: LogLine, pid: int | None) -> None:
        """Begin with its heading."""
        self._line = line
        self._pid = pid
        self._python: list[PythonCall] = []
        self.done = False

    def feed(self, line: LogLine) -> bool:
        """Take a frame; what else comes ends the thread."""
        call = _PYTHON.match(line.text)
        if call is not None and len(self._python) < _MAX_FRAMES:
            self._python.append(
                PythonCall(function=call["function"], file=call["file"], line=int(call["line"]))
            )
        elif call is None and _NATIVE.match(line.text) is None and line.text.strip():
            self.done = True
        return not self.done

    def close(self) -> Clue | None:
        """The stack; None where it holds no frame of Python's."""
        if not self._python:
            return None
        return clue_at(self._line, ClueKind.STACK, SPY, pid=self._pid, python=tuple(self._python))


def open_dump(line: LogLine) -> SpyBlock | None:
    """The heading of a main thread: on Linux its number is the process's."""
    match = _MAIN.match(line.text)
    if match is None:
        return None
    return SpyBlock(line, int(match["tid"]) if match["tid"].isdecimal() else None)
