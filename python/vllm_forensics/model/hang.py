"""A process that does not get on: what its threads do, what they wait for, and who holds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.process import Address
from vllm_forensics.model.stack import Stack


class Call(StrEnum):
    """System calls that may wait for another thread or process; their numbers are a machine's."""

    READ = "read"
    WRITE = "write"
    WAIT4 = "wait4"
    WAITID = "waitid"
    FUTEX = "futex"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCall:
    """The call that a thread is in, as /proc/PID/task/TID/syscall shows it."""

    call: Call
    arguments: tuple[int, ...]
    """Six of them, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveThread:
    """One thread, watched for a while."""

    tid: int
    name: str
    state: str
    """R running, S sleeping, D in the kernel without interruption, T stopped, Z ended (proc(5))."""
    cpu_share: float
    """Of one processor while it was watched: 1.0 is busy all the time."""
    system_call: SystemCall | None
    still: bool = False
    """It slept in this one call all the time: its count of context switches did not change."""
    inner_tid: int | None = None
    """Its id as the process itself sees it, in its pid namespace; None: the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPipe:
    """One end of a pipe, or both."""

    descriptor: int
    inode: int
    reads: bool
    writes: bool
    """Both, where /proc/PID/fd/N was opened again for reading and writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMapping:
    """Memory that other processes may have mapped too: rings and semaphores in /dev/shm."""

    start: Address
    end: Address
    name: str
    identity: str
    """Device and inode: the same for all who map it, whatever they call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcess:
    """One process of the tree, watched for a while."""

    pid: int
    parent: int
    command: str
    """argv[0] alone: arguments may hold secrets."""
    threads: tuple[LiveThread, ...]
    pipes: tuple[OpenPipe, ...] = ()
    shared: tuple[SharedMapping, ...] = ()
    tracer: int = 0
    """Who traces it already; 0: nobody."""
    is_kernel: bool = False
    """A thread of the kernel's own: it has no memory to look into."""
    in_tree: bool = True
    """False: it was not asked for, but holds what one of the tree waits for."""


class HangKind(StrEnum):
    """Why nothing moves."""

    DEADLOCK = "deadlock"
    GIL_WAIT = "gil-wait"
    BUSY_LOOP = "busy-loop"
    WAITING_ON_PEER = "waiting-on-peer"
    STOPPED = "stopped"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Who waits, or who is waited for: a thread, or a whole process (tid None)."""

    pid: int
    tid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One edge of the wait-for graph, with what proves it."""

    waiter: Node
    holder: Node
    resource: str
    proof: str
    certain: bool = True
    """False: somebody who is not seen may end the wait too; it cannot be part of a deadlock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutex:
    """A lock that a thread waits for, read out of memory."""

    pid: int
    tid: int
    address: Address
    owner: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class HangFinding:
    """The verdict on one process, or on a cycle through several."""

    kind: HangKind
    summary: str
    proof: tuple[str, ...]
    waits: tuple[Wait, ...] = ()
    busy: Node | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangReport:
    """What a look at a living tree gave."""

    processes: tuple[LiveProcess, ...]
    findings: tuple[HangFinding, ...]
    waits: tuple[Wait, ...]
    stacks: tuple[tuple[int, Stack], ...]
    """Stacks with the pid that each belongs to."""
    snapshots: tuple[str, ...]
    gaps: tuple[str, ...] = ()
