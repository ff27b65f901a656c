"""The kernel tells which thread faulted, and every other record which process."""

import pytest
from tests.py.support.incidents import incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Incident, ProcessRole

FAULT = (
    "Jan 15 08:12:45 node1 kernel: {name}[4300]: segfault at 48 ip 00007f1be0001234 "
    "sp 00007ffd3c0 error 4 in libexample.so[7f1be0000000+21000]"
)
RECORD = "Jan 15 08:12:47 node1 systemd-coredump[4351]: Process 4242 (python3) of user 0 {end}"
DUMPED = RECORD.format(end="dumped core.")
ABRT = (
    "Jan 15 08:12:46 node1 abrt-hook-ccpp[4351]: Process 4242 (python3) of user 0 killed by "
    "SIGSEGV - dumping core"
)
STACK = (
    "",
    "        Stack trace of thread 4300:",
    "        #0  0x00007f1be0001234 fill (libexample.so)",
    "        #1  0x00007f1be1000046 GOMP_parallel (libgomp.so.1)",
)


def first(*lines: str) -> Incident:
    return incidents_of(*lines)[0]


@pytest.mark.parametrize("record", [DUMPED, ABRT])
def test_a_threads_fault_is_its_processs(record: str) -> None:
    incident = first(FAULT.format(name="python3"), record)

    death = incident.first_death
    assert (death.pid, death.name, death.module) == (4242, "python3", "libexample.so")
    assert "in its thread 4300" in death.cause.detail
    assert [process.pid for process in incident.processes] == [4242]
    assert not incident.echoes


def test_a_thread_with_a_name_of_its_own_is_known_by_its_stack() -> None:
    incident = first(FAULT.format(name="pt_main_thread"), DUMPED, *STACK)

    death = incident.first_death
    assert (death.pid, death.name, death.function) == (4242, "python3", "fill")
    assert "in its thread 4300 pt_main_thread" in death.cause.detail


@pytest.mark.parametrize(
    "record",
    [
        DUMPED.replace("python3", "nginx"),  # another program
        DUMPED.replace("4242", "4301"),  # younger than the thread
        ABRT.replace("SIGSEGV", "SIGABRT"),  # of another signal
    ],
)
def test_what_does_not_fit_stays_apart(record: str) -> None:
    death = first(FAULT.format(name="python3"), record).first_death

    assert death.pid == 4300
    assert "thread" not in death.cause.detail


def test_a_process_whose_own_number_the_kernel_tells_has_no_other() -> None:
    own = FAULT.format(name="python3").replace("4300", "4242")

    death = first(own, DUMPED).first_death

    assert death.pid == 4242
    assert "thread" not in death.cause.detail


def test_one_record_is_of_one_thread() -> None:
    fault = FAULT.format(name="python3")

    incident = first(fault, fault.replace("4300", "4310"), DUMPED)

    assert {process.pid for process in incident.processes} == {4242, 4310}


DIED = (
    "(EngineCore_DP0 pid=4176) ERROR 01-15 08:12:45 [multiproc_executor.py:246] Worker proc "
    "VllmWorker-0 died unexpectedly, shutting down executor."
)
HANDLED = "(Worker_TP0 pid=4210) !!!!!!! Segfault encountered !!!!!!!"
LATE = FAULT.format(name="pt_main_thread")


def test_a_fault_is_likely_that_of_the_worker_that_ended_then() -> None:
    death = first(DIED, LATE).first_death

    assert (death.name, death.role, death.module) == (
        "VllmWorker-0",
        ProcessRole.WORKER,
        "libexample.so",
    )
    assert "as the kernel says of pt_main_thread[4300]" in death.cause.detail
    assert (death.signal, death.cause.certainty) == ("SIGSEGV", Certainty.LIKELY)


def test_a_fault_that_its_process_told_itself_is_one_death() -> None:
    warming = "(Worker_TP0 pid=4210) INFO 01-15 08:12:41 [cpu_model_runner.py:55] Warming up"

    incident = first(warming, HANDLED, DIED, LATE)

    assert (incident.first_death.pid, incident.first_death.name) == (4210, "Worker_TP0")
    assert "a read of address 0x48" in incident.first_death.cause.detail
    assert incident.first_death.cause.certainty is Certainty.PROVED
    assert 4300 not in {process.pid for process in incident.processes}


@pytest.mark.parametrize(
    "fault",
    [
        LATE.replace("pt_main_thread", "nginx"),
        LATE.replace("08:12:45", "07:12:45"),
        LATE.replace("4300", "4176"),  # who wrote the line lived on
    ],
)
def test_another_programs_fault_or_an_hours_old_one_is_not_the_workers(fault: str) -> None:
    told = (death.first_death for death in incidents_of(DIED, fault))

    assert all("as the kernel says" not in death.cause.detail for death in told)


def test_words_of_a_fault_are_not_matched_with_one_of_no_known_time() -> None:
    undated = "[ 8421.100000] " + LATE.partition("kernel: ")[2]

    assert "as the kernel says" not in first(HANDLED, DIED, undated).first_death.cause.detail


KILLED = (
    "[Thu Jan 15 08:12:44 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,"
    "mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=pt_main_thread,pid=88123,uid=0",
    "[Thu Jan 15 08:12:44 2026] Memory cgroup out of memory: Killed process 88123 (pt_main_thread) "
    "total-vm:92311200kB, anon-rss:33012000kB, file-rss:0kB, shmem-rss:0kB, UID:0",
)


def test_the_worker_that_ended_then_is_whom_the_kernel_killed_for_want_of_memory() -> None:
    one = "(Worker_TP0 pid=300) INFO 01-15 08:12:41 [worker.py:1] Loading"

    incident = first(one, one.replace("0 pid=300", "1 pid=301"), DIED.replace("-0", "-1"), *KILLED)

    death = incident.first_death
    assert (death.name, death.pid, death.signal) == ("VllmWorker-1", 301, "SIGKILL")
    assert death.cause.kind is CauseClass.OOM_KILLED
    assert 88123 not in {process.pid for process in incident.processes}


def test_a_containers_exit_is_no_word_of_whom_the_kernel_killed() -> None:
    record = (
        "    Last State:     Terminated",
        "      Reason:       Error",
        "      Exit Code:    1",
    )

    death = first(DIED, *KILLED, *record).first_death

    assert (death.signal, death.exit) == ("SIGKILL", None)
