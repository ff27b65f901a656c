"""What frameworks of many processes write, and what people say of them: who, where, how sure."""

from __future__ import annotations

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Incident, ProcessRole


def incident_of(*lines: str) -> Incident:
    incident = explain_incident(parse_incident_log(["\n".join(lines).encode()]), "log")
    assert incident is not None
    return incident


@pytest.mark.parametrize(
    ("line", "name", "pid"),
    [
        ("worker 3 exited with code 7", "worker 3", None),
        ("RuntimeError: worker 2 exited with exit code 7", "worker 2", None),
        ("Trainer: rank 2 exited with exitcode 7", "rank 2", None),
        ("Worker 0 (pid 4242) died with exit code 7", "Worker 0", 4242),
        ("Worker 4242 exited with exit code 3", None, 4242),
        ("worker process 31 exited with code 7", None, 31),
    ],
)
def test_a_worker_that_left_with_a_status_is_named(
    line: str, name: str | None, pid: int | None
) -> None:
    death = incident_of(line).first_death

    assert (death.name, death.pid, death.role) == (name, pid, ProcessRole.WORKER)
    assert death.cause.certainty is Certainty.UNKNOWN


def test_a_commands_list_names_its_script() -> None:
    launcher = "[launch.py:434:sigkill_handler] ['/usr/bin/python3', '-u', 'serve.py', '--n=2'] "
    parent = "CalledProcessError: Command '['/opt/pool', '-x']' returned non-zero exit status 139."

    assert incident_of(f"{launcher}exits with return code = -9").first_death.name == "serve.py"
    assert incident_of(f"{launcher}exits with return code = 1").first_death.name == "serve.py"
    assert incident_of(parent).first_death.name == "pool"


def test_an_error_that_a_worker_handed_on_is_the_workers() -> None:
    death = incident_of(
        "ERROR 01-15 08:12:45 [core.py:396] RuntimeError: Worker failed with error 'CUDA error: an "
        "illegal memory access was encountered', please check the stack trace above",
        "ERROR 01-15 08:12:46 [multiproc_executor.py:123] Worker proc VllmWorker-0 died "
        "unexpectedly, shutting down executor.",
    ).first_death

    assert death.role is ProcessRole.WORKER
    assert death.cause.kind is CauseClass.GPU_ASYNC


@pytest.mark.parametrize(
    "line",
    [
        "[rank1]: ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress",
        "[rank1]: Terminating the process due to ProcessGroupNCCL watchdog hang.",
    ],
)
def test_who_waits_for_other_ranks_does_not_know_who_kept_him(line: str) -> None:
    cause = incident_of(line).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.HANG, Certainty.LIKELY)


def test_ranks_that_fault_in_different_functions_are_no_echoes_of_each_other() -> None:
    incident = incident_of(
        *(
            f"[{host}] {line}"
            for host, function in (("n1:100", "step"), ("n2:200", "halo"))
            for line in (
                "*** Process received signal ***",
                "Signal: Segmentation fault (11)",
                "[ 0] /lib64/libpthread.so.0(+0xf630)[0x7f1be0001234]",
                f"[ 1] ./solver({function}+0x20)[0x401234]",
                "*** End of error message ***",
            )
        )
    )

    assert (incident.first_death.pid, incident.first_death.function) == (100, "step")
    assert incident.echoes == ()


def test_what_was_thrown_names_its_function_and_its_source() -> None:
    death = incident_of(
        "terminate called after throwing an instance of 'pool::PoolException'",
        "  what():  Error in void pool::Index::load(const string&) at /src/index.cc:88: Error: "
        "'n == 1' failed",
    ).first_death

    assert (death.function, death.file, death.line) == ("pool::Index::load", "/src/index.cc", 88)


@pytest.mark.parametrize(
    ("title", "called"),
    [
        ("import pool segfaults", "import pool"),
        ("Segfault on import pool.take with an old CPU", "import pool.take"),
        ("`import pool` terminates Python with SIGSEGV", "import pool"),
        ("Segfault when importing `pool` under Wayland", "import pool"),
        ("Segfault when importing large files", None),
        ("Segmentation fault on import from clipboard", None),
        ("Segmentation fault when importing images", None),
    ],
)
def test_an_import_of_which_a_title_tells_is_the_place(title: str, called: str | None) -> None:
    assert incident_of(f"# {title}").first_death.python_function == called


def test_what_came_of_a_crash_tells_whose_it_was() -> None:
    assert incident_of("# Signal 11 received and server down").first_death.name == "server"
    assert incident_of("# Signal 11 received and everything dies").first_death.name is None


def test_dumps_of_processes_that_write_each_word_at_once_are_read_as_one() -> None:
    death = incident_of(
        "Fatal Python error: Fatal Python error: Segmentation faultSegmentation fault",
        "Current thread 0xCurrent thread 0x00007f1be00012340000781be0005678 (most recent call "
        "first):",
        " (most recent call first):",
        '  File   File ""/opt/pool.py/opt/pool.py"", line , line 4242 in  in taketake',
        '  File   File ""/opt/app.py/opt/app.py"", line , line 77 in  in mainmain',
    ).first_death

    assert death.python_function == "take"


def test_a_debuggers_next_instruction_names_its_function() -> None:
    death = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        "=> 0x7f1be0001234 <pool_take+288>:\tmov    %rax,%r13",
    ).first_death

    assert death.function == "pool_take"


def test_a_debuggers_variable_is_no_program() -> None:
    death = incident_of(
        "(gdb) x/i $pc", "Program received signal SIGSEGV, Segmentation fault."
    ).first_death

    assert death.name is None


def test_frames_of_which_somebody_left_the_names_alone_are_read() -> None:
    death = incident_of(
        "EXC_BAD_ACCESS (SIGSEGV) in a worker thread",
        "  libpool.dylib`pool_wait + 44",
        "  libpool.dylib`pool_join",
    ).first_death

    assert (death.module, death.function) == ("libpool.dylib", "pool_wait")


def test_below_the_kernels_way_back_stands_the_place() -> None:
    death = incident_of(
        "[n1:4242:0:4242] Caught signal 11 (Segmentation fault: address not mapped to object)",
        "==== backtrace ====",
        "    0  /opt/lib/libucs.so.0(+0x23f14) [0x400006a1df14]",
        "    1  linux-vdso.so.1(__kernel_rt_sigreturn+0) [0x4000000204f0]",
        "    2  pool_25.yml() [0x40f110]",
    ).first_death

    assert death.module == "pool_25.yml"
