"""What systemd-coredump and abrt write to the journal, and how `coredumpctl` lists it."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_ROW: Final = (
    r"^ *(?P<pid>\d{1,20}) {1,8}\d{1,12} {1,8}\d{1,12} {1,8}(?P<signal>%s) "
    r" {0,8}(?:\*|-|[a-z]{3,12})? {0,8}/(?:[^\s/]{1,80}/){0,12}(?P<name>[^\s/]{1,80})(?!\S)"
)
"""Behind the time: process, user, group, signal, is the core there, program."""
COREDUMPS: Final = Family(
    source="systemd",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            " dumped core.",
            r"Process (?P<pid>\d{1,20}) \((?P<name>[^)]*)\) of user \d{1,20} dumped core",
            "Process 4242 (python3) of user 1000 dumped core.",
            of_another=True,
        ),
        Phrase(  # the journal's own record
            ClueKind.CHILD,
            "COREDUMP_SIGNAL_NAME=",
            r"^\s*COREDUMP_SIGNAL_NAME=(?P<signal>SIG[A-Z]{2,6})\s*$",
            "    COREDUMP_SIGNAL_NAME=SIGSEGV",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " terminated abnormally with signal ",
            r"Process (?P<pid>\d{1,20}) \((?P<name>[^)]*)\) of user \d{1,20} terminated abnormally"
            r" with "
            r"signal (?P<signal>\d{1,20})",
            "Process 4242 (python3) of user 1000 terminated abnormally with signal 11/SEGV, "
            "processing...",
            of_another=True,
        ),
        Phrase(  # Red Hat's abrt, which puts itself in the same place
            ClueKind.CHILD,
            " - dumping core",
            r"Process (?:(?P<pid>\d{1,20})|x{1,8}) \((?P<name>[^)]*)\) of user \d{1,20} killed by "
            r"(?P<signal>SIG[A-Z]{2,6})",
            "Process 4242 (serve) of user 0 killed by SIGSEGV - dumping core",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Saved core dump of pid ",
            r"(?P<detail>Saved core dump of pid (?P<pid>\d{1,20}) \((?:[^\s/]{0,100}/){0,20}"
            r"(?P<name>[^\s()/]{1,60})\))",
            "abrt[99]: Saved core dump of pid 4242 (/usr/bin/serve) to /var/spool/abrt/ccpp-1",
            of_another=True,
        ),
        Phrase(  # and what its list shows
            ClueKind.CHILD,
            " killed by SIG",
            r"^\s*reason: {1,12}(?:(?P<function>[A-Za-z_][\w:~]{1,160})\(\): )?"
            r"(?P<name>[\w.+-]{1,60}) killed by (?P<signal>SIG[A-Z]{2,6})",
            "reason:         take(): serve killed by SIGSEGV",
            of_another=True,
        ),
        Phrase(  # apport's report
            ClueKind.CHILD,
            "Signal: ",
            r"^Signal: (?P<signal>4|5|6|7|8|11)\s*$",
            "Signal: 11",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Signal: ",
            r"^\s*Signal: (?P<signal>\d{1,20}) \(\w{1,60}\)",
            "        Signal: 11 (SEGV)",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                f" {signal} ",
                _ROW % signal,
                f"Thu 2026-01-15 08:12:45 UTC  4242 1000 1000 {signal} present /usr/bin/serve 1M",
                of_another=True,
            )
            for signal in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
        ),
        *(  # older ones write the number
            Phrase(
                ClueKind.CHILD,
                f" {signal} {core}",
                _ROW % signal,
                f"Thu 2026-01-15 08:12:45 UTC   4242  1000  1000  {signal} {core} /usr/bin/serve",
                of_another=True,
            )
            for signal in ("11", "6", "7", "4", "8")
            for core in ("*", "present", "missing", "truncated", "none", "inaccessible")
        ),
    ),
)
