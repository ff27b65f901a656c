"""What `kubectl get pods`, `kubectl describe` and `supervisorctl status` list: who is down, now.

Such a row stands in a text where somebody pasted it, and tells nothing of the order of deaths.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import LISTING, ClueKind

_POD: Final = r"(?<![\w./-])(?P<name>[a-z0-9][a-z0-9.-]{2,252}) {1,80}\d{1,3}/\d{1,3} {1,80}"
LISTINGS: Final = Family(
    source=LISTING,
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "CrashLoopBackOff ",
            rf"{_POD}(?P<detail>(?:Init:)?CrashLoopBackOff) ",
            "serve-74464f6b98-2kj6g   0/1   CrashLoopBackOff   25 (57s ago)   1h",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                f"{before}Error{behind}",
                rf"{_POD}(?P<detail>(?:Init:|RunContainer|Start)?Error) {{1,40}}\d",
                f"serve-74464f6b98-2kj6g   0{before or '/1   '}Error{behind} 4   2m40s",
                of_another=True,
            )
            for before, behind in (
                ("", "  "),  # as columns are filled
                *((f"/{containers} ", " ") for containers in range(1, 5)),
            )
        ),
        Phrase(
            ClueKind.CHILD,
            "CrashLoopBackOff",
            r"^\W{0,16}[Rr]eason:\s{1,12}(?P<detail>CrashLoopBackOff)\s*$",
            "      Reason:       CrashLoopBackOff",
            of_another=True,
        ),
        Phrase(
            ClueKind.CHILD,
            "Back-off restarting failed ",
            r"\b(?P<detail>Back-off restarting failed (?:docker )?container)"
            r"(?:[= ](?P<name>(?!in )[a-z0-9][\w.-]{1,80})(?= in pod ))?",
            "Warning  BackOff  5s (x9 over 2m)  kubelet  Back-off restarting failed container",
            of_another=True,
        ),
        *(
            Phrase(
                ClueKind.CHILD,
                needle,
                r"^\W{0,4}(?P<name>[\w.:/-]{1,120})\s{1,80}(?P<detail>(?:FATAL|BACKOFF)\s{1,20}"
                rf"{needle}.{{0,80}})",
                f"serve                FATAL     {needle}",
                of_another=True,
            )
            for needle in (
                "Exited too quickly",
                "can't find command",
                "command at ",
                "unknown error",
                "no permission to run",
            )
        ),
        Phrase(
            ClueKind.CHILD,
            " entered FATAL state",
            # what stands before it looks like a host and its program
            r"(?:\bgave up: |^)(?P<name>[\w.:/-]{1,200}) (?P<detail>entered FATAL state)",
            "2026-01-15 08:12:45,123 INFO gave up: serve entered FATAL state, too many start "
            "retries too quickly",
            of_another=True,
        ),
    ),
)
