"""The kernel tells which thread faulted, and every other record which process."""

import pytest
from tests.py.support.incidents import incidents_of

from vllm_forensics.model.incident import Incident

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
