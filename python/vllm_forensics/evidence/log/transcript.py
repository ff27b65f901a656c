"""A terminal's transcript: somebody asks the shell for the last status, and it answers below."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.model.incident import SHELL, Clue

NEEDLES: Final = (
    b"echo $?", b"echo $status", b"LASTEXITCODE", b"%errorlevel%", b"%ERRORLEVEL%"
)  # fmt: skip
_ASKED: Final = re.compile(
    r"(?:.{0,120}[$#>%\u276f\u279c~;&|] ?)?(?:echo +\$(?:\?|status)|(?:echo +|Write-\w{4,6} +)?"
    r"\"?\$LASTEXITCODE\"?|echo +%(?:errorlevel|ERRORLEVEL)%)\s*$"
)
_STATUS: Final = re.compile(r"\s*(-?\d{1,10})\s*$")


class StatusBlock:
    """The question for a status, and the line below it."""

    def __init__(self) -> None:
        """Begin below the question."""
        self._clue: Clue | None = None
        self.done = False

    def feed(self, line: LogLine) -> bool:
        """Take the answer, which is the next line that is not empty."""
        if not line.text.strip():
            return True
        self.done = True
        match = _STATUS.match(line.text)
        if match is None:
            return False
        told = BOOK.read(line._replace(text=f"exit code: {match[1]}"))
        self._clue = replace(told, text=match[1], source=SHELL) if told is not None else None
        return True

    def close(self) -> Clue | None:
        """What the answer tells; None where it is no death's."""
        return self._clue


def open_status(line: LogLine) -> StatusBlock | None:
    """A question that ends this line."""
    if "echo" not in line.text and "LASTEXITCODE" not in line.text:
        return None
    return StatusBlock() if _ASKED.match(line.text) is not None else None
