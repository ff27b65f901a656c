"""Why a living tree does not get on. A deadlock is claimed only with the whole cycle in hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from vllm_forensics.model.hang import (
    HangFinding,
    HangKind,
    LiveProcess,
    LiveThread,
    Mutex,
    Node,
    SystemCall,
    Wait,
)
from vllm_forensics.model.stack import Stack

# x86-64 system call numbers (arch/x86/entry/syscalls/syscall_64.tbl).
READ: Final = 0
WRITE: Final = 1
WAIT4: Final = 61
WAITID: Final = 247
FUTEX: Final = 202
_BUSY_SHARE: Final = 0.7
_RUNNING_SHARE: Final = 0.2
_TAKES_GIL: Final = {
    "take_gil",
    "PyEval_AcquireThread",
    "PyEval_RestoreThread",
    "PyGILState_Ensure",
}
_RUNS_PYTHON: Final = {"_PyEval_EvalFrameDefault", "_PyEval_EvalFrame", "PyEval_EvalCode"}
_LOCKS: Final = ("pthread_mutex_lock", "lll_lock_wait", "lll_mutex_lock", "pthread_rwlock")


def find_waits(
    processes: tuple[LiveProcess, ...],
    mutexes: Iterable[Mutex],
    stacks: Mapping[tuple[int, int], Stack],
) -> tuple[Wait, ...]:
    """Every edge of the wait-for graph that can be proved.

    `stacks` are keyed by pid and tid; `mutexes` were read from the memory that futex calls wait on.
    """
    waits = [_mutex_wait(mutex) for mutex in mutexes if mutex.owner]
    for process in processes:
        for thread in process.threads:
            if thread.system_call is not None:
                waits += _call_waits(process, thread, thread.system_call, processes)
        waits += _gil_waits(process, stacks)
    return tuple(dict.fromkeys(waits))


def judge_hang(
    processes: tuple[LiveProcess, ...],
    waits: tuple[Wait, ...],
    stacks: Mapping[tuple[int, int], Stack],
) -> tuple[HangFinding, ...]:
    """The verdicts, the most certain first: a cycle, then who is busy, then who waits for whom."""
    findings: list[HangFinding] = []
    cycle = find_cycle(waits)
    if cycle:
        names = " → ".join(_name(wait.waiter, processes) for wait in cycle)
        findings.append(
            HangFinding(
                kind=HangKind.DEADLOCK,
                summary=f"A deadlock: {names} → {_name(cycle[0].waiter, processes)}. "
                "Each waits for what the next one holds; none can go on.",
                proof=tuple(wait.proof for wait in cycle),
                waits=tuple(cycle),
            )
        )
    findings += [
        _busy(process, thread, stacks)
        for process in processes
        for thread in process.threads
        if _is_busy(thread)
    ]
    if cycle:
        return tuple(findings)
    gil = [wait for wait in waits if wait.resource == "the GIL"]
    if gil:
        holder = _name(gil[0].holder, processes)
        findings.append(
            HangFinding(
                kind=HangKind.GIL_WAIT,
                summary=f"{len(gil)} threads wait for the GIL, which {holder} keeps.",
                proof=tuple(wait.proof for wait in gil[:4]),
                waits=tuple(gil),
            )
        )
    peers = [wait for wait in waits if wait.holder.pid != wait.waiter.pid]
    for wait in peers[:8]:
        findings.append(
            HangFinding(
                kind=HangKind.WAITING_ON_PEER,
                summary=f"{_name(wait.waiter, processes)} waits for {wait.resource} from "
                f"{_name(wait.holder, processes)}.",
                proof=(wait.proof,),
                waits=(wait,),
            )
        )
    if not findings:
        findings.append(
            HangFinding(
                kind=HangKind.IDLE,
                summary="Nobody is busy, and nobody is seen to wait for another: idle, or "
                "waiting for something outside (a socket, a timer, a terminal).",
                proof=tuple(_state_proof(process) for process in processes),
            )
        )
    return tuple(findings)


def find_cycle(waits: tuple[Wait, ...]) -> list[Wait]:
    """The shortest closed chain of waits, or none. A wait for a process reaches its threads.

    A wait that any of several others could end proves nothing: such edges are left out.
    """
    sources = Counter((wait.waiter, wait.resource) for wait in waits)
    certain = tuple(wait for wait in waits if sources[wait.waiter, wait.resource] == 1)
    best: list[Wait] = []
    for first in certain:
        chain = _chain_back(first, certain)
        if chain and (not best or len(chain) < len(best)):
            best = chain
    return best


def futex_waiters(
    processes: tuple[LiveProcess, ...],
) -> Iterator[tuple[LiveProcess, LiveThread, int]]:
    """Threads that wait on a futex, with its address: perhaps a mutex whose owner can be read."""
    for process in processes:
        for thread in process.threads:
            call = thread.system_call
            if call is not None and call.number == FUTEX and call.arguments[1] & 0x7F in {0, 6, 9}:
                yield process, thread, call.arguments[0]


def waits_for_lock(stack: Stack) -> bool:
    """Is the thread inside a lock function? Only then does a futex's owner field mean anything."""
    names = [frame.function or "" for frame in stack.frames[:6]]
    return any(lock in name for name in names for lock in _LOCKS)


def _chain_back(first: Wait, waits: tuple[Wait, ...]) -> list[Wait]:
    queue: list[list[Wait]] = [[first]]
    seen = {first}
    while queue:
        chain = queue.pop(0)
        for following in waits:
            if not _reaches(chain[-1].holder, following.waiter):
                continue
            if following == first:
                return chain
            if following not in seen:
                seen.add(following)
                queue.append([*chain, following])
    return [first] if _reaches(first.holder, first.waiter) else []


def _reaches(holder: Node, waiter: Node) -> bool:
    return holder == waiter or (holder.tid is None and holder.pid == waiter.pid)


def _mutex_wait(mutex: Mutex) -> Wait:
    return Wait(
        waiter=Node(pid=mutex.pid, tid=mutex.tid),
        holder=Node(pid=mutex.pid, tid=mutex.owner),
        resource=f"the mutex at {mutex.address:#x}",
        proof=f"thread {mutex.tid} waits on the mutex at {mutex.address:#x}, whose owner field "
        f"holds {mutex.owner}",
    )


def _call_waits(
    process: LiveProcess,
    thread: LiveThread,
    call: SystemCall,
    processes: tuple[LiveProcess, ...],
) -> Iterator[Wait]:
    waiter = Node(pid=process.pid, tid=thread.tid)
    if call.number in {READ, WRITE}:
        yield from _pipe_waits(process, waiter, call, processes)
    elif call.number in {WAIT4, WAITID}:
        children = [other for other in processes if other.parent == process.pid]
        wanted = call.arguments[0] if call.number == WAIT4 else call.arguments[1]
        for child in children:
            if wanted in {child.pid, (1 << 64) - 1, (1 << 32) - 1, 0}:
                yield Wait(
                    waiter=waiter,
                    holder=Node(pid=child.pid),
                    resource="the end",
                    proof=f"thread {thread.tid} is in wait() for its child {child.pid}",
                )


def _pipe_waits(
    process: LiveProcess, waiter: Node, call: SystemCall, processes: tuple[LiveProcess, ...]
) -> Iterator[Wait]:
    """A reader waits for whoever holds the other end; our own copies of it do not count."""
    reads = call.number == READ
    own = next((pipe for pipe in process.pipes if pipe.descriptor == call.arguments[0]), None)
    if own is None:
        return
    for other in processes:
        if other.pid == process.pid:
            continue
        for pipe in other.pipes:
            if pipe.inode == own.inode and pipe.writes == reads:
                yield Wait(
                    waiter=waiter,
                    holder=Node(pid=other.pid),
                    resource="data" if reads else "room in a pipe",
                    proof=f"thread {waiter.tid} is in {'read' if reads else 'write'}"
                    f"({call.arguments[0]}) on pipe {own.inode}, whose other end process "
                    f"{other.pid} has open",
                )
                break


def _gil_waits(process: LiveProcess, stacks: Mapping[tuple[int, int], Stack]) -> Iterator[Wait]:
    """Threads inside take_gil, if exactly one other thread runs Python without waiting for it."""
    names = {
        thread.tid: {
            frame.function
            for frame in stacks.get((process.pid, thread.tid), _EMPTY).frames
            if frame.function
        }
        for thread in process.threads
    }
    waiting = [tid for tid, found in names.items() if found & _TAKES_GIL]
    running = [tid for tid, found in names.items() if found & _RUNS_PYTHON and tid not in waiting]
    if len(running) != 1:
        return
    for tid in waiting:
        yield Wait(
            waiter=Node(pid=process.pid, tid=tid),
            holder=Node(pid=process.pid, tid=running[0]),
            resource="the GIL",
            proof=f"thread {tid} is in take_gil; thread {running[0]} is the only one that runs "
            "Python without waiting for it",
        )


def _is_busy(thread: LiveThread) -> bool:
    """Busy all the time, or as much as a crowded machine lets it: running, in no system call."""
    runs = thread.state == "R" and thread.system_call is None
    return thread.cpu_share >= (_RUNNING_SHARE if runs else _BUSY_SHARE)


def _busy(
    process: LiveProcess, thread: LiveThread, stacks: Mapping[tuple[int, int], Stack]
) -> HangFinding:
    stack = stacks.get((process.pid, thread.tid), _EMPTY)
    at = next((frame.function for frame in stack.frames if frame.function), None)
    where = f", in {at}" if at else ""
    return HangFinding(
        kind=HangKind.BUSY_LOOP,
        summary=f"Thread {thread.tid} of process {process.pid} is busy{where}: "
        f"{thread.cpu_share:.0%} of a processor.",
        proof=(f"user and system time of thread {thread.tid} grew by {thread.cpu_share:.0%}",),
        busy=Node(pid=process.pid, tid=thread.tid),
    )


def _name(node: Node, processes: tuple[LiveProcess, ...]) -> str:
    process = next((found for found in processes if found.pid == node.pid), None)
    command = process.command.rsplit("/", 1)[-1] if process else "?"
    if node.tid is None:
        return f"process {node.pid} ({command})"
    thread = next((t for t in process.threads if t.tid == node.tid), None) if process else None
    return f"thread {node.tid} ({thread.name if thread else command})"


def _state_proof(process: LiveProcess) -> str:
    states = "".join(thread.state for thread in process.threads)
    return f"process {process.pid}: {len(process.threads)} threads, states {states[:40]}"


_EMPTY: Final = Stack(tid=0, frames=())
