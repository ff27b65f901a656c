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
        ("Command: docker run serve", None),
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
