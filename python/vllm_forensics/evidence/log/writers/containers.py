"""What containers' runtimes, Kubernetes and supervisors say about programs that they started."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

CONTAINERS: Final = Family(
    source="the container runtime",
    phrases=(
        Phrase(  # a row of `kubectl get pods`
            ClueKind.MEMORY,
            "OOMKilled",
            r"(?<![\w.-])(?P<name>[a-z0-9][a-z0-9.-]{2,252}) {1,80}"
            r"(?P<detail>\d{1,3}/\d{1,3} {1,80}OOMKilled)\b",
            "serve-74464f6b98-2kj6g   0/1   OOMKilled   4 (57s ago)   2m40s",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "OOMKilled",
            r"(?:\b[Cc]ontainer [\"'`]?(?!killed|exited|was|is|got|has|terminated|restarted|failed|"
            r"status|with)(?P<name>[\w.-]{2,80})[\"'`]?[ :,].{0,60}?)?"
            r"(?P<detail>(?:Reason: {1,20}|reason: ?\"?|\"Reason\": ?\"|\"reason\": ?\"|"
            r"0/\d{1,20} +|(?<=\()|^|(?<=: ))OOMKilled\b(?!\"? ?[:=] ?false))",
            "      Reason:       OOMKilled",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(
            ClueKind.MEMORY,
            "OOMKilled",
            r"(?P<detail>\"?OOMKilled\"? ?[:=] ?true)",
            '            "OOMKilled": true,',
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(  # docker events
            ClueKind.MEMORY,
            "container oom ",
            r"\b(?P<detail>container oom [0-9a-f]{12,64})\b",
            "2026-01-15T08:12:45.000000000Z container oom 1f2e3d4c5b6a (image=serve, name=serve)",
            signal="SIGKILL",
            of_another=True,
        ),
        Phrase(
            ClueKind.NOT_MEMORY,
            "OOMKilled",
            r"(?P<detail>\"?OOMKilled\"? ?[:=] ?false)",
            '            "OOMKilled": false,',
            of_another=True,
        ),
        Phrase(
            ClueKind.NOT_MEMORY,
            "Reason:",
            r"^\W{0,8}(?P<detail>Reason: {1,12}Error)\s*$",
            "      Reason:       Error",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.NOT_MEMORY,
                needle,
                rf"(?:^\s{{0,40}}|[{{,] ?)(?P<detail>{needle}),?\s*(?:$|[,}}])",
                needle,
                of_another=True,
            )
            for needle in ("reason: Error", '"reason": "Error"', '"reason":"Error"')
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                f" failed {probe} probe",
                rf"\b[Cc]ontainer (?P<name>[\w.-]{{1,253}}) (?P<detail>failed {probe} probe), "
                r"will be (?:restarted|killed)",
                f"Normal Killing 41s kubelet Container serve failed {probe} probe, will be killed",
                of_another=True,
                sender="the kubelet",
            )
            for probe in ("liveness", "startup")
        ),
        Phrase(  # Jenkins
            ClueKind.CHILD,
            " was terminated (Exit Code: ",
            r"\b[Cc]ontainer (?P<name>[\w.-]{1,253}) was terminated \(Exit Code: (?P<exit>\d{1,3})"
            r"(?!.{0,40}OOMKilled)",
            "Container jnlp was terminated (Exit Code: 139, Reason: Error)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Exit Code: ",
            r"Exit Code: {1,12}(?P<exit>\d{1,3})\b",
            "      Exit Code:    137",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "xit code: ",
            r"^Exit code: (?P<exit>\d{1,3})\. Reason: ",
            "Exit code: 1. Reason: the server could not start",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "xitCode",
            r"\"?[eE]xitCode\"?[:=] ?(?P<exit>\d{1,3})\b",
            '            "ExitCode": 139,',
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "exited with code ",
            r"(?:^|\W)(?:(?<=child |orker )(?P<pid>\d{1,20})|"
            r"(?P<name>(?!(?:\d{1,80}|[Cc]ontainer|[Pp]ro\w{4,5}|[Cc]ommand|[Ii]t) )[\w.-]{1,80})) "
            r"exited with code (?P<exit>\d{1,3})\b",
            "api-1 exited with code 139",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Exited",
            r"\bExited ?\((?P<exit>\d{1,3})\)(?: .{3,40}? ago\s{2,80}(?:\S.{0,80}?\s{2,80})?"
            r"(?P<name>[A-Za-z0-9][\w.-]{1,80})\s{0,80}$|\s|$)",
            'a1b2c3d4e5f6   serve:1   "python serve.py"   2 hours ago   Exited (139) 5 minutes ago',
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "terminated with exit code (",
            r"(?:^|\W)terminated with exit code \((?P<exit>\d{1,3})\)",
            "[f1-n0-0] terminated with exit code (137). Reason [Error]. Message:",
            of_another=True,
        ),
        Phrase(  # who does not stop when he is told to
            ClueKind.CHILD,
            "terminated by SIGKILL",
            r"\bstopped: (?P<name>[\w.:/-]{1,200}) \(terminated by (?P<signal>SIGKILL)\)",
            "2026-01-15 08:12:45,123 WARN stopped: serve (terminated by SIGKILL)",
            of_another=True,
            sender="supervisord",
        ),
        Phrase(  # who is told to stop gets the signal that he was told with
            ClueKind.CHILD,
            "terminated by SIG",
            r"(?<![\w.:/-])(?:(?<!stopped: )|(?=\S{1,200} \(terminated by "
            r"SIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP|SYS)))(?P<name>[\w.:/-]{1,200}) "
            r"\(terminated by (?P<signal>SIG\w{1,60})"
            r"(?: \(core dumped\))?(?:; not expected)?\)",
            "2026-01-15 08:12:45,123 WARN exited: serve (terminated by SIGSEGV (core dumped); not "
            "expected)",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "exited: ",
            r"exited: (?P<name>\S{1,200}) \(exit status (?P<exit>\d{1,3}); not expected\)",
            "2026-01-15 08:12:45,123 INFO exited: serve (exit status 139; not expected)",
            of_another=True,
        ),
    ),
)
