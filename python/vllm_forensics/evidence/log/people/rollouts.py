"""What a model was asked and what it answered, as trainers print it between their own lines."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.people.marks import Marks
from vllm_forensics.model.incident import Clue

_PART: Final = re.compile(
    rb"(?m)^(?:\([\w.:]{1,60} pid=\d{1,9}[^()\n]{0,60}\) )?"
    rb"\[(?:prompt|response|ground_truth|score)\]"
)
"""verl's, of which each may have many lines."""
_NAME: Final = re.compile(r"(?:\(\S{1,60} pid=(?P<pid>\d{1,9}).{0,70}\) )?\[(?P<part>\w{1,20})\]")
_LAST: Final = ("ground_truth", "score")
_LONGEST: Final = 5_000


class Rollouts:
    """The samples that a trainer printed, in a log of any size."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._marks = Marks(_PART, (b"[prompt]",))

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        self._marks.feed(piece)

    def without_samples(self, clues: list[Clue]) -> list[Clue]:
        """The clues without what stands within a sample, by who printed it."""
        self._marks.close()
        samples = self._samples()
        if not samples:
            return clues
        return [
            clue
            for clue in clues
            if not any(pid == clue.writer_pid and clue.line - 1 in lines for pid, lines in samples)
        ]

    def _samples(self) -> list[tuple[int | None, range]]:
        """Only samples that were printed as a whole: within the last a trainer may have died."""
        found: list[tuple[int | None, range]] = []
        open_at: dict[int | None, tuple[int, bool]] = {}
        for number, line in zip(self._marks.numbers, self._marks.lines, strict=True):
            name = _NAME.match(line)
            if name is None:
                continue
            pid = int(name["pid"]) if name["pid"] is not None else None
            begin, is_answered = open_at.get(pid, (-_LONGEST - 1, False))
            if name["part"] == "prompt":
                open_at[pid] = number, False
            elif name["part"] == "response":
                open_at[pid] = begin, True
            elif is_answered and name["part"] in _LAST and number - begin <= _LONGEST:
                found.append((pid, range(begin, number)))
                del open_at[pid]
        return found
