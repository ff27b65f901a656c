"""What is said of a death in lines above the one that names the signal.

macOS, LLDB, gdb and Android name the process there, torchrun which of many failures it saw first,
and a person at a prompt what he typed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import base_name
from vllm_forensics.model.incident import Clue, ClueKind, PythonCall

NEEDLES: Final = (
    b", tid: ",
    b"Process:  ",
    b" stopped",
    b"[New LWP ",
    b" launched: '",
    b"Root Cause (first obs",
    b"Process Process-",
    b"Process Spawn",
    b"Process Fork",
    b"Process EngineCore",
    b"Process VllmWorker",
    b"Process Worker",
    b" failed with traceback:",
    b">>> import ",
    b">>> from ",
    b"class_name: ",
    b' -c "import ',
    b" -c 'import ",
)
_PROCESS: Final = re.compile(
    r"\W{0,6}Process(?:: {2,24}(?P<name>\S[^\[\]]{0,60}) \[(?P<pid>\d{1,9})\]|"
    r" (?P<stopped>\d{1,9}) (?:stopped\b|launched: '(?P<path>[^']{1,400})'))"
    r"|(?:.{0,80}: )?pid: (?P<android>\d{1,9}), tid: \d{1,9}, name: .{1,60} >>> (?P<app>\S{1,80})"
)
_LWP: Final = re.compile(r"\[New LWP (?P<tid>\d{1,9})\]")
"""gdb's, of each thread of a core. A process with one thread has its number."""
_CORED: Final = "Program terminated with signal"
_ROOT: Final = "Root Cause (first observed failure)"
_CHILD: Final = re.compile(
    r"\W{0,4}(?:Process (?P<name>[\w.:-]{1,60}):|"
    r"(?P<loky>\w{1,40}-\d{1,6}) failed with traceback:)\s*$"
)
"""multiprocessing's and loky's heading of a child's traceback."""
_TYPED: Final = re.compile(
    r"(?:.{0,120}\bpython[\d.]{0,6}(?: -\w{1,20}){0,4} -c [\"'])?"
    r"(?:import (?P<module>[\w.]{1,80})|from (?P<package>[\w.]{1,80}) import )"
)
"""At Python's prompt, which is taken off like the marks of a quoted mail, or at the shell's."""
_ANSWER: Final = 8
"""So many lines below what was typed, its answer is read."""
_CLASS: Final = re.compile(r"\s+class_name: (?:[\w.<>]{1,200}\.)?(?P<name>\w{1,80})\s*$")
"""Ray's record of a dead actor: its class stands above its number."""
_HEADING: Final = 3
"""So many lines stand at most between that heading and the traceback."""
_REACH: Final = 40
_TABLE: Final = 9
"""So many lines of torchrun's table tell of one failure."""


class _Process(NamedTuple):
    line: int
    pid: int
    name: str | None


def _process(match: re.Match[str], line: int, before: _Process | None) -> _Process:
    """Who stopped; LLDB told its name where it started it."""
    pid = int(match["pid"] or match["stopped"] or match["android"])
    name = match["name"] or base_name(match["path"]) or match["app"]
    if name is None and before is not None and before.pid == pid:
        name = before.name
    return _Process(line, pid, name)


class Record:
    """The last such lines."""

    def __init__(self) -> None:
        """Know nothing."""
        self._process: _Process | None = None
        self._threads: set[int] = set()
        self._root = -_TABLE - 1
        self._child: tuple[int, str] | None = None
        self._actor: tuple[int, str] | None = None
        self._typed: tuple[int, str] | None = None

    def note(self, line: LogLine) -> bool:
        """Remember what the line says, where it is one of them."""
        if (match := _PROCESS.match(line.text)) is not None:
            self._process = _process(match, line.number, self._process)
        elif (match := _LWP.match(line.text)) is not None:
            self._threads.add(int(match["tid"]))
        elif (match := _CHILD.match(line.text)) is not None:
            self._child = line.number, match["name"] or match["loky"]
        elif (match := _CLASS.match(line.text)) is not None:
            self._actor = line.number, match["name"]
        elif (match := _TYPED.match(line.text)) is not None:
            self._typed = line.number, match["module"] or match["package"]
        elif _ROOT in line.text:
            self._root = line.number
        else:
            return False
        return True

    def child_above(self, line: int) -> str | None:
        """The child that a heading right above the line names."""
        if self._child is None or line - self._child[0] > _HEADING:
            return None
        return self._child[1]

    def complete(self, clue: Clue) -> Clue:
        """The clue, with what the lines above say of the same process."""
        process = self._process if clue.source in {"macOS", "Android"} else None
        if process is not None and clue.pid is None:
            is_near = clue.line - process.line <= _REACH
            return replace(clue, pid=process.pid, name=process.name) if is_near else clue
        if clue.source == "ray" and clue.name is None and self._actor is not None:
            line, name = self._actor
            return replace(clue, name=name) if clue.line - line <= _HEADING else clue
        if clue.text.startswith(_CORED):
            threads, self._threads = self._threads, set()
            return replace(clue, pid=threads.pop()) if len(threads) == 1 else clue
        if clue.kind is ClueKind.SIGNAL and self._typed is not None and not clue.native:
            line, module = self._typed
            if 0 < clue.line - line <= _ANSWER:
                call = PythonCall(function=f"import {module}", file="<stdin>", line=1)
                return replace(clue, python=(call,))
        if clue.kind is ClueKind.CHILD and clue.line - self._root <= _TABLE:
            return replace(clue, is_root=True)
        return clue
