"""Who is down as a listing shows it, and several programs in one kernel's log."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

_PODS = "NAME                    READY   STATUS             RESTARTS   AGE"


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("pool-7f9c-abcde         0/1     CrashLoopBackOff   25         1h", "pool-7f9c-abcde"),
        ("pool-7f9c-abcde         0/1     Init:CrashLoopBackOff 2 (3s ago) 1h", "pool-7f9c-abcde"),
        ("default  pool-abcde     0/1     Error              4          2m", "pool-abcde"),
        ("pool        FATAL     Exited too quickly (process log may have details)", "pool"),
        ("pool        BACKOFF   can't find command '/opt/app/pool'", "pool"),
        ("2026-01-15 08:12:45,123 INFO gave up: pool entered FATAL state, too many start", "pool"),
        ("2026-01-15 08:12:45,123 INFO exited: pool (exit status 0; not expected)", "pool"),
        ("PM2  | App [pool:0] exited with code [7] via signal [SIGINT]", "pool"),
    ],
)
def test_a_row_names_who_is_down_and_not_why(row: str, name: str) -> None:
    death = incident_of(_PODS, row).first_death

    assert (death.name, death.cause.kind) == (name, CauseClass.UNKNOWN)


@pytest.mark.parametrize(
    "row",
    [
        "pool-7f9c-abcde         1/1     Running            0          1h",
        "pool-7f9c-abcde         0/1     Completed          0          1h",
        "pool-7f9c-abcde         0/1     Pending            0          1h",
        "pool        RUNNING   pid 4242, uptime 0:45:24",
        "pool        STOPPED   Not started",
        "2026-01-15 08:12:45,123 INFO exited: pool (exit status 0; expected)",
        "A container in CrashLoopBackOff is restarted after some time.",
    ],
)
def test_who_runs_or_ended_well_is_not_down(row: str) -> None:
    assert not incidents_of(_PODS, row)


def test_a_listing_tells_no_order_so_what_was_raised_is_not_its_consequence() -> None:
    death = incident_of(
        _PODS,
        "pool-7f9c-abcde         0/1     CrashLoopBackOff   25         1h",
        "$ kubectl logs pool-7f9c-abcde",
        "Traceback (most recent call last):",
        '  File "/opt/app/pool.py", line 3, in take',
        "KeyError: 'pool'",
    ).first_death

    assert (death.cause.kind, death.python_function) == (CauseClass.PYTHON_EXCEPTION, "take")


def test_a_status_without_a_name_is_that_of_who_is_listed() -> None:
    death = incident_of(
        "It ends with exit code 134:",
        "",
        _PODS,
        "pool-7f9c-abcde         0/1     CrashLoopBackOff   25         1h",
    ).first_death

    assert (death.name, death.signal) == ("pool-7f9c-abcde", "SIGABRT")


_FAULTS = (
    "[   10.000001] foo[41]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
    "libfoo.so[7f1be0000000+21000]",
    "[   12.000001] traps: barrel[45] general protection fault ip:7f1be0001234 sp:7ffd3c00 error:0 "
    "in libbarrel.so[7f1be0000000+21000]",
    "[   13.000001] foo[46]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
    "libfoo.so[7f1be0000000+21000]",
)


def test_each_program_of_a_kernels_log_has_an_incident_of_its_own() -> None:
    deaths = [one.first_death for one in incidents_of(*_FAULTS)]

    assert [(one.name, one.module) for one in deaths] == [
        ("foo", "libfoo.so"),
        ("barrel", "libbarrel.so"),
    ]


def test_of_a_kernels_log_the_program_counts_that_the_title_names() -> None:
    deaths = [one.first_death for one in incidents_of("# barrel crashes", "", *_FAULTS)]

    assert [one.name for one in deaths] == ["barrel"]


def test_threads_of_one_python_are_one_program() -> None:
    found = incidents_of(
        _FAULTS[0].replace("foo", "python3"), _FAULTS[1].replace("barrel", "pt_main_thread")
    )

    assert len(found) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ("$ docker stop pool", "$ docker inspect pool", '"ExitCode": 137,'),
        ("Gracefully stopping... (press Ctrl+C again to force)", "pool-1 exited with code 137"),
        ("Stopping pool_1 ... done", "pool_1 exited with code 137"),
        ("# Exit code 137 on docker stop", "", "I run `docker stop pool`, it exits with code 137."),
    ],
)
def test_who_was_stopped_and_then_killed_did_not_lack_memory(lines: tuple[str, ...]) -> None:
    cause = incident_of(*lines).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.UNKNOWN, Certainty.UNKNOWN)


def test_what_is_stopped_after_a_kill_did_not_cause_it() -> None:
    lines = ("pool_1 exited with code 137", "Stopping other_1 ... done")

    assert incident_of(*lines).first_death.cause.kind is CauseClass.OOM_KILLED


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("segfault at 0 ip (null) sp 00007ffd3c0 error 14", "a call of a null function pointer"),
        ("segfault at 89 ip 0000000000000089 sp 00007ffd3c0 error 14", "a jump to address 0x89"),
    ],
)
def test_a_jump_next_to_null_is_no_call_of_null(line: str, detail: str) -> None:
    assert detail in incident_of(f"[   10.000001] foo[41]: {line}").first_death.cause.detail


def test_a_bus_error_of_an_unaligned_address_is_the_programs() -> None:
    death = incident_of(
        "[n1:04242] *** Process received signal ***",
        "[n1:04242] Signal: Bus error (7)",
        "[n1:04242] Signal code: Invalid address alignment (1)",
    ).first_death

    assert (death.signal, death.cause.kind) == ("SIGBUS", CauseClass.NATIVE_FAULT)


def test_a_container_in_json_is_named_by_its_member() -> None:
    death = incident_of(
        '  "name": "pool-agent",',
        '  "state": {',
        '    "terminated": {',
        '      "exitCode": 127,',
        '      "reason": "Error"',
    ).first_death

    assert (death.name, death.exit) == ("pool-agent", 127)


def test_a_description_that_lost_its_colon_and_image() -> None:
    death = incident_of(
        "pool",
        "    State: Running",
        "    Last State: Terminated",
        "      Reason: Error",
        "      Exit Code: 137",
    ).first_death

    assert (death.name, death.cause.kind) == ("pool", CauseClass.UNKNOWN)


def test_who_asked_for_memory_is_named_where_nobody_else_is() -> None:
    asked = "[  9.000001] java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0"
    killed = "[  9.000002] Out of memory: Killed process 42 (poold) total-vm:9kB"

    assert incident_of(asked).first_death.name == "java"
    assert incident_of(asked, killed).first_death.name == "poold"


def test_an_entry_of_a_catalogue_is_no_death() -> None:
    assert not incidents_of(
        "# Add rules for exit codes",
        "",
        "- Severity: 2",
        "- Title: Pod terminated with Exit Code 137 due to OOMKilled (memory limit exceeded)",
        "- Impact: crash loops",
        "- Cause: the container exceeds its limit",
        "- Mitigation: raise it",
    )
