"""Watches a living process tree through /proc: no attaching, nothing is stopped."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vllm_forensics.capture.proc_stat import PARENT, SYSTEM_TICKS, USER_TICKS, stat_fields
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.hang import (
    Call,
    LiveProcess,
    LiveThread,
    OpenPipe,
    SharedMapping,
    SystemCall,
)

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PIPE: Final = re.compile(r"pipe:\[(\d+)\]")
_MAX_PROCESSES: Final = 512
_MAX_THREADS: Final = 4096
_PF_KTHREAD: Final = 0x00200000  # include/linux/sched.h
# The kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
CALL_NUMBERS: Final = {
    "x86_64": {
        0: Call.READ,
        1: Call.WRITE,
        19: Call.READ,  # readv
        20: Call.WRITE,  # writev
        61: Call.WAIT4,
        202: Call.FUTEX,
        247: Call.WAITID,
    },
    "aarch64": {
        63: Call.READ,
        64: Call.WRITE,
        65: Call.READ,
        66: Call.WRITE,
        95: Call.WAITID,
        98: Call.FUTEX,
        260: Call.WAIT4,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A thread's counters at one look."""

    cpu: float
    switches: tuple[str, ...]
    call: str


def watch_tree(root: int, seconds: float) -> tuple[LiveProcess, ...]:
    """Look twice at a process and all that it started, `seconds` apart.

    Behind the tree come those who hold the other end of a pipe, or the same shared memory, that a
    thread of the tree waits on, as far as we may see them.

    Raises:
        EvidenceError: there is no such process, or it ended meanwhile.

    """
    before = {pid: _moments(pid) for pid in tree_of(root)}
    started = time.monotonic()
    time.sleep(seconds)
    elapsed = max(time.monotonic() - started, 1e-3)
    pids = tree_of(root)
    tree = [
        process
        for pid in pids
        if (process := _read_process(pid, before.get(pid, {}), elapsed)) is not None
    ]
    return (*tree, *_peers(tree))


def root_of(pid: int) -> str | None:
    """A folder with the files that a process sees, where it sees others than we do.

    A container has a mount namespace of its own (mount_namespaces(7)); through /proc/PID/root its
    files can be read for as long as it lives.
    """
    folder = _PROC / str(pid)
    try:
        if (folder / "ns/mnt").readlink() == (_PROC / "self/ns/mnt").readlink():
            return None
    except OSError:
        return None
    return str(folder / "root")


def cpu_of_tree(pids: Sequence[int]) -> float:
    """Seconds of processor time that the processes used so far, their ended threads included."""
    return sum(_cpu(fields) for pid in pids if (fields := stat_fields(_PROC / str(pid))))


def tree_of(root: int) -> list[int]:
    """A process and its descendants, parents first.

    Raises:
        EvidenceError: there is no such process.

    """
    # A thread's id opens a folder too, though none that the listing shows.
    if f"Tgid:\t{root}\n" not in _text(_PROC / str(root) / "status"):
        raise EvidenceError(f"there is no process {root}", remedy="ps -e | grep NAME")
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        if (parent := _parent_of(pid)) is not None:
            children.setdefault(parent, []).append(pid)
    found, at = [root], 0
    while at < len(found) and len(found) < _MAX_PROCESSES:
        found.extend(sorted(children.get(found[at], [])))
        at += 1
    return found[:_MAX_PROCESSES]


def parse_system_call(text: str, machine: str) -> SystemCall | None:
    """Read `202 0x7f… 0x189 0x2 …`; None for "running", and for a wait outside of any call (-1)."""
    words = text.split()
    if len(words) < 7 or not words[0].isdigit():
        return None
    call = CALL_NUMBERS.get(machine, {}).get(int(words[0]), Call.OTHER)
    return SystemCall(call=call, arguments=tuple(int(word, 16) for word in words[1:7]))


def parse_shared_mappings(text: str) -> Iterator[SharedMapping]:
    """The mappings of /proc/PID/maps that are shared (proc_pid_maps(5))."""
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) >= 5 and fields[1].endswith("s"):
            start, _, end = fields[0].partition("-")
            yield SharedMapping(
                start=int(start, 16),
                end=int(end, 16),
                name=fields[5] if len(fields) == 6 else "unnamed shared memory",
                identity=f"{fields[3]}:{fields[4]}",
            )


def _read_process(pid: int, before: dict[int, _Moment], elapsed: float) -> LiveProcess | None:
    folder = _PROC / str(pid)
    stat = stat_fields(folder)
    if stat is None:
        return None
    threads = [
        thread
        for tid, now in _moments(pid).items()
        if (thread := _read_thread(folder / "task" / str(tid), before.get(tid), now, elapsed))
    ]
    tracer = re.search(r"^TracerPid:\s*(\d+)", _text(folder / "status"), re.MULTILINE)
    return LiveProcess(
        pid=pid,
        parent=int(stat[1]),
        command=_text(folder / "cmdline").split("\0", 1)[0] or _text(folder / "comm").strip(),
        threads=tuple(sorted(threads, key=lambda thread: thread.tid != pid)),
        pipes=tuple(_pipes(pid)),
        shared=tuple(parse_shared_mappings(_text(folder / "maps"))),
        tracer=int(tracer.group(1)) if tracer else 0,
        is_kernel=bool(int(stat[6]) & _PF_KTHREAD),
    )


def _read_thread(
    folder: Path, before: _Moment | None, now: _Moment, elapsed: float
) -> LiveThread | None:
    stat = stat_fields(folder)
    if stat is None:
        return None
    tid = int(folder.name)
    inner = re.search(r"^NSpid:.*\s(\d+)$", _text(folder / "status"), re.MULTILINE)
    inner_tid = int(inner.group(1)) if inner else tid
    share = (now.cpu - before.cpu) / elapsed if before else 0.0
    return LiveThread(
        tid=tid,
        name=_text(folder / "comm").strip(),
        state=stat[0],
        cpu_share=max(0.0, min(share, 1.0)),
        system_call=parse_system_call(now.call, platform.machine()),
        still=before is not None
        and now.switches == before.switches != ()
        and now.call == before.call != "",
        inner_tid=inner_tid if inner_tid != tid else None,
    )


def _peers(tree: Sequence[LiveProcess]) -> Iterator[LiveProcess]:
    """Processes outside of the tree that share a pipe or memory that one of it sleeps on."""
    pipes, shared = _slept_on(tree)
    if not pipes and not shared:
        return
    known = {process.pid for process in tree}
    for pid in _all_pids():
        if pid in known or pid == os.getpid():
            continue
        has_pipe = any(pipe.inode in pipes for pipe in _pipes(pid, with_mode=False))
        if has_pipe or (shared and _maps_any(pid, shared)):
            found = _read_process(pid, {}, 1.0)
            if found is not None:
                yield replace(found, in_tree=False)


def _slept_on(tree: Sequence[LiveProcess]) -> tuple[set[int], set[str]]:
    """Pipes by their inode, and shared memory by its identity."""
    pipes: set[int] = set()
    shared: set[str] = set()
    for process in tree:
        for thread in process.threads:
            call = thread.system_call
            if call is None or not thread.still:
                continue
            where = call.arguments[0]
            if call.call in {Call.READ, Call.WRITE}:
                pipes |= {pipe.inode for pipe in process.pipes if pipe.descriptor == where}
            elif call.call is Call.FUTEX:
                shared |= {m.identity for m in process.shared if m.start <= where < m.end}
    return pipes, shared


def _maps_any(pid: int, wanted: set[str]) -> bool:
    mappings = parse_shared_mappings(_text(_PROC / str(pid) / "maps"))
    return any(mapping.identity in wanted for mapping in mappings)


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _parent_of(pid: int) -> int | None:
    fields = stat_fields(_PROC / str(pid))
    return int(fields[PARENT]) if fields else None


def _cpu(fields: Sequence[str]) -> float:
    return (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / _TICKS


def _moments(pid: int) -> dict[int, _Moment]:
    found: dict[int, _Moment] = {}
    with contextlib.suppress(OSError):
        for entry in list((_PROC / str(pid) / "task").iterdir())[:_MAX_THREADS]:
            fields = stat_fields(entry)
            if fields is not None:
                status = _text(entry / "status")
                found[int(entry.name)] = _Moment(
                    cpu=_cpu(fields),
                    switches=tuple(re.findall(r"ctxt_switches:\s*(\d+)", status)),
                    call=_text(entry / "syscall"),
                )
    return found


def _pipes(pid: int, *, with_mode: bool = True) -> Iterator[OpenPipe]:
    with contextlib.suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                match = _PIPE.fullmatch(str(entry.readlink()))
                if match:
                    flags = _text(_PROC / str(pid) / "fdinfo" / entry.name) if with_mode else ""
                    mode = re.search(r"^flags:\s*(\d+)", flags, re.MULTILINE)
                    access = int(mode.group(1), 8) & os.O_ACCMODE if mode else os.O_RDONLY
                    yield OpenPipe(
                        descriptor=int(entry.name),
                        inode=int(match.group(1)),
                        reads=access != os.O_WRONLY,
                        writes=access != os.O_RDONLY,
                    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
