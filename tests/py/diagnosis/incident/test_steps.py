"""What to do next: by the class of the cause, and by what its words tell."""

import shlex

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.steps import with_log

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
        (
            (
                "terminate called after throwing an instance of 'std::bad_alloc'",
                "  what():  std::bad_alloc",
            ),
            "ulimit -v",
        ),
        (("kernel: a[1]: segfault at 48 ip 10 sp 2 error 4 in x.so[10+20]",), "--symbols PLACE"),
        (("Segmentation fault",), "forensics run"),
        (("pool-7f9c  0/1  CrashLoopBackOff  25  1h",), "kubectl logs POD --previous"),
        (("    Last State: Terminated", "      Exit Code:    1"), "kubectl logs POD --previous"),
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


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (("Windows fatal exception: access violation",), "Get-WinEvent"),
        (("serve.exe exited with code 0xC0000005",), "Get-WinEvent"),
        (("worker exited with code -1073741819",), "Get-WinEvent"),
        (
            ("Process: serve [42]", "Exception Type: EXC_BAD_ACCESS (SIGSEGV)"),
            "ls -t ~/Library/Logs/DiagnosticReports",
        ),
        (
            (
                "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x48",
                "    #00 pc 000000000001e020  /data/app/a/base.apk!libpool.so (BuildId: 26a2)",
            ),
            "adb logcat -b crash",
        ),
    ],
)
def test_on_other_systems_there_is_something_to_type_as_well(
    lines: tuple[str, ...], step: str
) -> None:
    steps = incident_of(*lines).next_steps

    assert step in steps[0]
    assert not any("forensics core" in one or "dmesg" in one for one in steps)


def test_a_core_that_was_kept_is_read_before_another_is_made() -> None:
    steps = incident_of("serve.sh: line 1: 4242 Segmentation fault (core dumped) serve").next_steps

    assert steps[0].startswith("forensics core ")
    assert sum("forensics core " in step for step in steps) == 1
    assert any("forensics run" in step for step in steps)


def test_an_oops_is_the_kernels_matter() -> None:
    steps = incident_of("[ 1234.567890] kernel BUG at mm/slub.c:42!").next_steps

    assert any("decode_stacktrace.sh" in step for step in steps)
    assert not any("forensics run" in step for step in steps)


_TOLD = (
    "!!!!!!! Segfault encountered !!!!!!!",
    '  File "/src/pool.hpp", line 305, in store(long)',
    '  File "/src/pool.cpp", line 175, in run()',
)


def test_what_the_stack_told_already_is_not_promised() -> None:
    steps = incident_of(*_TOLD).next_steps

    assert steps[0].startswith("forensics run -- COMMAND    # keeps a core")
    assert not any("line is found" in step or "dmesg" in step for step in steps)


def test_a_fault_without_a_place_is_looked_for_in_the_kernels_log() -> None:
    steps = incident_of("Segmentation fault").next_steps

    assert "the line is found" in steps[0]
    assert any(step.startswith("dmesg ") for step in steps)


@pytest.mark.parametrize("log", ["serve.log", "/srv/the logs/serve.log", "a'b.log"])
def test_a_step_names_the_log_as_a_shell_takes_it(log: str) -> None:
    steps = with_log(incident_of(*_TOLD).next_steps, log)

    [joined] = [step for step in steps if step.startswith("forensics report ")]
    assert shlex.split(joined, comments=True) == ["forensics", "report", log, "CORE"]


@pytest.mark.parametrize(
    ("line", "there", "strange"),
    [
        # a program of no runtime that is known, outside of any container
        ("run.sh: line 1: 42 Killed      poold", "cgroup", "kubectl"),
        ("run.sh: line 1: 42 Killed      poold", "dmesg", "docker"),
        ("    Reason: OOMKilled", "kubectl describe pod", "docker"),
        ("container poold (exit code 137)", "docker inspect", "kubectl"),
        ("poold exited with code 3", "own.log", "PYTHONFAULTHANDLER"),
        (
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool was "
            "terminated abruptly while the future was running or pending.",
            "PYTHONFAULTHANDLER",
            "kubectl",
        ),
        ("[CRITICAL] WORKER TIMEOUT (pid:42)", "py-spy", "NCCL"),
        (
            "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)",
            "NCCL_DEBUG",
            "kubectl",
        ),
    ],
)
def test_no_step_is_for_what_the_text_does_not_show(line: str, there: str, strange: str) -> None:
    steps = incident_of(line).next_steps

    assert any(there in step for step in steps)
    assert not any(strange in step for step in steps)


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (("thread 'main' panicked at src/pool.rs:7:9: no block",), "RUST_BACKTRACE=1"),
        (
            ("fatal error: concurrent map writes", "", "goroutine 17 [running]:", "main.take()"),
            "GOTRACEBACK=crash",
        ),
        (("#  SIGSEGV (0xb) at pc=0x00007f1be0001234, pid=42, tid=43",), "less hs_err_pid"),
        (
            ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",),
            "node --heapsnapshot",
        ),
        (
            (
                'Exception in thread "main" java.lang.IllegalStateException: no block',
                "\tat example.Pool.take(Pool.java:12)",
            ),
            "read the calls",
        ),
    ],
)
def test_a_runtime_is_asked_for_what_it_offers(lines: tuple[str, ...], step: str) -> None:
    assert incident_of(*lines).next_steps[0].startswith(step)
