"""SIGKILL, whose sender is not named: the out-of-memory killer's, or of somebody who stopped it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.faults import cause, signal_of
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import SHELL, Cause, CauseClass, Clue, ClueKind

_STOPPED: Final = re.compile(
    r"\b(?:docker(?:-compose| compose)? (?:stop|restart|kill|down)|podman stop|"
    r"systemctl (?:stop|restart))\b"
)


def killed(first: Clue, account: Sequence[Clue]) -> Cause | None:
    """`exit code 137`, `Killed`: SIGKILL, whose sender is not named."""
    if signal_of(first, account) != "SIGKILL":
        return None
    sent = [one for one in account if one.kind is ClueKind.NOT_MEMORY and one.source == SHELL]
    if any(one.detail is None or "kill" in one.detail for one in sent):
        return cause(CauseClass.UNKNOWN, "SIGKILL, which somebody sent", Certainty.UNKNOWN)
    if any(one.line <= first.line for one in sent) or any(
        _STOPPED.search(one.text) is not None for one in (first, *account)
    ):
        words = "SIGKILL; somebody stopped it, and what does not stop in time is killed"
        return cause(CauseClass.UNKNOWN, words, Certainty.UNKNOWN)
    if first.source == "systemd" and first.kind is ClueKind.CHILD:
        return cause(
            CauseClass.UNKNOWN,
            "SIGKILL, whose sender systemd does not name; a lack of memory it would call by its "
            "name, as it would its own after a stop that took too long, unless it is old",
            Certainty.UNKNOWN,
        )
    if any(one.kind is ClueKind.NOT_MEMORY and one.source != SHELL for one in account):
        return cause(
            CauseClass.UNKNOWN,
            "SIGKILL, and the container runtime does not call it a lack of memory: somebody sent "
            "it, as after a failed probe or a stop that took too long",
            Certainty.UNKNOWN,
        )
    return cause(
        CauseClass.OOM_KILLED,
        "SIGKILL, whose sender the text does not name; most often it is the out-of-memory killer",
        Certainty.LIKELY,
    )
