"""The child that calls libdwfl: a hostile core may crash it, and then costs nobody else anything.

It is started by its file name, without site-packages, and speaks frames of four bytes of length
(big end first) and JSON over its standard streams. Everything that it says is checked by the
parent. See `capture/unwinder.py`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any, BinaryIO, Final

_LENGTH_BYTES: Final = 4


def main(module_path: str) -> None:
    """Answer requests until the parent closes the pipe."""
    unwind = _load(module_path)
    opened = unwind.ElfFiles()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    core: tuple[object, Any] | None = None
    while (request := _read(requests)) is not None:
        try:
            key = (request["core"], request["files"])
            if core is None or core[0] != key:
                core = (key, _open(unwind, opened, request))
            answer = _answer(core[1], request)
        except RuntimeError as error:  # what the C++ side throws
            answer = {"error": str(error)}
        _write(answers, answer)


def _load(path: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader("_unwind", path)
    spec = importlib.util.spec_from_file_location("_unwind", path, loader=loader)
    if spec is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _open(unwind: Any, opened: Any, request: dict[str, Any]) -> Any:
    files = [
        unwind.MappedFile(path=_path(path), debug_path=_path(debug_path), start=start, end=end)
        for path, debug_path, start, end in request["files"]
    ]
    return unwind.CoreStacks(_path(request["core"]), files, opened)


def _answer(core: Any, request: dict[str, Any]) -> dict[str, Any]:
    walks = []
    for pc, registers, innermost, outermost in request["walks"]:
        stack = core.walk(pc, registers, innermost=innermost, outermost=outermost)
        walks.append(
            {
                "frames": [
                    (frame.level, frame.pc, frame.is_call, _text(frame.function))
                    for frame in stack.frames
                ],
                "depth": stack.depth,
                "end": stack.end.name,
            }
        )
    lines = [
        [
            (_text(place.function), _text(place.file), place.line, place.column)
            for place in core.lines_of(pc, is_call)
        ]
        for pc, is_call in request["lines"]
    ]
    return {"walks": walks, "lines": lines}


def _path(text: str) -> bytes:
    """Paths come as one character a byte: they need not be UTF-8."""
    return text.encode("latin-1")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    body = stream.read(int.from_bytes(head, "big"))
    request: dict[str, Any] = json.loads(body)
    return request


def _write(stream: BinaryIO, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
    stream.flush()


if __name__ == "__main__":
    main(sys.argv[1])
