"""A kernel's line about a fault that a mail program, a forum or a terminal broke into several."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.writers.kernel import decoded
from vllm_forensics.model.incident import Clue, ClueKind

_MOST: Final = 3
"""So many lines at most go on with the first: `error 4 in` stands in the second or third."""
_LONGEST: Final = 400


class KernelRecord:
    """The record's first line, and those that may go on with it."""

    def __init__(self, line: LogLine, clue: Clue) -> None:
        """Begin with a line that names no library."""
        self._line = line._replace(text=line.text.rstrip())
        self._clue = clue
        self._fed = 0
        self.done = False

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where the record says more with it."""
        self._fed += 1
        longer = self._with(line.text)
        if longer is not None:
            self._line, self._clue = longer
        self.done = longer is None or bool(self._clue.native) or self._fed == _MOST
        return longer is not None

    def goes_on(self, text: str) -> bool:
        """Does the record say more with this line?"""
        return self._with(text) is not None

    def close(self) -> Clue:
        """What the record tells, its numbers in words."""
        return decoded(self._clue)

    def _with(self, text: str) -> tuple[LogLine, Clue] | None:
        """The record with one more line, broken between words or within one."""
        more = text.strip()[:_LONGEST]
        for blank in (" ", "") if more else ():
            line = self._line._replace(text=f"{self._line.text}{blank}{more}")
            clue = BOOK.read(line)
            if clue is not None and (clue.detail, clue.native) != (
                self._clue.detail,
                self._clue.native,
            ):
                return line, clue
        return None


def open_record(line: LogLine, clue: Clue) -> KernelRecord | None:
    """The record of a fault whose line may have been broken: it names no library."""
    is_fault = clue.source == "kernel" and clue.kind is ClueKind.SIGNAL
    return KernelRecord(line, clue) if is_fault and not clue.native else None
