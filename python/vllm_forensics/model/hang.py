"""A process that does not get on: what its threads do, what they wait for, and who holds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.process import Address
from vllm_forensics.model.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCall:
    """The call that a thread is in, as /proc/PID/task/TID/syscall shows it."""

    number: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPipe:
    """One end of a pipe."""

    descriptor: int
    inode: int
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcess:
    """One process of the tree, watched for a while."""

    pid: int
    parent: int
    command: str
    """argv[0] alone: arguments may hold secrets."""
    threads: tuple[LiveThread, ...]
    pipes: tuple[OpenPipe, ...] = ()
    shared_files: tuple[str, ...] = ()
    """Files that are mapped shared: rings and semaphores in /dev/shm."""


class HangKind(StrEnum):
    """Why nothing moves."""

    DEADLOCK = "deadlock"
    GIL_WAIT = "gil-wait"
    BUSY_LOOP = "busy-loop"
    WAITING_ON_PEER = "waiting-on-peer"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutex:
    """A lock that a thread waits for, read out of memory."""

    pid: int
    tid: int
    address: Address
    owner: int
    """Thread id in the lock's owner field; 0 where nobody holds it."""


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
