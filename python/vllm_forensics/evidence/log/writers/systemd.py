"""What systemd says about the services that it started, and of itself."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

SYSTEMD: Final = Family(
    source="systemd",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            " process exited, code=",
            r"(?P<name>[\w@.\\-]{1,200})\.service: (?:[Mm]ain|[Cc]ontrol) process exited, "
            r"code=(?:dumped|killed), "
            r"status=(?P<signal>\d{1,20})/\w{1,60}",
            "serve.service: Main process exited, code=dumped, status=11/SEGV",
            of_another=True,
        ),
        *(
            Phrase(  # its own
                ClueKind.SIGNAL,
                needle,
                rf"(?:^(?P<name>systemd)\[(?P<pid>1)\]: |\b){needle}"
                r"(?P<signal>SEGV|ABRT|BUS|ILL|FPE)(?:>|&gt;)(?=,| from |\W*$)",
                f"{needle}SEGV>, dumped core as pid 4242.",
            )
            for needle in ("Caught <", "Caught &lt;")
        ),
        Phrase(
            ClueKind.HANG,
            "atchdog timeout",
            r"(?P<name>[\w@.\\-]{1,200})\.service:? "
            r"(?P<detail>(?:Watchdog timeout \(limit \w{1,20}\)|watchdog timeout(?=!)))",
            "serve.service: Watchdog timeout (limit 10s)!",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " process exited, code=exited",
            r"(?P<name>[\w@.\\-]{1,200})\.service: Main process exited, code=exited, "
            r"status=(?P<exit>\d{1,20})",
            "serve.service: Main process exited, code=exited, status=139/n/a",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "A process of this unit has been killed by the OOM killer",
            r"(?P<name>[\w@.\\-]{1,200})\.service: (?P<detail>A process of this unit has been"
            r" killed by "
            r"the OOM killer)",
            "serve.service: A process of this unit has been killed by the OOM killer.",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(  # systemctl status
            ClueKind.MEMORY,
            "(Result: oom-kill)",
            r"Active: failed \((?P<detail>Result: oom-kill)\)",
            "   Active: failed (Result: oom-kill) since Thu 2026-01-15 08:12:45 UTC; 5s ago",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(  # systemctl's answer
            ClueKind.CHILD,
            "failed because a fatal signal was delivered",
            r"\bJob for (?P<name>[\w@.\\-]{1,200})\.service (?P<detail>failed because a fatal "
            r"signal was delivered)",
            "Job for serve.service failed because a fatal signal was delivered causing the control "
            "process to dump core.",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            " timed out. Killing.",
            r"(?P<name>[\w@.\\-]{1,200})\.service:? (?P<detail>(?:State ')?[\w-]{1,30}'? timed "
            r"out\. Killing)\.",
            "serve.service: State 'stop-sigterm' timed out. Killing.",
            of_another=True,
            sender="systemd",
        ),
        Phrase(
            ClueKind.HANG,
            "(Result: watchdog)",
            r"^\s*Active: failed \((?P<detail>Result: watchdog)\)",
            "     Active: failed (Result: watchdog) since Fri 2026-01-15 00:33:40 EDT; 4min ago",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "with result 'oom-kill'",
            r"(?P<name>[\w@.\\-]{1,200})\.service: Failed with (?P<detail>result 'oom-kill')",
            "serve.service: Failed with result 'oom-kill'.",
            signal="SIGKILL",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                f"with result '{result}",
                rf"(?P<name>[\w@.\\-]{{1,200}})\.service[`'\"]?:? .{{0,20}}\b[Ff]ail(?:ed|s) with "
                rf"(?P<detail>result '{result})",
                f"serve.service: Failed with result '{result}'.",
                of_another=True,
            )
            for result in ("core-dump", "watchdog", "signal")
        ),
        Phrase(
            ClueKind.CHILD,
            "ed, signal=",
            r"(?:Main PID|Process): (?P<pid>\d{1,20}) "
            r"(?:ExecStart=(?:[^\s/]{0,100}/){0,20}(?P<name>[\w.+-]{1,60})(?!\S))?.{0,200}"
            r"\(code=(?:dumped|killed), signal=(?P<signal>\w{1,20})\)",
            "   Main PID: 4242 (code=dumped, signal=SEGV)",
            of_another=True,
        ),
        Phrase(  # of a core
            ClueKind.CHILD,
            "Stack trace of thread ",
            r"^\s{0,80}(?P<detail>Stack trace of thread \d{1,20}):$",
            "                Stack trace of thread 4242:",
            of_another=True,
        ),
    ),
)
