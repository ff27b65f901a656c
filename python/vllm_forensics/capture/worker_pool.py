"""Children that read hostile files for us: framed requests, limits, respawn, one lone retry.

A child that crashes, hangs or answers nonsense is ended, and the request that it was working on is
tried once more, alone in a new child. Other requests notice nothing. A frame is four bytes of
length, big end first, and so many bytes.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Final, Self, TypeVar

from vllm_forensics.capture.process import Limits, plain_environment, started
from vllm_forensics.errors import ToolError

T = TypeVar("T")

_MAX_ANSWER: Final = 64 << 20
_CHUNK: Final = 1 << 16
_LENGTH_BYTES: Final = 4
_LAST_BREATH_S: Final = 2.0


def path_as_text(path: str) -> str:
    """A path's bytes as text that JSON can carry: one character, up to 255, for each."""
    return os.fsencode(path).decode("latin-1")


class WorkerGoneError(Exception):
    """A child died, was too slow, or said what it never should."""


class Closed:
    """Something that is closed at the end of its block."""

    def __enter__(self) -> Self:
        """The thing itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Give back what it holds; more than once does no harm."""
        raise NotImplementedError


class WorkerPool(Closed):
    """As many children as are asked at once. Safe to share between threads; ends with its block."""

    def __init__(self, command: Sequence[str], *, limits: Limits) -> None:
        """`command` starts a child; `limits.timeout_s` is for each answer. Nothing starts yet."""
        self._command = tuple(command)
        self._limits = limits
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._open = contextlib.ExitStack()
        self._lock = threading.Lock()

    def close(self) -> None:
        """End all children."""
        self._open.close()

    def prepare(self) -> None:
        """Start a child ahead of the first request: it gets ready while others work.

        Raises:
            ToolError: it could not be started.

        """
        self._idle.put(self._started())

    def ask(self, request: bytes, decode: Callable[[bytes], T]) -> T:
        """The answer to one request; `decode` raises ValueError on what is none.

        Raises:
            ToolError: no child survived the request, twice.

        """
        try:
            return self._once(request, decode)
        except WorkerGoneError:
            try:
                return self._once(request, decode)
            except WorkerGoneError as error:
                raise ToolError(
                    f"its reader did not survive it: {error}", remedy="look for another copy of it"
                ) from error

    def _started(self) -> _Worker:
        worker = _Worker(self._command, self._limits)
        with self._lock:
            self._open.callback(worker.end)
        return worker

    def _once(self, request: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._started()
        try:
            answer = decode(worker.ask(request))
        except ValueError as error:
            worker.end()
            raise WorkerGoneError(f"it answered nonsense: {error}") from error
        except BaseException:
            worker.end()
            raise
        self._idle.put(worker)
        return answer


class _Worker:
    def __init__(self, command: Sequence[str], limits: Limits) -> None:
        self._timeout_s = limits.timeout_s
        self._scope = contextlib.ExitStack()
        environment = plain_environment({"DEBUGINFOD_URLS": ""})
        self._child = self._scope.enter_context(
            started(command, limits=limits, environment=environment)
        )

    def end(self) -> None:
        """Kill the child and reap it; more than once does no harm."""
        self._scope.close()

    def ask(self, request: bytes) -> bytes:
        """Send one request and read its answer.

        Raises:
            WorkerGoneError: the child died, was too slow, or answers without end.

        """
        deadline = time.monotonic() + self._timeout_s
        try:
            self._send(len(request).to_bytes(_LENGTH_BYTES, "big") + request, deadline)
            return self._receive(deadline)
        except BrokenPipeError as error:
            raise WorkerGoneError(self._epitaph()) from error

    def _send(self, data: bytes, deadline: float) -> None:
        descriptor = _open_pipe(self._child.stdin).fileno()
        os.set_blocking(descriptor, False)
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
            except BlockingIOError:
                if not _ready(descriptor, select.POLLOUT, deadline):
                    raise WorkerGoneError("it did not read its request in time") from None

    def _receive(self, deadline: float) -> bytes:
        """One frame; a child that says more than it was asked is not believed."""
        descriptor = _open_pipe(self._child.stdout).fileno()
        data, size = bytearray(), _LENGTH_BYTES
        while len(data) < size:
            if not _ready(descriptor, select.POLLIN, deadline):
                raise WorkerGoneError("no answer in time")
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                raise WorkerGoneError(self._epitaph())
            data += chunk
            if len(data) >= _LENGTH_BYTES:
                size = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
            if size > _MAX_ANSWER:
                raise WorkerGoneError("its answer has no end")
        if len(data) > size:
            raise WorkerGoneError("it answered more than it was asked")
        return bytes(data[_LENGTH_BYTES:])

    def _epitaph(self) -> str:
        """How it ended, once its pipes are closed."""
        try:
            status = self._child.wait(timeout=_LAST_BREATH_S)
        except subprocess.TimeoutExpired:
            return "it closed its pipes"
        return f"signal {-status}" if status < 0 else f"exit status {status}"


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    """Wait until a pipe can be used, or is closed; False at the deadline."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _open_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None or pipe.closed:
        raise WorkerGoneError("its pipe is closed")
    return pipe
