"""What servers, their masters and runners of many kinds say of a death: one line each."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_WORDS: Final = (
    r"(?:Segmentation [Ff]ault|Segment Violation|Bus [Ee]rror|Aborted|Illegal [Ii]nstruction|"
    r"Floating [Pp]oint [Ee]xception)"
)
_FAULTS: Final = (
    (  # Samba
        "INTERNAL ERROR: Signal ",
        r"INTERNAL ERROR: Signal (?P<signal>\d{1,2}) in (?:process )?(?:pid )?(?P<pid>\d{1,20})",
        "INTERNAL ERROR: Signal 11 in pid 4242 (4.13.17)",
    ),
    (  # Squid
        "eceived Segment Violation",
        r"\bReceived (?P<signal>Segment Violation)\.{3}dying",
        "FATAL: Received Segment Violation...dying.",
    ),
    (  # Scylla
        " on shard ",
        rf"^(?P<signal>{_WORDS}|Aborting) on shard \d{{1,4}}",
        "Segmentation fault on shard 3.",
    ),
    (  # ArangoDB
        "caught unexpected signal ",
        r"\bcaught unexpected signal (?P<signal>\d{1,2}) \(SIG",
        "thread 5 [Pool] caught unexpected signal 11 (SIGSEGV) accessing address 0x48",
    ),
    (  # Ceph
        "Caught signal (",
        rf"\*\*\* Caught signal \((?P<signal>{_WORDS})\) \*\*",
        "*** Caught signal (Segmentation fault) **",
    ),
    (  # Google's containers
        "ncaught signal: ",
        r"^Uncaught signal: (?P<signal>\d{1,2}), pid=(?P<pid>\d{1,20})",
        "Uncaught signal: 11, pid=4242, tid=4300, fault_addr=72.",
    ),
)
_ENDS: Final = (
    (  # BIND
        "exiting (due to assertion failure)",
        r"(?P<detail>exiting \(due to assertion failure\))",
        "exiting (due to assertion failure)",
    ),
    (  # Dovecot
        "): assertion failed: (",
        r"\b(?P<detail>Panic: file \S{1,200}: line \d{1,6} \((?P<function>\w{1,80})\): "
        r"assertion failed: .{1,160})",
        "imap(me)<7>: Panic: file pool.c: line 88 (take): assertion failed: (pool != NULL)",
        "SIGABRT",
    ),
    (  # Varnish
        "Assert error in ",
        r"^(?P<detail>Assert error in \w{1,80}\(\), \S{1,120} line \d{1,6})",
        "Assert error in take(), pool.c line 88:",
        "SIGABRT",
    ),
    (  # PostgreSQL
        "TRAP: ",
        r"\b(?P<detail>TRAP: (?:FailedAssertion|failed Assert)\(.{1,200})",
        'TRAP: FailedAssertion("pool != NULL", File: "pool.c", Line: 88)',
        "SIGABRT",
    ),
    (
        "PANIC:  ",
        r"\b(?P<detail>PANIC:  \S.{1,200})",
        "2026-01-15 08:12:45 UTC [4242] PANIC:  could not locate a valid checkpoint record",
        "SIGABRT",
    ),
    (  # InnoDB
        "InnoDB: Assertion failure in ",
        r"(?P<detail>InnoDB: Assertion failure in (?:thread \d{1,20} in )?file \S{1,200} "
        r"line \d{1,6})",
        "2026-01-15 08:12:45 0x7f1be0001700  InnoDB: Assertion failure in file /src/fil0fil.cc "
        "line 620",
        "SIGABRT",
    ),
    (  # MPI
        "MPI_ABORT was invoked on rank ",
        r"(?P<detail>MPI_ABORT was invoked on (?P<name>rank) \d{1,9}\b.{0,80})",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
    ),
    (
        "application called MPI_Abort(",
        r"(?P<detail>application called MPI_Abort\(.{1,80})",
        "Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - "
        "process 3",
    ),
    (  # Ceph
        "FAILED ceph_assert(",
        r"(?P<detail>FAILED ceph_assert\(.{1,200})",
        "/src/kv/Pool.cc: 88: FAILED ceph_assert(pool->valid())",
        "SIGABRT",
    ),
    (  # HAProxy
        "FATAL: bug condition ",
        r"^(?P<detail>FATAL: bug condition \".{1,200})",
        'FATAL: bug condition "pool->head" matched at src/pool.c:88',
        "SIGABRT",
    ),
    (  # KVM
        "KVM internal error. Suberror: ",
        r"(?P<detail>KVM internal error\. Suberror: \d{1,4})",
        "KVM internal error. Suberror: 1",
    ),
)
_TOLD: Final = (
    (  # Dovecot
        "): child ",
        r"\bservice\((?P<name>[\w.-]{1,60})\): child (?P<pid>\d{1,20}) killed with signal "
        r"(?P<signal>\d{1,2})\b",
        "Fatal: master: service(imap): child 4242 killed with signal 11 (core dumped)",
    ),
    (  # Varnish, whose panic names the reason
        ") died signal=6",
        r"\b(?P<name>Child) \((?P<pid>\d{1,20})\) died signal=6\b",
        "Child (4242) died signal=6",
    ),
    (
        "signal=SIG",
        r"(?:(?:\(pid=(?P<pid>\d{1,20})\) )?was terminated by another process|^error detail): "
        r"signal=(?P<signal>SIG\w{2,6})",
        "A jest worker process (pid=4242) was terminated by another process: signal=SIGSEGV, "
        "exitCode=null.",
    ),
    (
        "ERR! signal SIG",
        r"^npm ERR! signal (?P<signal>SIG\w{2,6})",
        "npm ERR! signal SIGSEGV",
    ),
    (
        "npm error signal SIG",
        r"^npm error signal (?P<signal>SIG\w{2,6})",
        "npm error signal SIGSEGV",
    ),
    (
        "-zero exit value 13",
        r"\bfinished with non-zero exit value (?P<exit>13[2-9])\b",
        "Process 'Gradle Test Executor 1' finished with non-zero exit value 139",
    ),
    (
        " failed: (",
        rf" failed: \((?P<signal>{_WORDS})\)",
        "ERROR: /src/BUILD:12:8: Testing //pool failed: (Segmentation fault): serve failed: error "
        "executing command",
    ),
    (  # Varnish; of SIGABRT its own panic tells more
        ") died signal=",
        r"\b(?P<name>Child) \((?P<pid>\d{1,20})\) died signal=(?P<signal>(?!6\b)\d{1,2})\b",
        "Child (4242) died signal=13",
    ),
    (
        "exit_status ",
        r"^exit_status +(?P<exit>13[2-9])\b",
        "exit_status 139 (Segmentation fault)",
    ),
    (
        "Container terminated on signal ",
        r"^Container terminated on signal (?P<signal>\d{1,2})\.",
        "Container terminated on signal 11.",
    ),
    (
        "reason=crashed",
        r"(?:^|\W)(?P<detail>shutting down, reason=crashed)",
        "2026-01-15 08:12:45.123+0000: shutting down, reason=crashed",
    ),
)
_MEMORY: Final = (
    (
        "PBS: job killed: ",
        r"(?P<detail>PBS: job killed: v?mem \d{1,20}kb exceeded limit .{0,40})",
        "=>> PBS: job killed: mem 17000000kb exceeded limit 16777216kb",
    ),
    (  # Talos
        "ending SIGKILL to ",
        r"(?P<detail>[Ss]ending SIGKILL to .{1,200}?\b(?:\w{0,20}\.)?OOM\w{0,20}.{0,80})",
        '[talos] Sending SIGKILL to cgroup {"controller": "runtime.OOMController"}',
    ),
    (
        "TERM_MEMLIMIT: job killed",
        r"(?P<detail>TERM_MEMLIMIT: job killed after reaching LSF memory usage limit)",
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    ),
)
DAEMONS: Final = Family(
    source="a server",
    phrases=(
        *(Phrase(ClueKind.SIGNAL, *row) for row in _FAULTS),
        *(Phrase(ClueKind.ABORT, *row) for row in _ENDS),
        Phrase(  # Dovecot's master
            ClueKind.HANG,
            "tatus notification not received in ",
            r"\bservice\((?P<name>[\w.-]{1,60})\): (?P<detail>Initial status notification not "
            r"received in \d{1,6} seconds, killing the process)",
            "service(imap-login): Initial status notification not received in 30 seconds, killing "
            "the process",
        ),
        Phrase(  # HAProxy's watchdog
            ClueKind.HANG,
            " is about to kill the process",
            r"^(?:(?P<name>\w{1,40})\[\d{1,20}\]: )?"
            r"(?P<detail>Thread \d{1,6} is about to kill the process)",
            "Thread 1 is about to kill the process.",
        ),
    ),
)
POSTGRES: Final = Family(
    source="the postmaster",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            ") was terminated by signal ",
            r"(?:^(?:# )?|: {1,4}|\")(?P<name>\w[\w ./-]{1,100})\"? \(PID (?P<pid>\d{1,20})\) was "
            r"terminated by signal (?P<signal>\d{1,3})\b",
            'LOG:  background worker "pool" (PID 4242) was terminated by signal 11: Segmentation '
            "fault",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.ECHO,
                needle,
                rf"\b(?:LOG|WARNING|FATAL|DETAIL): {{1,4}}(?:the )?(?P<detail>{needle}.{{0,60}})",
                f"2026-01-15 08:12:45 UTC [7] LOG:  {needle}",
                of_another=True,
            )
            for needle in (
                "terminating any other active server processes",
                "terminating connection because of crash of another server process",
                "database system is in recovery mode",
            )
        ),
    ),
)
RUNNERS: Final = Family(
    source="a parent",
    phrases=(
        *(Phrase(ClueKind.MEMORY, *row, signal="SIGKILL", of_another=True) for row in _MEMORY),
        Phrase(
            ClueKind.MEMORY,
            ": badness ",
            r"sending (?:SIGTERM|(?P<signal>SIGKILL)) to process (?P<pid>\d{1,20})"
            r"(?: uid \d{1,12})? \"(?P<name>[^\"]{1,60})\": (?P<detail>badness .{1,80})",
            'earlyoom[7]: sending SIGTERM to process 4242 uid 1000 "python3": badness 900',
            of_another=True,
        ),
        *(Phrase(ClueKind.CHILD, *row, of_another=True) for row in _TOLD),
    ),
)
