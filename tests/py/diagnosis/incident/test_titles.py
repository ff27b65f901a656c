"""Titles, last words and how an end was seen from outside: what each of them decides."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

TIMEOUT = (
    "terminate called after throwing an instance of 'c10::DistBackendError'",
    "  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4) ran "
    "for 1800011 milliseconds before timing out.",
)
NO_PLUGIN = (
    "This application failed to start because no Qt platform plugin could be initialized. "
    "Reinstalling the application may fix this problem."
)


def test_the_log_counts_for_more_than_its_title() -> None:
    incident = incident_of("# [Bug]: serve is stuck with NCCL error", "", *TIMEOUT)

    assert incident.first_death.cause.kind is CauseClass.HANG


def test_a_title_that_repeats_an_assertion_tells_it_where_the_log_was_cut() -> None:
    incident = incident_of(
        "# Eval bug: Assertion `free > 0' failed", "", "It ends with", "serve: /"
    )

    death = incident.first_death
    assert death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert death.cause.certainty is Certainty.LIKELY


@pytest.mark.parametrize("line", ["Aborted (core dumped)", "serve_1 exited with code 133"])
def test_what_a_program_lacks_is_why_it_gave_up(line: str) -> None:
    death = incident_of(NO_PLUGIN, "", line).first_death

    assert death.cause.kind is CauseClass.ENVIRONMENT
    assert death.signal == ("SIGABRT" if "Aborted" in line else "SIGTRAP")


def test_how_a_runtime_that_gave_up_ended_was_seen_by_its_parent() -> None:
    incident = incident_of(
        "terminate called after throwing an instance of 'std::runtime_error'",
        "  what():  no block",
        "serve_1 exited with code 139",
    )

    assert incident.first_death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert incident.first_death.signal == "SIGSEGV"


def test_a_process_that_writes_on_is_not_the_dead_one() -> None:
    tagged = "(VllmWorker rank=0 pid=223) INFO 01-15 08:12:{:02} [worker.py:1] still here"
    lines = [tagged.format(second) for second in range(30)]

    incident = incident_of(lines[0], "Segmentation fault (core dumped)", *lines[1:])

    assert incident.first_death.pid is None


def test_an_error_that_a_change_is_about_is_no_death() -> None:
    assert not incidents_of(
        "# [Distributed] Add the signal's name to ChildFailedError",
        "",
        "Until now it would show:",
        "```",
        "exitcode  : -11 (pid: 5277)",
        "```",
        "Now it will show:",
        "```",
        "exitcode  : -11 (pid: 5277) (SIGSEGV)",
        "```",
    )


def test_a_dump_without_its_heading_below_a_title_that_tells_of_a_crash() -> None:
    incident = incident_of(
        "# `take` makes it crash",
        "",
        "Current thread 0x00007f1be0001000 (most recent call first):",
        '  File "/opt/app/pool.py", line 48 in take',
        '  File "/opt/app/serve.py", line 12 in step',
    )

    assert incident.first_death.python_function == "take"
    assert incident.first_death.cause.certainty is not Certainty.PROVED


@pytest.mark.parametrize(
    "typed", [">>> import torch", '$ python3 -c "import torch; torch.ones(2)"']
)
def test_what_was_typed_last_is_where_it_died(typed: str) -> None:
    incident = incident_of("Python 3.11.7 on linux", typed, "Illegal instruction (core dumped)")

    assert incident.first_death.python_function == "import torch"


def test_what_was_typed_long_before_is_not() -> None:
    incident = incident_of(">>> import torch", *["INFO ready"] * 20, "Segmentation fault")

    assert incident.first_death.python_function is None


def test_a_title_says_why_where_the_log_only_aborted() -> None:
    title = "# CUDA error: an illegal memory access was encountered"

    cause = incident_of(title, "", "Aborted (core dumped)").first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.GPU_ASYNC, Certainty.LIKELY)


def test_the_traceback_names_the_library_that_its_title_does_not() -> None:
    incident = incident_of(
        "# undefined symbol: ns_take",
        "",
        "Traceback (most recent call last):",
        '  File "/opt/app/serve.py", line 4, in <module>',
        "    import pool",
        "ImportError: /opt/app/libpool.so.1: undefined symbol: ns_take",
    )

    death = incident.first_death
    assert (death.cause.kind, death.module) == (CauseClass.ENVIRONMENT, "libpool.so.1")
    assert death.cause.certainty is Certainty.PROVED


def test_glibcs_allocator_is_known_by_its_own_frames_too() -> None:
    incident = incident_of(
        "#0  0x00007f1be0001234 in raise () from /lib/libc.so.6",
        "#1  0x00007f1be0002234 in abort () from /lib/libc.so.6",
        "#2  0x00007f1be0003234 in __libc_message () from /lib/libc.so.6",
        "#3  0x00007f1be0004234 in _int_free () from /lib/libc.so.6",
        "#4  0x00007f1be0005234 in ns::take (pool=0x0) at pool.cpp:12",
    )

    assert incident.first_death.cause.kind is CauseClass.HEAP_CORRUPTION
    assert incident.first_death.function == "ns::take"


def test_a_title_may_have_lost_glibcs_stars() -> None:
    death = incident_of("# Error in `serve': double free or corruption (out)").first_death

    assert (death.name, death.signal) == ("serve", "SIGABRT")


def test_who_dumped_core_died() -> None:
    assert incident_of("# Poold dumped core - Rawhide 20260115").first_death.name == "Poold"


def test_what_a_commit_shows_is_no_proof_of_a_death() -> None:
    lines = (
        "feat(pool): tell why a worker ended",
        "",
        "It now says:",
        "",
        "OOMKilled=true (exit 137)",
    )

    assert incident_of(*lines).first_death.cause.certainty is not Certainty.PROVED
    assert incident_of(*lines[2:]).first_death.cause.certainty is Certainty.PROVED


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("# `pool -v --all` segfaults", "pool"),
        ("# Poolserv 22.8-cert2 crashes with SIGSEGV in take()", "Poolserv"),
        ("# My router pods crash with SIGSEGV", None),
        ("# event router pod crashes with SIGSEGV", "event router"),
        ("# Docker container crashes with SIGSEGV", None),
        ("# poold (poold), signal: Segmentation fault (Bug 42)", "poold"),
    ],
)
def test_a_title_names_a_command_a_version_and_a_pod(title: str, name: str | None) -> None:
    death = incident_of(title, "", "It began yesterday on my machine.").first_death

    assert (death.name, death.signal) == (name, "SIGSEGV")


def test_an_assertion_behind_who_crashes_is_why() -> None:
    death = incident_of("# poold crashes: Assertion '*_head == _item' failed", "", "See above.")

    assert death.first_death.cause.kind is CauseClass.ABORT_EXCEPTION


@pytest.mark.parametrize(
    "lines",
    [
        ("# Failure marker claims agent 'died and was reaped' when the run exited cleanly", ""),
        ("Many program crashes remain unreported because nobody looks.",),
        ("I was tempted to try intercepting crashes to print more.",),
    ],
)
def test_what_is_claimed_or_said_of_many_is_no_death(lines: tuple[str, ...]) -> None:
    assert not incidents_of(*lines)


def test_the_questions_of_a_reports_form_are_not_a_lessons() -> None:
    death = incident_of(
        "# Poolshell crashes with Segmentation Fault (SEGV) on a click",
        "",
        "### Describe the bug",
        "",
        "The process crashes with a Segmentation Fault whenever I click on the tray. This happens "
        "when clicking on the tray or when attempting to add it. The result is that the desktop "
        "disappears for a moment and then restarts.",
        "",
        "### What did you expect to happen?",
        "",
        "I expected the menu to open, or the widget to be added without a crash.",
    ).first_death

    assert (death.name, death.signal) == ("Poolshell", "SIGSEGV")


def test_what_a_program_says_it_detected_is_no_change() -> None:
    title = "# slurmstepd: error: Detected 1 oom_kill event in StepId=42.0."

    assert incident_of(title, "", "How do I remove it?").first_death.signal == "SIGKILL"


@pytest.mark.parametrize(
    ("title", "name", "signal"),
    [
        ("# Pool DB crashed, backend process being killed by Linux OOM killer", "backend",
         "SIGKILL"),
        ("# arm Docker: Restarting loop - it received signal 11 (exit code 139)", None,
         "SIGSEGV"),
        ("# pool container dies with SIGSEGV", "pool", "SIGSEGV"),
    ],
)  # fmt: skip
def test_a_title_of_two_clauses_or_of_a_loop(title: str, name: str | None, signal: str) -> None:
    death = incident_of(title, "", "It began yesterday on my machine.").first_death

    assert (death.name, death.signal) == (name, signal)


def test_a_launchers_advice_to_its_reader_makes_no_lesson() -> None:
    death = incident_of(
        "# How can I solve it?",
        "",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   PID 4242 RUNNING AT n1",
        "=   EXIT CODE: 9",
        "=   CLEANING UP REMAINING PROCESSES",
        "=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES",
        "This typically refers to a problem with your application.",
        "Please see the FAQ page for debugging suggestions",
    ).first_death

    assert (death.pid, death.signal) == (4242, "SIGKILL")


@pytest.mark.parametrize(
    "lines",
    [
        ("# [Docs RFC] Describe a process killed", "", "- LOG: server process (PID `NNN`) was "
         "terminated by signal 9: Killed"),
        ("# Show kills in CI", "", "Previously one had to inspect the log and look",
         "for killed by signal 9."),
    ],
)  # fmt: skip
def test_what_is_looked_for_or_left_to_fill_in_is_no_death(lines: tuple[str, ...]) -> None:
    assert not incidents_of(*lines)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[12:15:45] WARNING: pool-server service exited with code 139 (by signal 11).",
         "pool-server"),
        ("[06:57:10] INFO: Pool Server finish process received signal 11", "Pool Server"),
    ],
)  # fmt: skip
def test_a_supervisor_names_its_service(line: str, name: str) -> None:
    assert incident_of("s6-rc: info: service pool: starting", line).first_death.name == name


def test_a_title_above_a_cut_traceback_is_of_who_wrote_it() -> None:
    death = incident_of(
        "# [Bug]: CUDA error: an illegal instruction was encountered",
        "",
        "(VllmWorker rank=2 pid=42) Process VllmWorker-2:",
        "(VllmWorker rank=2 pid=42) Traceback (most recent call last):",
        '(VllmWorker rank=2 pid=42)   File "/opt/pool/worker.py", line 12, in worker_main',
        "(VllmWorker rank=2 pid=42)     worker.take()",
    ).first_death

    assert death.name == "VllmWorker"
    assert (death.python_function, death.line) == ("worker_main", 12)
    assert death.place_certainty is Certainty.LIKELY


def test_below_an_error_of_nccl_a_cut_traceback_shows_who_noticed_it_where() -> None:
    death = incident_of(
        "host-1:502:568 [0] pool/alloc.h:112 NCCL WARN Cuda failure 999 'unknown error'",
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/opt/pool/train.py", line 273, in <module>',
        "[rank0]:     pool.share()",
        '[rank0]:   File "/opt/pool/share.py", line 58, in share',
    ).first_death

    assert (death.name, death.pid) == ("rank0", 502)
    assert death.python_function == "share"


def test_a_faulting_gpu_tells_whose_page_it_was() -> None:
    death = incident_of(
        "amdgpu 0000:66:00.0: amdgpu:  for process serve pid 4242 thread serve pid 4242)",
        "amdgpu 0000:66:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00341051",
    ).first_death

    assert (death.name, death.pid, death.cause.kind) == ("serve", 4242, CauseClass.GPU_ASYNC)


def test_fishs_word_in_a_sentence_names_what_it_ran() -> None:
    death = incident_of(
        "# Poolview crashes on a large file",
        "",
        "I open it and get an error - fish: Job 1, 'poolv big.txt' terminated by signal SIGKILL "
        "(Forced quit), and the memory was full.",
    ).first_death

    assert death.name == "poolv"


@pytest.mark.parametrize(
    ("title", "name", "signal"),
    [
        ("EngineCore dies with SIGKILL", "EngineCore", "SIGKILL"),
        ("poold gets SIGKILL after a minute", "poold", "SIGKILL"),
        ("poold exited with a SIGKILL", "poold", "SIGKILL"),
        ("Node crashes with JavaScript heap out of memory", "Node", None),  # it ends itself
    ],
)
def test_a_title_tells_by_which_signal_it_died(
    title: str, name: str | None, signal: str | None
) -> None:
    death = incident_of(f"# {title}", "", "No more is known.").first_death

    assert (death.name, death.signal) == (name, signal)


@pytest.mark.parametrize(
    "title",
    [
        "What happens if poold receives SIGKILL?",
        "Allow to handle the case where a job exited with SIGKILL",
        "Restart policy when a container gets SIGKILL",
    ],
)
def test_a_question_about_a_signal_is_no_death(title: str) -> None:
    assert incidents_of(f"# {title}", "", "See above.") == ()
