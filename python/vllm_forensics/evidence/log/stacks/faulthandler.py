"""faulthandler's dumps and the interpreter's own fatal errors.

Formats: Python/traceback.c and Modules/faulthandler.c, 3.9 to 3.15. From 3.10 on the list of
extension modules follows, from 3.14 on names of threads and the C stack.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import Family, Phrase, base_name, clue_at, signal_in
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall, PythonCall

NEEDLES: Final = (
    b"Fatal Python error: ",
    b"Windows fatal exception: ",
    b"Timeout (",
    b"Extension modules: ",
    b"Current thread 0x",
)
_HEADER: Final = re.compile(
    # pytest's progress may stand before it in the same line: ..s.F
    r"(?:^|.*?[^`\w'\"\u2018\u201c]|.{0,200}?[.sxXFEpP]{3,400})?"
    r"(?P<who>Fatal Python error|Windows fatal exception): (?P<what>\S.{0,300})"
)
_SIGNALS: Final = re.compile(
    r"(?i:segmentation fault|aborted|bus error|illegal instruction|floating[ -]point (?:error|"
    r"exception)|access violation|stack overflow|code 0x[0-9a-f]+)(?:(?!\w)(?!: )|(?=(?-i:[A-Z])))"
)
_AGAIN: Final = re.compile(r"^(?:[A-Z]\w{2,20} (?:fault|error|0x))?(?:Fatal Python error: )+")
"""Threads that die at once write into each other's lines."""
_PARACHUTE: Final = re.compile(r"(?:\w{1,40}: )?\(\w[\w ]{0,38}\) (?=\w)")
"""A library's own handler, which calls Py_FatalError: `pygame_parachute: (pygame parachute) …`."""
DUMPS: Final = Family(
    source="faulthandler",
    phrases=tuple(
        Phrase(
            ClueKind.SIGNAL,
            needle,
            rf"[`'\"\u201c]{needle}(?P<signal>Segmentation fault|Aborted|Bus error|"
            r"Illegal instruction|access violation|stack overflow)\b",
            f"With it enabled I only get `{needle}{words}`.",
        )
        for needle, words in (
            ("Fatal Python error: ", "Aborted"),
            ("Windows fatal exception: ", "access violation"),
        )
    ),
)
"""A dump's heading in a sentence that quotes it; what is printed opens a dump."""
_SURVIVED: Final = re.compile(r"code 0x(?:8001010[0-9a-f]|40010006|406d1388|e06d7363|e0434352)$")
"""Windows' exceptions that somebody further out catches: COM's, a debugger's, C++'s and .NET's."""
_DAMAGE: Final = re.compile(r"bad (?:leading|trailing) pad byte|bad ID: Allocated using API")
"""Of the interpreter's own allocator with PYTHONMALLOC=debug."""
_FIRST: Final = "(most recent call first"
_THREAD: Final = re.compile(
    r"\s*(?:(?P<current>Current thread|Stack)|Thread)\b[^\"]{0,120}"
    r"\(most recent call first(?:, approximate line numbers)?\):"  # the latter is PyPy's
)
_FRAME: Final = re.compile(
    r"\s*File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9}|\?{1,3}),? in "
    r"(?P<function>\S.{0,200})"
)
_TWICE: Final = re.compile(
    r"\s*(?:File\s{1,4}){2,8}\"{2,8}(?P<file>[^\"]{1,300}?)(?P=file){1,7}\"{2,8}(?:, line ){2,8}"
    r"(?P<line>\d{1,6}?)(?P=line){1,7}(?: in\s{1,2}){2,8}(?P<function>[\w<>]{1,100}?)"
    r"(?P=function){1,7}\s*$"
)
"""One frame of several processes that die alike, and write each word at the same time."""
_BINARY: Final = re.compile(
    r"\s*Binary file \"(?P<module>[^\"]{1,400})\"(?:, at (?P<function>[^+\[]{0,300})"
    r"\+?(?P<offset>0x[0-9a-f]+)?)? ?\[0x[0-9a-f]+\]"
)
_TIMEOUT: Final = re.compile(r"Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!")
_MAX_FRAMES: Final = 128
_PATIENCE: Final = 40
_MODULES: Final = "Extension modules: "
"""The last line of a dump, which only a fatal error's has."""
_PLAIN: Final = ("Python runtime state", "  Garbage-collecting", "  <")


class FaultBlock:
    """One dump, while it is read."""

    def __init__(self, line: LogLine, what: str) -> None:
        """Begin with the line that names the error; `what` is empty where that was cut off."""
        caught = _PARACHUTE.match(what)
        is_signal = _SIGNALS.match(what, caught.end() if caught is not None else 0) is not None
        is_heap = _DAMAGE.search(what) is not None
        self._is_timeout = _TIMEOUT.match(what) is not None
        kind = ClueKind.SIGNAL if is_signal else ClueKind.HEAP if is_heap else ClueKind.ABORT
        kind = kind if what else ClueKind.STACK
        signal = signal_in(what) if is_signal else "SIGABRT" if what else None
        if _SURVIVED.match(what) is not None:
            kind = ClueKind.STACK
        self._clue = clue_at(
            line,
            ClueKind.HANG if self._is_timeout else kind,
            "faulthandler",
            signal=None if self._is_timeout else signal,
            detail=None if is_signal and kind is not ClueKind.STACK else what or None,
        )
        self._python: list[PythonCall] = []
        self._native: list[NativeCall] = []
        self._in_current = True  # what stands below no thread's heading was cut to the one
        self._threads = 0
        self._only: list[PythonCall] = []
        """Of the first thread that is not said to be the current one."""
        self._silent = 0
        self._ended = False

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where it is a part of the dump."""
        text = line.text
        taken = True
        begin = text.lstrip()[:4]
        if begin == "File" and (frame := _FRAME.match(text) or _TWICE.match(text)) is not None:
            self._take_frame(frame)
        elif _FIRST in text and (thread := _THREAD.match(text)) is not None:
            self._in_current = thread["current"] is not None or self._is_timeout
            self._threads += 1
            if self._is_timeout:
                self._python.clear()
        elif begin == "Bina" and (binary := _BINARY.match(text)) is not None:
            if len(self._native) < _MAX_FRAMES:
                self._native.append(
                    NativeCall(
                        function=(binary["function"] or "").strip() or None,
                        module=base_name(binary["module"]),
                        offset=binary["offset"],
                    )
                )
        elif text.startswith(_MODULES):
            self._ended = True
            if self._clue.kind is ClueKind.STACK:
                self._clue = replace(self._clue, kind=ClueKind.SIGNAL)
        elif begin and not text.startswith(_PLAIN):
            taken = False
            self._in_current = self._in_current and self._threads > 0
        self._silent = 0 if taken else self._silent + 1
        return taken

    def _take_frame(self, frame: re.Match[str]) -> None:
        calls = self._python if self._in_current else self._only
        if len(calls) >= _MAX_FRAMES or not (self._in_current or self._threads == 1):
            return
        number = frame["line"]
        calls.append(
            PythonCall(
                function=frame["function"].partition("  <")[0].strip(),
                file=frame["file"],
                line=int(number) if number.isdecimal() else 0,
            )
        )

    @property
    def done(self) -> bool:
        """Is nothing more of it to come?"""
        return self._ended or self._silent > _PATIENCE

    def close(self) -> Clue:
        """The clue with all that came."""
        python = self._python or (self._only if self._threads == 1 else [])
        return replace(self._clue, python=tuple(python), native=tuple(self._native))


def _open_timeout(line: LogLine) -> FaultBlock | None:
    """`dump_traceback_later`: all threads, the main thread last."""
    match = _TIMEOUT.match(line.text)
    return FaultBlock(line, match[0]) if match is not None else None


def open_fault(line: LogLine, *, is_alone: bool) -> FaultBlock | None:
    """A dump that begins in this line; without its head, where no other dump is being read."""
    if line.text.startswith("Timeout ("):
        return _open_timeout(line)
    if is_alone and line.text.startswith((_MODULES, "Current thread 0x")):
        block = FaultBlock(line, "")
        block.feed(line)
        return block
    if "atal Python error: " not in line.text and "Windows fatal ex" not in line.text:
        return None
    match = _HEADER.match(line.text)
    if match is None:
        return None
    return FaultBlock(line, _AGAIN.sub("", match["what"]).strip())
