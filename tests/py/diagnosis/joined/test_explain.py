"""Joining by process: what agrees, what contradicts, and what must not be joined."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.diagnosis.incident.names import with_numbers
from vllm_forensics.diagnosis.incident.steps import next_steps
from vllm_forensics.diagnosis.joined.agreement import contradictions_of
from vllm_forensics.diagnosis.joined.explain import Joined, join
from vllm_forensics.diagnosis.joined.statement import Statement, of_log
from vllm_forensics.diagnosis.joined.statement_traces import of_supervisor, of_trace
from vllm_forensics.diagnosis.syscalls import explain_syscalls
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.evidence.strace import parse_strace_log
from vllm_forensics.evidence.supervisor_log import parse_supervisor_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, IncidentReading, ProcessRole
from vllm_forensics.model.joined import SourceKind

SEGFAULT = "(Worker pid=7) Fatal Python error: Segmentation fault"
TRACE = """\
7 1768464765.100000 execve("/usr/bin/serve", ["serve"], 0x7ff /* 4 vars */) = 0
7 1768464765.200000 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x18} ---
7 1768464765.300000 +++ killed by SIGSEGV (core dumped) +++
"""


SAID = (
    SEGFAULT,
    "(EngineCore pid=7) Fatal Python error: Aborted",
    "2026-01-15T08:12:45Z (Worker pid=8) free(): invalid pointer",
    "Jan 15 08:12:45 node1 kernel: python[7]: segfault at 18 ip 01 sp 02 error 4 in a.so[1000+20]",
    "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    "Worker W pid 7 died, exit code: -11",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "Segmentation fault (core dumped)",
)


def log(
    *lines: str, name: str = "a.log", host: str | None = None
) -> tuple[list[Statement], IncidentReading]:
    reading = with_numbers(parse_incident_log(["".join(line + "\n" for line in lines).encode()]))
    return list(of_log(name, host, reading)), reading


def joined(*parts: tuple[list[Statement], IncidentReading] | list[Statement]) -> Joined:
    told: list[Statement] = []
    readings: dict[str, IncidentReading] = {}
    for part in parts:
        if isinstance(part, tuple):
            told += part[0]
            readings[part[0][0].source if part[0] else "none"] = part[1]
        else:
            told += part
    return join(told, readings)


def trace(text: str = TRACE) -> list[Statement]:
    return list(of_trace("trace", parse_strace_log(text), ()))


def supervisor(*lines: str) -> list[Statement]:
    return list(of_supervisor("events", parse_supervisor_log("\n".join(lines))))


def sentences(found: Joined) -> list[str]:
    return [one.sentence for process in found.processes for one in process.contradictions]


def test_who_kills_itself_did_not_die_for_lack_of_memory() -> None:
    seen = parse_strace_log(
        '42 execve("/opt/app/serve", ["serve"], 0x7f) = 0\n'
        "42 kill(42, SIGKILL) = ?\n"
        "42 +++ killed by SIGKILL +++\n"
    )
    told = list(of_trace("trace", seen, explain_syscalls(seen)))

    found = joined(log("worker process 42 exited with code -9"), told)

    death = found.incidents[0].first_death
    assert (death.pid, death.signal) == (42, "SIGKILL")
    assert death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert death.cause.detail == "SIGKILL, which it sent to itself"
    assert "trace=kill" in next_steps(death, ())[0]


def test_a_log_and_a_trace_of_one_process_agree() -> None:
    found = joined(log(SEGFAULT), trace())

    [process] = found.processes
    assert process.died_first
    assert {one.value: one.sources for one in process.accords}["SIGSEGV"] == ("trace", "a.log")
    assert process.contradictions == ()


def test_the_fault_before_a_handlers_signal_is_the_cause() -> None:
    text = TRACE.replace("killed by SIGSEGV", "killed by SIGABRT")

    found = joined(log("(Worker pid=7) Fatal Python error: Aborted"), trace(text))

    assert found.told is not None
    assert found.told.first_death.signal == "SIGSEGV"
    assert found.told.first_death.cause.kind is CauseClass.NATIVE_FAULT


def test_another_signal_in_the_trace_is_said() -> None:
    found = joined(log(SEGFAULT), trace(TRACE.replace("SIGSEGV", "SIGBUS")))

    assert any("trace says SIGBUS" in one and "SIGSEGV" in one for one in sentences(found))


def test_times_apart_speak_of_two_lives_of_a_number() -> None:
    found = joined(log(f"2026-01-15T12:12:45Z {SEGFAULT}"), trace())

    assert any("4 hours apart" in one for one in sentences(found))


def test_times_that_fit_are_no_contradiction() -> None:
    found = joined(log(f"2026-01-15T08:12:45Z {SEGFAULT}"), trace())

    assert sentences(found) == []


def test_two_hosts_with_one_number_are_said() -> None:
    found = joined(
        log(SEGFAULT, name="a.log", host="node1"), log(SEGFAULT, name="b.log", host="node2")
    )

    assert any("two machines that both have a process 7" in one for one in sentences(found))


def test_containers_that_count_alike_are_told_apart_by_role() -> None:
    found = joined(
        log("2026-01-15T08:12:45Z (EngineCore pid=7) Fatal Python error: Aborted", name="a.log"),
        log(f"2026-01-15T08:12:40Z {SEGFAULT}", name="b.log"),
    )

    first, second = found.processes
    assert (first.pid, first.name, first.end) == (7, "Worker", "SIGSEGV")
    assert (second.pid, second.name, second.end) == (7, "EngineCore", "SIGABRT")
    assert {fact.source for fact in first.facts} == {"b.log"}
    assert any("two containers, or two runs" in one for one in sentences(found))
    assert found.told is not None
    assert "process 7" in found.told.explanation


def test_numbers_as_large_as_a_log_can_hold_stay_as_they_are() -> None:
    found = joined(log(SEGFAULT.replace("pid=7", "pid=999999999")))

    assert found.processes[0].pid == 999_999_999


def test_two_programs_under_one_number_are_said() -> None:
    found = joined(
        trace(),
        supervisor(
            '{"event": "start", "pid": 7, "parent": 1, "command": "/bin/other"}',
            '{"event": "exit", "pid": 7, "signal": 11, "status": null}',
        ),
    )

    assert any("of serve" in one and "of other" in one for one in sentences(found))


def test_a_kill_whose_sender_the_trace_names_is_not_called_a_lack_of_memory() -> None:
    text = (
        '7 1768464765.1 execve("/bin/a", ["a"], 0x1 /* 1 var */) = 0\n'
        "8 1768464765.2 kill(7, SIGKILL) = 0\n"
        "7 1768464765.3 +++ killed by SIGKILL +++\n"
    )
    from vllm_forensics.diagnosis.syscalls import explain_syscalls

    parsed = parse_strace_log(text)
    told = list(of_trace("trace", parsed, explain_syscalls(parsed)))

    found = joined(told)

    assert found.told is None or (found.told.first_death.cause.kind is not CauseClass.OOM_KILLED)
    assert any("by process 8" in fact.text for one in found.processes for fact in one.facts)


def test_words_without_a_process_stay_with_no_one_where_nothing_died() -> None:
    found = joined(log("ConnectionResetError: [Errno 104] Connection reset by peer"))

    assert all(process.pid is None for process in found.processes)


@given(
    st.lists(st.sampled_from(SAID), max_size=8),
    st.lists(st.sampled_from(SAID), max_size=8),
    st.sampled_from([None, "node1"]),
    st.booleans(),
)
def test_nothing_that_is_said_is_lost_or_makes_it_fail(
    one: list[str], other: list[str], host: str | None, traced: bool
) -> None:
    parts = [log(*one, name="a.log", host=host), log(*other, name="b.log", host="node2")]

    found = joined(*parts, *([trace()] if traced else []))

    told = {(fact.source, fact.line) for process in found.processes for fact in process.facts}
    told |= {(fact.source, fact.line) for fact in found.unattached}
    told |= {(echo.fact.source, echo.fact.line) for one in found.incidents for echo in one.echoes}
    said = {(statement.source, statement.line) for part in parts for statement in part[0]}
    assert said <= told
    assert all(process.pid is None or process.pid < 10**12 for process in found.processes)


KILLED = """\
7 1768464765.100000 execve("/usr/bin/serve", ["serve"], 0x7ff /* 4 vars */) = 0
9 1768464765.150000 execve("/usr/bin/janitor", ["janitor"], 0x7ff /* 4 vars */) = 0
{killer} 1768464765.200000 kill(8, SIGKILL) = 0
8 1768464765.300000 +++ killed by SIGKILL +++
"""
CHILD = "7 1768464765.110000 clone(child_stack=NULL, flags=SIGCHLD) = 8\n"


@pytest.mark.parametrize("killer", [7, 9])
def test_a_trace_tells_who_killed(killer: int) -> None:
    lines = KILLED.format(killer=killer).splitlines(keepends=True)
    text = "".join([lines[0], CHILD, *lines[1:]])
    words = parse_strace_log(text)
    traced = list(of_trace("trace", words, explain_syscalls(words)))

    found = joined(log("(Main pid=7) Worker W pid 8 died, exit code: -9"), traced)

    assert found.told is not None
    cause = found.told.first_death.cause
    assert (cause.kind, cause.certainty) == (CauseClass.UNKNOWN, Certainty.PROVED)
    assert f"process {killer} (" in cause.detail
    assert found.told.processes[0].parent == 7


def test_the_supervisors_first_fault_comes_before_the_end() -> None:
    found = joined(
        supervisor(
            '{"event": "start", "pid": 7, "parent": 1, "command": "/bin/serve"}',
            '{"event": "fault", "pid": 7, "tid": 9, "signo": 11, "code": 1, "address": "0x18"}',
            '{"event": "exit", "pid": 7, "signal": 6, "status": null}',
        )
    )

    assert found.told is not None
    assert found.told.first_death.signal == "SIGSEGV"


@pytest.mark.parametrize(
    ("dated", "said"),
    [
        ("2026-01-15 17:12:45,100", "UTC+9"),
        ("2026-01-15 02:42:44,100", "UTC-5.5"),
        ("2026-01-15 08:12:45,100", None),
        ("2026-01-15 17:20:45,100", None),
    ],
)
def test_a_clock_of_another_zone_is_known_beside_the_core(dated: str, said: str | None) -> None:
    core = Statement(source="core", kind=SourceKind.CORE, text="t", pid=7, time_s=1768464765.0)
    words = Statement(source="a.log", kind=SourceKind.LOG, text="t", pid=7, line=2, time=dated)

    found = contradictions_of([core, words])

    assert [one.sentence.rpartition(" ")[2] for one in found] == ([said] if said else [])
    assert all(one.is_explained for one in found)


@pytest.mark.parametrize("aspect", ["signal", "address", "program", "host"])
def test_one_source_alone_never_contradicts(aspect: str) -> None:
    value: object = 1 if aspect == "address" else "x"
    one = Statement(source="a", kind=SourceKind.LOG, text="t", pid=7)

    assert contradictions_of([replace(one, **{aspect: value}), one]) == ()  # type: ignore[arg-type]


SERVE = (
    "(Worker_TP0 pid=4210) INFO 01-15 08:12:41 [cpu_model_runner.py:55] Warming up",
    "(EngineCore_DP0 pid=4176) ERROR 01-15 08:12:45 [multiproc_executor.py:246] Worker proc "
    "VllmWorker-0 died unexpectedly, shutting down executor.",
)
DMESG = (
    "[Thu Jan 15 08:12:44 2026] python3[4300]: segfault at 48 ip 1001 sp 2 error 4 in a.so[1000+20]"
)


def test_the_kernels_log_tells_of_what_the_worker_of_another_log_died() -> None:
    [incident] = joined(log(*SERVE), log(DMESG, name="dmesg")).incidents

    death = incident.first_death
    assert (death.name, death.module) == ("VllmWorker-0", "a.so")
    assert (death.signal, death.cause.certainty) == ("SIGSEGV", Certainty.LIKELY)
    assert {fact.source for fact in incident.processes[0].facts} == {"a.log", "dmesg"}


def test_another_machines_kernel_tells_nothing_of_a_worker() -> None:
    told = joined(log(*SERVE, host="node1"), log(DMESG, name="dmesg", host="node2"))

    assert all("as the kernel says" not in one.explanation for one in told.incidents)


LEFT = "7 1768464765.100000 clone(child_stack=NULL, flags=SIGCHLD) = 8\n" + (
    "8 1768464765.200000 exit_group(0) = ?\n8 1768464765.210000 +++ exited with 0 +++\n"
    "7 1768464765.400000 +++ exited with 1 +++\n"
)


@pytest.mark.parametrize("said", ["", " (exit code: 0)"])
@pytest.mark.parametrize("traced", [LEFT, ""])
def test_a_worker_that_left_with_0_died_before_the_main_program_that_missed_it(
    said: str, traced: str
) -> None:
    parts = [
        log(
            f"(Main pid=7) Worker proc W (pid 8) died unexpectedly{said}, shutting down executor.",
            "(Main pid=7) Traceback (most recent call last):",
            '(Main pid=7)   File "/app/serve.py", line 11, in main',
            '(Main pid=7)     raise RuntimeError("worker died unexpectedly")',
            "(Main pid=7) RuntimeError: worker died unexpectedly",
        )
    ]

    found = joined(*parts, trace(traced)) if traced else joined(*parts)

    assert found.told is not None
    death = found.told.first_death
    assert (death.pid, death.cause.kind) == (8, CauseClass.UNKNOWN)
    assert death.exit == (0 if said or traced else None)
    assert ("exit status 0" in death.cause.detail) == (death.exit == 0)
    assert found.told.processes[0].end == ("exit 0" if death.exit == 0 else death.cause.detail)
    assert any("exit_group" in step for step in found.told.next_steps) == (death.exit == 0)
    assert found.told.visible_error_is_echo


def test_a_child_that_leaves_with_0_and_is_not_missed_died_of_nothing() -> None:
    reading = log("(Main pid=7) DataLoader worker (pid 8) exited with exit code 0")[1]

    assert joined(trace(LEFT)).told is None
    assert reading.clues == ()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Worker 0 exited unexpectedly with status 0", 0),
        ("DataLoader worker (pid(s) 4242) exited unexpectedly with exit code 0", 0),
        ("Worker process 4242 exited unexpectedly (code: 3)", 3),
        ("subprocess exited unexpectedly", None),
    ],
)
def test_a_child_that_is_missed_died_first_whatever_its_status(
    said: str, status: int | None
) -> None:
    found = joined(
        log(
            "Traceback (most recent call last):",
            '  File "/app/serve.py", line 6, in main',
            "    raise RuntimeError(left)",
            f"RuntimeError: {said}",
        )
    )

    assert found.told is not None
    death = found.told.first_death
    assert (death.cause.kind, death.cause.certainty) == (CauseClass.UNKNOWN, Certainty.UNKNOWN)
    assert (death.role, death.exit) == (ProcessRole.WORKER, status)


def test_a_missed_child_whose_signal_is_told_died_of_it() -> None:
    found = joined(log("Error: Worker exited unexpectedly (code=null, signal=SIGABRT)"))

    assert found.told is not None
    assert found.told.first_death.signal == "SIGABRT"
