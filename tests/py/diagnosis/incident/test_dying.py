"""What dying programs and their masters print here, and what an incident says of it."""

from __future__ import annotations

import pytest
from tests.py.support.incidents import incident_of, incidents_of, reading_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

GROUP = (
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "/opt/app/fetch_all.py", line 9, in <module>',
    "  |     asyncio.run(main())",
    "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    "  +-+---------------- 1 ----------------",
    "    | Traceback (most recent call last):",
    '    |   File "/opt/app/fetch_all.py", line 3, in fetch',
    '    |     raise ValueError("no block")',
    "    | ValueError: no block",
    "    +------------------------------------",
)


def test_a_member_of_a_group_died_in_the_script_that_raised_the_group() -> None:
    death = incident_of(*GROUP).first_death

    assert (death.name, death.python_function) == ("fetch_all.py", "fetch")
    assert [frame.function for frame in death.frames] == ["fetch", "<module>"]


def test_a_script_that_could_not_be_read_is_named() -> None:
    death = incident_of(
        '  File "/opt/app/serve.py", line 2',
        '    print("hi"',
        "         ^",
        "SyntaxError: '(' was never closed",
    ).first_death

    assert (death.name, death.file, death.line) == ("serve.py", "/opt/app/serve.py", 2)
    assert death.cause.certainty is Certainty.LIKELY


def test_a_line_of_a_file_alone_is_no_traceback() -> None:
    assert not incidents_of('  File "/opt/app/serve.py", line 2', "    is old", "Warning: see it")


def test_what_a_server_tells_of_a_request_is_no_proof_of_an_end() -> None:
    death = incident_of(
        "Internal Server ErrorERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/opt/app/main.py", line 4, in root',
        "    return 1 / 0",
        "ZeroDivisionError: division by zero",
    ).first_death

    assert death.cause.certainty is Certainty.LIKELY


def test_a_worker_that_did_not_start_is_known_by_who_signed_the_line_above() -> None:
    death = incident_of(
        "[2026-01-15 08:12:45 +0000] [41] [INFO] Booting worker with pid: 42",
        "[2026-01-15 08:12:45 +0000] [42] [ERROR] Exception in worker process",
        "Traceback (most recent call last):",
        '  File "/opt/app/app.py", line 1, in <module>',
        '    raise RuntimeError("no database")',
        "RuntimeError: no database",
        "[2026-01-15 08:12:45 +0000] [40] [ERROR] Worker (pid:42) exited with code 3.",
    ).first_death

    assert (death.pid, death.role.value, death.exit) == (42, "worker", 3)
    assert death.cause.certainty is Certainty.PROVED


def test_who_was_asked_to_end_is_no_word_of_anothers_death() -> None:
    incident = incident_of(
        "[2026-01-15 08:12:45 +0000] [40] [CRITICAL] WORKER TIMEOUT (pid:42)",
        "Traceback (most recent call last):",
        '  File "/opt/lib/gunicorn/workers/base.py", line 200, in handle_abort',
        "    sys.exit(1)",
        "SystemExit: 1",
    )

    assert [echo.why for echo in incident.echoes] == ["raised where somebody asked for an end"]


@pytest.mark.parametrize("core", ["", "(core dumped) "])
def test_a_long_word_of_the_shells_leaves_no_blank(core: str) -> None:
    death = incident_of(f"run.sh: line 1:  42 File size limit exceeded{core}poold -v").first_death

    assert (death.name, death.pid, death.signal) == ("poold", 42, "SIGXFSZ")


def test_a_forbidden_system_call_is_named() -> None:
    incident = incident_of("run.sh: line 1: 42 Bad system call         poold")

    assert incident.first_death.signal == "SIGSYS"
    assert "seccomp" in incident.explanation
    assert incident.next_steps[0].startswith("strace")


def test_a_cluster_that_lost_its_workers_died_of_no_error_of_its_clients() -> None:
    death = incident_of(
        "2026-01-15 08:12:45,123 - distributed.scheduler - ERROR - Task sum-1f marked as failed "
        "because 4 workers died while trying to run it",
        "Traceback (most recent call last):",
        '  File "/opt/lib/distributed/core.py", line 1393, in connect',
        '    raise RuntimeError("ConnectionPool is closed")',
        "RuntimeError: ConnectionPool is closed",
    ).first_death

    assert (death.name, death.cause.kind) == ("worker", CauseClass.UNKNOWN)


def test_what_a_shell_printed_on_demand_is_no_error() -> None:
    incident = incident_of("run.sh: line 1: 42 Segmentation fault      poold", "rc=139")

    assert not incident.echoes
    assert not incident.visible_error_is_echo


@pytest.mark.parametrize(
    "advice",
    [
        "RuntimeError: a worker ended. This could be caused by a fault, if it has a bug, or by "
        "what you may see usually when memory is short.",
        "\x1b[33m(raylet)\x1b[0m A worker died. If you can, check its logs. Some common causes "
        "include: you may have too little memory, or it might often crash.",
    ],
)
def test_a_log_that_explains_itself_is_no_lesson(advice: str) -> None:
    lines = (
        "2026-01-15 08:12:45,123 INFO worker.py:2038 -- Started a local instance.",
        "Traceback (most recent call last):",
        '  File "/opt/app/serve.py", line 4, in step',
        "    run()",
        advice,
    )

    assert not reading_of(*lines).teaches


@pytest.mark.parametrize("thread", ["io-1", "<unnamed>", "tokio-runtime-worker"])
def test_a_threads_panic_is_no_proof_of_an_end(thread: str) -> None:
    line = f"thread '{thread}' panicked at src/pool.rs:7:9: no block"

    assert incident_of(line).first_death.cause.certainty is Certainty.LIKELY
    assert incident_of(line.replace(thread, "main")).first_death.cause.certainty is Certainty.PROVED
    assert (
        incident_of(line, "run.sh: line 3: 42 Aborted      poold").first_death.cause.certainty
        is Certainty.PROVED
    )


def test_a_race_ends_nothing() -> None:
    assert not incidents_of(
        "WARNING: ThreadSanitizer: data race (pid=42)",
        "  Read of size 4 at 0x56470648a094 by main thread:",
        "    #0 main /src/pool.cpp:2 (pool+0x12be)",
        "",
        "  Previous atomic write of size 4 at 0x56470648a094 by thread T1:",
        "    #0 take() /src/pool.cpp:2 (pool+0x1262)",
        "    #1 start() /src/pool.cpp:4 (pool+0x17a7)",
        "",
        "  Thread T1 (tid=43, finished) created by main thread at:",
        "    #0 pthread_create interceptors.cpp:1001 (pool+0x5e)",
        "    #1 main /src/pool.cpp:2 (pool+0x1315)",
    )


def test_a_program_whose_resources_were_measured_is_named() -> None:
    death = incident_of(
        "Command terminated by signal 11",
        '\tCommand being timed: "/opt/bin/poold -v"',
        "\tUser time (seconds): 0.00",
    ).first_death

    assert death.name == "poold"


@pytest.mark.parametrize(
    "prefix", ["nice -n 5 ", "setsid ", "stdbuf -oL ", "taskset -c 0,1 ", "nohup "]
)
def test_the_command_behind_a_launcher_died(prefix: str) -> None:
    line = f"run.sh: line 1: 42 Segmentation fault      {prefix}poold"

    assert incident_of(line).first_death.name == "poold"


WARMUP = (
    "(MainProcess pid=40) WARNING 01-15 08:12:45 [base.py:380] Chat template warmup failed",
    "(MainProcess pid=40) WARNING 01-15 08:12:45 [base.py:380] Traceback (most recent call last):",
    "(MainProcess pid=40) WARNING 01-15 08:12:45 [base.py:380]   "
    'File "/opt/app/base.py", line 217, in get_tokenizer',
    "(MainProcess pid=40) WARNING 01-15 08:12:45 [base.py:380]     raise ValueError(words)",
    "(MainProcess pid=40) WARNING 01-15 08:12:45 [base.py:380] ValueError: no tokenizer",
)


def test_what_was_signed_as_a_warning_was_survived() -> None:
    death = incident_of(
        *WARMUP,
        "(EngineCore pid=41) ERROR 01-15 08:12:46 [multiproc_executor.py:315] Worker proc "
        "VllmWorker-0 died unexpectedly (exit code: -11), shutting down executor.",
    ).first_death

    assert (death.name, death.signal) == ("VllmWorker-0", "SIGSEGV")
    assert not incidents_of(*WARMUP)
    assert not incidents_of(*WARMUP[:-1])  # the text was cut


def test_below_a_warning_of_something_else_a_program_may_die() -> None:
    incident = incident_of(
        "WARNING 01-15 08:12:45 [base.py:380] This option is deprecated",
        "Traceback (most recent call last):",
        '  File "/opt/app/base.py", line 217, in get_tokenizer',
        "    raise ValueError(words)",
        "ValueError: no tokenizer",
    )

    assert incident.first_death.python_function == "get_tokenizer"


def test_an_engine_that_its_client_misses_is_named() -> None:
    death = incident_of(
        "(MainProcess pid=40) WARNING 01-15 08:12:45 [core_client.py:817] [shutdown] MPClient: "
        "engine core exited unexpectedly; starting cleanup",
    ).first_death

    assert death.role.value == "engine-core"


@pytest.mark.parametrize(
    ("heading", "original"),
    [
        ("ValueError: Caught ValueError in DataLoader worker process 1.", "Original "),
        (
            "torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
            "-- Process 1 terminated with the following error:",
            "",
        ),
    ],
)
def test_what_a_child_raised_comes_before_who_noticed_it(heading: str, original: str) -> None:
    death = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/app/train.py", line 9, in <module>',
        "    run()",
        '  File "/opt/lib/torch/_utils.py", line 794, in reraise',
        "    raise exception",
        *heading.split("\n"),
        f"{original}Traceback (most recent call last):",
        '  File "/opt/lib/torch/multiprocessing/spawn.py", line 87, in _wrap',
        "    fn(i, *args)",
        '  File "/opt/app/train.py", line 6, in take',
        '    raise ValueError("no block")',
        "ValueError: no block",
    ).first_death

    assert (death.python_function, death.role.value) == ("take", "worker")
    assert death.cause.detail == "ValueError: no block"


def test_what_a_tests_thread_panics_of_its_runner_catches() -> None:
    run = (
        "running 2 tests",
        "thread 'tests::takes' (42) panicked at src/lib.rs:2:69:",
        "index out of bounds: the len is 0 but the index is 0",
    )

    assert not incidents_of(*run, "test result: FAILED. 1 passed; 1 failed; 0 ignored")
    assert incidents_of(*run)  # the run did not come to its end


def test_a_module_that_pytest_cannot_import_may_not_have_ended_it() -> None:
    line = "ImportError while importing test module '/opt/app/test_pool.py'."

    assert incident_of(line).first_death.cause.certainty is Certainty.LIKELY


@pytest.mark.parametrize(
    "line",
    [
        "//pool:take_test                         FAILED (Exit 139) in 0.4s",
        "FAIL: //pool:take_test (Exit 139) (see /opt/cache/test.log)",
    ],
)
def test_a_target_of_bazels_is_no_comment(line: str) -> None:
    death = incident_of(line).first_death

    assert (death.name, death.signal) == ("take_test", "SIGSEGV")


@pytest.mark.parametrize(
    ("status", "signal", "left"),
    [
        ("4294967295 (0xffffffff)", None, -1),
        ("3221225477 (0xc0000005)", "SIGSEGV", -1073741819),
        ("-1073741819 (0xc0000005)", "SIGSEGV", -1073741819),
    ],
)
def test_a_status_of_windows_has_a_sign(status: str, signal: str | None, left: int) -> None:
    line = f"The program '[4242] python.exe' has exited with code {status}."
    death = incident_of(line).first_death

    assert (death.name, death.pid, death.signal, death.exit) == ("python.exe", 4242, signal, left)


@pytest.mark.parametrize(
    "line",
    ["nbclient.exceptions.DeadKernelError: Kernel died", "The kernel has died, restarting it."],
)
def test_a_notebooks_kernel_is_not_the_systems(line: str) -> None:
    incident = incident_of(line)

    assert incident.first_death.name == "Jupyter kernel"
    assert not incident.explanation.startswith("The kernel")


def test_a_banner_of_a_launchers_teaches_nobody() -> None:
    ruler = "*" * 41

    assert not reading_of(
        "",
        ruler,
        "Setting OMP_NUM_THREADS for each process to be 1 in default, to avoid your system being "
        "overloaded, please further tune the variable for your application as you may need.",
        ruler,
        "E0115 08:12:45.123000 40 torch/distributed/run.py:1] failed (exitcode: -11) local_rank: 1 "
        "(pid: 42) of binary: /opt/bin/python",
    ).teaches
