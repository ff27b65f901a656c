"""The only place that starts programs. Each has a deadline; its process group ends with it."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Final, NoReturn

from vllm_forensics.errors import ToolError
from vllm_forensics.model.record import dataclass

_KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TERM", "LD_LIBRARY_PATH")
_CHUNK: Final = 1 << 16
_TICK_S: Final = 1.0
# A limit that is set from outside may come too late: a demo dies within a millisecond.
_CORES_ALLOWED: Final = (
    *("/bin/sh", "-c"),
    'ulimit -c unlimited 2>/dev/null || ulimit -S -c "$(ulimit -H -c)"; exec "$@"',
    "sh",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a program may use: wall time in seconds, output in bytes, address space in bytes."""

    timeout_s: float = 60.0
    output_bytes: int = 64 << 20
    memory_bytes: int | None = None
    heap_bytes: int | None = None
    """RLIMIT_DATA: what it allocates; files that it maps for reading do not count."""
    core_bytes: int | None = 0
    """RLIMIT_CORE of the child: 0 leaves none, None leaves the limit as it is, -1 lifts it as far
    as it may be lifted, before the program starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a program ended, and what it printed."""

    status: int
    """Exit status, or minus the signal's number."""
    stdout: bytes
    stderr: bytes
    pid: int


def find_program(name: str) -> str | None:
    """The program's path, or None where it is not installed."""
    return shutil.which(name)


def plain_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A small environment for tools: nothing of the user's changes what they print or fetch."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | {"LC_ALL": "C.UTF-8"} | dict(extra or {})


def run_program(
    arguments: Sequence[str],
    *,
    limits: Limits,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> Completed:
    """Run to the end and gather the output; `on_output` sees each piece as it comes.

    Raises:
        ToolError: not found, or not finished within the limits.

    """
    with started(arguments, limits=limits, cwd=cwd, environment=environment) as child:
        output = _drain(child, limits, arguments[0], on_output)
        status = child.wait(timeout=max(limits.timeout_s, 1))
    return Completed(status=status, stdout=output["stdout"], stderr=output["stderr"], pid=child.pid)


def first_line(*command: str, timeout_s: float = 10.0) -> str | None:
    """What a tool prints first; None where it is not installed, fails or is slow."""
    if find_program(command[0]) is None:
        return None
    try:
        done = run_program(command, limits=Limits(timeout_s=timeout_s))
    except ToolError:
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip() if lines and done.status == 0 else None


@contextlib.contextmanager
def started(
    arguments: Sequence[str],
    *,
    limits: Limits,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running program with its three pipes; its process group is killed at the end of the block.

    Raises:
        ToolError: the program could not be started.

    """
    command = list(arguments)
    if limits.core_bytes == -1 and find_program(command[0]) is not None:
        command = [*_CORES_ALLOWED, *command]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env=dict(environment) if environment is not None else plain_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(
            f"{arguments[0]} could not be started: {error.strerror}",
            remedy=f"install it, or put it on PATH (apt-get install {Path(arguments[0]).name})",
        ) from error
    try:
        _limit(child.pid, limits)
        yield child
    finally:
        end_group(child)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's whole process group and reap the child. gdb ignores milder signals."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()


def _limit(pid: int, limits: Limits) -> None:
    wanted = [
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_DATA, limits.heap_bytes),
        (resource.RLIMIT_CORE, limits.core_bytes),
    ]
    for kind, value in wanted:
        if value is None or value < 0:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            _, hard = resource.prlimit(pid, kind)
            soft = value
            if resource.RLIM_INFINITY not in {hard, soft}:
                soft = min(soft, hard)
            resource.prlimit(pid, kind, (soft, hard))


def _drain(
    child: subprocess.Popen[bytes],
    limits: Limits,
    name: str,
    on_output: Callable[[bytes], None] | None,
) -> dict[str, bytes]:
    """Read both pipes until they close; never wait for one while the other is full."""
    deadline = time.monotonic() + limits.timeout_s
    found = {"stdout": bytearray(), "stderr": bytearray()}
    if child.stdin is not None:
        child.stdin.close()
    with selectors.DefaultSelector() as selector:
        for key, pipe in (("stdout", child.stdout), ("stderr", child.stderr)):
            selector.register(_required(pipe), selectors.EVENT_READ, key)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise ToolError(
                    f"{name} did not finish within {limits.timeout_s:g} s",
                    remedy="raise --timeout, or look at what it waits for",
                )
            for event, _ in selector.select(left):
                chunk = os.read(event.fd, _CHUNK)
                if not chunk:
                    selector.unregister(event.fileobj)
                elif on_output is not None:
                    on_output(chunk)
                room = limits.output_bytes - len(found[event.data])
                found[event.data] += chunk[: max(room, 0)]
    return {key: bytes(value) for key, value in found.items()}


def _required(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ToolError("a pipe to the program is missing", remedy="this is a defect: report it")
    return pipe


def replace_process(arguments: Sequence[str]) -> NoReturn:
    """Become another program, for the person at the terminal.

    Raises:
        ToolError: it is not installed.

    """
    try:
        os.execvpe(arguments[0], list(arguments), os.environ | {"DEBUGINFOD_URLS": ""})  # noqa: S606
    except OSError as error:
        raise ToolError(
            f"{arguments[0]} could not be started: {error.strerror}",
            remedy=f"apt-get install {arguments[0]}",
        ) from error


def run_attached(
    arguments: Sequence[str],
    on_tick: Callable[[subprocess.Popen[bytes]], None] | None = None,
    on_ask: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> int:
    """Run a program with our own terminal and streams until it ends; its status as a shell has it.

    The terminal's own SIGINT and SIGQUIT reach it directly, so we only outlive them; SIGTERM,
    SIGHUP and SIGUSR2 that are sent to us are handed on. `on_tick` is called about once a second,
    `on_ask` at a SIGUSR2, which it hands on itself.

    Raises:
        ToolError: it could not be started.

    """
    try:
        child = subprocess.Popen(list(arguments))
    except OSError as error:
        raise ToolError(
            f"{arguments[0]} could not be started: {error.strerror}", remedy="is it executable?"
        ) from error

    def hand_on(number: int, frame: FrameType | None) -> None:
        del frame
        child.send_signal(number)

    def ask(number: int, frame: FrameType | None) -> None:
        if on_ask is None:
            hand_on(number, frame)
        else:
            on_ask(child)

    def outlive(number: int, frame: FrameType | None) -> None:
        del number, frame

    handlers = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), hand_on)
    handlers |= {signal.SIGUSR2: ask, signal.SIGINT: outlive, signal.SIGQUIT: outlive}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        while on_tick is not None:
            try:
                child.wait(timeout=_TICK_S)
                break
            except subprocess.TimeoutExpired:
                on_tick(child)
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
