"""What to do next: by the class of the cause, and by what its words tell."""

import pytest
from tests.py.support.incidents import incident_of

RAISED = (
    "Traceback (most recent call last):",
    '  File "serve.py", line 3, in step',
    "    run()",
)


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (("CUDA error: an illegal memory access was encountered",), "CUDA_LAUNCH_BLOCKING=1"),
        (
            (*RAISED, "RuntimeError: HIP error: an illegal memory access was encountered"),
            "AMD_SERIALIZE_KERNEL=3",
        ),
        ((*RAISED, "torch.OutOfMemoryError: CUDA out of memory. Tried to"), "nvidia-smi"),
        (
            ("serve: error while loading shared libraries: x.so: cannot open shared object file",),
            "ldd -r",
        ),
        ((*RAISED, "KeyError: 'a'"), "read the traceback"),
        (("kernel: a[1]: segfault at 48 ip 10 sp 2 error 4 in x.so[10+20]",), "--symbols PLACE"),
        (("Segmentation fault (core dumped)",), "forensics run"),
    ],
)
def test_the_first_step_fits_the_cause(lines: tuple[str, ...], step: str) -> None:
    assert step in incident_of(*lines).next_steps[0]


def test_what_is_at_hand_is_no_step() -> None:
    line = "kernel: a[1]: segfault at 48 ip 10 sp 2 error 4 in x.so[10+20]"

    assert not any("dmesg" in step for step in incident_of(line).next_steps)


def test_an_exception_without_its_traceback_is_not_told_to_be_read() -> None:
    steps = incident_of("# [Bug]: RuntimeError: the pool is empty", "", "It died.").next_steps

    assert not any("read the traceback" in step for step in steps)


def test_what_the_scheduler_decided_can_be_decided_again() -> None:
    steps = incident_of(
        "Traceback (most recent call last):",
        '  File "/opt/lib/vllm/v1/engine/core.py", line 835, in run_engine_core',
        "    engine_core.run_busy_loop()",
        '  File "/opt/lib/vllm/v1/core/sched/scheduler.py", line 612, in update_from_output',
        "    num_tokens_scheduled = num_scheduled_tokens[req_id]",
        "KeyError: 'cmpl-1'",
    ).next_steps

    assert any(step.startswith("forensics sandbox replay LOG") for step in steps)


@pytest.mark.parametrize("word", ["Bus error", "Illegal instruction"])
def test_a_signal_of_the_machines_is_asked_about_once(word: str) -> None:
    steps = incident_of(f"Fatal Python error: {word}").next_steps

    assert len(steps) == len(set(steps)) > 1
