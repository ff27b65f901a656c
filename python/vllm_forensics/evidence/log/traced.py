"""strace's last line about a process, and the program that it had been seen to execute.

Source: strace(1): with -f each line begins with the number of its process, `[pid  4242] `, or with
the bare number where the trace went to a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import Family, Phrase, base_name, clue_at
from vllm_forensics.model.incident import Clue, ClueKind

_PID: Final = r"(?:(?:\[pid {1,6})?(?P<pid>\d{1,9})\]? {1,6})?(?:[\d:.]{4,20} {1,4})?"
STRACE: Final = Family(
    source="a tracer",
    phrases=(
        Phrase(
            ClueKind.CHILD,
            "+++ killed by SIG",
            rf"^\W{{0,4}}{_PID}\+\+\+ killed by (?P<signal>SIG[A-Z]{{2,6}})",
            "[pid  4242] +++ killed by SIGSEGV (core dumped) +++",
            of_another=True,
        ),
    ),
)
_HIT: Final = re.compile(rf"\W{{0,8}}{_PID}--- (?P<signal>SIG(?:SEGV|BUS|ILL|FPE|ABRT)) [{{(]")
_GOES_ON: Final = re.compile(rf"\W{{0,8}}{_PID}(?:[a-z_]\w{{1,40}}\(|\+\+\+ exited|--- SIG)")
NEEDLES: Final = (b"execve(",)
_EXECUTES: Final = re.compile(
    rf"\W{{0,4}}{_PID}execve\(\"(?P<path>[^\"]{{1,400}})\"(?!.{{0,2000}}\) = -1 E)"
)
_MAX: Final = 256
_BLANK: Final = 3


def _is_last(lines: Sequence[str], at: int) -> bool:
    """Does no call of the process follow, nor strace's own word of its end?"""
    below = next((line for line in lines[at + 1 : at + 1 + _BLANK] if line.strip()), "")
    is_told = any(needle in below for needle in (phrase.needle for phrase in STRACE.phrases))
    return not is_told and _GOES_ON.match(below) is None


class Programs:
    """What each process of a trace executed last."""

    def __init__(self) -> None:
        """Know of none."""
        self._names: dict[int | None, str | None] = {}

    def note(self, text: str) -> bool:
        """Remember who executes what, where a line says so."""
        match = _EXECUTES.match(text)
        if match is None or len(self._names) >= _MAX:
            return False
        self._names[int(match["pid"]) if match["pid"] else None] = base_name(match["path"])
        return True

    def of(self, pid: int | None) -> str | None:
        """The program of a process; of one that executed none, its parent's, which has no number.

        The first process of a trace gets its number only once there is a second one.
        """
        return self._names.get(pid, self._names.get(None))

    def cut_short(self, lines: Callable[[], Sequence[str]]) -> Iterator[Clue]:
        """The signals that a process got last, where the trace was cut off behind them."""
        if not self._names:
            return
        text = lines()
        for at, line in enumerate(text):
            match = _HIT.match(line)
            if match is not None and _is_last(text, at):
                pid = int(match["pid"]) if match["pid"] else None
                told = clue_at(LogLine(at + 1, "", line), ClueKind.CHILD, STRACE.source)
                yield replace(
                    told,
                    of_another=True,
                    is_told=True,
                    pid=pid,
                    name=self.of(pid),
                    signal=match["signal"],
                )
