"""Tells which Python a command starts, and where it is in the command."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Final

from vllm_forensics.capture.process import find_program

_PYTHON: Final = re.compile(r"python(?:\d+(?:\.\d+)*t?)?(?:-(?:asan|ubsan|tsan|dbg)+)*$")
_MAX_LINE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCommand:
    """A command that starts Python."""

    python: str
    """The interpreter's path."""
    arguments: tuple[str, ...]
    """What comes after the interpreter: for a script such as pytest, its path first."""
    script: str | None = None
    """The script's path, where the command named a script and not an interpreter."""


def python_command(command: Sequence[str]) -> PythonCommand | None:
    """The command with its interpreter told apart; None where it is no Python as far as one sees.

    `pytest` and other scripts whose first line names a Python count; `sh -c "python …"` does not.
    """
    program = find_program(command[0])
    if program is None:
        return None
    if _PYTHON.match(Path(program).name):
        return PythonCommand(python=program, arguments=tuple(command[1:]))
    interpreter = _interpreter_of(program)
    if interpreter is None:
        return None
    python, options = interpreter
    return PythonCommand(python=python, arguments=(*options, program, *command[1:]), script=program)


def _interpreter_of(script: str) -> tuple[str, tuple[str, ...]] | None:
    """The Python of a script's first line, also behind `env`, with its options."""
    try:
        with Path(script).open("rb") as lines:
            first = lines.readline(_MAX_LINE)
            second = lines.readline(_MAX_LINE)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode("utf-8", "surrogateescape").split()
    if words and Path(words[0]).name == "env":
        words = list(dropwhile(lambda word: word.startswith("-"), words[1:]))
    if not words:
        return None
    if Path(words[0]).name == "sh":
        # pip's way out where the path is too long or holds a space: '''exec' "…/python" "$0" "$@"
        wrapped = re.match(rb"'''exec' \"?([^\"\n]+?)\"? \"\$0\"", second)
        words = [os.fsdecode(wrapped[1])] if wrapped else words
    python = find_program(words[0])
    if python is None or not _PYTHON.match(Path(words[0]).name):
        return None
    return python, tuple(words[1:])
