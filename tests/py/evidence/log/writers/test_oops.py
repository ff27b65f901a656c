"""What a kernel says of its own faults, of every architecture, and of who keeps its CPUs."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import CauseClass


@pytest.mark.parametrize(
    ("heading", "registers"),
    [
        ("general protection fault: 0000 [#1] SMP ", "RIP: 0010:take+0x18/0x64 [pool]"),
        (
            "general protection fault: 0000 [#1] SMP",
            "RIP: e030:[<ffffffffa0123456>]  [<ffffffffa0123456>] take+0x18/0x64 [pool]",
        ),
        ("Oops: 0002 [#2] PREEMPT SMP NOPTI", "RIP  [<ffffffffa0123456>] take+0x18/0x64 [pool]"),
        ("Oops: 0000 [#1]", "EIP: [<f8a12345>] take+0x18/0x64 [pool] SS:ESP 0068:f7001234"),
        ("Internal error: undefined instruction: 0 [#1] ARM", "PC is at take+0x18/0x64 [pool]"),
        ("Oops[#1]:", "epc   : 80123456 take+0x18/0x64 [pool]"),
        ("Oops: Kernel access of bad area, sig: 11 [#1]", "NIP [c0001234] .take+0x18/0x64 [pool]"),
    ],
)
def test_every_architecture_counts_its_faults_and_says_where(heading: str, registers: str) -> None:
    first = incident_of(
        f"[ 12.345678] {heading}",
        "[ 12.345679] CPU: 1 PID: 4242 Comm: serve Not tainted 5.4.0",
        f"[ 12.345680] {registers}",
    ).first_death

    assert first.cause.kind is CauseClass.NATIVE_FAULT
    assert (first.pid, first.name) == (4242, "serve")
    assert (first.module, first.function) == ("pool", "take")


@pytest.mark.parametrize(
    ("line", "pid", "name"),
    [
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [serve:4242]", 4242, "serve"),
        ("BUG: soft lockup - CPU#3 stuck for 67s! [take/3:7]", 7, "take/3"),
        ("INFO: task serve:4242 blocked for more than 120 seconds.", 4242, "serve"),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", None, None),
        ("task serve:4242 blocked for more than 245 seconds.", 4242, "serve"),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", None, None),
    ],
)
def test_a_cpu_that_is_kept_is_a_hang(line: str, pid: int | None, name: str | None) -> None:
    first = incident_of(f"[ 12.345678] {line}").first_death

    assert (first.cause.kind, first.pid, first.name) == (CauseClass.HANG, pid, name)


def test_a_task_that_waited_long_is_no_death_where_another_is_told() -> None:
    first = incident_of(
        "[ 12.345678] INFO: task flush:77 blocked for more than 120 seconds.",
        "[ 99.345678] serve[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4",
    ).first_death

    assert (first.pid, first.signal) == (4242, "SIGSEGV")


@pytest.mark.parametrize(
    "line", ["* Fix the oops of the parser [#12]", "- general: 2 fixes [#1](../1)", "See also [#3]"]
)
def test_the_number_of_an_issue_counts_no_fault(line: str) -> None:
    assert parse_incident_log([f"{line}\n".encode()]).clues == ()
