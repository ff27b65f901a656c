"""Texts that lead astray: what died elsewhere, was meant to die, was asked to end, or lived on."""

import pytest
from tests.py.support.incidents import incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

BACKUP = (
    "[Wed Jan 14 03:00:01 2026] Out of memory: Killed process 911 (rsync) total-vm:900000kB, "
    "anon-rss:800000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1700kB oom_score_adj:0"
)
RAISED = (
    "Traceback (most recent call last):",
    '  File "/opt/app/model.py", line 9, in forward',
    "    return self.weight[key]",
    "KeyError: 'bias'",
)
UNIT = "Jan 15 08:12:44 node1 serve[4242]: "


def test_what_the_kernel_ended_yesterday_is_no_part_of_an_exception() -> None:
    (incident,) = incidents_of(BACKUP, *(UNIT + line for line in RAISED))

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION
    assert incident.first_death.pid == 4242


def test_the_kernels_word_of_another_process_proves_no_lack_of_memory() -> None:
    (incident,) = incidents_of(BACKUP, "[ERROR] Worker (pid:4242) was sent SIGKILL!")

    assert incident.first_death.pid == 4242
    assert incident.first_death.cause.certainty is Certainty.LIKELY


def test_a_process_of_the_same_name_may_be_the_one_under_another_number() -> None:
    kernel = BACKUP.replace("(rsync)", "(python3)")

    (incident,) = incidents_of(kernel, "[ERROR] Worker (pid:4242) was sent SIGKILL!")

    assert incident.first_death.cause.certainty is Certainty.PROVED


def test_the_kernels_only_word_is_believed() -> None:
    (incident,) = incidents_of(BACKUP, "the server is gone since")

    assert incident.first_death.pid == 911


@pytest.mark.parametrize(
    "lines",
    [
        (
            "pool.cu:50: take(int): block: [1,0,0], thread: [28,0,0] Assertion `i < n` failed.",
            "The kernel failed as expected: CUDA error: device-side assert triggered",
        ),
        (
            "$ pytest -q",
            "tests/test_crash.py::test_child_dies XFAIL (child exits with code -11)",
            "1 passed, 1 xfailed in 0.40s",
        ),
        (
            "============ test session starts ============",
            "tests/test_pool.py::test_is_logged",
            "ERROR    pool:pool.py:12 taking failed",
            "Traceback (most recent call last):",
            '  File "/opt/app/pool.py", line 10, in take',
            "    return self.blocks[9]",
            "IndexError: list index out of range",
            "PASSED",
            "============ 3 passed in 0.12s ============",
        ),
        (
            "test_child_crash ... Fatal Python error: Segmentation fault",
            "",
            "Current thread 0x00007f1be0000700 (most recent call first):",
            '  File "<string>", line 1 in <module>',
            "ok",
            "",
            "Ran 2 tests in 0.812s",
            "",
            "OK",
        ),
        (
            "[==========] Running 1 test from 1 test suite.",
            "pool_test: pool.cpp:88: int take(int): Assertion `id < size' failed.",
            "[       OK ] PoolDeathTest.TakeTooMany (12 ms)",
            "[  PASSED  ] 1 test.",
        ),
        (
            "running 1 test",
            "thread 'tests::take' panicked at src/pool.rs:12:9:",
            "index out of bounds: the len is 3 but the index is 9",
            "test tests::take - should panic ... ok",
            "test result: ok. 1 passed; 0 failed; 0 ignored",
        ),
    ],
)
def test_what_died_in_a_test_that_passed_was_meant_to(lines: tuple[str, ...]) -> None:
    assert incidents_of(*lines) == ()


def test_a_crash_behind_a_run_that_passed_is_one() -> None:
    (incident,) = incidents_of(
        "============ test session starts ============",
        "============ 3 passed in 0.12s ============",
        "Segmentation fault (core dumped)",
    )

    assert incident.first_death.signal == "SIGSEGV"


def test_a_run_in_which_one_failed_proves_nothing_for_the_others() -> None:
    (incident,) = incidents_of(
        "[==========] Running 2 tests from 1 test suite.",
        "pool_test: pool.cpp:88: int take(int): Assertion `id < size' failed.",
        "[  FAILED  ] PoolTest.Take",
        "[  PASSED  ] 1 test.",
    )

    assert incident.first_death.cause.kind is CauseClass.ABORT_EXCEPTION


DEAD = (
    "ERROR 01-15 08:12:41 [async_llm.py:525] vllm.v1.engine.exceptions.EngineDeadError: x",
    "api-1 exited with code 143",
)


@pytest.mark.parametrize("echo", DEAD)
def test_what_follows_an_orderly_stop_is_no_death(echo: str) -> None:
    assert incidents_of("INFO 01-15 08:12:40 [launcher.py:80] Received SIGTERM", echo) == ()
    assert incidents_of("INFO:     Shutting down", echo) == ()
    assert len(incidents_of(echo, "INFO:     Shutting down")) == 1


def test_a_fault_while_stopping_is_a_death() -> None:
    (incident,) = incidents_of("INFO:     Shutting down", "Segmentation fault (core dumped)")

    assert incident.first_death.signal == "SIGSEGV"


def test_an_exception_of_who_ended_well_was_handled() -> None:
    assert incidents_of(*RAISED, "using the slow path", "INFO finished successfully") == ()
    assert len(incidents_of(*RAISED, "using the slow path")) == 1


def test_a_client_that_went_away_is_no_death() -> None:
    raised = [*RAISED[:-1], "starlette.requests.ClientDisconnect"]

    assert incidents_of(*raised) == ()


STACK = (
    "Attaching to process 4242",
    "#0  0x000055d0c0de1234 in spin (queue=0x55d0c0df0010) at serve.c:40",
    "#1  0x000055d0c0de1334 in main () at serve.c:80",
)


def test_a_debugger_that_was_attached_tells_of_no_death() -> None:
    assert incidents_of(*STACK) == ()
    assert len(incidents_of("It hangs when the queue is empty.", *STACK)) == 1


def test_a_wait_that_was_dumped_may_have_ended() -> None:
    (incident,) = incidents_of("Timeout (0:00:30)!")

    assert incident.first_death.cause.certainty is Certainty.LIKELY


def test_who_typed_the_kill_is_no_lack_of_memory() -> None:
    (incident,) = incidents_of("$ kill -9 4242", "[1]+  Killed                  python3 serve.py")

    assert incident.first_death.cause.kind is CauseClass.UNKNOWN
    assert incident.first_death.cause.detail == "SIGKILL, which somebody sent"


def test_another_reports_dump_is_quoted_and_not_this_ones() -> None:
    (incident,) = incidents_of(
        "This is not the same as the other report:",
        "> Fatal Python error: Segmentation fault",
        ">",
        "My program prints this:",
        "double free or corruption (!prev)",
    )

    assert incident.first_death.cause.kind is CauseClass.HEAP_CORRUPTION


def test_a_rank_that_waited_for_one_that_raised_is_no_first_death() -> None:
    (incident,) = incidents_of(
        *("[rank1]: " + line for line in RAISED),
        "[rank0]:[E115 08:22:43.351647859 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE)",
    )

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION


def test_an_exception_below_a_warning_of_how_it_goes_on_was_handled() -> None:
    (incident,) = incidents_of(
        "WARNING cache is broken, rebuilding",
        *RAISED,
        "INFO step 1",
        *RAISED[:-1],
        "RuntimeError: loss is not a number",
    )

    assert incident.first_death.cause.detail == "RuntimeError: loss is not a number"


@pytest.mark.parametrize(
    "line",
    [
        'Does it print "Segmentation fault (core dumped)" for you as well?',
        "# Trap SIGSEGV and show the stack",
        "# feat: dump the stack on a segmentation fault",
        "Exit code 137 (SIGKILL) always counts as killed.",
    ],
)
def test_who_asks_and_who_wishes_tells_of_no_death(line: str) -> None:
    assert incidents_of(line) == ()


def test_a_patch_that_is_mailed_tells_of_what_it_mends() -> None:
    patch = (
        "Subject: [PATCH] pool: close it once",
        "free(): invalid pointer",
        "Signed-off-by: Example <example@example.com>",
    )

    assert incidents_of(*patch) == ()


def test_release_notes_tell_of_what_was_mended() -> None:
    notes = ("Pool v1.4.2 Release Notes", "====", "", " * A corrupt block caused it to segfault.")

    assert incidents_of(*notes) == ()
    assert len(incidents_of(*notes[1:])) == 1


def test_a_traceback_that_lost_its_indentation_is_no_source_code() -> None:
    lines = [line.strip() for line in RAISED]

    (incident,) = incidents_of(*lines, *lines)

    assert incident.first_death.cause.kind is CauseClass.PYTHON_EXCEPTION


def test_what_follows_an_echo_is_an_echo() -> None:
    (found,) = incidents_of(
        "[MainProcess pid=10] worker Worker_TP1 died, exit code -9",
        "Traceback (most recent call last):",
        '  File "/app/serve.py", line 57, in wait',
        "    conn.recv()",
        "EOFError",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/app/serve.py", line 59, in main',
        "RuntimeError: engine loop died",
    )

    assert found.first_death.python_function is None
    assert [echo.line for echo in found.echoes] == [5, 11]
    assert found.visible_error_is_echo


def test_a_traceback_below_a_signal_is_not_of_who_had_died_of_it() -> None:
    (found,) = incidents_of(
        "ERROR: Unexpected segmentation fault encountered in worker.",
        "Traceback (most recent call last):",
        '  File "/opt/lib/torch/utils/data/dataloader.py", line 442, in _try_get_batch',
        "    data = self.data_queue.get(timeout=timeout)",
        '  File "/usr/lib/python3.12/multiprocessing/queues.py", line 104, in get',
        "    if not self._poll(timeout):",
    )

    assert found.first_death.signal == "SIGSEGV"
    assert found.first_death.python_function is None
    assert found.first_death.frames == ()
