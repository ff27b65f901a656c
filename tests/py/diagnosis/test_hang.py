"""The wait-for graph and the verdicts, value by value."""

import time
from dataclasses import replace

import pytest

from vllm_forensics.diagnosis.hang import find_cycle, judge_hang
from vllm_forensics.diagnosis.waits import (
    find_thread,
    find_waits,
    futex_waiters,
    lock_owner,
    waits_for_mutex,
)
from vllm_forensics.model.answer import Tier
from vllm_forensics.model.hang import (
    Call,
    HangKind,
    LiveProcess,
    LiveThread,
    Mutex,
    Node,
    OpenPipe,
    SharedMapping,
    SystemCall,
    Wait,
)
from vllm_forensics.model.stack import Frame, FrameKind, Stack

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
ANY = (1 << 64) - 1
WAIT_PRIVATE = 0x80
WAIT_BITSET_CLOCK_PRIVATE = 0x80 | 0x100 | 9
LOCK_PI = 6
LOCK_PI2_PRIVATE = 13 | 0x80


def call(kind: Call, *arguments: int) -> SystemCall:
    return SystemCall(call=kind, arguments=(*arguments, *(0,) * (6 - len(arguments))))


def thread(
    tid: int, sleeps_in: SystemCall | None = None, *, state: str = "S", cpu: float = 0.0
) -> LiveThread:
    return LiveThread(
        tid=tid,
        name=f"t{tid}",
        state=state,
        cpu_share=cpu,
        system_call=sleeps_in,
        still=sleeps_in is not None,
    )


def process(pid: int, *threads: LiveThread, parent: int = 1, **more: object) -> LiveProcess:
    made = LiveProcess(
        pid=pid, parent=parent, command=f"/bin/p{pid}", threads=threads or (thread(pid),)
    )
    return replace(made, **more)  # type: ignore[arg-type]


def reader(descriptor: int, inode: int) -> OpenPipe:
    return OpenPipe(descriptor=descriptor, inode=inode, reads=True, writes=False)


def writer(descriptor: int, inode: int) -> OpenPipe:
    return OpenPipe(descriptor=descriptor, inode=inode, reads=False, writes=True)


def stack(tid: int, *functions: str | None, module: str = LIBC) -> Stack:
    frames = (
        Frame(index=index, pc=index + 1, function=name, tier=Tier.GDB, module=module)
        for index, name in enumerate(functions)
    )
    return Stack(tid=tid, frames=tuple(frames))


def edges(*processes: LiveProcess, mutexes: tuple[Mutex, ...] = ()) -> list[tuple[Node, Node]]:
    return [(wait.waiter, wait.holder) for wait in find_waits(processes, mutexes, {})]


def wait(waiter: Node, holder: Node, *, certain: bool = True) -> Wait:
    return Wait(waiter=waiter, holder=holder, resource="a thing", proof="seen", certain=certain)


READS_3 = call(Call.READ, 3)
WRITES_4 = call(Call.WRITE, 4)


# Edges.


def test_a_mutex_leads_from_its_waiter_to_its_owner() -> None:
    found = Mutex(pid=10, tid=11, address=0x1000, owner=Node(pid=10, tid=12))

    [edge] = find_waits((process(10, thread(11), thread(12)),), [found], {})

    assert (edge.waiter, edge.holder) == (Node(pid=10, tid=11), Node(pid=10, tid=12))
    assert edge.resource == "the mutex at 0x1000"
    assert edge.proof == "thread 11 waits on the mutex at 0x1000, which thread 12 owns"


def test_a_reader_waits_for_who_can_write() -> None:
    reads = process(10, thread(10, READS_3), pipes=(reader(3, 77),))
    writes = process(20, pipes=(writer(5, 77),))
    also_reads = process(30, pipes=(reader(3, 77),))
    other_pipe = process(40, pipes=(writer(3, 78),))

    assert edges(reads, writes, also_reads, other_pipe) == [
        (Node(pid=10, tid=10), Node(pid=20)),
    ]


def test_a_writer_waits_for_who_can_read() -> None:
    writes = process(10, thread(10, WRITES_4), pipes=(writer(4, 77),))

    assert edges(writes, process(20, pipes=(reader(0, 77),)), process(30, pipes=(writer(4, 77),)))
    assert edges(writes, process(30, pipes=(writer(4, 77),))) == []


def test_an_end_that_is_open_both_ways_counts_for_both() -> None:
    both = OpenPipe(descriptor=3, inode=77, reads=True, writes=True)

    reads = process(10, thread(10, READS_3), pipes=(reader(3, 77),))

    assert edges(reads, process(20, pipes=(both,))) == [(Node(pid=10, tid=10), Node(pid=20))]


def test_the_own_copy_of_the_other_end_counts_only_with_other_threads() -> None:
    pipes = (reader(3, 77), writer(4, 77))

    alone = process(10, thread(10, READS_3), pipes=pipes)
    two = process(10, thread(10, READS_3), thread(11), pipes=pipes)

    assert edges(alone) == []
    assert edges(two) == [(Node(pid=10, tid=10), Node(pid=10))]


def test_a_thread_that_did_anything_meanwhile_waits_for_nobody() -> None:
    moving = replace(thread(10, READS_3), still=False)

    reads = process(10, moving, pipes=(reader(3, 77),))

    assert edges(reads, process(20, pipes=(writer(5, 77),))) == []


@pytest.mark.parametrize(
    ("waits", "children"),
    [
        (call(Call.WAIT4, 20), [20]),
        (call(Call.WAIT4, ANY), [20, 21]),
        (call(Call.WAIT4, 0xFFFFFFFF), [20, 21]),
        (call(Call.WAIT4, 0), [20, 21]),
        (call(Call.WAIT4, ANY - 9), [20, 21]),  # a group
        (call(Call.WAIT4, 99), []),
        (call(Call.WAITID, 0, 0), [20, 21]),  # P_ALL
        (call(Call.WAITID, 1, 21), [21]),  # P_PID
        (call(Call.WAITID, 3, 5), [20, 21]),  # P_PIDFD: of whom is not seen
    ],
)
def test_wait_leads_to_the_children_that_it_names(waits: SystemCall, children: list[int]) -> None:
    family = (
        process(10, thread(10, waits)),
        process(20, parent=10),
        process(21, parent=10),
        process(22, parent=20),
    )

    assert edges(*family) == [(Node(pid=10, tid=10), Node(pid=child)) for child in children]


def test_a_join_leads_to_the_thread_whose_id_it_sleeps_on() -> None:
    joins = process(10, thread(10, call(Call.FUTEX, 0x7000, 0x109, 12)), thread(12), thread(13))
    stacks = {(10, 10): stack(10, "__futex_abstimed_wait_common", "__pthread_clockjoin_ex")}

    [edge] = find_waits((joins,), [], stacks)

    assert edge.holder == Node(pid=10, tid=12)
    assert edge.proof == "thread 10 is in pthread_join for thread 12"
    assert find_waits((joins,), [], {}) == ()


RING = SharedMapping(start=0x7000, end=0x8000, name="/mnt/ring", identity="00:19:5")


def test_a_futex_in_shared_memory_leads_to_who_maps_the_same() -> None:
    elsewhere = replace(RING, start=0x9000, end=0xA000)
    waits = process(10, thread(10, call(Call.FUTEX, 0x7010)), shared=(RING,))
    peer = process(20, shared=(elsewhere,))
    stranger = process(30, shared=(replace(RING, identity="00:19:6"),))

    [edge] = find_waits((waits, peer, stranger), [], {})

    assert (edge.holder, edge.resource) == (Node(pid=20), "a change in /mnt/ring")
    assert edge.certain


def test_of_several_who_map_it_none_is_certain() -> None:
    waits = process(10, thread(10, call(Call.FUTEX, 0x7010)), shared=(RING,))

    found = find_waits((waits, process(20, shared=(RING,)), process(30, shared=(RING,))), [], {})

    assert [edge.certain for edge in found] == [False, False]


@pytest.mark.parametrize(("address", "operation"), [(0x8000, 0), (0x7010, WAIT_PRIVATE)])
def test_private_futexes_and_other_memory_lead_nowhere(address: int, operation: int) -> None:
    waits = process(10, thread(10, call(Call.FUTEX, address, operation)), shared=(RING,))

    assert edges(waits, process(20, shared=(RING,))) == []


# Mutexes.


def futex(operation: int = WAIT_PRIVATE) -> SystemCall:
    return call(Call.FUTEX, 0x1000, operation, 2)


LOCKING = stack(1, "__lll_lock_wait", "pthread_mutex_lock", "std::mutex::lock")


def test_the_owner_field_of_a_held_mutex_is_believed() -> None:
    assert lock_owner(futex(), 2, 4711, LOCKING) == 4711


@pytest.mark.parametrize("word", [0, 1, 3, 17])
def test_a_word_that_is_not_that_of_a_held_mutex_names_nobody(word: int) -> None:
    assert lock_owner(futex(), word, 4711, LOCKING) is None


def test_a_mutex_that_is_passed_on_has_no_owner_for_a_moment() -> None:
    assert lock_owner(futex(), 2, 0, LOCKING) is None


@pytest.mark.parametrize("operation", [LOCK_PI, LOCK_PI2_PRIVATE])
def test_with_priority_inheritance_the_kernel_names_the_owner_in_any_library(
    operation: int,
) -> None:
    word = 0x80000000 | 4711

    assert lock_owner(futex(operation), word, 99, stack(1)) == 4711
    assert lock_owner(futex(operation), 0x40000000, 99, stack(1)) is None  # its owner died


def test_a_robust_mutex_holds_the_owner_in_its_word() -> None:
    assert lock_owner(futex(), 0x80000000 | 4711, 99, LOCKING) == 4711


@pytest.mark.parametrize(
    "functions",
    [
        ("__lll_lock_wait", "pthread_mutex_lock"),
        ("futex_wait", "__GI___lll_lock_wait", "___pthread_mutex_lock"),
        ("__futex_lock_pi64", "__pthread_mutex_lock_full", "main"),
        ("__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait"),
        (None, "pthread_mutex_lock"),
    ],
)
def test_lock_functions_of_glibc_are_known(functions: tuple[str | None, ...]) -> None:
    assert waits_for_mutex(stack(1, *functions))


@pytest.mark.parametrize(
    "functions",
    [
        (),
        ("__futex_abstimed_wait_common", "__pthread_rwlock_wrlock_full64", "pthread_rwlock_wrlock"),
        ("__futex_abstimed_wait_common", "pthread_cond_wait"),
        ("__futex_abstimed_wait_common", "__new_sem_wait_slow64"),
        ("__lll_lock_wait_private", "malloc"),
        ("read", "pthread_mutex_lock"),
        ("my_pthread_mutex_lock", "main"),
    ],
)
def test_other_waits_are_no_mutexes(functions: tuple[str, ...]) -> None:
    waits = stack(1, *functions)

    assert not waits_for_mutex(waits)
    assert lock_owner(futex(), 2, 4711, waits) is None


@pytest.mark.parametrize("module", ["/lib/ld-musl-x86_64.so.1", "/srv/static-program"])
def test_the_layout_of_another_c_library_is_not_assumed(module: str) -> None:
    musl = stack(1, "__wait", "__timedwait", "pthread_mutex_lock", module=module)
    no_names = stack(1, "pthread_mutex_lock", module=module)

    assert lock_owner(futex(), 0x80000010, 4711, musl) is None
    assert lock_owner(futex(), 0x80000010, 4711, no_names) is None


def test_only_sleepers_on_a_futex_are_asked_for_a_mutex() -> None:
    of = process(
        10,
        thread(1, futex()),
        thread(2, futex(WAIT_BITSET_CLOCK_PRIVATE)),
        thread(3, futex(LOCK_PI)),
        thread(4, futex(1)),  # FUTEX_WAKE
        thread(5, READS_3),
        replace(thread(6, futex()), still=False),
        thread(7),
    )

    assert [found.tid for found, _ in futex_waiters(of)] == [1, 2, 3]


def test_a_thread_id_is_that_which_the_process_itself_sees() -> None:
    contained = process(100, replace(thread(100), inner_tid=1), replace(thread(101), inner_tid=2))
    host = process(2, thread(2))

    found = find_thread(2, contained, (host, contained), is_shared=True)

    assert found == Node(pid=100, tid=101)


def test_another_processs_thread_can_own_only_what_is_shared() -> None:
    own, other, twin = process(10), process(20), process(30, replace(thread(30), inner_tid=20))

    assert find_thread(20, own, (own, other), is_shared=True) == Node(pid=20, tid=20)
    assert find_thread(20, own, (own, other), is_shared=False) is None
    assert find_thread(20, own, (own, other, twin), is_shared=True) is None


# The GIL.

TAKES = ("futex_wait", "take_gil", "_PyEval_EvalFrameDefault")
RUNS = ("memcpy", "_PyEval_EvalFrameDefault")
SLEEPS = ("clock_nanosleep", "pysleep", "time_sleep", "_PyEval_EvalFrameDefault")


def gil_edges(
    *stacks: Stack, holder: int | None = None, cpu: float = 0.01
) -> list[tuple[int | None, int | None]]:
    threads = (thread(found.tid, cpu=cpu) for found in stacks)
    found = find_waits(
        (process(10, *threads),),
        [],
        {(10, one.tid): one for one in stacks},
        {} if holder is None else {10: holder},
    )
    assert {edge.resource for edge in found} <= {"the GIL"}
    return [(edge.waiter.tid, edge.holder.tid) for edge in found]


def test_the_interpreters_own_word_names_the_gils_holder() -> None:
    several = (stack(1, *RUNS), stack(2, *TAKES), stack(3, *RUNS))

    assert gil_edges(*several, holder=3) == [(2, 3)]
    assert gil_edges(*several) == []


def test_the_only_thread_that_runs_python_holds_the_gil() -> None:
    assert gil_edges(stack(1, *RUNS), stack(2, *TAKES), stack(3, *SLEEPS), stack(4, "read")) == [
        (2, 1)
    ]


def test_threads_that_take_turns_do_not_wait() -> None:
    assert gil_edges(stack(1, *RUNS), stack(2, *TAKES), cpu=0.4) == []


# Cycles.


def test_two_threads_with_each_others_mutex_are_a_cycle() -> None:
    one, two = Node(pid=10, tid=11), Node(pid=10, tid=12)
    waits = (wait(one, two), wait(two, one))

    assert find_cycle(waits, (process(10, thread(11), thread(12)),)) == list(waits)


def test_a_thread_that_locks_twice_waits_for_itself() -> None:
    own = wait(Node(pid=10, tid=11), Node(pid=10, tid=11))

    assert find_cycle((own,), (process(10, thread(11)),)) == [own]


def test_a_chain_is_no_cycle() -> None:
    one, two, three = (Node(pid=10, tid=tid) for tid in (11, 12, 13))

    chain = (wait(one, two), wait(two, three))

    assert find_cycle(chain, (process(10, thread(11), thread(12), thread(13)),)) == []


def ping_and_pong(*more: LiveThread) -> tuple[LiveProcess, LiveProcess]:
    """Each reads what only the other can write."""
    ping = process(10, thread(10, READS_3), pipes=(reader(3, 1), writer(4, 2)))
    pong = process(20, thread(20, READS_3), *more, pipes=(reader(3, 2), writer(4, 1)))
    return ping, pong


def test_two_processes_that_read_from_each_other_are_a_cycle() -> None:
    both = ping_and_pong()

    cycle = find_cycle(find_waits(both, [], {}), both)

    assert {found.waiter.pid for found in cycle} == {10, 20}


def test_a_third_who_may_write_breaks_the_cycle() -> None:
    free = process(30, pipes=(writer(9, 1),))
    three = (*ping_and_pong(), free)

    assert find_cycle(find_waits(three, [], {}), three) == []


def test_a_third_who_is_stuck_himself_does_not() -> None:
    stuck = process(30, thread(30, READS_3), pipes=(reader(3, 2), writer(9, 1)))
    three = (*ping_and_pong(), stuck)

    assert find_cycle(find_waits(three, [], {}), three)


def test_another_thread_of_the_process_may_write() -> None:
    both = ping_and_pong(thread(21, call(Call.OTHER)))

    assert find_cycle(find_waits(both, [], {}), both) == []


def test_a_pool_thread_that_only_the_stuck_can_wake_does_not_help() -> None:
    forever = call(Call.FUTEX, 0x1000, 0x89, 0, 0)
    both = ping_and_pong(thread(21, forever), thread(22, forever))

    assert find_cycle(find_waits(both, [], {}), both)


def test_a_pool_thread_with_a_time_limit_may_help() -> None:
    both = ping_and_pong(thread(21, call(Call.FUTEX, 0x1000, 0x89, 0, 0x7FFF)))

    assert find_cycle(find_waits(both, [], {}), both) == []


def test_waits_that_are_not_certain_make_no_cycle() -> None:
    one, two = Node(pid=10, tid=10), Node(pid=20, tid=20)

    unsure = (wait(one, two), wait(two, one, certain=False))

    assert find_cycle(unsure, (process(10), process(20))) == []


def test_condition_variables_alone_are_no_cycle() -> None:
    forever = call(Call.FUTEX, 0x1000, 0x89, 0, 0)
    asleep = process(10, thread(10, forever), thread(11, forever))

    [found] = judge_hang((asleep,), find_waits((asleep,), [], {}), {})

    assert found.kind is HangKind.IDLE


def test_a_parent_in_wait_and_a_child_in_a_full_pipe_are_a_cycle() -> None:
    parent = process(10, thread(10, call(Call.WAIT4, 20)), pipes=(reader(3, 1),))
    child = process(20, thread(20, WRITES_4), parent=10, pipes=(writer(4, 1),))

    [found] = judge_hang((parent, child), find_waits((parent, child), [], {}), {})

    assert found.kind is HangKind.DEADLOCK
    assert set(found.proof) == {
        "thread 10 is in wait() for its child 20",
        "thread 20 is in write(4) on pipe 1, whose other end process 10 has open",
    }


def test_a_pipe_to_oneself_is_no_deadlock() -> None:
    """A handler of a signal may write into it."""
    pipes = (reader(3, 77), writer(4, 77))
    own = process(10, thread(10, READS_3), thread(11, READS_3), pipes=pipes)

    assert find_cycle(find_waits((own,), [], {}), (own,)) == []


def test_thousands_behind_a_deadlock_take_no_time() -> None:
    """And the process as a whole is seen to be stuck, without a set for each of its threads."""
    forever = call(Call.FUTEX, 0x1000, 0x89, 0, 0)
    one, two = Node(pid=10, tid=1), Node(pid=10, tid=2)
    queue = [wait(Node(pid=10, tid=tid), one) for tid in range(3, 2000)]
    many = process(10, *(thread(tid, forever) for tid in range(1, 4000)))
    begin = time.monotonic()

    cycle = find_cycle((*queue, wait(one, two), wait(two, one)), (many,))

    assert time.monotonic() - begin < 2
    assert {found.waiter for found in cycle} == {one, two}


# Verdicts.


@pytest.mark.parametrize(
    ("state", "cpu", "calls", "busy"),
    [
        ("R", 0.2, None, True),
        ("R", 0.19, None, False),
        ("R", 0.69, call(Call.OTHER), False),
        ("S", 0.7, call(Call.OTHER), True),
        ("S", 0.69, None, False),
    ],
)
def test_who_runs_all_the_time_is_busy(
    state: str, cpu: float, calls: SystemCall | None, busy: bool
) -> None:
    found = judge_hang((process(10, thread(10, calls, state=state, cpu=cpu)),), (), {})

    assert (found[0].kind is HangKind.BUSY_LOOP) == busy


def test_a_busy_thread_is_named_by_its_innermost_function() -> None:
    busy = (process(10, thread(10, state="R", cpu=0.984)),)

    [found] = judge_hang(busy, (), {(10, 10): stack(10, None, "spin", "main")})

    assert found.summary == "Thread 10 of process 10 is busy, in spin: 98% of a processor."
    assert found.busy == Node(pid=10, tid=10)


def test_a_busy_python_thread_is_named_by_its_python_function() -> None:
    native = stack(10, "_PyEval_EvalFrameDefault")
    python = Frame(
        index=1,
        pc=0,
        function="Engine.step",
        tier=Tier.NOTES,
        kind=FrameKind.PYTHON,
        file="/srv/engine.py",
        line=7,
    )
    both = replace(native, frames=(*native.frames, python))

    [found] = judge_hang((process(10, thread(10, cpu=1.0)),), (), {(10, 10): both})

    assert "is busy, in Engine.step (/srv/engine.py:7): 100%" in found.summary


def test_nobody_busy_and_nobody_waiting_is_idle() -> None:
    [found] = judge_hang((process(10, thread(10), thread(11, state="D")),), (), {})

    assert found.kind is HangKind.IDLE
    assert found.proof == ("process 10: 2 threads, states SD",)


def test_threads_that_only_each_other_could_wake_are_told_where_they_sleep() -> None:
    sleeps = call(Call.FUTEX, 0x7000, 0x80, 2, 0)
    two = process(10, thread(10, sleeps), thread(11, sleeps))

    inner = stack(10, "sem_wait")
    python = Frame(
        index=1, pc=0, function="serve", tier=Tier.NOTES, kind=FrameKind.PYTHON,
        file="/srv/app.py", line=7,
    )  # fmt: skip

    [found] = judge_hang((two,), (), {(10, 10): replace(inner, frames=(*inner.frames, python))})

    assert found.kind is HangKind.IDLE
    assert found.summary.startswith("All 2 threads of process 10 (p10)")
    assert found.proof == (
        "thread 10 waits at serve (app.py:7): a private futex, no time limit",
        "thread 11 waits: a private futex, no time limit",
    )


@pytest.mark.parametrize("operation", [0x0, 0x80], ids=["shared", "with a time limit"])
def test_threads_that_others_or_a_clock_could_wake_are_idle(operation: int) -> None:
    limit = 0x5000 if operation else 0
    one = process(10, thread(10, call(Call.FUTEX, 0x7000, operation, 2, limit)))

    [found] = judge_hang((one,), (), {})

    assert found.summary.startswith("Nobody is busy")


def test_a_wait_for_a_peer_says_for_what_and_from_whom() -> None:
    reads = process(10, thread(10, READS_3), pipes=(reader(3, 77),))
    writes = process(20, pipes=(writer(5, 77),))

    [found] = judge_hang((reads, writes), find_waits((reads, writes), [], {}), {})

    assert found.kind is HangKind.WAITING_ON_PEER
    assert found.summary == "Thread 10 (t10) waits for data in a pipe from process 20 (p20)."


def test_a_main_thread_that_joins_its_workers_is_idle() -> None:
    joins = process(10, thread(10, call(Call.FUTEX, 0x7000, 0x109, 12)), thread(12))
    waits = find_waits((joins,), [], {(10, 10): stack(10, "__pthread_clockjoin_ex")})

    [found] = judge_hang((joins,), waits, {})

    assert found.kind is HangKind.IDLE


def test_threads_that_wait_for_the_gil_are_counted() -> None:
    stacks = {(10, tid): stack(tid, *TAKES) for tid in (2, 3)} | {(10, 1): stack(1, *RUNS)}
    one = process(10, thread(1), thread(2), thread(3))

    [found] = judge_hang((one,), find_waits((one,), [], stacks), stacks)

    assert found.kind is HangKind.GIL_WAIT
    assert found.summary == "2 threads wait for the GIL, which thread 1 (t1) keeps."


def test_a_stopped_process_is_told_how_it_goes_on() -> None:
    [found] = judge_hang((process(10, thread(10, state="T")),), (), {})

    assert found.kind is HangKind.STOPPED
    assert found.summary.endswith("It goes on with: kill -CONT 10")
    assert found.proof == ("process 10: 1 thread, state T",)


def test_a_deadlock_is_told_as_a_ring() -> None:
    both = ping_and_pong()

    [found] = judge_hang(both, find_waits(both, [], {}), {})

    assert found.summary.startswith(
        "A deadlock: thread 10 (t10) → thread 20 (t20) → thread 10 (t10)."
    )
