"""Stacks by libdwfl, in children of their own: see `worker_pool.py` for why and how."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from vllm_forensics.capture.process import Limits
from vllm_forensics.capture.worker_pool import Closed, WorkerPool, path_as_text
from vllm_forensics.errors import ToolError
from vllm_forensics.model.unwind import (
    MappedFile,
    Walk,
    WalkedFrame,
    WalkedLine,
    WalkEnd,
    WalkStart,
)

_WORKER: Final = Path(__file__).with_name("unwind_worker.py")
_MODULE: Final = "vllm_forensics._unwind"
_HEAP_BYTES: Final = 2 << 30
_REMEDY: Final = "gdb may still read it: forensics core --gdb CORE"


class _WireWalk(msgspec.Struct):
    frames: list[tuple[int, int, bool, str]]
    depth: int
    end: WalkEnd


class _WireAnswer(msgspec.Struct):
    walks: list[_WireWalk] = []
    lines: list[list[tuple[str, str, int, int]]] = []
    error: str | None = None


_DECODE: Final = msgspec.json.Decoder(_WireAnswer).decode
_ENCODE: Final = msgspec.json.Encoder().encode


def unwinder_path() -> str | None:
    """The native module's file, or None where it was built without libdw."""
    try:
        spec = importlib.util.find_spec(_MODULE)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else spec.origin


class Unwinder(Closed):
    """Children that walk stacks, as many as are asked at once; each answers one core at a time.

    The children end with its block. Safe to share between threads.
    """

    def __init__(self, *, timeout_s: float = 30.0) -> None:
        """`timeout_s` is for each question.

        Raises:
            ToolError: the native module is not there.

        """
        path = unwinder_path()
        if path is None:
            raise ToolError(
                "the unwinder was built without elfutils",
                remedy="apt-get install libdw-dev, then install vllm-forensics again from source",
            )
        self._pool = WorkerPool(
            [sys.executable, "-I", "-S", str(_WORKER), path],
            limits=Limits(timeout_s=timeout_s, heap_bytes=_HEAP_BYTES),
        )

    def close(self) -> None:
        """End all children."""
        self._pool.close()

    def prepare(self) -> None:
        """Let a child get ready for the first question; where it cannot, that question tells."""
        with contextlib.suppress(ToolError):
            self._pool.prepare()

    def walk(
        self, core: str, files: Sequence[MappedFile], starts: Sequence[WalkStart]
    ) -> tuple[Walk, ...]:
        """One walk for each start, in order.

        Raises:
            ToolError: libdwfl cannot read the core, or did not survive it twice.

        """
        answer = self._ask(core, files, starts=starts)
        return tuple(
            Walk(
                frames=tuple(
                    WalkedFrame(level=level, pc=pc, is_call=is_call, function=function or None)
                    for level, pc, is_call, function in walk.frames
                ),
                depth=walk.depth,
                end=walk.end,
            )
            for walk in answer.walks
        )

    def lines(
        self, core: str, files: Sequence[MappedFile], places: Sequence[tuple[int, bool]]
    ) -> tuple[tuple[WalkedLine, ...], ...]:
        """The source places of each (pc, is_call), the innermost inlined call first.

        Raises:
            ToolError: as `walk`.

        """
        answer = self._ask(core, files, places=places)
        return tuple(
            tuple(
                WalkedLine(
                    function=function or None,
                    file=file or None,
                    line=line if line > 0 else None,
                    column=column if column > 0 else None,
                )
                for function, file, line, column in found
            )
            for found in answer.lines
        )

    def _ask(
        self,
        core: str,
        files: Sequence[MappedFile],
        *,
        starts: Sequence[WalkStart] = (),
        places: Sequence[tuple[int, bool]] = (),
    ) -> _WireAnswer:
        request = _ENCODE(
            {
                "core": path_as_text(core),
                "files": [
                    (path_as_text(file.path), path_as_text(file.debug_path), file.start, file.end)
                    for file in files
                ],
                "walks": [
                    (start.pc, start.registers, start.innermost, start.outermost)
                    for start in starts
                ],
                "lines": places,
            }
        )
        try:
            answer = self._pool.ask(request, _DECODE)
        except ToolError as error:
            raise ToolError(f"libdw: {error.message}", remedy=_REMEDY) from error
        if answer.error is not None:
            raise ToolError(f"libdw cannot read this core: {answer.error}", remedy=_REMEDY)
        if len(answer.walks) != len(starts) or len(answer.lines) != len(places):
            raise ToolError("the unwinder answered another question", remedy=_REMEDY)
        return answer


_SHARED: Final[list[Unwinder]] = []
_SHARING: Final = threading.Lock()


def shared_unwinder() -> Unwinder | None:
    """The process's unwinder, made at the first question; None where it was built without one."""
    with _SHARING:
        if not _SHARED and unwinder_path() is not None:
            _SHARED.append(Unwinder())
            atexit.register(close_shared_unwinder)
        return _SHARED[0] if _SHARED else None


def prepare_shared_unwinder() -> None:
    """Let a child of this process's unwinder get ready, if there is one."""
    unwinder = shared_unwinder()
    if unwinder is not None:
        unwinder.prepare()


def close_shared_unwinder() -> None:
    """End the children of this process's unwinder; the next question makes a new one."""
    with _SHARING:
        while _SHARED:
            _SHARED.pop().close()
        atexit.unregister(close_shared_unwinder)
