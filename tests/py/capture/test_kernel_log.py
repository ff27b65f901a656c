"""Whom the kernel's log names as killed for want of memory."""

from pathlib import Path

from vllm_forensics.capture.kernel_log import killed_since, out_of_memory_kills
from vllm_forensics.diagnosis.endings import explain_endings
from vllm_forensics.model.run import ProcessRecord, SupervisedRun


def test_only_kills_since_the_start_count() -> None:
    records = (
        b"3,1,5000000,-;Out of memory: Killed process 41 (old)",
        b"6,2,9000000,-;usb 1-1: new device",
        b"3,3,9500000,-;Memory cgroup out of memory: Killed process 42 (python) total-vm:1kB",
        b"damaged",
    )

    assert killed_since(6.0, records) == frozenset({42})


def test_a_log_that_may_not_be_read_is_no_answer(tmp_path: Path) -> None:
    assert out_of_memory_kills(0.0, str(tmp_path / "none")) is None


def test_a_process_that_the_log_names_was_killed_by_the_kernel() -> None:
    run = SupervisedRun(
        processes=(ProcessRecord(pid=42, parent=1, command="python", exit=-9),),
        faults=(),
        cores=(),
        oom_kills=None,
        errors=(),
        kernel_kills=frozenset({42}),
    )

    [sentence] = explain_endings(run, frozenset())

    assert "the kernel's log names it" in sentence
