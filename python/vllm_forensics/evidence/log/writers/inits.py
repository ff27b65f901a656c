"""What programs say that start services and wait for them: pm2, s6, Android's init, launchd."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_FAULT: Final = (
    r"(?P<signal>SIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP)|Segmentation fault|Abort trap|Bus error|"
    r"Illegal instruction|Floating point exception|Trace/BPT trap)"
)
"""With other signals it ends services itself."""
_PM2: Final = (
    r"\bApp \[(?P<name>[^\]:]{1,80})(?::\d{1,4})?\](?: with id \[\d{1,4}\] and pid "
    r"\[(?P<pid>\d{1,9})\],)? exited with code "
)
"""Its older and its newer words."""
_TOLD: Final = (
    (  # pm2 says so of every status that no signal made
        " via signal [",
        _PM2 + r"\[(?P<exit>[1-9]\d{0,2})\] via signal \[(?:null|SIGINT)\]",
        "PM2      | App [serve:0] exited with code [7] via signal [SIGINT]",
    ),
    (
        " via signal [",
        _PM2 + r"\[\d{1,3}\] via signal \[(?P<signal>(?!SIGINT\])SIG\w{2,6})\]",
        "PM2      | App [serve:0] exited with code [0] via signal [SIGKILL]",
    ),
    (  # s6
        " (by signal ",
        r"\b(?P<name>(?!the |The )[\w.-]{1,80}) service exited with code \d{1,3} \(by signal "
        r"(?P<signal>[1-9]\d?)\)",
        "WARNING: pool-server service exited with code 139 (by signal 11).",
    ),
    (  # Home Assistant
        " finish process received signal ",
        r"(?P<name>[A-Z][\w ]{2,60}?) finish process received signal (?P<signal>\d{1,2})\b",
        "[08:12:45] INFO: Pool Server finish process received signal 11",
    ),
    (  # s6
        " (by signal ",
        r"\b[Ss]ervice (?:(?P<name>[\w.-]{1,80}) )?exited with code \d{1,3} \(by signal "
        r"(?P<signal>[1-9]\d?)\)",
        "Service serve exited with code 256 (by signal 9)",
    ),
    (  # Android
        " received signal ",
        r"\b[Ss]ervice '(?P<name>[^']{1,80})' \(pid (?P<pid>\d{1,9})\) received signal "
        r"(?P<signal>\d{1,2})\b",
        "init: Service 'serve' (pid 4242) received signal 11",
    ),
    (  # launchd
        "Service exited due to ",
        r"(?:\((?P<name>[\w.-]{1,120})\[(?P<pid>\d{1,9})\]\): )?Service exited due to "
        rf"(?:signal: )?{_FAULT}",
        "com.apple.xpc.launchd[1] (com.serve[4242]): Service exited due to SIGSEGV | sent by exc",
    ),
    (  # and a newer one's
        " exited due to ",
        r"\b(?:gui|user|system|pid|login)/(?:\d{1,9}/)?(?P<name>[\w.-]{1,120}) "
        r"\[(?:(?P<pid>\d{1,9})|[^\]]{0,20})\] exited due to "
        rf"(?:exit\((?P<exit>[1-9]\d{{0,2}})\)|{_FAULT})",
        "launchd: gui/501/com.serve [4242] exited due to exit(1)",
    ),
    (  # OpenWrt's procd, with its own slip of the pen
        " in a crash loop ",
        r"\b[Ii]nstance (?P<name>[\w.-]{1,80})::\S{1,80} (?:i?s )?(?P<detail>in a crash loop "
        r"\d{1,6} crashes)",
        "procd: Instance serve::instance1 s in a crash loop 6 crashes, 0 seconds since last crash",
    ),
    (  # honcho
        " stopped (rc=-",
        r"\b(?P<name>[\w-]{1,60}\.\d{1,4}) stopped \(rc=(?P<exit>-\d{1,2})\)",
        "08:12:45 system | serve.1 stopped (rc=-11)",
    ),
    (  # tini
        "Main child exited with signal ",
        r"(?P<detail>Main child exited with signal) \(with signal '"
        r"(?P<signal>[A-Z][\w/ ]{2,40})'\)",
        "[INFO  tini (1)] Main child exited with signal (with signal 'Segmentation fault')",
    ),
    (  # whatever signal made the status
        " stopped (rc=1",
        r"\b(?P<name>[\w-]{1,60}\.\d{1,4}) stopped \(rc=(?P<exit>13[2-9])\)",
        "08:12:45 system | serve.1 stopped (rc=139)",
    ),
    (  # GNU parallel
        "parallel: This job failed",
        r"^parallel: (?P<detail>This job failed):$",
        "parallel: This job failed:",
    ),
    (
        "Saved crash report for ",
        r"(?P<detail>Saved crash report for (?P<name>[^\[\]]{1,80})\[(?P<pid>\d{1,9})\])",
        "ReportCrash[99]: Saved crash report for serve[4242] version 1.0 to /Library/Logs/s.crash",
    ),
)
INITS: Final = Family(
    source="a supervisor",
    phrases=(
        *(Phrase(ClueKind.CHILD, *row, of_another=True) for row in _TOLD),
        Phrase(  # s6's programs, where the container is not what they need
            ClueKind.ENVIRONMENT,
            ": fatal: ",
            r"\b(?P<name>s6-[a-z-]{2,40})\b[^:]{0,60}: fatal: (?P<detail>[^\"`]{3,120})",
            "s6-overlay-suexec: fatal: can only run as pid 1",
        ),
    ),
)
