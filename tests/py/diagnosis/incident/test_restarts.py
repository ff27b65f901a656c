"""A supervisor starts anew what died: one incident for each life."""

from tests.py.support.incidents import incidents_of

from vllm_forensics.model.incident import CauseClass

BANNER = "(APIServer pid={api}) INFO 01-15 08:1{api}:00 [api.py:1] vLLM API server version 0.11.0"
DEATH = "(Worker_TP0 pid={pid}) Fatal Python error: Segmentation fault"
ECHO = "(APIServer pid={api}) ERROR 01-15 08:1{api}:09 [a.py:1] EngineDeadError: EngineCore died"


def test_a_server_that_was_started_thrice_died_thrice() -> None:
    found = incidents_of(
        *(line.format(api=api, pid=40 + api) for api in (1, 2, 3) for line in (BANNER, DEATH, ECHO))
    )

    assert [one.first_death.pid for one in found] == [41, 42, 43]
    assert [[echo.line for echo in one.echoes] for one in found] == [[3], [6], [9]]
    assert [sorted(p.pid or 0 for p in one.processes) for one in found] == [
        [1, 41],
        [2, 42],
        [3, 43],
    ]


def test_late_echoes_belong_to_the_life_before() -> None:
    (incident,) = incidents_of(
        DEATH.format(pid=41),
        "[INFO] Booting worker with pid: 50",
        ECHO.format(api=1),
    )

    assert incident.first_death.pid == 41
    assert [echo.line for echo in incident.echoes] == [3]


def test_another_logs_word_of_the_same_death_is_no_second_one() -> None:
    (incident,) = incidents_of(
        DEATH.format(pid=41),
        "[INFO] Booting worker with pid: 50",
        "kernel: python[41]: segfault at 48 ip 10 sp 2 error 4 in x.so[10+20]",
    )

    assert incident.first_death.module == "x.so"


def test_starts_before_any_death_part_nothing() -> None:
    (incident,) = incidents_of(
        "[INFO] Booting worker with pid: 40",
        "[INFO] Booting worker with pid: 41",
        "[WARNING] Worker with pid 41 was terminated due to signal 11",
    )

    assert incident.first_death.pid == 41
    assert {one.pid for one in incident.processes} == {40, 41}


def test_endless_restarts_are_told_up_to_a_bound() -> None:
    lines = [
        line.format(pid=pid)
        for pid in range(1000, 1400)
        for line in (
            "[INFO] Booting worker with pid: {pid}",
            "[WARNING] Worker with pid {pid} was terminated due to signal 11",
        )
    ]

    found = incidents_of(*lines)

    assert len(found) < 100
    assert found[-1].first_death.pid == 1399


SIGNED = "2026-01-15 08:1{n}:0{second},000 {level} [{name} pid={pid}] {text}"


def life(n: int) -> list[str]:
    """A server that says of no start that it is one, and dies of its worker."""
    server, worker = (
        {"name": "MainProcess", "pid": 10 * n},
        {"name": "Worker_TP0", "pid": 10 * n + 1},
    )
    return [
        SIGNED.format(n=n, second=1, level="INFO", text="step 1", **server),
        SIGNED.format(n=n, second=2, level="INFO", text="step 1", **worker),
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f00 (most recent call first):",
        '  File "/app/model.py", line 7 in step',
        "",
        SIGNED.format(
            n=n, second=4, level="ERROR", text="Worker_TP0 died, exit code -11", **server
        ),
    ]


def test_old_names_with_new_numbers_begin_a_new_life() -> None:
    found = incidents_of(*(line for n in (1, 2, 3) for line in life(n)))

    assert [one.first_death.pid for one in found] == [11, 21, 31]
    assert [{process.pid for process in one.processes} for one in found] == [
        {10, 11},
        {20, 21},
        {30, 31},
    ]


def test_a_name_alone_is_that_of_the_process_that_signs_so() -> None:
    (found,) = incidents_of(*life(1))

    assert (found.first_death.pid, found.first_death.name) == (11, "Worker_TP0")
    assert found.first_death.python_function == "step"
    assert found.processes[0].last_seen == "2026-01-15 08:11:02"


def test_a_service_that_signs_its_lines_does_not_die_of_its_childrens_words() -> None:
    (found,) = incidents_of(
        *(f"Jan 15 08:11:0{at} gpu-1 serve[10]: {line}" for at, line in enumerate(life(1)))
    )

    assert found.first_death.pid == 11


def test_many_actors_of_one_name_are_no_lives() -> None:
    (found,) = incidents_of(
        "(RayWorkerWrapper pid=41) INFO 01-15 08:11:00 [a.py:1] step",
        "(RayWorkerWrapper pid=41) Fatal Python error: Segmentation fault",
        "(RayWorkerWrapper pid=42) Fatal Python error: Aborted",
    )

    assert found.first_death.pid == 41


ROW = "Thu 2026-01-15 {time} UTC {pid} 1000 1000 {signal} present /usr/bin/{name} 1.0M"


def test_cores_in_a_list_are_no_echoes_of_each_other() -> None:
    first, later = incidents_of(
        ROW.format(time="08:12:45", pid=41, signal="SIGABRT", name="pool"),
        ROW.format(time="08:12:50", pid=42, signal="SIGABRT", name="other"),
        ROW.format(time="08:19:45", pid=43, signal="SIGSEGV", name="serve"),
        ROW.format(time="10:12:45", pid=44, signal="SIGBUS", name="serve"),
    )

    assert (first.first_death.pid, later.first_death.pid) == (41, 44)
    assert [echo.line for echo in first.echoes] == []
    assert ("serve", 43, "SIGSEGV") in [(one.name, one.pid, one.end) for one in first.processes]
    assert not later.echoes


def test_the_stack_below_systemds_record_is_of_its_process() -> None:
    (incident,) = incidents_of(
        "Jan 15 08:12:45 box systemd-coredump[60]: Process 42 (a-long-program-) of user 1 "
        "dumped core.",
        "Stack trace of thread 42:",
        "#0  0x00007f1b0000abc5 raise (libc.so.6 + 0x3dbc5)",
        "#1  0x00007f1b000018a4 abort (libc.so.6 + 0x268a4)",
        "#2  0x00007f1b00007e1c malloc_printerr (libc.so.6 + 0x87e1c)",
        "#3  0x00007f1b0000ab99 take (libpool.so + 0x56b99)",
        "#4  0x0000556a4dfb6539 main (a-long-program-name + 0x1539)",
    )

    death = incident.first_death
    assert (death.pid, death.name, death.function) == (42, "a-long-program-", "take")
    assert not incident.echoes


def served(pid: int, *end: str) -> tuple[str, ...]:
    """A server whose only worker ends, as its parent sees."""
    return (
        f"(EngineCore pid={pid}) INFO 01-15 08:12:40 [core.py:71] started",
        f"(Worker_TP0 pid={pid + 1}) INFO 01-15 08:12:41 [worker.py:59] ready",
        *end,
        f"(EngineCore pid={pid}) ERROR 01-15 08:12:45 [core.py:75] Worker proc VllmWorker-0 died "
        "unexpectedly, shutting down executor.",
        "Traceback (most recent call last):",
        '  File "/opt/app/core.py", line 84, in engine',
        "    replies.append(pipe.recv())",
        "EOFError",
    )


RAISED = (
    "Process VllmWorker-0:",
    "Traceback (most recent call last):",
    '  File "/opt/app/pool.py", line 22, in take',
    "    raise ValueError(name)",
    "ValueError: block 7 is not free",
)
FAULT = (
    "Fatal Python error: Segmentation fault",
    "Current thread 0x00007f1be0000740 (most recent call first):",
    '  File "/opt/app/pool.py", line 22 in take',
)


def test_lives_that_end_in_different_ways_are_told_one_by_one() -> None:
    lives = (
        *(served(10, *RAISED), served(20, *FAULT)),
        *(served(30), served(40, *RAISED), served(50, *FAULT)),
    )

    incidents = incidents_of(*(line for one in lives for line in one), "all done, exit status 0")

    deaths = [incident.first_death for incident in incidents]
    assert [(death.pid, death.cause.kind) for death in deaths] == [
        (11, CauseClass.PYTHON_EXCEPTION),
        (21, CauseClass.NATIVE_FAULT),
        (31, CauseClass.UNKNOWN),
        (41, CauseClass.PYTHON_EXCEPTION),
        (51, CauseClass.NATIVE_FAULT),
    ]
    assert all(len(incident.echoes) >= 1 for incident in incidents)
    assert {process.pid for process in incidents[3].processes} == {40, 41}


def test_an_exception_that_nobody_noticed_ends_no_served() -> None:
    healthy = (
        "(EngineCore pid=30) INFO 01-15 08:12:40 [core.py:71] started",
        *RAISED[1:],
        "(EngineCore pid=30) INFO 01-15 08:12:48 [core.py:72] 12 requests done",
    )

    incidents = incidents_of(*served(20, *FAULT), *healthy)

    assert [incident.first_death.pid for incident in incidents] == [21]


def test_a_stop_that_was_announced_in_one_life_is_none_of_the_next() -> None:
    stop = (
        "(EngineCore pid=20) INFO 01-15 08:12:44 [launcher.py:99] Received SIGTERM, shutting down"
    )

    incidents = incidents_of(*served(10, *FAULT), stop, *served(20), *served(30))

    assert incidents[0].first_death.pid == 11
    assert incidents[-1].first_death.pid == 31


def test_a_parents_word_for_all_its_children_is_no_name() -> None:
    (incident,) = incidents_of(
        *served(20),
        "(EngineCore pid=20) INFO 01-15 08:12:45 [core.py:90] worker process 21 exited with code "
        "-9",
    )

    assert (incident.first_death.name, incident.first_death.pid) == ("VllmWorker-0", 21)
