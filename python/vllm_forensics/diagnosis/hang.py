"""Why a living tree does not get on. A deadlock is claimed only with the whole cycle in hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.diagnosis.waits import THE_END, THE_GIL, Stacks, waits_privately
from vllm_forensics.model.hang import (
    HangFinding,
    HangKind,
    LiveProcess,
    LiveThread,
    Node,
    Wait,
)
from vllm_forensics.model.stack import FrameKind, Stack

_BUSY_SHARE: Final = 0.7
_RUNNING_SHARE: Final = 0.2
_MOST_PEERS: Final = 8
_MOST_STARTS: Final = 256
"""Thousands may queue behind one deadlock; the way from each leads into it, but not back."""
_MOST_PROOFS: Final = 4


def judge_hang(
    processes: tuple[LiveProcess, ...], waits: tuple[Wait, ...], stacks: Stacks
) -> tuple[HangFinding, ...]:
    """The verdicts, the most certain first: a cycle, then who is busy, then who waits for whom."""
    findings = [_stopped(process) for process in processes if _is_stopped(process)]
    cycle = find_cycle(waits, processes)
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
        if process.in_tree and _is_busy(thread)
    ]
    if not cycle:
        findings += _gil_waits(processes, waits)
        findings += _peer_waits(processes, waits)
    if not findings:
        findings += [
            _asleep(process, stacks)
            for process in processes
            if process.in_tree and _only_each_other(process)
        ] or [_idle(processes)]
    return tuple(findings)


def find_cycle(waits: tuple[Wait, ...], processes: tuple[LiveProcess, ...]) -> list[Wait]:
    """The shortest closed chain of waits among threads that nobody can free, or none."""
    stuck = _stuck_threads(waits, processes)
    usable = [
        wait
        for wait in waits
        if wait.waiter in stuck and not (wait.holder.tid is None and _is_own(wait))
    ]
    by_waiter: dict[Node, list[Wait]] = defaultdict(list)
    for wait in usable:
        by_waiter[wait.waiter].append(wait)
        by_waiter[Node(pid=wait.waiter.pid)].append(wait)
    best: list[Wait] = []
    # Whom somebody waits for comes first: only they can be part of a circle.
    held = {wait.holder for wait in usable}
    usable.sort(key=lambda wait: not held & {wait.waiter, Node(pid=wait.waiter.pid)})
    for first in usable[:_MOST_STARTS]:
        chain = _shortest_back(first, by_waiter)
        if chain and (not best or len(chain) < len(best)):
            best = chain
        if len(best) in {1, 2}:
            break
    return best


def _stuck_threads(waits: tuple[Wait, ...], processes: tuple[LiveProcess, ...]) -> set[Node]:
    """The threads that nobody can free: each of those who could is stuck too.

    All waits of one thread are alternatives, and any thread of a process may do what is awaited of
    the process. A thread that sleeps on a private futex can be woken by all others of its process.
    The answer is what is left when all who can be freed are taken away, again and again.
    """
    threads = {
        process.pid: [
            Node(pid=process.pid, tid=thread.tid)
            for thread in process.threads
            if thread.state not in "ZX"
        ]
        for process in processes
    }
    by_thread: dict[Node, set[Node]] = defaultdict(set)
    by_process: dict[Node, set[int]] = defaultdict(set)
    for wait in waits:
        if not wait.certain:
            by_thread[wait.waiter].add(_SOMEBODY)
        elif wait.holder.tid is not None:
            by_thread[wait.waiter].add(wait.holder)
        else:
            by_process[wait.waiter].add(wait.holder.pid)
    explicit = by_thread.keys() | by_process.keys()
    for process in processes:
        for thread in process.threads:
            node = Node(pid=process.pid, tid=thread.tid)
            if node not in explicit and waits_privately(thread):
                by_process[node].add(process.pid)  # itself included: that is no way out
    stuck = by_thread.keys() | by_process.keys()
    while True:
        whole = {pid for pid, nodes in threads.items() if nodes and stuck.issuperset(nodes)}
        free = {
            node
            for node in stuck
            if not by_thread.get(node, set()) <= stuck or not by_process.get(node, set()) <= whole
        }
        if not free:
            return stuck
        stuck -= free


def _shortest_back(first: Wait, by_waiter: Mapping[Node, list[Wait]]) -> list[Wait]:
    """Breadth first from a wait's holder to its waiter."""
    queue, seen = [[first]], {first}
    while queue:
        chain = queue.pop(0)
        last = chain[-1].holder
        if last == first.waiter or (last.tid is None and last.pid == first.waiter.pid):
            return chain
        for following in by_waiter.get(last, ()):
            if following not in seen:
                seen.add(following)
                queue.append([*chain, following])
    return []


def _is_own(wait: Wait) -> bool:
    return wait.holder.pid == wait.waiter.pid


def _gil_waits(
    processes: tuple[LiveProcess, ...], waits: tuple[Wait, ...]
) -> Iterator[HangFinding]:
    by_holder: dict[Node, list[Wait]] = defaultdict(list)
    for wait in waits:
        if wait.resource == THE_GIL:
            by_holder[wait.holder].append(wait)
    for holder, found in by_holder.items():
        who = "1 thread waits" if len(found) == 1 else f"{len(found)} threads wait"
        yield HangFinding(
            kind=HangKind.GIL_WAIT,
            summary=f"{who} for the GIL, which {_name(holder, processes)} keeps.",
            proof=tuple(wait.proof for wait in found[:_MOST_PROOFS]),
            waits=tuple(found),
        )


def _peer_waits(
    processes: tuple[LiveProcess, ...], waits: tuple[Wait, ...]
) -> Iterator[HangFinding]:
    """Waits for another process, and for a lock within one; a join is how main threads idle."""
    told = [
        wait
        for wait in waits
        if wait.resource != THE_GIL
        and not (_is_own(wait) and (wait.holder.tid is None or wait.resource == THE_END))
    ]
    for wait in told[:_MOST_PEERS]:
        yield HangFinding(
            kind=HangKind.WAITING_ON_PEER,
            summary=f"{_sentence(_name(wait.waiter, processes))} waits for {wait.resource} "
            f"{'of' if wait.resource == THE_END else 'from'} {_name(wait.holder, processes)}.",
            proof=(wait.proof,),
            waits=(wait,),
        )


def _is_stopped(process: LiveProcess) -> bool:
    states = {thread.state for thread in process.threads}
    return process.in_tree and states == {"T"}


def _stopped(process: LiveProcess) -> HangFinding:
    return HangFinding(
        kind=HangKind.STOPPED,
        summary=f"{_sentence(_name(Node(pid=process.pid), (process,)))} is stopped: somebody sent "
        f"it SIGSTOP, or Ctrl-Z. It goes on with: kill -CONT {process.pid}",
        proof=(_state_proof(process),),
    )


def _is_busy(thread: LiveThread) -> bool:
    """Busy all the time, or as much as a crowded machine lets it: running, in no system call."""
    runs = thread.state == "R" and thread.system_call is None
    return thread.cpu_share >= (_RUNNING_SHARE if runs else _BUSY_SHARE)


def _busy(process: LiveProcess, thread: LiveThread, stacks: Stacks) -> HangFinding:
    stack = stacks.get((process.pid, thread.tid), Stack(tid=thread.tid, frames=()))
    native = next((f.function for f in stack.frames if f.function), None)
    python = next((f for f in stack.frames if f.kind is FrameKind.PYTHON), None)
    where = f", in {native}" if native else ""
    if python is not None:
        where = f", in {python.function} ({python.file}:{python.line})"
    return HangFinding(
        kind=HangKind.BUSY_LOOP,
        summary=f"Thread {thread.tid} of process {process.pid} is busy{where}: "
        f"{thread.cpu_share:.0%} of a processor.",
        proof=(f"user and system time of thread {thread.tid} grew by {thread.cpu_share:.0%}",),
        busy=Node(pid=process.pid, tid=thread.tid),
    )


def _idle(processes: tuple[LiveProcess, ...]) -> HangFinding:
    return HangFinding(
        kind=HangKind.IDLE,
        summary="Nobody is busy, and nobody is seen to wait for another: idle, or "
        "waiting for something outside (a socket, a timer, a terminal).",
        proof=tuple(_state_proof(process) for process in processes),
    )


def _only_each_other(process: LiveProcess) -> bool:
    """Can nothing but the process's own threads wake any of them, and do all of them sleep?"""
    alive = [thread for thread in process.threads if thread.state not in "ZX"]
    return bool(alive) and all(waits_privately(thread) for thread in alive)


def _asleep(process: LiveProcess, stacks: Stacks) -> HangFinding:
    """No deadlock is claimed: who holds what is not recorded, and a signal may wake somebody."""
    alive = [thread for thread in process.threads if thread.state not in "ZX"]
    count = "The only thread" if len(alive) == 1 else f"All {len(alive)} threads"
    return HangFinding(
        kind=HangKind.IDLE,
        summary=f"{count} of {_name(Node(pid=process.pid), (process,))} can be woken by threads "
        "of that process alone, and none of them is awake: unless a signal's handler does it, "
        "nobody goes on. Who holds what is not recorded: Python's threading.Lock, semaphores, "
        "condition variables and read-write locks do not say.",
        proof=tuple(_sleep_proof(process, thread, stacks) for thread in alive[:_MOST_PROOFS]),
    )


def _sleep_proof(process: LiveProcess, thread: LiveThread, stacks: Stacks) -> str:
    stack = stacks.get((process.pid, thread.tid), Stack(tid=thread.tid, frames=()))
    python = next((f for f in stack.frames if f.kind is FrameKind.PYTHON), None)
    own = next((f for f in stack.frames if f.function and is_own(f)), None)
    where = python or own
    at = f" at {where.function}" if where is not None else ""
    if where is not None and where.file is not None:
        at += f" ({where.file.rsplit('/', 1)[-1]}:{where.line})"
    return f"thread {thread.tid} waits{at}: a private futex, no time limit"


def _name(node: Node, processes: tuple[LiveProcess, ...]) -> str:
    process = next((found for found in processes if found.pid == node.pid), None)
    command = process.command.rsplit("/", 1)[-1] if process else "?"
    if node.tid is None:
        return f"process {node.pid} ({command})"
    thread = next((t for t in process.threads if t.tid == node.tid), None) if process else None
    return f"thread {node.tid} ({thread.name if thread else command})"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _state_proof(process: LiveProcess) -> str:
    states = "".join(thread.state for thread in process.threads)
    count = len(process.threads)
    threads = "1 thread, state" if count == 1 else f"{count} threads, states"
    return f"process {process.pid}: {threads} {states[:40]}"


_SOMEBODY: Final = Node(pid=0)
"""Whom we do not see, and who is not stuck."""
