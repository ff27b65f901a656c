"""Ends that a service manager was asked for: nobody died of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from vllm_forensics.evidence.log.people.marks import Marks
from vllm_forensics.model.incident import Clue, ClueKind

_STOPPED: Final = re.compile(
    rb"\bsystemd(?:\[\d{1,9}\])?: (?:Stopped \S|[\w@.\\-]{1,200}: Scheduled restart job)"
)
"""What systemd says once it stopped a service, as it was asked to, or before it starts one again
that ended by itself."""
_ASKING: Final = {"SIGTERM", "SIGINT", "SIGHUP"}
_REACH: Final = 4
"""So many lines below the service's end systemd says so."""


class Orders:
    """Where systemd says that it stopped what it was asked to stop, in a log of any size."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._marks = Marks(_STOPPED, (b": Stopped ",))

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        self._marks.feed(piece)

    def without_stopped(self, clues: list[Clue]) -> list[Clue]:
        """The clues without services that a signal that asks ended, as somebody wanted."""
        self._marks.close()
        if not self._marks.numbers:
            return clues
        return [clue for clue in clues if not _is_asked(clue, self._marks)]


def _is_asked(clue: Clue, marks: Marks) -> bool:
    if clue.kind is not ClueKind.CHILD or clue.source != "systemd" or clue.signal not in _ASKING:
        return False
    line = clue.line - 1
    at = bisect_right(marks.numbers, line)
    is_near = at < len(marks.numbers) and marks.numbers[at] - line <= _REACH
    return is_near and ": Stopped " in marks.lines[at]
