"""Who waits for whom: every edge of the wait-for graph that /proc and memory prove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from vllm_forensics.model.hang import (
    Call,
    LiveProcess,
    LiveThread,
    Mutex,
    Node,
    SharedMapping,
    SystemCall,
    Wait,
)
from vllm_forensics.model.stack import Frame, Stack

THE_GIL: Final = "the GIL"
THE_END: Final = "the end"
_GETS_GIL_SHARE: Final = 0.05
"""A thread that ran so much while it was watched did get the GIL: it only takes turns."""
# include/uapi/linux/futex.h
_COMMAND_MASK: Final = 0x7F  # without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
_FUTEX_PRIVATE: Final = 0x80
_FUTEX_WAIT: Final = {0, 9}  # FUTEX_WAIT, FUTEX_WAIT_BITSET
_FUTEX_LOCK_PI: Final = {6, 13}  # FUTEX_LOCK_PI, FUTEX_LOCK_PI2
_FUTEX_WAITERS: Final = 0x80000000
_FUTEX_TID_MASK: Final = 0x3FFFFFFF
_LOCKED_WITH_WAITERS: Final = 2  # glibc's lowlevellock.h: a thread sets it before it sleeps
_P_ALL, _P_PID, _P_PGID = 0, 1, 2  # waitid(2)
_ANY_CHILD: Final = {0xFFFFFFFF, (1 << 64) - 1}  # pid_t -1, however wide the register shows it
_TAKES_GIL: Final = {
    "take_gil",
    "PyEval_AcquireThread",
    "PyEval_AcquireLock",
    "PyEval_RestoreThread",
    "PyGILState_Ensure",
    "_PyThreadState_Attach",  # 3.13
}
_RUNS_PYTHON: Final = {"_PyEval_EvalFrameDefault", "_PyEval_EvalFrame", "PyEval_EvalCode"}
_GAVE_GIL_UP: Final = {
    *("lock_PyThread_acquire_lock", "acquire_timed", "rlock_acquire", "time_sleep", "pysleep"),
    *("_Py_read", "_Py_write", "_Py_write_impl", "sock_call_ex", "select_select_impl"),
    *("select_poll_poll_impl", "select_epoll_poll_impl", "os_waitpid_impl", "os_wait_impl"),
    *("_queue_SimpleQueue_get_impl", "_multiprocessing_SemLock_acquire_impl"),
    "_PySemaphore_Wait",
}
"""CPython's functions that wait with the GIL given up: their thread is not its holder."""
_GLIBC_FILES: Final = ("libc.so.6", "libpthread.so.0", "libc-2.", "libpthread-2.")
_GLIBC_WAITS: Final = {
    *("__lll_lock_wait", "__GI___lll_lock_wait", "lll_lock_wait", "futex_wait"),
    *("__futex_lock_pi64", "futex_lock_pi64"),
}
"""Names inside glibc alone; musl's are __wait and __timedwait."""
_MUTEX_FUNCTIONS: Final = {
    *("pthread_mutex_lock", "__pthread_mutex_lock", "___pthread_mutex_lock"),
    *("__GI___pthread_mutex_lock", "__pthread_mutex_lock_full", "__pthread_mutex_cond_lock"),
    *("__pthread_mutex_cond_lock_full", "pthread_mutex_lock@@GLIBC_2.2.5"),
}
_JOINS: Final = {
    *("pthread_join", "__pthread_join", "___pthread_join", "__pthread_clockjoin_ex"),
    "__pthread_timedjoin_ex",
}
_NOBODY: Final = Stack(tid=0, frames=())
Stacks = Mapping[tuple[int, int], Stack]


def find_waits(
    processes: tuple[LiveProcess, ...],
    mutexes: Iterable[Mutex],
    stacks: Stacks,
    gil_holders: Mapping[int, int] | None = None,
) -> tuple[Wait, ...]:
    """Every edge of the wait-for graph that can be proved.

    `stacks` are keyed by pid and tid. `mutexes` were read from memory that futex calls wait on, and
    `gil_holders` (pid to tid) from the interpreters' own state; where that is not known, the stacks
    may tell. Only threads that slept in one call all the time count: two looks at different moments
    would make a circle of what is a conversation.
    """
    waits = [_mutex_wait(mutex) for mutex in mutexes]
    locked = {wait.waiter for wait in waits}
    for process in processes:
        for thread in process.threads:
            waiter = Node(pid=process.pid, tid=thread.tid)
            call = thread.system_call
            if call is None or not thread.still or waiter in locked:
                continue
            stack = stacks.get((process.pid, thread.tid), _NOBODY)
            if call.call is Call.FUTEX:
                waits += _join_waits(process, waiter, call, stack)
                waits += _shared_waits(process, waiter, call, processes)
            else:
                waits += _call_waits(process, waiter, call, processes)
        waits += _gil_waits(process, stacks, (gil_holders or {}).get(process.pid))
    return tuple(dict.fromkeys(waits))


def futex_waiters(process: LiveProcess) -> Iterator[tuple[LiveThread, SystemCall]]:
    """Threads that sleep on a futex: perhaps a mutex whose owner can be read."""
    for thread in process.threads:
        call = thread.system_call
        if call is not None and thread.still and call.call is Call.FUTEX:
            operation = call.arguments[1] & _COMMAND_MASK
            if operation in _FUTEX_WAIT | _FUTEX_LOCK_PI:
                yield thread, call


def lock_owner(call: SystemCall, word: int, owner_field: int, stack: Stack) -> int | None:
    """The thread id that holds the mutex behind a futex, as its process numbers threads.

    With priority inheritance the kernel itself keeps the owner in the futex word (futex(2)), in any
    C library. Else the word must be that of a held mutex of glibc's, and the thread inside a lock
    function of glibc's: there `owner_field`, 8 bytes further, is the owner (struct
    __pthread_mutex_s of 64-bit glibc), or the word itself in a robust mutex.
    """
    if call.arguments[1] & _COMMAND_MASK in _FUTEX_LOCK_PI:
        return word & _FUTEX_TID_MASK or None
    if not waits_for_mutex(stack):
        return None
    if word == _LOCKED_WITH_WAITERS:
        return owner_field or None
    return (word & _FUTEX_TID_MASK or None) if word & _FUTEX_WAITERS else None


def waits_for_mutex(stack: Stack) -> bool:
    """Is the innermost call glibc's pthread_mutex_lock, with nothing but its own waiting below?

    Not pthread_rwlock_*, pthread_cond_wait, sem_wait or the allocator's own locks
    (__lll_lock_wait_private): other things lie there, and none names an owner.
    """
    for frame in stack.frames[:6]:
        name = frame.function
        if name in _MUTEX_FUNCTIONS:
            return _is_glibc(frame) or any(f.function in _GLIBC_WAITS for f in stack.frames[:6])
        if name not in _GLIBC_WAITS and not (name is None and _is_glibc(frame)):
            return False
    return False


def find_thread(
    tid: int, process: LiveProcess, processes: tuple[LiveProcess, ...], *, is_shared: bool
) -> Node | None:
    """Who bears a thread id that stood in a process's memory: its own thread, or another's.

    The id is the one that the process itself sees, in its pid namespace. Only a lock in shared
    memory may be another process's, and only if no two bear the id.
    """
    own = [t.tid for t in process.threads if (t.inner_tid or t.tid) == tid]
    if own:
        return Node(pid=process.pid, tid=own[0])
    others = [
        Node(pid=other.pid, tid=thread.tid)
        for other in processes
        for thread in other.threads
        if (thread.inner_tid or thread.tid) == tid
    ]
    return others[0] if is_shared and len(others) == 1 else None


def waits_privately(thread: LiveThread) -> bool:
    """Can only a thread of its own process wake it? A private futex without a time limit."""
    call = thread.system_call
    return (
        call is not None
        and thread.still
        and call.call is Call.FUTEX
        and bool(call.arguments[1] & _FUTEX_PRIVATE)
        and call.arguments[1] & _COMMAND_MASK in _FUTEX_WAIT
        and call.arguments[3] == 0
    )


def shared_mapping_at(process: LiveProcess, address: int) -> SharedMapping | None:
    """The shared mapping that an address lies in."""
    return next((m for m in process.shared if m.start <= address < m.end), None)


def _is_glibc(frame: Frame) -> bool:
    return (frame.module or "").rsplit("/", 1)[-1].startswith(_GLIBC_FILES)


def _mutex_wait(mutex: Mutex) -> Wait:
    return Wait(
        waiter=Node(pid=mutex.pid, tid=mutex.tid),
        holder=mutex.owner,
        resource=f"the mutex at {mutex.address:#x}",
        proof=f"thread {mutex.tid} waits on the mutex at {mutex.address:#x}, which thread "
        f"{mutex.owner.tid} owns",
    )


def _join_waits(
    process: LiveProcess, waiter: Node, call: SystemCall, stack: Stack
) -> Iterator[Wait]:
    """pthread_join sleeps on the joined thread's id, which the kernel clears when it ends."""
    if not any(frame.function in _JOINS for frame in stack.frames[:4]):
        return
    joined = call.arguments[2] & 0xFFFFFFFF
    for thread in process.threads:
        if (thread.inner_tid or thread.tid) == joined and thread.tid != waiter.tid:
            yield Wait(
                waiter=waiter,
                holder=Node(pid=process.pid, tid=thread.tid),
                resource=THE_END,
                proof=f"thread {waiter.tid} is in pthread_join for thread {thread.tid}",
            )


def _shared_waits(
    process: LiveProcess, waiter: Node, call: SystemCall, processes: tuple[LiveProcess, ...]
) -> Iterator[Wait]:
    """A futex in shared memory: any who maps it may wake the sleeper."""
    mapping = shared_mapping_at(process, call.arguments[0])
    if mapping is None or call.arguments[1] & _FUTEX_PRIVATE:
        return
    peers = [
        other
        for other in processes
        if other.pid != process.pid
        and any(found.identity == mapping.identity for found in other.shared)
    ]
    for peer in peers:
        yield Wait(
            waiter=waiter,
            holder=Node(pid=peer.pid),
            resource=f"a change in {mapping.name}",
            proof=f"thread {waiter.tid} sleeps on address {call.arguments[0]:#x} in "
            f"{mapping.name}, which process {peer.pid} maps too",
            certain=len(peers) == 1,
        )


def _call_waits(
    process: LiveProcess, waiter: Node, call: SystemCall, processes: tuple[LiveProcess, ...]
) -> Iterator[Wait]:
    if call.call in {Call.READ, Call.WRITE}:
        yield from _pipe_waits(process, waiter, call, processes)
    elif call.call in {Call.WAIT4, Call.WAITID}:
        for child in processes:
            if child.parent == process.pid and _is_awaited(call, child.pid):
                yield Wait(
                    waiter=waiter,
                    holder=Node(pid=child.pid),
                    resource=THE_END,
                    proof=f"thread {waiter.tid} is in wait() for its child {child.pid}",
                )


def _is_awaited(call: SystemCall, child: int) -> bool:
    """A group may hold any child: each is one that may end the wait."""
    if call.call is Call.WAIT4:
        pid = call.arguments[0] & 0xFFFFFFFF
        is_group = pid == 0 or pid >= 1 << 31
        return is_group or pid in _ANY_CHILD or pid == child
    kind, wanted = call.arguments[0] & 0xFFFFFFFF, call.arguments[1] & 0xFFFFFFFF
    return kind != _P_PID or wanted == child


def _pipe_waits(
    process: LiveProcess, waiter: Node, call: SystemCall, processes: tuple[LiveProcess, ...]
) -> Iterator[Wait]:
    """A reader waits for whoever holds the other end.

    Our own copy of it counts if another of our threads may use it.
    """
    reads = call.call is Call.READ
    descriptor = call.arguments[0] & 0xFFFFFFFF
    own = next((pipe for pipe in process.pipes if pipe.descriptor == descriptor), None)
    if own is None:
        return
    for other in processes:
        is_own = other.pid == process.pid
        if is_own and len(process.threads) == 1:
            continue
        if any(p.inode == own.inode and (p.writes if reads else p.reads) for p in other.pipes):
            yield Wait(
                waiter=waiter,
                holder=Node(pid=other.pid),
                resource="data in a pipe" if reads else "room in a pipe",
                proof=f"thread {waiter.tid} is in {'read' if reads else 'write'}({descriptor}) on "
                f"pipe {own.inode}, whose other end process {other.pid} has open",
            )


def _gil_waits(process: LiveProcess, stacks: Stacks, holder: int | None) -> Iterator[Wait]:
    """Threads inside take_gil, if it is known who keeps it."""
    names = {
        thread.tid: {
            frame.function for frame in stacks.get((process.pid, thread.tid), _NOBODY).frames
        }
        for thread in process.threads
    }
    ran = {thread.tid for thread in process.threads if thread.cpu_share >= _GETS_GIL_SHARE}
    asking = [tid for tid, found in names.items() if found & _TAKES_GIL and tid != holder]
    how = "which the interpreter's state names as its holder"
    if holder is None:
        running = [
            tid
            for tid, found in names.items()
            if found & _RUNS_PYTHON and tid not in asking and not found & _GAVE_GIL_UP
        ]
        if len(running) != 1:
            return
        [holder] = running
        how = "the only one that runs Python without waiting for it"
    for tid in asking:
        if tid in ran:
            continue
        yield Wait(
            waiter=Node(pid=process.pid, tid=tid),
            holder=Node(pid=process.pid, tid=holder),
            resource=THE_GIL,
            proof=f"thread {tid} is in take_gil; thread {holder} keeps the GIL, {how}",
        )
