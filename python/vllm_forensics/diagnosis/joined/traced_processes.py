"""Who is whose thread and child in a trace of system calls, and what each had done by a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vllm_forensics.model.run import ProcessRecord
from vllm_forensics.model.syscalls import SyscallTrace, SystemCall, ThreadEnd

_CLONES: Final = {"clone", "clone3", "fork", "vfork"}
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The tree of a trace. A thread without a known clone is taken as a process."""

    trace: SyscallTrace
    owner: dict[int, int]
    """The process of each thread."""
    parent: dict[int, tuple[int, float]]
    """Each process's parent, and when the child was first seen."""
    command: dict[int, str]
    calls: dict[int, tuple[SystemCall, ...]]
    """Each process's calls, of all its threads."""

    def process_of(self, tid: int) -> int:
        """The process that a thread belongs to."""
        return self.owner.get(tid, tid)

    def name(self, pid: int) -> str:
        """`process 7 (/bin/serve)`."""
        command = self.command.get(pid)
        return f"process {pid} ({command})" if command else f"process {pid}"

    def ends(self) -> Iterator[ThreadEnd]:
        """The end of each process: its main thread's, which comes last."""
        return (end for end in self.trace.ends if self.process_of(end.tid) == end.tid)

    def calls_of(self, pid: int, until_s: float) -> tuple[SystemCall, ...]:
        """A process's own calls, all threads, up to a time."""
        return tuple(call for call in self.calls.get(pid, ()) if call.time_s <= until_s)

    def memory_calls(self, pid: int, until_s: float) -> tuple[SystemCall, ...]:
        """What made the address space: since the last exec, and before a fork the parent's."""
        made: list[SystemCall] = []
        for ancestor in self.ancestry(pid):
            for call in reversed(self.calls_of(ancestor, until_s)):
                if call.name == "execve" and call.result == 0:
                    return tuple(reversed(made))
                made.append(call)
            until_s = min(until_s, self.parent.get(ancestor, (0, until_s))[1])
        return tuple(reversed(made))

    def ancestry(self, pid: int) -> Iterator[int]:
        """The process, its parent, and so on. Numbers are used again: nobody comes twice."""
        seen = set()
        while pid not in seen:
            seen.add(pid)
            yield pid
            pid = self.parent.get(pid, (pid, 0.0))[0]

    def records(self) -> tuple[ProcessRecord, ...]:
        """Every process, in the order of its first line."""
        exits = {end.tid: end.status for end in self.ends()}
        pids = dict.fromkeys([*self.calls, *exits])
        return tuple(
            ProcessRecord(
                pid=pid,
                parent=self.parent[pid][0] if pid in self.parent else None,
                command=self.command.get(pid),
                exit=exits.get(pid),
            )
            for pid in pids
        )


def lineage_of(trace: SyscallTrace) -> Lineage:
    """Read the clones and execs of a trace."""
    owner: dict[int, int] = {}
    born: dict[int, tuple[int, float]] = {}
    command: dict[int, str] = {}
    first_seen: dict[int, float] = {}
    for call in trace.calls:
        first_seen.setdefault(call.tid, call.time_s)
        child = call.result
        if call.name in _CLONES and child is not None and child > 0 and child != call.tid:
            if any("CLONE_THREAD" in argument for argument in call.arguments):
                owner[child] = call.tid
            else:
                born[child] = (call.tid, call.time_s)
    resolved = {tid: _root(tid, owner) for tid in owner}
    parent = {
        pid: (resolved.get(tid, tid), min(time_s, first_seen.get(pid, time_s)))
        for pid, (tid, time_s) in born.items()
        if resolved.get(tid, tid) != pid
    }
    for call in trace.calls:
        if call.name == "execve" and call.result == 0 and call.arguments:
            name = _STRING.match(call.arguments[0])
            command[call.tid] = name.group(1) if name else call.arguments[0]
    calls: dict[int, list[SystemCall]] = {}
    for call in trace.calls:
        calls.setdefault(resolved.get(call.tid, call.tid), []).append(call)
    return Lineage(
        trace=trace,
        owner=resolved,
        parent=parent,
        command=_inherit(command, parent),
        calls={pid: tuple(made) for pid, made in calls.items()},
    )


def _root(tid: int, owner: dict[int, int]) -> int:
    seen = set()
    while tid in owner and tid not in seen:
        seen.add(tid)
        tid = owner[tid]
    return tid


def _inherit(command: dict[int, str], parent: dict[int, tuple[int, float]]) -> dict[int, str]:
    """A forked child that executes nothing runs its parent's program."""
    named = dict(command)
    for pid, (of, _) in parent.items():
        if pid not in named and of in named:
            named[pid] = named[of]
    return named
