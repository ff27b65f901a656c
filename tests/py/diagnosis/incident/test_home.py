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
