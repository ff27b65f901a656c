"""Deaths as a machine's own records tell them: kernels, systemd, syslog, traces, crash records."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass

_FAULT = "] systemd[1]: segfault at {at} ip 00007f1be0061234 sp 00007ffd3c0 error 4 in {module}"


def test_of_every_start_of_a_machine_the_first_process_dies_for_itself() -> None:
    death = incident_of(
        "[    4.100000" + _FAULT.format(at=10, module="libc.so.6[7f1be0000000+195000]"),
        "[    5.200000" + _FAULT.format(at=0, module="libpool.so[7f1be0000000+1a9000]"),
    ).first_death

    assert (death.name, death.module) == ("systemd", "libc.so.6")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("serve.service: Main process exited, code=killed, status=9/KILL", CauseClass.UNKNOWN),
        ("serve.service: Failed with result 'oom-kill'.", CauseClass.OOM_KILLED),
        ("serve.service: Main process exited, code=dumped, status=7/BUS", CauseClass.NATIVE_FAULT),
        ("Process 42 (serve) of user 0 terminated abnormally with signal 7/BUS, processing...",
         CauseClass.NATIVE_FAULT),
        ("Process finished with exit code 138 (interrupted by signal 10: SIGBUS)",
         CauseClass.NATIVE_FAULT),
        ("Bus error: 10", CauseClass.NATIVE_FAULT),
        ("Bus error (core dumped)", CauseClass.ENVIRONMENT),
    ],
)  # fmt: skip
def test_who_tells_of_a_signal_knows_what_it_was_not(line: str, kind: CauseClass) -> None:
    assert incident_of(line).first_death.cause.kind is kind


@pytest.mark.parametrize(
    "line",
    [
        "Nov 24 13:23:30 poold[77]: Caught <SEGV>, dumped core as pid 78.",
        "Nov 24 13:23:30 host poold[77]: Caught <SEGV>, dumped core as pid 78.",
        "Sun Aug  9 13:47:00 2026 daemon.err poold[77]: Caught <SEGV>, dumped core as pid 78.",
    ],
)
def test_syslog_names_who_wrote_with_and_without_a_host(line: str) -> None:
    death = incident_of(line).first_death

    assert (death.name, death.pid, death.signal) == ("poold", 77, "SIGSEGV")


def test_a_daemon_without_a_number_is_named_by_syslog() -> None:
    log = "Dec 25 17:17:45 host poold: fatal error: concurrent map writes"

    assert incident_of(log).first_death.name == "poold"


def test_a_trace_names_the_program_that_each_process_executed() -> None:
    death = incident_of(
        'execve("/usr/bin/make", ["make"], 0x7ffd /* 51 vars */) = 0',
        '[pid  4300] execve("/opt/bin/pool", ["pool"], [/* 9 vars */]) = -1 ENOENT (No such file)',
        '[pid  4300] execve("/usr/bin/pool", ["pool"], [/* 9 vars */]) = 0',
        "[pid  4300] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x48} ---",
        "[pid  4300] +++ killed by SIGSEGV (core dumped) +++",
    ).first_death

    assert (death.name, death.pid, death.signal) == ("pool", 4300, "SIGSEGV")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("ExecutablePath: /usr/bin/serve", "serve"),
        ("Application: Serve.exe", "Serve.exe"),
        ("Name: /usr/local/bin/serve", "serve"),
        ("ProcCmdline: /usr/bin/python3 /opt/serve.py", "python3"),
        ("Name: my pool", None),
        ("Command: docker pull serve", None),
    ],
)
def test_a_record_names_the_program_in_a_line_of_its_own(label: str, name: str | None) -> None:
    death = incident_of("Host: main", label, "Type: Segmentation fault", "Threads: 4").first_death

    assert (death.name, death.signal) == (name, "SIGSEGV")


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        (
            "On one of our masters the OOM killer was invoked and killed MySQL server twice.",
            "MySQL",
        ),
        ("The kernel killed the java process, which was the biggest.", "java"),
        ("Tonight the oom-killer killed my pool.", "pool"),
        ("The OOM killer keeps killing our biggest process.", None),
    ],
)
def test_a_sentence_names_whom_the_kernel_killed(sentence: str, name: str | None) -> None:
    death = incident_of("# Out of memory at night", "", f"I run a server. {sentence}").first_death

    assert (death.name, death.signal) == (name, "SIGKILL")
    assert death.cause.certainty is not Certainty.PROVED


def test_the_kernels_line_tells_who_asked_and_a_sentence_who_was_killed() -> None:
    death = incident_of(
        "Tonight the OOM killer killed our redis server. The log:",
        "",
        "[2006013.230723] cron invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0",
        "[2006013.230744]  [<ffffffff810b6708>] ? oom_kill_process+0x7f/0x23f",
    ).first_death

    assert (death.name, death.cause.kind) == ("redis", CauseClass.OOM_KILLED)


@pytest.mark.parametrize(
    "text",
    [
        "# OOMKilled reason is not reported in the status of a container",
        "# Count OOMKilled events",
        "# Limits\n\n**Expected:** the container reports `reason: OOMKilled`",
    ],
)
def test_what_is_wished_of_reports_killed_nobody(text: str) -> None:
    assert not incidents_of(text)


@pytest.mark.parametrize(
    ("line", "name", "signal"),
    [
        ("App [serve:0] exited with code [0] via signal [SIGKILL]", "serve", "SIGKILL"),
        ("App [serve] with id [0] and pid [42], exited with code [0] via signal [SIGSEGV]",
         "serve", "SIGSEGV"),
        ("[22:10:00] INFO: Service serve exited with code 256 (by signal 9)", "serve", "SIGKILL"),
        ("init: Service 'serve' (pid 42) received signal 11", "serve", "SIGSEGV"),
        ("com.apple.xpc.launchd[1] (com.serve[42]): Service exited due to SIGSEGV | sent by exc",
         "com.serve", "SIGSEGV"),
        ("  Process: 42 ExecStart=/usr/bin/serve --all (code=dumped, signal=SEGV)",
         "serve", "SIGSEGV"),
        ("serve[42] trap divide error ip:7f1be0001234 sp:7ffd3c00 error:0", "serve", "SIGFPE"),
        ("[1]+  Segmentation fault      (core dumped) ./serve -v", "serve", "SIGSEGV"),
        ("Segmentation fault      (core dumped) python serve.py", "python", "SIGSEGV"),
        ("Segmentation fault (core dumped) when it starts", None, "SIGSEGV"),
        ("serve.service: Failed with result 'signal'.", "serve", None),
        ("ReportCrash[9]: Saved crash report for serve[42] version 1.0", "serve", None),
    ],
)  # fmt: skip
def test_who_waits_for_a_service_names_it(line: str, name: str | None, signal: str | None) -> None:
    death = incident_of(line).first_death

    assert (death.name, death.signal) == (name, signal)


@pytest.mark.parametrize(
    "line",
    [
        "=>> PBS: job killed: walltime 3612 exceeded limit 3600",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "slurmstepd: *** JOB 42 ON n1 CANCELLED AT 2026-01-15T08:12:45 DUE TO TIME LIMIT ***",
        "serve.service: State 'stop-sigterm' timed out. Killing.",
    ],
)
def test_who_ends_a_job_for_its_time_says_so(line: str) -> None:
    cause = incident_of(line).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.UNKNOWN, Certainty.PROVED)
    assert " ended it" in cause.detail


@pytest.mark.parametrize(
    "line",
    [
        "=>> PBS: job killed: mem 17000000kb exceeded limit 16777216kb",
        "State: OUT_OF_MEMORY (exit code 0)",
        "42.batch       batch    serve OUT_OF_ME+    0:125",
        "   Active: failed (Result: oom-kill) since Thu 2026-01-15 08:12:45 UTC; 5s ago",
    ],
)
def test_who_ends_a_job_for_its_memory_says_so(line: str) -> None:
    cause = incident_of(line).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.OOM_KILLED, Certainty.PROVED)


def test_a_list_of_states_is_nobodys_death() -> None:
    assert not incidents_of("# Handle new job states", "", "These include `OUT_OF_MEMORY`.")


@pytest.mark.parametrize("below", [(), ("+++ killed",), ("```",)])
def test_a_trace_that_was_cut_off_ends_in_its_last_signal(below: tuple[str, ...]) -> None:
    death = incident_of(
        'execve("./pool", ["./pool"], [/* 51 vars */]) = 0',
        "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x102} ---",
        *below,
    ).first_death

    assert (death.name, death.signal) == ("pool", "SIGSEGV")
    assert death.cause.certainty is Certainty.LIKELY


def test_a_signal_that_a_program_handles_ends_no_trace() -> None:
    assert not incidents_of(
        'execve("./pool", ["./pool"], [/* 51 vars */]) = 0',
        "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x102} ---",
        "rt_sigreturn({mask=[]})                 = 0",
        "+++ exited with 0 +++",
    )


def test_a_described_pod_names_its_container() -> None:
    death = incident_of(
        "Containers:",
        "  serve:",
        "    Container ID:   containerd://bb2ef7c54eba",
        "    Image:          serve:2",
        "    Last State:     Terminated",
        "      Exit Code:    139",
    ).first_death

    assert (death.name, death.exit) == ("serve", 139)


def test_android_names_the_dead_process_below() -> None:
    death = incident_of(
        "09-23 17:12:33.341  4755  4780 F libc    : Fatal signal 11 (SIGSEGV), code 128, fault "
        "addr 0x0 in tid 4780 (ui_thread)",
        "09-23 17:12:33.470   507   788 I ActivityManager: Process org.pool (pid 4755) has died",
    ).first_death

    assert (death.name, death.pid) == ("org.pool", 4755)


def test_a_bsds_kernel_tells_where_it_was() -> None:
    death = incident_of(
        "uvm_fault(0xfffffd806bee0b58, 0x0, 0, 1) -> e",
        "fatal page fault in supervisor mode",
        "trap type 6 code 0 rip ffffffff8152ac20 cs 8 rflags 10207 cr2 0 cpl 0",
        "panic: trap type 6, code=0, pc=ffffffff8152ac20",
        "Starting stack trace...",
        "panic(ffffffff8332a419) at panic+0x1d0 sys/kern/subr_prf.c:229",
        "kerntrap(ffff80003c424e30) at kerntrap+0x29b sys/arch/amd64/amd64/trap.c:327",
        "alltraps_kern_meltdown() at alltraps_kern_meltdown+0x7b",
        "pool_take(ffff8000013fd000) at pool_take+0xf0 sys/dev/pool.c:579",
    ).first_death

    assert (death.function, death.cause.kind) == ("pool_take", CauseClass.NATIVE_FAULT)


@pytest.mark.parametrize(
    ("sentence", "status"),
    [
        ("The error code in question was 137, nothing was logged.", 137),
        ("It stops with an exit code of 139.", 139),
    ],
)
def test_a_status_may_be_told_as_a_sentence(sentence: str, status: int) -> None:
    assert incident_of("# It stops at night", "", sentence).first_death.exit == status


def test_what_a_status_means_is_nobodys_death() -> None:
    assert not incidents_of("# Statuses", "", "An exit code of 137 means that it was killed.")


@pytest.mark.parametrize(
    ("line", "name", "signal", "module"),
    [
        ("python[42]: unhandled signal 11 code 0x1 at 0x00000048 in pool.so[7f1be000+21000]",
         "python", "SIGSEGV", "pool.so"),
        ("python[42]: segfault (11) at 48 nip 7f1b lr 7f1b code 1 in pool.so[7f1be000+21000]",
         "python", "SIGSEGV", "pool.so"),
        ("do_page_fault(): sending SIGSEGV to python for invalid read access from 00000048",
         "python", "SIGSEGV", None),
        ("User process fault: interruption code 003b ilc:3 in pool.so[3ff9a000000+21000]",
         None, "SIGSEGV", "pool.so"),
        ("python (42): undefined instruction: pc=b6f00000", "python", "SIGILL", None),
        ("python/42: potentially unexpected fatal signal 11.", "python", "SIGSEGV", None),
        ("python[42]: bad frame in rt_sigreturn frame:0000 ip:7f1b sp:7ffd", "python", "SIGSEGV",
         None),
        ('audit: type=1701 audit(1.1:4): auid=1 uid=1 pid=42 comm="python3" exe="/p" sig=6 res=1',
         "python3", "SIGABRT", None),
        ('type=SECCOMP msg=audit(1.1:4): auid=1 pid=42 comm="serve" exe="/s" sig=31 arch=c0',
         "serve", "SIGSYS", None),
    ],
)  # fmt: skip
def test_kernels_of_other_processors_name_the_fault(
    line: str, name: str | None, signal: str, module: str | None
) -> None:
    death = incident_of(f"[12345.678901] {line}").first_death

    assert (death.name, death.signal, death.module) == (name, signal, module)


def test_broken_memory_is_the_machines_doing() -> None:
    death = incident_of(
        "Memory failure: 0x12345: Killing python:42 due to hardware memory corruption"
    ).first_death

    assert (death.name, death.cause.kind) == ("python", CauseClass.ENVIRONMENT)


def test_a_sacrificed_child_is_who_died() -> None:
    death = incident_of(
        "kernel: Out of memory: Kill process 42 (python) score 998 or sacrifice child",
        "kernel: Killed process 43 (nvidia-smi) total-vm:16976kB, anon-rss:2808kB, file-rss:0kB",
    ).first_death

    assert (death.name, death.pid) == ("nvidia-smi", 43)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Memory cgroup out of memory: Kill process 42 (serve) score 1990 or sacrifice child",
         "serve"),
        ('sending SIGTERM to process 42 uid 1000 "serve": oom_score 900, VmRSS 9000 MiB', "serve"),
        ("Tasks state (memory values in pages):", None),
    ],
)  # fmt: skip
def test_who_ended_a_process_for_memory_says_whom(line: str, name: str | None) -> None:
    death = incident_of(line).first_death

    assert (death.name, death.cause.kind) == (name, CauseClass.OOM_KILLED)


def test_a_command_that_died_is_named() -> None:
    death = incident_of(
        "subprocess.CalledProcessError: Command '['/opt/bin/python3', '-u', 'train.py']' died with "
        "<Signals.SIGSEGV: 11>."
    ).first_death

    assert (death.name, death.signal) == ("train.py", "SIGSEGV")


def test_apports_report_names_program_and_signal() -> None:
    death = incident_of("ProblemType: Crash", "ExecutablePath: /usr/bin/serve", "Signal: 11")

    assert (death.first_death.name, death.first_death.signal) == ("serve", "SIGSEGV")


def test_a_word_that_a_page_stresses_is_the_same_word() -> None:
    told = "My program was _crashing_ with a segmentation fault."

    assert incident_of("# It stops", "", told).first_death.signal == "SIGSEGV"


def test_how_something_was_printed_before_a_change_is_nobodys_death() -> None:
    assert not incidents_of(
        "# Add the signal's name",
        "",
        "somebody \u00b7 description \u00b7 2026-02-18",
        "Previously, the message would show:",
        "```",
        "exitcode  : -11 (pid: 5277)",
        "```",
    )


def test_children_that_die_alike_are_told_and_are_no_echoes() -> None:
    trap = "] traps: serve[{pid}] trap int3 ip:7f58dde7c675 sp:7ffd5f80 error:0 in libpool.so[{at}]"
    incident = incident_of(
        "[   69.300000" + trap.format(pid=4242, at="7f58dde44000+7e000"),
        "[   69.600000" + trap.format(pid=4250, at="7f58dde44000+7e000"),
    )

    assert incident.first_death.pid == 4242
    assert incident.echoes == ()
    assert "1 more process of that name died of SIGTRAP: 4250." in incident.explanation


def test_the_kernels_own_fault_is_no_programs() -> None:
    incident = incident_of("[  216.931592] general protection fault: 0000 [#1] SMP PTI")

    assert incident.explanation == (
        "The kernel died first, most likely of a fault in native code: "
        "a fault of the kernel itself: general protection fault: 0000 [#1]."
    )


@pytest.mark.parametrize(
    ("line", "name", "exit_", "signal"),
    [
        ("[15:55:55] INFO: Service exited with code 256 (by signal 11)", None, None, "SIGSEGV"),
        ("launchd: gui/501/com.serve [42] exited due to exit(1)", "com.serve", 1, None),
        ("launchd: system/com.serve [42] exited due to SIGSEGV | sent by exc", "com.serve", None,
         "SIGSEGV"),
    ],
)  # fmt: skip
def test_newer_supervisors_say_less(
    line: str, name: str | None, exit_: int | None, signal: str | None
) -> None:
    death = incident_of(line).first_death

    assert (death.name, death.exit, death.signal) == (name, exit_, signal)


def test_what_launchd_ends_itself_is_no_crash() -> None:
    line = (
        "com.apple.xpc.launchd[1] (com.apple.talagent[254]): Service exited due to SIGKILL | sent"
    )

    assert not incidents_of(f"Nov 19 12:54:37 box {line} by loginwindow[86]")


def test_s6_says_what_it_lacks() -> None:
    death = incident_of("s6-overlay-suexec: fatal: can only run as pid 1").first_death

    assert (death.name, death.cause.kind) == ("s6-overlay-suexec", CauseClass.ENVIRONMENT)


@pytest.mark.parametrize(
    "above",
    ["In the logs, the last messages will be something like:", "We look for such lines, e.g.:"],
)
def test_what_a_log_will_look_like_is_not_proved(above: str) -> None:
    line = "slurmstepd: *** JOB 42 ON n1 CANCELLED AT 2026-01-15T08:12:45 DUE TO JOB REQUEUE ***"
    told = f"I run a cluster. {above}"
    death = incident_of("# Our jobs stay alive", "", told, "", line).first_death

    assert death.cause.certainty is not Certainty.PROVED


def test_a_title_names_the_child() -> None:
    death = incident_of(
        "# pool 1.3 dumps core with signal 6", "", "Child process pid=42 terminated by signal: 6"
    ).first_death

    assert (death.name, death.signal) == ("pool", "SIGABRT")


def test_a_container_that_denies_a_lack_of_memory_is_heard_below_what_people_say() -> None:
    death = incident_of(
        "It stops after an hour with exit code 137",
        "",
        "State:{",
        "ExitCode:137,",
        "OOMKilled:false,",
        "}",
    ).first_death

    assert (death.exit, death.cause.kind) == (137, CauseClass.UNKNOWN)


def test_openwrts_init_names_what_it_gave_up() -> None:
    line = "daemon.info procd: Instance serve::instance1 s in a crash loop 6 crashes, 0 seconds"
    death = incident_of(f"Sat Feb  1 17:55:45 2020 {line} since last crash").first_death

    assert (death.name, death.signal) == ("serve", None)


def test_the_journals_own_fields_name_program_and_signal() -> None:
    death = incident_of(
        "    COREDUMP_SIGNAL=11",
        "    COREDUMP_SIGNAL_NAME=SIGSEGV",
        "    COREDUMP_COMM=serve",
    ).first_death

    assert (death.name, death.signal) == ("serve", "SIGSEGV")


def test_a_container_that_left_by_itself_was_not_what_the_killer_took() -> None:
    cause = incident_of("  Reason:       OOMKilled", "  Exit Code:    1").first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.OOM_KILLED, Certainty.LIKELY)
    assert cause.detail.endswith("its own process left with exit status 1")


def test_a_signal_whose_name_is_mistyped_has_a_number() -> None:
    line = "both report 'process finished with exit code 139 (interrupted by signal 11: SIGSEGA)'"

    assert incident_of(line).first_death.signal == "SIGSEGV"


def test_who_waited_for_a_collective_is_not_proved_to_have_died_first() -> None:
    cause = incident_of(
        "[rank1]:[E115 08:12:42.000 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600001 milliseconds"
    ).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.HANG, Certainty.LIKELY)


def test_what_a_server_goes_on_without_is_no_death() -> None:
    assert not incidents_of(
        "WARNING 01-15 08:12:42 [_custom_ops.py:14] Failed to import from vllm._C with "
        'ImportError("/lib/libc.so.6: version `GLIBC_2.32\' not found (required by /opt/_C.so)")',
        "INFO 01-15 08:12:44 [api_server.py:7] Started server process",
    )


def test_what_a_function_was_given_may_stand_a_line_below() -> None:
    cause = incident_of(
        "Program terminated with signal SIGABRT, Aborted.",
        "#0  __GI_raise (sig=sig@entry=6) at raise.c:51",
        "#1  0x00007f33ca8c1cd1 in __GI___fortify_fail_abort (",
        "    need_backtrace=need_backtrace@entry=false,",
        '    msg=msg@entry=0x7f33ca943966 "stack smashing detected") at fortify_fail.c:33',
        "#2  0x00005627b9bdadd6 in take (block=7) at pool.cpp:36",
    ).first_death.cause

    assert cause.detail == "stack smashing detected"


@pytest.mark.parametrize(
    ("told", "name", "kind"),
    [
        ("# FeedPool daemon crashes on a segfault", "FeedPool", CauseClass.NATIVE_FAULT),
        ("# thread panicked at 'no blocks', src/pool.rs:64:45", None, CauseClass.ABORT_EXCEPTION),
        ("# Pool\n\nAs a daemon I get a failure (signal=SEGV).", None, CauseClass.NATIVE_FAULT),
    ],
)
def test_titles_tell_it_in_few_words(told: str, name: str | None, kind: CauseClass) -> None:
    death = incident_of(*told.splitlines()).first_death

    assert (death.name, death.cause.kind) == (name, kind)


def test_abrts_reason_names_the_function() -> None:
    death = incident_of("reason:         take(): serve killed by SIGSEGV").first_death

    assert (death.name, death.function, death.signal) == ("serve", "take", "SIGSEGV")
