"""Python stacks as CPython's own traceback dumper writes them (Python/traceback.c).

The launcher and the preloaded hook write one dump a report, each below a line `== SANITIZER TID`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vllm_forensics.model.sanitized import PythonFrame, PythonStack, PythonThread

_MAX_STACKS: Final = 200
_MAX_FRAMES: Final = 200
_MARK: Final = "== "
_DEATH: Final = "death"
_THREAD: Final = re.compile(r"(?P<current>Current t|T)hread 0x[0-9a-f]+ ?[^\n]*:$")
_FRAME: Final = re.compile(
    r'  File (?:"(?P<file>.{0,4096}?)"|\?\?\?), line (?P<line>\d+|\?\?\?) in '
)


def parse_python_stacks(text: str) -> tuple[PythonStack, ...]:
    """Each dump's stack of the thread that faulted, else of the main thread, in order of writing.

    A dump without a Python frame gives none.
    """
    stacks = []
    for sanitizer, lines in _dumps(text):
        blocks = list(_blocks(lines))
        # The dumper begins with the newest thread: the main one, which is the oldest, is last.
        current = next((frames for is_current, frames in blocks if is_current), None)
        frames = current or (blocks[-1][1] if blocks else ())
        stacks.append(
            PythonStack(
                sanitizer=None if sanitizer == _DEATH else sanitizer,
                thread=PythonThread.CURRENT if current else PythonThread.MAIN,
                frames=frames,
            )
        )
        if len(stacks) == _MAX_STACKS:
            break
    return tuple(stacks)


def _dumps(text: str) -> Iterator[tuple[str, list[str]]]:
    """The lines below each mark, with the sanitizer that it names."""
    sanitizer: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            if sanitizer is not None:
                yield sanitizer, lines
            sanitizer = line.removeprefix(_MARK).split(" ")[0]
            lines = []
        else:
            lines.append(line)
    if sanitizer is not None:
        yield sanitizer, lines


def _blocks(lines: list[str]) -> Iterator[tuple[bool, tuple[PythonFrame, ...]]]:
    """Each thread's frames, and whether it is the one that wrote the dump."""
    found: list[tuple[bool, list[PythonFrame]]] = []
    for line in lines:
        if head := _THREAD.match(line):
            found.append((head["current"] != "T", []))
        elif found and len(found[-1][1]) < _MAX_FRAMES and (frame := _FRAME.match(line)):
            found[-1][1].append(
                PythonFrame(
                    function=line[frame.end() :].strip() or "?",
                    file=frame["file"],
                    line=int(frame["line"]) if frame["line"].isdigit() else None,
                )
            )
    return ((is_current, tuple(frames)) for is_current, frames in found)
