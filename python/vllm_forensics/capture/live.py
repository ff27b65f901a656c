"""Watches a living process tree through /proc: no attaching, nothing is stopped."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.hang import LiveProcess, LiveThread, OpenPipe, SystemCall

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PIPE: Final = re.compile(r"pipe:\[(\d+)\]")
_MAX_PROCESSES: Final = 512
_MAX_THREADS: Final = 4096
_WRITE_ONLY: Final = os.O_WRONLY | os.O_RDWR


def watch_tree(root: int, seconds: float) -> tuple[LiveProcess, ...]:
    """Look twice at a process and all that it started, `seconds` apart.

    Raises:
        EvidenceError: there is no such process, or it ended meanwhile.

    """
    before = {pid: _cpu_by_thread(pid) for pid in tree_of(root)}
    started = time.monotonic()
    time.sleep(seconds)
    elapsed = max(time.monotonic() - started, 1e-3)
    pids = tree_of(root)
    return tuple(
        process
        for pid in pids
        if (process := _read_process(pid, before.get(pid, {}), elapsed)) is not None
    )


def cpu_of_tree(pids: Sequence[int]) -> float:
    """Seconds of processor time that the processes used so far, all threads together."""
    return sum(sum(_cpu_by_thread(pid).values()) for pid in pids)


def tree_of(root: int) -> list[int]:
    """A process and its descendants, parents first.

    Raises:
        EvidenceError: there is no such process.

    """
    if not (_PROC / str(root)).is_dir():
        raise EvidenceError(f"there is no process {root}", remedy="ps -e | grep NAME")
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found, at = [root], 0
    while at < len(found) and len(found) < _MAX_PROCESSES:
        found.extend(sorted(children.get(found[at], [])))
        at += 1
    return found[:_MAX_PROCESSES]


def _read_process(pid: int, before: dict[int, float], elapsed: float) -> LiveProcess | None:
    parent = _parent_of(pid)
    if parent is None:
        return None
    threads = []
    for tid, cpu in _cpu_by_thread(pid).items():
        folder = _PROC / str(pid) / "task" / str(tid)
        state = _stat_fields(folder)
        if state is None:
            continue
        share = max(0.0, cpu - before.get(tid, cpu)) / elapsed
        threads.append(
            LiveThread(
                tid=tid,
                name=_text(folder / "comm").strip(),
                state=state[0],
                cpu_share=min(share, 1.0),
                system_call=_system_call(folder),
            )
        )
    return LiveProcess(
        pid=pid,
        parent=parent,
        command=_text(_PROC / str(pid) / "cmdline").split("\0", 1)[0],
        threads=tuple(sorted(threads, key=lambda thread: thread.tid != pid)),
        pipes=tuple(_pipes(pid)),
        shared_files=_shared_files(pid),
    )


def _parent_of(pid: int) -> int | None:
    fields = _stat_fields(_PROC / str(pid))
    return int(fields[1]) if fields else None


def _stat_fields(folder: Path) -> list[str] | None:
    """The fields of stat behind the name, which may hold spaces and parentheses itself."""
    _, closed, rest = _text(folder / "stat").rpartition(")")
    return rest.split() if closed and len(rest.split()) > 12 else None


def _cpu_by_thread(pid: int) -> dict[int, float]:
    found: dict[int, float] = {}
    with contextlib.suppress(OSError):
        for entry in list((_PROC / str(pid) / "task").iterdir())[:_MAX_THREADS]:
            fields = _stat_fields(entry)
            if fields is not None:
                found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _system_call(folder: Path) -> SystemCall | None:
    """`202 0x7f… 0x189 0x2 …`; "running" where the thread is in none."""
    words = _text(folder / "syscall").split()
    if len(words) < 7 or not words[0].isdigit():
        return None
    return SystemCall(number=int(words[0]), arguments=tuple(int(word, 16) for word in words[1:7]))


def _pipes(pid: int) -> Iterator[OpenPipe]:
    with contextlib.suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                match = _PIPE.fullmatch(str(entry.readlink()))
                if match:
                    flags = _text(_PROC / str(pid) / "fdinfo" / entry.name)
                    mode = re.search(r"^flags:\s*(\d+)", flags, re.MULTILINE)
                    writes = bool(mode and int(mode.group(1), 8) & _WRITE_ONLY)
                    yield OpenPipe(
                        descriptor=int(entry.name), inode=int(match.group(1)), writes=writes
                    )


def _shared_files(pid: int) -> tuple[str, ...]:
    found = {}
    for line in _text(_PROC / str(pid) / "maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1].endswith("s"):
            found[fields[5]] = True
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
