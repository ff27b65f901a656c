"""Logs as they are collected: behind a container's times, in JSON, with a parent's statuses."""

import json
from collections.abc import Callable

import pytest
from tests.py.support.incidents import incident_of, incidents_of, reading_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ProcessRole

RAISED = (
    "(EngineCore pid=30) INFO 01-15 08:12:40 [core.py:71] started",
    "(Worker_TP1 pid=32) INFO 01-15 08:12:41 [worker.py:59] ready",
    "Process VllmWorker-1:",
    "Traceback (most recent call last):",
    '  File "/opt/app/pool.py", line 22, in take',
    "    raise ValueError(name)",
    "ValueError: block 7 is not free",
    "(EngineCore pid=30) ERROR 01-15 08:12:45 [core.py:75] Worker proc VllmWorker-1 died "
    "unexpectedly, shutting down executor.",
    "(EngineCore pid=30) ERROR 01-15 08:12:45 [core.py:88] EngineCore encountered a fatal error.",
    "Traceback (most recent call last):",
    '  File "/opt/app/core.py", line 84, in engine',
    "    replies.append(pipe.recv())",
    "EOFError",
)
FAULT = (
    "(Worker_TP1 pid=32) INFO 01-15 08:12:41 [worker.py:59] ready",
    "Fatal Python error: Segmentation fault",
    "",
    "Current thread 0x00007f1be0000740 (most recent call first):",
    '  File "/opt/app/pool.py", line 22 in take',
    "(EngineCore pid=30) ERROR 01-15 08:12:45 [core.py:75] Worker proc VllmWorker-1 died",
    "(EngineCore pid=30) INFO 01-15 08:12:45 [core.py:90] worker process 32 exited with code -11",
)
STAMP = "2026-01-15T08:12:45.123456789Z"
CLOTHES: dict[str, Callable[[str], str]] = {
    "bare": lambda line: line,
    "docker": lambda line: f"{STAMP} {line}",
    "CRI": lambda line: f"{STAMP} stderr F {line}",
    "CRI elsewhere": lambda line: f"2026-01-15T09:12:45.123456789+01:00 stderr F {line}",
    "compose": lambda line: f"serve-1  | {STAMP} {line}",
    "kubectl": lambda line: f"[pod/serve-7d/server] {STAMP} {line}",
    "ts": lambda line: f"Jan 15 08:12:45 {line}",
    "brackets": lambda line: f"[2026-01-15 08:12:45] {line}",
    "json-file": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": STAMP}),
    "exporter": lambda line: json.dumps({"textPayload": line, "timestamp": STAMP}),
}
STACK = "\n".join(RAISED[3:7])


@pytest.mark.parametrize("clothes", CLOTHES)
def test_the_worker_died_first_however_its_log_was_collected(clothes: str) -> None:
    (incident,) = incidents_of(*map(CLOTHES[clothes], RAISED))
    death = incident.first_death

    assert (death.pid, death.name, death.role) == (32, "VllmWorker-1", ProcessRole.WORKER)
    assert death.cause.detail == "ValueError: block 7 is not free"
    assert incident.processes[0].parent == 30
    assert [echo.text for echo in incident.echoes][-2:] == [
        "EngineCore encountered a fatal error.",
        "EOFError",
    ]


def test_a_ray_actor_did_not_die_of_what_its_children_write_through_it() -> None:
    replica = "(ServeReplica:llm:app pid=777, ip=10.0.0.7) "

    (incident,) = incidents_of(*(replica + line for line in FAULT))
    death = incident.first_death

    assert (death.pid, death.role, death.signal) == (32, ProcessRole.WORKER, "SIGSEGV")
    assert death.python_function == "take"


def test_what_vllms_engine_signs_is_its_own_though_it_forwards_rays_workers() -> None:
    engine = "(EngineCore_DP0 pid=30) "

    (incident,) = incidents_of(
        f"{engine}(RayWorkerWrapper pid=77, ip=10.0.0.7) INFO 01-15 08:12:41 [w.py:5] ready",
        *(engine + line for line in FAULT[1:5]),
    )

    assert (incident.first_death.pid, incident.first_death.role) == (30, ProcessRole.ENGINE_CORE)


@pytest.mark.parametrize("stamp", ["", f"{STAMP} ", f"{STAMP} stderr F "])
def test_macs_words_behind_a_time_are_no_hosts_and_programs(stamp: str) -> None:
    death = incident_of(f"{stamp}Segmentation fault: 11").first_death

    assert death.signal == "SIGSEGV"


@pytest.mark.parametrize(
    "fields",
    [
        {"message": "worker failed", "exc_info": STACK, "process": 32},
        {"event": "worker failed", "exception": STACK, "pid": 32},
        {"msg": "worker failed", "stacktrace": STACK, "pid": "32"},
        {"message": "worker failed", "error": {"stack_trace": STACK}, "process": {"pid": 32}},
        {"text": f"worker failed\n{STACK}\n", "record": {"process": {"id": 32, "name": "Copier"}}},
    ],
    ids=["json-logger", "structlog", "zap", "elastic", "loguru"],
)
def test_an_exception_beside_a_messages_text_is_read_with_its_process(
    fields: dict[str, object],
) -> None:
    death = incident_of(json.dumps({"level": "error", **fields})).first_death

    assert (death.pid, death.cause.detail) == (32, "ValueError: block 7 is not free")
    assert death.python_function == "take"
    assert death.name == ("Copier" if "text" in fields else None)


def test_a_stack_that_the_message_holds_already_is_read_once() -> None:
    fields = {"message": f"failed\n{STACK}", "exc_info": STACK}

    incident = incident_of(json.dumps(fields))

    assert [line.line for line in incident.first_death.evidence] == [1]


@pytest.mark.parametrize("told", ["worker process 32", "Subprocess copier (pid=32)", "process 32"])
def test_a_parents_status_names_the_process_that_only_it_names(told: str) -> None:
    incident = incident_of(
        "Fatal Python error: Segmentation fault",
        "Current thread 0x00007f1be0000740 (most recent call first):",
        '  File "/opt/app/pool.py", line 22 in take',
        f"{told} exited with code -11",
    )

    assert (incident.first_death.pid, incident.first_death.exit) == (32, -11)


@pytest.mark.parametrize(
    ("status", "signal"), [("-24", "SIGXCPU"), ("152", "SIGXCPU"), ("153", "SIGXFSZ")]
)
def test_a_limit_that_was_reached_is_the_environments(status: str, signal: str) -> None:
    incident = incident_of(f"worker process 32 exited with code {status}")
    death = incident.first_death

    assert (death.signal, death.cause.kind) == (signal, CauseClass.ENVIRONMENT)
    assert death.cause.certainty is Certainty.LIKELY
    assert "allowed" in death.cause.detail
    assert incident.next_steps[0].startswith("prlimit --pid PID")


def test_faults_that_the_kernel_tells_of_several_processes_are_no_echoes_of_each_other() -> None:
    line = (
        "[Thu Jan 15 08:12:{n} 2026] {name}[{n}]: segfault at 18 ip 10 sp 20 error 4 in a.so[10+20]"
    )

    incident = incident_of(
        *(line.format(n=n, name=name) for n, name in ((41, "serve"), (42, "copy"), (43, "copy")))
    )

    assert incident.echoes == ()
    assert [(one.pid, one.end) for one in incident.processes] == [
        (41, "SIGSEGV"),
        (42, "SIGSEGV"),
        (43, "SIGSEGV"),
    ]
    assert incident.first_death.role is ProcessRole.UNKNOWN
    assert incident.explanation.startswith("A process (serve, process 41) died first")


@pytest.mark.parametrize(
    ("line", "pid"),
    [
        ("4242 +++ killed by SIGBUS +++", 4242),
        ("4242 08:12:45.123456 +++ killed by SIGBUS (core dumped) +++", 4242),
        ("[pid  4242] +++ killed by SIGBUS +++", 4242),
        ("08:12:45 +++ killed by SIGBUS +++", None),
        ("+++ killed by SIGBUS (core dumped) +++", None),
    ],
)
def test_straces_last_line_names_the_process_that_it_followed(line: str, pid: int | None) -> None:
    death = incident_of(line).first_death

    assert (death.pid, death.signal) == (pid, "SIGBUS")


@pytest.mark.parametrize("lost", range(6))
def test_an_exception_is_no_engines_that_fails_of_its_workers_end(lost: int) -> None:
    (incident,) = incidents_of(*RAISED[lost:])
    death = incident.first_death

    assert death.role is ProcessRole.WORKER
    assert death.pid in {32, None}
    assert death.python_function in {"take", None}


def test_a_heading_above_a_wait_tells_who_waited() -> None:
    death = incident_of(
        "Process EngineCore_DP0:",
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap',
        "    self.run()",
        '  File "/opt/app/core.py", line 83, in engine',
        "    raise TimeoutError(name)",
        "TimeoutError: RPC call to execute_model timed out.",
    ).first_death

    assert (death.name, death.role) == ("EngineCore_DP0", ProcessRole.ENGINE_CORE)
    assert death.cause.kind is CauseClass.HANG


@pytest.mark.parametrize(
    "above",
    [
        ["2026-01-15 08:12:45,001 ERROR request 7 failed"],
        ["[2026-01-15 08:12:45] WARNING in app: request 7 failed"],
        ["ERROR:    Exception in ASGI application"],
        ['time=08:12:45 level=error msg="request 7 failed"'],
        ["Exception in thread poller:"],
        ["2026-01-15 08:12:45 ERROR asyncio: Task exception was never retrieved", "future: <Task>"],
    ],
)
def test_an_exception_that_was_caught_and_that_nobody_noticed_proves_no_end(
    above: list[str],
) -> None:
    noticed = "EngineDeadError: EngineCore encountered an issue."

    alone = incident_of("ready", *above, *RAISED[3:7], "served 3 requests")
    followed = incident_of("ready", *above, *RAISED[3:7], noticed)
    uncaught = incident_of("ready", *RAISED[3:7], "served 3 requests")

    assert alone.first_death.cause.certainty is Certainty.LIKELY
    assert followed.first_death.cause.certainty is Certainty.PROVED
    assert uncaught.first_death.cause.certainty is Certainty.PROVED


def test_children_that_fail_at_once_are_not_named_by_each_others_headings() -> None:
    body = [
        '  File "/opt/app/pool.py", line 22, in take',
        "    raise ValueError(name)",
    ]

    incident = incident_of(
        "Process VllmWorker-0:",
        "Process VllmWorker-1:",
        "Traceback (most recent call last):",
        "Process VllmWorker-2:",
        "Traceback (most recent call last):",
        "Traceback (most recent call last):",
        *(*body, "ValueError: rank 0 has no block"),
        *(*body, "ValueError: rank 1 has no block"),
    )

    assert incident.first_death.name is None
    assert [(echo.line, echo.why) for echo in incident.echoes] == [
        (12, "it failed at the same place, later")
    ]


def test_each_dump_of_children_that_died_alike_is_one_childs() -> None:
    dump = ("Fatal Python error: Segmentation fault", *FAULT[2:5], "")
    parent = "worker process {pid} exited with code -11"

    alone = incident_of(*dump, *dump, parent.format(pid=31))
    several = incident_of(*dump, *dump, parent.format(pid=31), parent.format(pid=32))

    assert [line.line for line in alone.first_death.evidence] == [1, 6, 11]
    assert [line.line for line in several.first_death.evidence] == [1, 11]
    assert [(echo.line, echo.why) for echo in several.echoes][:1] == [
        (6, "it ended after the first death")
    ]


def test_children_that_fail_one_after_the_other_are_named() -> None:
    incident = incident_of(
        *RAISED[2:7],
        "Process VllmWorker-2:",
        *RAISED[3:7],
    )
    reading = reading_of(*RAISED[2:7], "Process VllmWorker-2:", *RAISED[3:7])

    assert incident.first_death.name == "VllmWorker-1"
    assert [clue.name for clue in reading.clues] == ["VllmWorker-1", "VllmWorker-2"]


def test_a_keyboards_interrupt_alone_is_no_death() -> None:
    assert incidents_of(*RAISED[3:6], "KeyboardInterrupt") == ()


def test_a_library_of_pythons_own_is_not_what_crashed_where_it_was_imported() -> None:
    own = incident_of('python -c "import os; os.abort()"', "Aborted (core dumped)")
    other = incident_of('python -c "import pool; pool.take()"', "Aborted (core dumped)")

    assert own.first_death.python_function is None
    assert other.first_death.python_function == "import pool"


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("run.sh: line 1:  4242 CPU time limit exceeded python serve.py", "SIGXCPU"),
        ("bash: line 1: 4242 File size limit exceededhead -c 1000 /dev/zero", "SIGXFSZ"),
        ("CPU time limit exceeded (core dumped)", "SIGXCPU"),
    ],
)
def test_shells_tell_of_limits(line: str, signal: str) -> None:
    assert incident_of(line).first_death.signal == signal


def test_an_applications_own_limit_is_no_signal() -> None:
    assert incidents_of("File size limit exceeded: 20 MB, only 10 MB allowed") == ()


def test_who_waited_too_long_is_named_and_not_the_worker_that_it_ended_then() -> None:
    incident = incident_of(
        "(Worker_TP0 pid=31) INFO 01-15 08:12:41 [worker.py:59] ready",
        "(EngineCore pid=30) ERROR 01-15 08:12:45 [core.py:88] EngineCore encountered a fatal "
        "error.",
        "Traceback (most recent call last):",
        '  File "/opt/app/core.py", line 83, in engine',
        "    raise TimeoutError(name)",
        "TimeoutError: RPC call to execute_model timed out.",
        "(EngineCore pid=30) ERROR 01-15 08:12:45 [core.py:75] Worker proc VllmWorker-0 died "
        "unexpectedly, shutting down executor.",
        "(EngineCore pid=30) INFO 01-15 08:12:45 [core.py:90] worker process 31 exited with code "
        "-15",
    )
    death = incident.first_death

    assert (death.pid, death.role) == (30, ProcessRole.ENGINE_CORE)
    assert death.cause.kind is CauseClass.HANG
    assert [echo.line for echo in incident.echoes] == [7]


def test_json_in_a_container_runtimes_json_is_read() -> None:
    own = json.dumps({"level": "error", "msg": "worker failed", "exc_info": STACK, "pid": 32})

    death = incident_of(json.dumps({"log": f"{own}\n", "stream": "stderr", "time": STAMP}))

    assert death.first_death.pid == 32
    assert death.first_death.python_function == "take"
    assert death.first_death.evidence[0].text == "ValueError: block 7 is not free"
