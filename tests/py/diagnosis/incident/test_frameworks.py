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


@pytest.mark.parametrize(
    ("line", "file"),
    [
        (
            "F0115 08:12:45.123456 4242 pool_context.cc:147]  Check failed: n != 0",
            "pool_context.cc",
        ),
        (
            "[2026-01-15 08:12:45,003 C 4242 4243] pool_receiver.cc:213:  Check failed: is_valid",
            "pool_receiver.cc",
        ),
    ],
)
def test_a_failed_checks_source_is_the_place(line: str, file: str) -> None:
    death = incident_of(line).first_death

    assert (death.file, death.cause.kind) == (file, CauseClass.ABORT_EXCEPTION)


def test_opencvs_last_error_names_its_function() -> None:
    old = incident_of(
        "OpenCV: terminate handler is called! The last OpenCV error is:",
        "OpenCV(4.5.2) Error: Assertion failed (m.dims >= 2) in Mat, file C:\\src\\m.cpp, line 7",
    ).first_death
    new = incident_of(
        "terminate called after throwing an instance of 'cv::Exception'",
        "  what():  OpenCV(4.9.0) /src/resize.cpp:45: error: (-215:Assertion failed) !is_empty "
        "in function 'resize'",
    ).first_death

    assert (old.function, old.line) == ("Mat", 7)
    assert (new.function, new.line) == ("resize", 45)


def test_a_frame_that_the_debugger_broke_before_its_source_is_the_place() -> None:
    death = incident_of(
        "Program received signal SIGSEGV, Segmentation fault.",
        "pool_take (n=1, pool=0x7fffffffaad8, is_last=0)",
        "    at /src/pool.c:243",
    ).first_death

    assert (death.function, death.file, death.line) == ("pool_take", "/src/pool.c", 243)


def test_a_prompt_with_a_folder_names_what_was_started() -> None:
    death = incident_of("host-1:~/work/test> poolview", "Segmentation fault").first_death

    assert death.name == "poolview"


def test_nccl_without_shared_memory_lacks_it() -> None:
    line = "host:4242:4250 [3] misc/shmutils.cc:71 NCCL WARN Error"
    told = incident_of(f"{line}: failed to extend /dev/shm/nccl-abc to 4096 bytes").first_death
    vague = incident_of(
        f"{line} while creating shared memory segment /dev/shm/nccl-abc (size 4096)"
    ).first_death

    assert (told.pid, told.cause.kind) == (4242, CauseClass.ENVIRONMENT)
    assert told.cause.certainty is Certainty.PROVED
    assert vague.cause.certainty is Certainty.LIKELY


def test_a_containers_name_stands_above_its_state_however_little_is_shown() -> None:
    death = incident_of(
        "wk64c",
        "    State: Running",
        "    Last State: Terminated",
        "      Reason: Error",
        "      Exit Code: 139",
    ).first_death

    assert death.name == "wk64c"


def test_what_may_have_happened_in_a_use_case_did_not() -> None:
    text = "\n".join(
        (
            "# Handling of memory errors",
            "",
            "I think that the nanny should tell the scheduler.",
            "",
            "### Use case 1",
            "Worker dies abruptly. There is a nanny.",
            "The nanny looks dead, so probably the whole host died.",
        )
    )

    assert explain_incident(parse_incident_log([text.encode()]), "log") is None


def test_pods_of_a_name_are_named_by_it() -> None:
    title = "# Most of the cache-agent pods were restarted due to error code 137"

    assert incident_of(title).first_death.name == "cache-agent"


@pytest.mark.parametrize(("body", "function"), [("PoolPredict()", "PoolPredict"), ("it", None)])
def test_a_word_of_a_title_is_a_function_where_the_text_calls_it(
    body: str, function: str | None
) -> None:
    text = ("# Segfault in PoolPredict", "", f"I used a debugger, and it leads to {body} always.")

    assert incident_of(*text).first_death.function == function


def test_a_word_that_a_terminal_wrapped_is_whole() -> None:
    gap = " " * 180
    death = incident_of(
        f"(pid=4408) /opt/ray/_raylet.so(_ZN3ray4core4Pool4take{gap}Ev+0x899) [0x7fb1f0517a79] "
        f"ray::core::Pool::ta{gap}ke()",
        "(pid=4408) /opt/ray/_raylet.so(_ZN3ray4mainEv+0x12) [0x7fb1f0517b00] ray::main()",
    ).first_death

    assert (death.pid, death.function) == (4408, "ray::core::Pool::take")


def test_a_line_of_a_header_within_ones_own_function_is_the_functions() -> None:
    death = incident_of(
        "Program received signal SIGABRT, Aborted.",
        "#0  0x00007ffff768e4ed in raise () from /lib/libc.so.6",
        "#1  0x00007ffff7676433 in abort () from /lib/libc.so.6",
        "#2  0x00007fff1d5c73cc in std::__replacement_assert (file=0x1) at "
        "/usr/include/c++/12/bits/c++config.h:535",
        "#3  0x00007fff1d5bf18c in pool::Index::at (this=0x2) at "
        "/usr/include/c++/12/bits/stl_vector.h:1045",
        "#4  0x00007fff1d5bed72 in pool::Index::run (this=0x2) at /src/index.cc:214",
    ).first_death

    assert death.function == "pool::Index::at"


@pytest.mark.parametrize(
    "line",
    [
        'I\'m getting this description of the error: "ValueError: no pool of this size".',
        "After the update I got ValueError: no pool of this size.",
    ],
)
def test_an_exception_that_somebody_quotes_is_read(line: str) -> None:
    cause = incident_of("# My server ends at once", "", line).first_death.cause

    assert cause.kind is CauseClass.PYTHON_EXCEPTION
    assert cause.certainty is not Certainty.PROVED


def test_an_exception_that_somebody_might_get_is_none() -> None:
    line = b"If you get ValueError: no pool of this size, then install the older one."

    assert explain_incident(parse_incident_log([b"# How to install\n\n" + line]), "log") is None


def test_a_scheduler_is_dead() -> None:
    death = incident_of(
        "[2025-03-01 10:00:00] Rank 0 scheduler is dead. Please check if there are relevant logs.",
        "[2025-03-01 10:00:00] Exit code: -9",
    ).first_death

    assert death.name == "Rank 0 scheduler"
    assert death.cause.certainty is not Certainty.PROVED


def test_rays_line_of_a_nodes_memory_is_a_death() -> None:
    line = "Memory on the node (IP: 10.0.0.7, ID: 5bf8) where the task was running was 62GB / 64GB"

    assert incident_of(line).first_death.cause.kind is CauseClass.OOM_KILLED


def test_a_process_that_was_signalled_is_named() -> None:
    assert incident_of("# Loader process was killed by signal 7").first_death.name == "Loader"
    assert incident_of("# The process was killed by signal 7").first_death.name is None


def test_who_crashed_is_also_who_wrote_what_the_title_quotes() -> None:
    title = "# The EngineCore crashes with SIGSEGV (`realloc(): invalid pointer`)"

    assert incident_of(title).first_death.name == "EngineCore"


def test_a_rank_without_a_number_of_its_own_keeps_its_rank() -> None:
    told = "mpirun noticed that process rank 7 with PID 0 on node n1 exited on signal 9 (Killed)."
    death = incident_of("# All of them end at once", "", told).first_death

    assert (death.name, death.pid) == ("rank 7", None)


def test_a_lists_script_died_of_a_signal() -> None:
    told = (
        "Command '['/opt/bin/python3', '-u', 'serve.py', '--n=7']' died with <Signals.SIGSEGV: 11>."
    )

    assert incident_of(f"subprocess.CalledProcessError: {told}").first_death.name == "serve.py"


def test_who_gave_up_for_the_gpu_says_where() -> None:
    what = "  what():  [ERROR] CUDA runtime error: misaligned address /src/pool/alloc.cc:303 "
    told = ("terminate called after throwing an instance of 'std::runtime_error'", what)
    death = incident_of(*told).first_death

    assert death.cause.kind is CauseClass.GPU_ASYNC
    assert death.file == "/src/pool/alloc.cc"


@pytest.mark.parametrize(
    "text",
    [
        "10:59:55 [error] Disposing session as kernel process died ExitCode: undefined, Reason: x",
        "# Importing pool kills Jupyter Kernel",
    ],
)
def test_a_notebooks_kernel_is_killed(text: str) -> None:
    death = incident_of(text).first_death

    assert death.name == "Jupyter kernel"
    assert death.cause.certainty is Certainty.UNKNOWN


def test_nobody_says_that_a_kernel_is_to_be_killed() -> None:
    text = b"# Add a button to kill Jupyter Kernel\n\nIt would be good to have one."

    assert explain_incident(parse_incident_log([text]), "log") is None


def test_a_title_quotes_what_ended_somebody() -> None:
    title = "# [Bug]: pooler terminated with [signal SIGSEGV: segmentation violation xx]"

    assert incident_of(title).first_death.name == "pooler"


def test_a_garbage_collectors_crash_is_no_process() -> None:
    assert incident_of("# access violation (GC crash on exit)").first_death.name is None
