"""Inference servers, trainers and their workers, as they are pasted into issues."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death


def _death(*lines: str) -> Death:
    text = "\n".join(lines) + "\n"
    (incident,) = explain_incidents(parse_incident_log([text.encode()]), text)
    return incident.first_death


def test_a_rank_is_named_by_the_message_of_what_it_throws() -> None:
    death = _death(
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "  what():  [PG 1 Rank 7] Process group watchdog thread terminated with exception: "
        "[Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9) ran for 600001 "
        "milliseconds before timing out.",
    )

    assert death.name == "Rank 7"


def test_the_heading_of_a_traceback_signs_an_error_of_the_gpu_as_well() -> None:
    death = _death(
        "[2026-01-15 08:12:45 TP2] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/pool/scheduler.py", line 88, in run_batch',
        "    self.stream.synchronize()",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "",
        "[2026-01-15 08:12:45] Received sigquit from a child process. It usually means the child "
        "failed.",
    )

    assert (death.name, death.cause.kind) == ("TP2", CauseClass.GPU_ASYNC)


def test_a_full_shm_is_the_worker_s_that_it_killed() -> None:
    death = _death(
        "[QUESTION] OSError: [Errno 28] No space left on device",
        "",
        "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory.",
    )

    assert (death.name, death.pid) == ("DataLoader worker", 4242)


@pytest.mark.parametrize("mark", ["[Bug]", "# [Bug] ", "[Bug]: ", "# "])
def test_a_title_repeats_a_line_with_its_prefix(mark: str) -> None:
    death = _death(f"{mark}(RayWorkerWrapper pid=42) Fatal Python error: Segmentation fault", "")

    assert (death.name, death.pid) == ("RayWorkerWrapper", 42)


@pytest.mark.parametrize(
    ("file", "function", "name"),
    [
        ("sglang/srt/managers/scheduler.py", "watchdog_thread", "sglang::scheduler"),
        ("vllm/v1/engine/core.py", "run_engine_core", "EngineCore"),
        ("vllm/v1/engine/core.py", "step", "python"),
    ],
)
def test_a_process_is_named_by_the_function_that_only_it_runs(
    file: str, function: str, name: str
) -> None:
    death = _death(
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f1be0001740 (most recent call first):",
        '  File "/opt/pool/block.py", line 88 in take',
        f'  File "/v/site-packages/{file}", line 12 in {function}',
    )

    assert death.name == name


def test_a_package_that_a_title_pins_is_the_place() -> None:
    death = _death("pip install pool==2.1.0 causes segmentation fault 11 upon import", "")

    assert death.module == "pool"


def test_a_title_without_a_mark_is_read_as_one() -> None:
    assert _death("Periodic SEGFAULT when reading blocks", "", "x").signal == "SIGSEGV"


def test_of_several_that_left_with_a_status_the_root_cause_is_the_first() -> None:
    death = _death(
        "serve.py FAILED",
        "Failures:",
        "[1]:",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : 1 (pid: 4243)",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 0 (local_rank: 0)",
        "  exitcode  : 1 (pid: 4242)",
    )

    assert death.pid == 4242


def test_what_a_program_logs_of_its_settings_is_no_source_code() -> None:
    death = _death(
        "Pool check failed",
        "",
        "When I set `--blocks` it ends:",
        "```",
        "block_cache: n_blocks = 512, kind = 'q8', n_layer = 48, can_shift = 1",
        "block_cache:        CPU buffer size = 208896.00 MiB",
        "/opt/pool/src/block.c:88: POOL_ASSERT(block != NULL) failed",
        "",
        "block_cache: n_blocks = 256, kind = 'q8', n_layer = 48, can_shift = 1",
        "block_cache:        CPU buffer size = 104448.00 MiB",
        "```",
    )

    assert (death.file, death.cause.kind) == ("/opt/pool/src/block.c", CauseClass.ABORT_EXCEPTION)


def test_a_macro_that_checks_is_no_place() -> None:
    death = _death("pool-server aborts with POOL_ASSERT during warmup", "")

    assert (death.name, death.function) == ("pool-server", None)
    assert death.cause.kind is CauseClass.ABORT_EXCEPTION


def test_a_broken_invariant_of_malloc_s_is_a_damaged_heap() -> None:
    death = _death(
        "python(4242,0x112519dc0) malloc: tiny_free_list_remove_ptr: Internal invariant broken "
        "(next ptr of prev): ptr=0x7faf53bb10d0, prev_next=0x7fbf53bb10d0",
        "python(4242,0x112519dc0) malloc: *** set a breakpoint in malloc_error_break to debug",
    )

    assert (death.name, death.pid) == ("python", 4242)
    assert death.cause.kind is CauseClass.HEAP_CORRUPTION


def test_a_name_that_the_text_calls_as_a_method_is_the_place() -> None:
    death = _death("`scan_blocks` segfault on main", "", "import pool", 'pool.scan_blocks("a")')

    assert (death.name, death.function) == (None, "scan_blocks")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "[rank3]:[E227 16:30:43.526290891 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 3 "
            "Rank 3] Exception (either an error or timeout) detected by watchdog at work: 32, last "
            "enqueued NCCL work: 32, last completed NCCL work: 31.",
            "Rank 3",
        ),
        ("Process 2 terminated with exit code 10, terminating remaining processes.", "Process 2"),
        (
            "CRITICAL 11-05 12:03:03 launcher.py:99] MQLLMEngine is already dead, terminating "
            "server process",
            "MQLLMEngine",
        ),
        (
            "When starting the actor models in step 3, all the subprocess are killed, and exits "
            "with return code = -9",
            None,
        ),
        ("$ deepspeed src/tune.py --n 2\nFloating point exception (core dumped)", "tune.py"),
        (
            "# [BUG] exits with return code = -7\n\n[2026-01-15 08:12:45,982] [ERROR] "
            "[launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'src/tune.py', '--local_ra",
            "tune.py",
        ),
        ("the python3 interpreter is killed with the message: Illegal instruction", "python3"),
    ],
)
def test_who_died_is_named_by_whom_its_own_words_or_its_launcher_name(
    line: str, name: str | None
) -> None:
    assert _death(line).name == name


def test_ray_tells_the_number_of_a_dead_worker_in_a_wrapped_line_too() -> None:
    death = _death(
        "2026-01-15 08:12:45,522 WARNING worker.py:1215 -- A worker died or was killed while "
        "executing a task by an unexpecte",
        "d system error. Worker IP address: 10.0.0.1 Worker port: 40679 Worker PID: 4242",
    )

    assert death.pid == 4242


def test_what_nccl_could_not_begin_is_no_error_of_earlier_work() -> None:
    death = _death(
        "node-1: node-1:4242:4483 [4] transport/nvls.cc:245 NCCL WARN Cuda failure "
        "'initialization error'"
    )

    assert (death.pid, death.cause.kind) == (4242, CauseClass.ENVIRONMENT)


def test_of_ranks_that_waited_alike_none_is_proved_to_have_hung() -> None:
    lines = [
        f"[2026-01-15 08:12:45 TP{rank}] Watchdog timeout (self.watchdog_timeout=300)"
        for rank in (4, 6, 1)
    ]

    assert _death(lines[0]).cause.certainty is Certainty.PROVED
    assert _death(*lines).cause.certainty is Certainty.LIKELY


def test_a_title_s_import_is_the_place_of_what_its_shell_tells() -> None:
    death = _death("# import pools as ps: Illegal instruction (core dumped)", "", "Why?")

    assert death.python_function == "import pools"


def test_what_a_page_shows_slanted_is_a_file_without_its_mark() -> None:
    death = _death(
        "It returns error:",
        "_./pool/util/launch.h:127] Check failed: blocks > 0 (-6 vs. 0)",
        "Aborted (core dumped)_",
    )

    assert death.file == "./pool/util/launch.h"


def test_a_function_of_who_noticed_a_death_is_no_place() -> None:
    death = _death(
        "# WorkerLostError billiard.pool in mark_as_worker_lost SIGNAL 11",
        "",
        "Traceback (most recent call last):",
        '  File "/v/site-packages/billiard/pool.py", line 1264, in mark_as_worker_lost',
        "    raise WorkerLostError(",
        "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 11 (SIGSEGV).",
        "",
        'Process "ForkPoolWorker-11" pid:4242 exited with "signal 11 (SIGSEGV)"',
    )

    assert (death.pid, death.function) == (4242, None)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("# Meet Segmentation fault (core dumped) while training", None),
        (
            "# Loads it from path: ./models/pose/dw-ll_384.pth Segmentation fault (core dumped)",
            None,
        ),
        ("# \u52a0\u8f7d\u6a21\u578b\u51fa\u73b0Segmentation fault (core dumped)", None),
        ("# ProcessExitedException: process 0 terminated with signal SIGABRT", "process 0"),
        ('When I exec the "tune.py", it says "segmentation fault (core dumped)".', "tune.py"),
        ("When I use python3 tune.py --n 2, it said 'Segmentation fault (core dumped)'", "tune.py"),
    ],
)
def test_no_verb_file_of_data_or_unparted_sentence_is_a_name(line: str, name: str | None) -> None:
    assert _death(line, "", "Why?").name == name


def test_a_cut_traceback_keeps_the_child_that_its_heading_names() -> None:
    death = _death(
        "    Process SpawnProcess-1:",
        "    Traceback (most recent call last):",
        '      File "/opt/pool/engine.py", line 388, in take_blocks',
        "        engine = Pool.of(engine_args=engine_args,",
    )

    assert death.name == "SpawnProcess-1"


def test_whoever_logs_that_its_method_failed_is_whom_a_title_s_exception_ended() -> None:
    death = _death(
        "# [Bug]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.",
        "",
        "(RayWorkerWrapper pid=41) INFO 03-27 10:29:01 [worker.py:267] Profiling took 4.26 seconds",
        "(RayWorkerWrapper pid=42) ERROR 03-27 10:29:13 [base.py:620] Error executing method",
    )

    assert (death.name, death.pid) == ("RayWorkerWrapper", 42)


def test_what_a_title_says_crashed_is_the_place_where_an_interpreter_did() -> None:
    death = _death(
        "# showblock segfaults in 4.5.4 on Ubuntu",
        "",
        "```",
        "(venv) me@10:12:45> python show.py",
        "Segmentation fault (core dumped)",
        "```",
    )

    assert (death.name, death.function) == ("python", "showblock")


def test_a_dead_worker_s_number_is_not_named_by_the_engine_that_its_raylet_wrote_through() -> None:
    death = _death(
        "# fix: segfault before init",
        "",
        "(EngineCore pid=41) (raylet) A worker died or was killed while executing a task by an "
        "unexpected system error. Worker PID: 42 Worker exit type: SYSTEM_ERROR Worker exit "
        "detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        "(EngineCore pid=41) ERROR 03-29 12:59:53 [core.py:9] EngineCore failed to start.",
        "(EngineCore pid=41) ERROR 03-29 12:59:53 [core.py:9] Traceback (most recent call last):",
        '(EngineCore pid=41) ERROR 03-29 12:59:53 [core.py:9]   File "/v/vllm/v1/engine/core.py",'
        " line 1073, in run_engine_core",
        "(EngineCore pid=41) ERROR 03-29 12:59:53 [core.py:9]     core = EngineCoreProc(*args)",
    )

    assert (death.name, death.pid) == (None, 42)


def test_an_executor_that_is_shut_down_after_a_failure_is_no_orderly_stop() -> None:
    death = _death(
        "INFO 08-15 17:38:13 [ray_distributed_executor.py:120] Shutting down Ray distributed "
        "executor. If you see error log from logging.cc regarding SIGTERM received, please ignore",
        "ERROR 08-15 17:38:13 [async_llm.py:416] vllm.v1.engine.exceptions.EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )

    assert death.cause.kind is CauseClass.UNKNOWN


def test_what_happens_when_somebody_runs_it_happened_to_him_whatever_his_title_is() -> None:
    death = _death(
        "# Test: segmentation fault when testing `take`",
        "",
        "A segmentation fault occurs when I try to run the test on NixOS.",
    )

    assert death.signal == "SIGSEGV"
