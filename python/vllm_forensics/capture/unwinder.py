"""Stacks by libdwfl, in children of their own: framed requests, limits, respawn, one retry.

A hostile core can crash libdwfl or make it run for ever. Then the child is ended and the core that
it was working on is tried once more, alone in a new child; after that it has no second tier. Other
cores notice nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from vllm_forensics.capture.process import Limits, plain_environment, started
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
_MAX_ANSWER: Final = 64 << 20
_CHUNK: Final = 1 << 16
_LAST_BREATH_S: Final = 2.0
_REMEDY: Final = "the stacks come from gdb then; forensics core --depth full"


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


class Unwinder:
    """Children that walk stacks, as many as are asked at once; each answers one core at a time.

    Use it as a context manager: the children end with it. Safe to share between threads.
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
        self._path = path
        self._timeout_s = timeout_s
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._open = contextlib.ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all children."""
        self.close()

    def close(self) -> None:
        """End all children."""
        self._open.close()

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
                "core": _bytes_of(core),
                "files": [
                    (_bytes_of(file.path), _bytes_of(file.debug_path), file.start, file.end)
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
            answer = self._once(request)
        except _WorkerGoneError:
            try:
                answer = self._once(request)  # one lone retry, in a new child
            except _WorkerGoneError as error:
                raise ToolError(
                    f"libdw did not survive this core: {error}", remedy=_REMEDY
                ) from error
        if answer.error is not None:
            raise ToolError(f"libdw cannot read this core: {answer.error}", remedy=_REMEDY)
        if len(answer.walks) != len(starts) or len(answer.lines) != len(places):
            raise ToolError("the unwinder answered another question", remedy=_REMEDY)
        return answer

    def _once(self, request: bytes) -> _WireAnswer:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker(self._path)
            with self._lock:
                self._open.callback(worker.end)
        try:
            answer = worker.ask(request, self._timeout_s)
        except BaseException:
            worker.end()
            raise
        self._idle.put(worker)
        return answer


def _bytes_of(path: str) -> str:
    """A path's bytes as text that JSON can carry: one character, up to 255, for each."""
    return os.fsencode(path).decode("latin-1")


_SHARED: Final[list[Unwinder]] = []
_SHARING: Final = threading.Lock()


def shared_unwinder() -> Unwinder | None:
    """The process's unwinder, made at the first question; None where it was built without one."""
    with _SHARING:
        if not _SHARED and unwinder_path() is not None:
            _SHARED.append(Unwinder())
            atexit.register(close_shared_unwinder)
        return _SHARED[0] if _SHARED else None


def close_shared_unwinder() -> None:
    """End the children of this process's unwinder; the next question makes a new one."""
    with _SHARING:
        while _SHARED:
            _SHARED.pop().close()
        atexit.unregister(close_shared_unwinder)


class _WorkerGoneError(Exception):
    """A child died, hung, or said what it never should."""


class _Worker:
    def __init__(self, module_path: str) -> None:
        self._scope = contextlib.ExitStack()
        self._child = self._scope.enter_context(
            started(
                [sys.executable, "-I", "-S", str(_WORKER), module_path],
                limits=Limits(heap_bytes=_HEAP_BYTES),
                environment=plain_environment({"DEBUGINFOD_URLS": ""}),
            )
        )

    def end(self) -> None:
        """Kill the child and reap it; more than once does no harm."""
        self._scope.close()

    def ask(self, request: bytes, timeout_s: float) -> _WireAnswer:
        """Send one request and read its answer.

        Raises:
            _WorkerGoneError: the child died, was too slow, or answered nonsense.

        """
        deadline = time.monotonic() + timeout_s
        try:
            self._send(len(request).to_bytes(4, "big") + request, deadline)
            size = int.from_bytes(self._receive(4, deadline), "big")
            if size > _MAX_ANSWER:
                raise _WorkerGoneError("its answer has no end")
            return _DECODE(self._receive(size, deadline))
        except BrokenPipeError as error:
            raise _WorkerGoneError(self._epitaph()) from error
        except msgspec.DecodeError as error:
            raise _WorkerGoneError(f"it answered nonsense: {error}") from error

    def _send(self, data: bytes, deadline: float) -> None:
        pipe = self._child.stdin
        if pipe is None:
            raise _WorkerGoneError("its pipe is missing")
        descriptor = pipe.fileno()
        os.set_blocking(descriptor, False)
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_WRITE)
            rest = memoryview(data)
            while rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise _WorkerGoneError("it did not read its request in time")
                rest = rest[os.write(descriptor, rest[:_CHUNK]) :]

    def _receive(self, size: int, deadline: float) -> bytes:
        pipe = self._child.stdout
        if pipe is None:
            raise _WorkerGoneError("its pipe is missing")
        data = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while len(data) < size:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise _WorkerGoneError("no answer in time")
                chunk = os.read(pipe.fileno(), min(size - len(data), _CHUNK))
                if not chunk:
                    raise _WorkerGoneError(self._epitaph())
                data += chunk
        return bytes(data)

    def _epitaph(self) -> str:
        """How it ended, once its pipes are closed."""
        try:
            status = self._child.wait(timeout=_LAST_BREATH_S)
        except subprocess.TimeoutExpired:
            return "it closed its pipes"
        return f"signal {-status}" if status < 0 else f"exit status {status}"
