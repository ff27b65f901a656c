"""Inference servers, trainers and their workers, as they are pasted into issues."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log
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
