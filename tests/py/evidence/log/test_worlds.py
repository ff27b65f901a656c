"""Who died, in the words of databases, test runners, cores' lists and memory's guards."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import CauseClass, ClueKind, Death, ProcessRole


def death(log: str) -> Death:
    incident = explain_incident(parse_incident_log([log.encode()]), "log")
    assert incident is not None
    return incident.first_death


@pytest.mark.parametrize(
    ("who", "name"),
    [
        ('background worker "pool take"', "pool take"),
        ("worker process: pool_take", "pool_take"),
        ("server process", "postgres"),
        ("autovacuum launcher process", "autovacuum launcher process"),
    ],
)
def test_postgres_names_who_died(who: str, name: str) -> None:
    first = death(f"LOG:  {who} (PID 4242) was terminated by signal 11: Segmentation fault\n")

    assert (first.pid, first.name, first.role) == (4242, name, ProcessRole.WORKER)


@pytest.mark.parametrize(
    "line",
    [
        "2/3 Test #2: take a block ...........***Exception: SegFault  0.05 sec",
        "2/3 Test  #2: take a block .......Subprocess aborted***Exception:   0.20 sec",
        "\t  2 - take a block (SEGFAULT)",
    ],
)
def test_ctest_names_the_test(line: str) -> None:
    assert death(f"Test project /build\n{line}\n").name == "take a block"


@pytest.mark.parametrize(
    "row",
    [
        "Thu 2026-01-15 08:12:45 UTC   4242 1000 1000 SIGSEGV present  /usr/bin/serve  1.2M",
        "Do 2026-01-15 08:12:45 CET    4242 1000 1000  11 * /usr/bin/serve",
    ],
)
def test_a_row_of_a_list_of_cores_is_a_death(row: str) -> None:
    first = death(f"TIME PID UID GID SIG COREFILE EXE\n{row}\n")

    assert (first.pid, first.name, first.signal) == (4242, "serve", "SIGSEGV")


@pytest.mark.parametrize(
    ("line", "name", "signal"),
    [
        ("oom_reaper: reaped process 42 (serve), now anon-rss:0kB", "serve", "SIGKILL"),
        ("Task in /docker/a1 killed as a result of limit of /docker/a1", None, "SIGKILL"),
        ("systemd-oomd[7]: Killed /a/serve.scope due to memory pressure 60%", "serve", "SIGKILL"),
        ('earlyoom[7]: sending SIGTERM to process 42 uid 0 "serve": badness 9', "serve", None),
        ('earlyoom[7]: sending SIGKILL to process 42 "serve": badness 9', "serve", "SIGKILL"),
    ],
)
def test_who_guards_memory_says_whom_it_killed(
    line: str, name: str | None, signal: str | None
) -> None:
    first = death(f"{line}\n")

    assert (first.name, first.signal, first.cause.kind) == (name, signal, CauseClass.OOM_KILLED)


def test_mongodbs_json_tells_the_signal_and_the_frames() -> None:
    frame = '{"s":"I","msg":"Frame","attr":{"frame":{"a":"55f0a%d","C":"mongo::%s()"}}}\n'
    log = (
        '{"s":"F","msg":"Writing fatal message","attr":{"message":"Got signal: 11 '
        '(Segmentation fault).\\n"}}\n' + frame % (1, "printStackTrace") + frame % (2, "Pool::take")
    )

    first = death(log)

    assert (first.signal, first.function) == ("SIGSEGV", "mongo::Pool::take")


def test_a_stack_without_a_head_holds_the_way_back_from_a_handler() -> None:
    log = (
        " 1: /lib/x86_64-linux-gnu/libc.so.6(+0x42520) [0x7f1be0042520]\n"
        " 2: (Pool::take(int)+0x1b) [0x55f0a1234567]\n"
        " 3: (main+0x9) [0x55f0a1234577]\n"
    )

    first = death(log)

    assert (first.function, first.cause.kind) == ("Pool::take", CauseClass.NATIVE_FAULT)


def test_a_stack_that_only_ends_in_libc_tells_no_death() -> None:
    log = (
        "/usr/bin/serve(take+0x1b) [0x55f0a1234567]\n"
        "/lib/libc.so.6(+0x2a1ca) [0x7f1be002a1ca]\n"
        "/lib/libc.so.6(__libc_start_main+0x8b) [0x7f1be002a28b]\n"
        "/usr/bin/serve(_start+0x25) [0x55f0a1234500]\n"
    )

    assert explain_incident(parse_incident_log([log.encode()]), "log") is None


def test_a_frame_that_was_cut_names_its_library() -> None:
    log = (
        "08:12:45 UTC - mysqld got signal 11 ;\n"
        "/usr/sbin/mysqld(handle_fatal_signal+0x351) [0x58ad61]\n"
        "/lib64/libpthread.so.0 [0x331500eb10]\n"
        "/usr/lib/mysql/plugin/pool.so(ns::Pool::ta"
    )

    assert death(log).module == "pool.so"


def test_tarantools_frames_have_offsets_without_a_prefix() -> None:
    log = (
        "Segmentation fault\n  code: SEGV_MAPERR\n  addr: 0x48\n"
        "#0  0x55f0a1234567 in sig_fatal_cb+b2\n"
        "#1  0x7f1be0042520 in __restore_rt+0\n"
        "#2  0x55f0a1234569 in pool_take+1a\n"
        "#3  0x55f0a123456a in main+20\n"
    )

    assert death(log).function == "pool_take"


CEPH = (
    " 1: {first}\n"
    " 2: (()+0xfcb0) [0x7f1be0042520]\n"
    " 3: (Pool::take(int)+0x1b) [0x55f0a1234567]\n"
    " 4: (main+0x9) [0x55f0a1234577]\n"
)


@pytest.mark.parametrize("first", ["poold() [0x80fdea]", "(()+0x8865e2) [0x5622ea1ea5e2]"])
def test_a_handlers_frames_have_no_names(first: str) -> None:
    log = "*** Caught signal (Segmentation fault) **\n in thread 7f1be\n" + CEPH.format(first=first)

    told, alone = death(log), death(CEPH.format(first=first))

    assert (told.signal, told.function) == ("SIGSEGV", "Pool::take")
    assert (alone.signal, alone.function) == (None, "Pool::take")


@pytest.mark.parametrize("number", ["", " 3145 "])
def test_a_failed_assertion_is_known_by_its_own_frames(number: str) -> None:
    log = (
        f"{number} 1: (ns::__pool_assert_fail(char const*, int)+0x158) [0x562384b7673c]\n"
        f"{number} 2: poold(+0x57f956) [0x562384b76956]\n"
        f"{number} 3: (Pool::take()+0x13b) [0x56238570861b]\n"
    )

    first = death(f"{number} /src/pool.cc: 88: FAILED ceph_assert(pool->valid())\n{log}")

    assert (first.signal, first.function) == ("SIGABRT", "Pool::take")
    if not number:
        assert death(log).signal == "SIGABRT"


def test_pythons_own_prefix_is_none_of_the_frame() -> None:
    log = "".join(
        f"2026-01-15T08:12:45.898 INFO:pool.osd.4.stderr:{line}\n"
        for line in CEPH.format(first="(()+0x12890) [0x7f1be0042521]").splitlines()
    )

    assert death(log).function == "Pool::take"


def test_what_stands_behind_a_time_was_printed_and_is_not_what_is_mended() -> None:
    log = (
        "fixes this: 2026-01-15 08:12:45.307320 -1 *** Caught signal (Segmentation fault) **\n"
        + CEPH.format(first="poold() [0x80fdea]")
    )

    assert death(log).signal == "SIGSEGV"
    assert (
        explain_incident(parse_incident_log([b"fixes this: free(): invalid pointer\n"]), "") is None
    )


def test_java_aborts_after_a_fault() -> None:
    log = (
        "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
        "Container from a bad node. Exit status: 134.\n\n"
        "# A fatal error has been detected by the Java Runtime Environment:\n#\n"
        "#  SIGSEGV (0xb) at pc=0x00007f2d303b5850, pid=4242, tid=4300\n#\n"
        "# Problematic frame:\n# C  [libpool.so.0+0xe850]  pool_take+0x10\n"
    )

    first = death(log)

    assert (first.signal, first.pid, first.function) == ("SIGSEGV", 4242, "pool_take")


@pytest.mark.parametrize("check", ["stack smashing", "buffer overflow"])
@pytest.mark.parametrize(
    "stars", ["*** {} detected ***: ", "**\\* {} detected _**: ", "*_\\* {} detected ***"]
)
def test_markdown_may_take_some_of_glibcs_stars(check: str, stars: str) -> None:
    first = death(f"{stars.format(check)}poold terminated\n")

    assert first.signal == "SIGABRT"
    assert first.cause.detail == f"*** {check} detected ***"


@pytest.mark.parametrize("blank", ["", " "])
def test_a_library_without_a_name_may_have_a_blank_before_its_address(blank: str) -> None:
    log = (
        "08:12:45 UTC - mysqld got signal 11 ;\n"
        "/usr/sbin/mysqld(handle_segfault+0x351) [0x58ad61]\n"
        f"/lib64/libpthread.so.0{blank}[0x331500eb10]\n"
        "/usr/lib/mysql/plugin/pool.so(pool_take+0x12) [0x331500eb20]\n"
    )

    assert death(log).function == "pool_take"


@pytest.mark.parametrize(
    "line",
    [
        "LOG:  terminating any other active server processes",
        "WARNING:  terminating connection because of crash of another server process",
        "FATAL:  the database system is in recovery mode",
    ],
)
def test_what_postgres_does_after_a_death_tells_of_one_and_not_of_what(line: str) -> None:
    first = death(f"2026-01-15 08:12:45.123 UTC [7] {line}\n")

    assert first.cause.kind is CauseClass.UNKNOWN


def test_the_death_itself_counts_for_more_than_what_postgres_does_after_it() -> None:
    first = death(
        "[1] LOG:  server process (PID 4242) was terminated by signal 9: Killed\n"
        "[1] LOG:  terminating any other active server processes\n"
        "[7] WARNING:  terminating connection because of crash of another server process\n"
    )

    assert (first.pid, first.signal, first.name) == (4242, "SIGKILL", "postgres")


def test_a_machines_own_guard_of_memory_says_whom_it_kills() -> None:
    line = '[talos] Sending SIGKILL to cgroup {"controller": "runtime.OOMController"}'

    assert death(f"{line}\n").cause.kind is CauseClass.OOM_KILLED


def test_a_kernels_fault_without_its_beginning_names_the_process() -> None:
    first = death("kernel: [11.920039] Process serve (pid: 4242, stack limit = 0x8e5b564f)\n")

    assert (first.pid, first.name, first.cause.kind) == (4242, "serve", CauseClass.NATIVE_FAULT)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            'level=warning msg="pool.cpp terminated unexpectedly: signal: illegal instruction"',
            "pool.cpp",
        ),
        ("sidecar exited: signal: aborted (core dumped)", "sidecar"),
        ("Error: Runtime exited with error: signal: segmentation fault (core dumped)", None),
        ("the process terminated: signal: killed", None),
    ],
)
def test_gos_parents_name_who_ended(line: str, name: str | None) -> None:
    assert death(f"{line}\n").name == name


def test_who_was_told_to_stop_by_a_supervisor_did_not_die() -> None:
    line = "2026-01-15 08:12:45,123 WARN {}: serve (terminated by {})\n"

    assert death(line.format("stopped", "SIGSEGV")).name == "serve"
    assert death(line.format("exited", "SIGKILL")).name == "serve"
    assert "supervisord sent" in death(line.format("stopped", "SIGKILL")).cause.detail
    for signal in ("SIGTERM", "SIGQUIT"):
        reading = parse_incident_log([line.format("stopped", signal).encode()])
        assert explain_incident(reading, "log") is None


def test_hydras_banner_names_the_process_of_its_status() -> None:
    banner = "=   PID 4242 RUNNING AT node1\n=   EXIT CODE: {}\n"

    for status in ("11", "139", "9"):
        assert death(banner.format(status)).pid == 4242


def test_an_oops_is_told_in_the_kernels_words() -> None:
    first = death(
        "[  216.931592] general protection fault: 0000 [#1] SMP PTI\n"
        "[  216.931594] CPU: 3 PID: 4242 Comm: serve Not tainted 6.1.0 #1\n"
        "[  216.931599] RIP: 0010:take+0x80/0x160\n"
    )

    assert (first.pid, first.name, first.function) == (4242, "serve", "take")
    assert "of the kernel itself" in first.cause.detail
    assert "general protection fault: 0000 [#1]" in first.cause.detail


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("api-1 exited with code 139", "api-1"),
        ("container exited with code 139", None),
        ("but when I run the container it automatically exited with code 139", None),
        ("08:12:45 Command exited with error: signal: segmentation fault (core dumped)", None),
        (
            '7b606d820b89  pool:1  "/init.sh"  15 hours ago  Exited (139) 15 hours ago  merry_cat',
            "merry_cat",
        ),
        (
            '7b606d820b89  pool:1  "serve"  2 days ago  Exited (139) 2 hours ago  80/tcp  api',
            "api",
        ),
        ('7b606d820b89  pool:1  "/init.sh"  15 hours ago  Exited (139) 15 hours ago', None),
    ],
)
def test_a_container_has_its_name_and_no_other_word(line: str, name: str | None) -> None:
    assert death(f"{line}\n").name == name


def test_a_row_of_pods_names_the_one_that_was_killed() -> None:
    row = "team   serve-74464f6b98-2kj6g      0/1     OOMKilled   4 (57s ago)   2m40s\n"

    assert death(row).name == "serve-74464f6b98-2kj6g"


def test_a_status_within_a_document_is_no_source_code() -> None:
    first = death(
        "watching pods shows:\n```\n"
        '                "lastState": {\n'
        '                    "terminated": {\n'
        '                        "containerID": "docker://5954f621c17f",\n'
        '                        "exitCode": 139,\n'
        '                        "reason": "Error"\n'
        "                    }\n                },\n```\n"
    )

    assert first.signal == "SIGSEGV"


def test_openmps_last_words_are_the_cause_of_a_kernel_that_died() -> None:
    first = death(
        "The kernel appears to have died. It will restart automatically.\n\n"
        "OMP: Error #15: Initializing libomp.dylib, but found libiomp5.dylib already initialized.\n"
    )

    assert first.cause.kind is CauseClass.ENVIRONMENT


def test_a_killers_stack_tells_of_it_where_its_lines_are_missing() -> None:
    first = death(
        "Jan 15 08:12:45 box kernel: CPU: 0 PID: 42 Comm: stress Not tainted 6.1.0\n"
        "Jan 15 08:12:45 box kernel: dump_header+0x4a/0x201\n"
        "Jan 15 08:12:45 box kernel: mem_cgroup_out_of_memory+0x13a/0x150\n"
    )

    assert first.cause.kind is CauseClass.OOM_KILLED


def test_a_thread_that_python_numbered_is_no_program() -> None:
    line = 'Thread 3 "Thread-2 (take" received signal SIGSEGV, Segmentation fault.\n'

    assert death(line).name is None
    assert death(line.replace("Thread-2 (take", "serve")).name == "serve"


def test_an_error_that_was_ignored_is_not_the_end() -> None:
    first = death(
        "# Segfault when cleaning up\n\n```\n"
        "Exception ignored in the internal traceback machinery:\n"
        "Traceback (most recent call last):\n"
        '  File "<frozen importlib._bootstrap>", line 1340, in _find_and_load\n'
        "OSError: [Errno 12] Cannot allocate memory: '/opt/app'\n```\n"
    )

    assert first.signal == "SIGSEGV"


def test_what_was_imported_is_the_place_where_nothing_else_was_typed() -> None:
    imported = ">>> import pool\nSegmentation fault (core dumped)\n"
    called = ">>> import pool\n>>> pool.take(1)\nSegmentation fault (core dumped)\n"

    assert death(imported).python_function == "import pool"
    assert death(called).python_function is None


@pytest.mark.parametrize(
    "text",
    [
        "# [test] `BrokenProcessPool` error in `test_serve`\n\npool.Error: A process in the "
        "process pool was terminated abruptly while the future was running or pending.",
        "# Pool\n\n[concurrent.futures.process.BrokenProcessPool('A process in the "
        "process pool was terminated abruptly while the future was running or pending.'),",
        "# Pods restart\n\nAll restart for no reason. It was terminated with Exit Code 137.",
        "# Container exited with exit code -137",
    ],
)
def test_what_is_told_of_a_childs_end_is_an_end(text: str) -> None:
    clues = parse_incident_log([text.encode()]).clues

    assert [clue.kind for clue in clues] == [ClueKind.CHILD]
    assert clues[0].name is None
    assert clues[0].signal in {None, "SIGKILL"}


def test_a_title_names_the_daemon_that_something_crashes() -> None:
    text = "# Killing a process that is gone crashes supervisord\n\n" + (
        'Traceback (most recent call last):\n  File "/opt/pool.py", line 4, in kill\n'
        "    os.kill(pid, sig)\nOSError: [Errno 3] No such process\n"
    )
    incident = explain_incident(parse_incident_log([text.encode()]), "log")

    assert incident is not None
    assert incident.first_death.name == "supervisord"


@pytest.mark.parametrize("head", ["pyo3_runtime.PanicException", "panic"])
def test_what_an_exception_says_is_no_change(head: str) -> None:
    title = f"# {head}: called `Option::unwrap()` on a `None` value"

    assert parse_incident_log([title.encode()]).clues[0].kind is ClueKind.ABORT


def test_a_prompt_may_lack_its_hosts_name() -> None:
    text = "[root@ pool]# python3.11 serve.py\nIllegal instruction (core dumped)\n"

    assert parse_incident_log([text.encode()]).clues[0].name == "python3.11"


def test_what_an_exception_said_may_stand_in_its_own_line() -> None:
    text = (
        "it says \"terminate called after throwing an instance of 'std::out_of_range' "
        'what():  pool: block 7  Aborted (core dumped)"'
    )
    (clue,) = parse_incident_log([text.encode()]).clues

    assert clue.detail == "std::out_of_range: pool: block 7"
