"""Which parts are one incident, and which are several: by restart, host, time and process."""

from dataclasses import replace

from tests.py.diagnosis.joined.test_explain import joined, log, supervisor

from vllm_forensics.diagnosis.joined.explain import Joined, report_of
from vllm_forensics.model.joined import JoinedReport, SameBug

START = "INFO 01-15 {h}:12:40 [api_server.py:1000] vLLM API server version 0.11.0"
WORKER = "(Worker_TP0 pid={pid}) INFO 01-15 {h}:12:41 [model_runner.py:55] warming up"
FATAL = "Fatal Python error: Segmentation fault"
DUMP = (
    "",
    "Current thread 0x00007f1be0005678 (most recent call first):",
    '  File "/opt/app/ops.py", line 25 in {function}',
)
DIED = (
    "(EngineCore pid={engine}) ERROR 01-15 {h}:12:45 [x.py:246] "
    "Worker proc VllmWorker-0 died unexpectedly"
)


def life(h: str, pid: int, function: str = "reshape") -> list[str]:
    """Started, said to be dead by its own words, and noticed."""
    lines = (START, WORKER, FATAL, *DUMP, DIED)
    return [line.format(h=h, pid=pid, engine=pid - 1, function=function) for line in lines]


def report(found: Joined) -> JoinedReport:
    empty = JoinedReport(
        sources=(),
        first_death=None,
        visible_error_is_echo=False,
        explanation="",
        processes=(),
        echoes=(),
        unattached=(),
        crashes=(),
        reports=(),
        syscalls=(),
        next_steps=(),
        failures=(),
        complete=True,
    )
    return report_of(found, empty)


def places(found: Joined) -> list[list[tuple[str, int | None, int | None]]]:
    return [[(p.path, p.first_line, p.last_line) for p in one.parts] for one in found.incidents]


def kernel(pid: int, at: str, host: str = "node1", offset: str = "01") -> str:
    return (
        f"{at} {host} kernel: python[{pid}]: segfault at 18 ip 10{offset} sp 02 error 4 in "
        "a.so[1000+20]"
    )


def test_each_restart_that_died_again_is_an_incident_with_its_lines() -> None:
    found = joined(log(*life("08", 42), *life("09", 52)))

    assert [one.first_death.pid for one in found.incidents] == [42, 52]
    assert places(found) == [[("a.log", 1, 7)], [("a.log", 8, 14)]]


def test_restarts_within_a_minute_stay_incidents_of_their_own() -> None:
    again = [line.replace("08:12", "08:13") for line in life("08", 52, "other")]

    found = joined(log(*life("08", 42), *again))

    assert places(found) == [[("a.log", 1, 7)], [("a.log", 8, 14)]]


def test_a_crash_loop_of_one_bug_is_one_bug() -> None:
    found = joined(log(*life("08", 42), *life("09", 52), *life("10", 62, "other")))

    assert [bug.incidents for bug in found.bugs] == [(1, 2), (3,)]
    assert [bug.same for bug in found.bugs] == [SameBug.WORDS, None]
    assert [one.bug for one in found.incidents] == [1, 1, 2]


def test_a_container_that_counts_anew_has_another_process_of_the_number() -> None:
    found = joined(log(*life("08", 42), *life("09", 42)))

    assert [one.first_death.pid for one in found.incidents] == [42, 42]
    sentences = [one.sentence for one in found.incidents[1].processes[0].contradictions]
    assert any("again after a restart" in sentence for sentence in sentences)


def test_the_last_words_of_one_number_said_twice_are_of_two_processes() -> None:
    fatal = f"(Worker pid=7) {FATAL}"
    start = START.format(h="09")

    found = joined(log(fatal, start, fatal))

    assert len(found.incidents) == 2


def test_the_kernels_line_goes_to_the_restart_whose_process_it_names() -> None:
    found = joined(
        log(*life("08", 42), *life("09", 52)),
        log(kernel(52, "Jan 15 09:12:44"), kernel(42, "Jan 15 08:12:44"), name="dmesg"),
    )

    assert places(found) == [
        [("a.log", 1, 7), ("dmesg", 2, 2)],
        [("a.log", 8, 14), ("dmesg", 1, 1)],
    ]


def test_deaths_in_the_kernels_log_are_one_where_they_are_of_the_same_seconds() -> None:
    together = joined(log(kernel(7, "Jan 15 08:12:45"), kernel(8, "Jan 15 08:12:46")))
    days = joined(log(kernel(7, "Jan 15 08:12:45"), kernel(8, "Jan 16 08:12:45")))
    uptime = joined(
        log(
            *(
                f"[{at}] python[{pid}]: segfault at 18 ip 01 sp 02 error 4 in a.so[1000+20]"
                for at, pid in (("100.100000", 7), ("9000.100000", 8))
            )
        )
    )

    assert [len(one.incidents) for one in (together, days, uptime)] == [1, 2, 2]


def test_the_same_library_is_no_same_bug_without_the_same_offset() -> None:
    same = joined(log(kernel(7, "Jan 15 08:12:45"), kernel(8, "Jan 16 08:12:45")))
    other = joined(log(kernel(7, "Jan 15 08:12:45"), kernel(8, "Jan 16 08:12:45", offset="1009")))

    assert len(same.bugs) == 1
    assert len(other.bugs) == 2


def test_two_hosts_that_died_each_of_its_own_are_two_incidents() -> None:
    found = joined(
        log(f"2026-01-15T08:12:45Z (Worker pid=7) {FATAL}", name="a.log", host="node1"),
        log(
            "2026-01-15T08:12:46Z (Worker pid=9) free(): invalid pointer",
            name="b.log",
            host="node2",
        ),
    )

    assert [one.host for one in found.incidents] == ["node1", "node2"]


def test_a_peer_on_another_host_that_waited_for_half_an_hour_is_of_the_same_incident() -> None:
    waited = (
        "2026-01-15T08:42:50Z (Worker pid=9) [E115 08:42:50 ProcessGroupNCCL.cpp:616] [Rank 1] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE) ran "
        "for 1800000 milliseconds before timing out."
    )

    found = joined(
        log(f"2026-01-15T08:12:45Z (Worker pid=7) {FATAL}", name="a.log", host="node1"),
        log(waited, name="b.log", host="node2"),
    )

    [incident] = found.incidents
    assert incident.first_death.pid == 7
    assert {one.pid for one in incident.processes} == {7, 9}


def test_a_clients_undated_echo_belongs_to_the_only_incident_and_to_none_of_two() -> None:
    echo = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    client = log(echo, name="0-client.log")

    one = joined(client, log(*life("08", 42)))
    two = joined(client, log(*life("08", 42), *life("09", 52, "other")))

    assert [echo.fact.source for echo in one.incidents[0].echoes][-1] == "0-client.log"
    assert [fact.source for fact in two.unattached] == ["0-client.log"]


def test_incidents_are_told_in_the_order_of_their_clocks_not_of_the_files() -> None:
    found = joined(log(*life("11", 52), name="a.log"), log(*life("08", 42), name="b.log"))

    assert [one.first_death.pid for one in found.incidents] == [42, 52]
    assert found.order_is_known


def test_a_year_that_ends_between_two_clocks_keeps_nothing_apart() -> None:
    found = joined(
        log(kernel(7, "Dec 31 23:59:59"), name="a.log"),
        log("ERROR 01-01 00:00:01 Worker W pid 7 died, exit code: -11", name="b.log"),
    )

    assert len(found.incidents) == 1


def test_the_first_bugs_best_known_incident_is_the_one_told() -> None:
    found = joined(log(*life("08", 42), *life("09", 52)))
    core = replace(found.incidents[1], cores=("core",))
    known = replace(
        found, bugs=(replace(found.bugs[0], told=2),), incidents=(found.incidents[0], core)
    )

    answer = report(known)

    assert (answer.told, answer.cores_of_first) == (2, ("core",))
    assert answer.processes[0].pid == 52
    assert len(answer.processes) == len(found.processes)


def test_what_a_tracer_saw_end_well_is_nobody() -> None:
    found = joined(
        supervisor(
            '{"event": "start", "pid": 7, "parent": 1, "command": "/bin/serve"}',
            '{"event": "start", "pid": 8, "parent": 7, "command": "/bin/ls"}',
            '{"event": "exit", "pid": 8, "signal": null, "status": 0}',
            '{"event": "exit", "pid": 7, "signal": 11, "status": null}',
        )
    )

    assert [process.pid for process in found.processes] == [7]


def test_deaths_of_which_no_log_says_where_may_be_several_bugs() -> None:
    found = joined(
        log(f"(Worker pid=7) {FATAL}", name="a.log"), log(f"(Worker pid=8) {FATAL}", name="b.log")
    )

    [bug] = found.bugs
    assert (bug.incidents, bug.same) == ((1, 2), SameBug.ALIKE)
    assert not found.order_is_known


def test_a_loop_in_the_kernels_log_is_no_single_incident() -> None:
    lines = [kernel(100 + n, f"Jan 15 08:{n:02}:45") for n in range(20)]

    found = joined(log(*lines))

    assert len(found.incidents) == 20
    assert [len(bug.incidents) for bug in found.bugs] == [20]


def fault(pid: int, second: int, function: str) -> list[str]:
    at = f"2026-01-15 08:12:{second:02},000"
    dump = (line.format(function=function) for line in DUMP)
    return [
        f"{at} INFO [Worker_{pid} pid={pid}] step",
        FATAL,
        *dump,
        "",
        f"{at.replace(',000', ',500')} ERROR [MainProcess pid={pid - 1}] "
        f"worker Worker_{pid} died unexpectedly, exit code -11",
    ]


def test_two_processes_with_faults_of_their_own_are_two_incidents_even_at_once() -> None:
    found = joined(log(*fault(41, 10, "fill")), log(*fault(51, 11, "merge"), name="b.log"))

    assert [one.first_death.pid for one in found.incidents] == [41, 51]


def test_workers_that_fault_alike_at_once_are_one_incident() -> None:
    found = joined(log(*fault(41, 10, "fill")), log(*fault(51, 11, "fill"), name="b.log"))

    assert [one.first_death.pid for one in found.incidents] == [41]


def test_a_copy_of_a_log_tells_of_no_second_death() -> None:
    lines = fault(41, 10, "fill")
    found = joined(
        log(*lines), log(*(f"2026-01-15T08:12:30Z (serve) {line}" for line in lines), name="b.log")
    )

    (incident,) = found.incidents
    told = {(fact.source, fact.text.rpartition(") ")[2]) for fact in incident.processes[0].facts}
    assert {("a.log", FATAL), ("b.log", FATAL)} <= told
    assert {fact.source for fact in incident.processes[0].facts} == {"a.log", "b.log"}
    assert found.unattached == ()


def test_a_death_at_the_end_of_a_rotated_log_is_before_what_the_next_one_tells() -> None:
    lines = fault(41, 10, "fill")
    found = joined(log(*lines[-1:], name="serve.log"), log(*lines[:-1], name="serve.log.1"))

    (incident,) = found.incidents
    assert [echo.fact.source for echo in incident.echoes] == ["serve.log"]
    assert incident.visible_error_is_echo
    assert found.order_is_known
