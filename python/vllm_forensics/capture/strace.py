"""Runs a program under strace, and finds the cores that the kernel made of it meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.crash import find_new_cores
from vllm_forensics.capture.host import read_core_settings
from vllm_forensics.capture.machine import core_folder_of
from vllm_forensics.capture.process import find_program, run_attached
from vllm_forensics.errors import ToolError

LOG_NAME: Final = "strace.log"
_CALLS: Final = (
    "mmap,munmap,mremap,mprotect,madvise,brk,clone,clone3,?fork,?vfork,openat,?open,ftruncate,"
    "fallocate,prlimit64,?setrlimit,execve,exit_group,kill,tkill,tgkill"
)
# -D: the program stays our own child, so that signals and its status pass through untouched.
# -s 0: no string but a path is written down; arguments and buffers may hold secrets.
_OPTIONS: Final = (
    "-D", "-q", "--seccomp-bpf", "-f", "-ttt", "-yy", "-s", "0", "-e", f"trace={_CALLS}",
    "-e", "signal=all",
)  # fmt: skip
_HEAD_BYTES: Final = 2 << 20
_TAIL_BYTES: Final = 16 << 20
_PATIENCE_S: Final = 5.0
_MOMENT_S: Final = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class StracedResult:
    """The program's status as a shell sees it, and strace's log: its beginning and its end."""

    status: int
    log: str
    shm_free: int | None
    started_s: float


def run_straced(command: Sequence[str], folder: Path) -> StracedResult:
    """Run to the end with the terminal passed through; the log goes to `folder`.

    A program that cannot be started gives status 127 or 126, as in a shell.

    Raises:
        ToolError: strace is not installed.

    """
    strace = find_program("strace")
    if strace is None:
        raise ToolError(
            "strace is not installed", remedy="apt-get install strace, or leave out --strace"
        )
    log = folder / LOG_NAME
    free = _shm_free()
    started_s = time.time()
    if find_program(command[0]) is None:
        status = 126 if Path(command[0]).exists() and "/" in command[0] else 127
        return StracedResult(status=status, log="", shm_free=free, started_s=started_s)
    status = run_attached([strace, *_OPTIONS, "-o", str(log), "--", *command])
    _wait_for_end(log)
    text = _read_ends(log, head_bytes=_HEAD_BYTES, tail_bytes=_TAIL_BYTES)
    return StracedResult(status=status, log=text, shm_free=free, started_s=started_s)


def find_kernel_cores(pids: Iterable[int], started_s: float) -> list[str]:
    """The cores that the kernel wrote of these processes: here, or where core_pattern says."""
    folder = core_folder_of(read_core_settings().pattern, Path.cwd())
    if folder is None:
        return []
    return [
        str(path)
        for pid in pids
        for path in find_new_cores(folder, pid)
        if path.stat().st_mtime >= started_s - 1.0
    ]


def remove_log(folder: Path) -> None:
    """Remove a folder that holds nothing but the log of an uneventful run."""
    with contextlib.suppress(OSError):
        (folder / LOG_NAME).unlink(missing_ok=True)
        folder.rmdir()


def _wait_for_end(log: Path) -> None:
    """The tracer is not our child and may still write: wait for the first process's last line.

    Children that were ending at the same time get a moment more.
    """
    deadline = time.monotonic() + _PATIENCE_S
    written = -1
    while time.monotonic() < deadline:
        text = _read_ends(log, head_bytes=64, tail_bytes=1 << 20)
        first = re.match(r"(\d+) ", text)
        if first is None and not text:
            return  # strace could not trace at all, and has said so
        size = log.stat().st_size
        ended = first and re.search(rf"^{first.group(1)} +\S+ \+\+\+ [ek]", text, re.MULTILINE)
        if ended and size == written:
            return
        written = size
        time.sleep(_MOMENT_S)


def _read_ends(log: Path, *, head_bytes: int, tail_bytes: int) -> str:
    """A file, or its first and last bytes: the line that is cut in between reads as foreign."""
    try:
        with log.open("rb") as lines:
            head = lines.read(head_bytes)
            size = os.fstat(lines.fileno()).st_size
            lines.seek(max(size - tail_bytes, len(head)))
            tail = lines.read(tail_bytes)
    except OSError:
        return ""
    gap = b"" if size <= len(head) + tail_bytes else b"\n"
    return (head + gap + tail).decode("utf-8", "surrogateescape")


def _shm_free() -> int | None:
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108 - asked about, not written to
    except OSError:
        return None
    return state.f_bavail * state.f_frsize
