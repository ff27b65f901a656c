"""Python's frames in a debugger's session: gdb's py-bt, and what it shows of the interpreter's.

Format: Tools/gdb/libpython.py. `py-bt` prints a traceback, innermost call first; `py-bt-full` and
the arguments of the interpreter's own frames name a frame object.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.incident import PythonCall

HEADING: Final = "Traceback (most recent call first)"
"""py-bt's first line; a traceback that was raised begins with the outermost call."""
_CALL: Final = re.compile(
    r"\s{0,8}(?:#\d{1,3} )?File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9}), in "
    r"(?P<function>\S.{0,200})"
)
_OBJECT: Final = re.compile(
    r"Frame 0x[0-9a-f]{4,16}, for file (?P<file>[^,]{1,400}), line (?P<line>\d{1,9}), in "
    r"(?P<function>[^\s(]{1,200}) \("
)
_LISTED: Final = re.compile(
    r"\s{2,8}(?P<file>[^\s(][^(]{0,300}\.py|<[^<>]{1,80}>)\((?P<line>\d{1,9})\): "
    r"(?P<function>\S.{0,200})"
)
"""pybind11's, in what() of an exception of Python's that nobody caught."""
_FULL: Final = re.compile(r"\s*#\d{1,4} Frame 0x")
_LIST: Final = re.compile(
    r"\s*(?:<built-in |\(?unable to read|<method-wrapper |Waiting for|Garbage-)"
)
_MAX_FRAMES: Final = 64


class DebuggersPython:
    """The calls that one session shows, of each way of telling them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._printed: list[PythonCall] = []
        self._full: list[PythonCall] = []
        self._arguments: list[PythonCall] = []
        self._is_open = False
        self._is_source = False

    def feed(self, text: str) -> bool:
        """Take the line in; is it Python's alone, and no native frame?"""
        if HEADING in text:
            self._is_open, self._is_source = not self._printed, False
            return True
        if self._is_open:
            match = _CALL.match(text)
            if match is not None:
                _keep(match, self._printed)
            elif not self._is_source and _LIST.match(text) is None:
                self._is_open = False
            self._is_source = match is not None
            if self._is_open:
                return True
        if "): " in text and (match := _LISTED.match(text)) is not None:
            _keep(match, self._printed)
            return True
        if ", for file " not in text or (match := _OBJECT.search(text)) is None:
            return False
        is_full = _FULL.match(text) is not None
        _keep(match, self._full if is_full else self._arguments)
        return is_full

    def calls(self) -> tuple[PythonCall, ...]:
        """The innermost first."""
        return tuple(self._printed or self._full or self._arguments)


def _keep(match: re.Match[str], calls: list[PythonCall]) -> None:
    if len(calls) < _MAX_FRAMES:
        function, file, line = match["function"].strip(), match["file"], int(match["line"])
        calls.append(PythonCall(function=function, file=file, line=line))
