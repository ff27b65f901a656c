"""Lines of a log of any size that tell of the lines around them."""

from __future__ import annotations

import re
from typing import Final

_MOST: Final = 20_000
_LONGEST: Final = 400
"""A longer line is no mark."""


class Marks:
    """The marks of one kind, found while the log is handed over in pieces."""

    def __init__(self, form: re.Pattern[bytes], words: tuple[bytes, ...]) -> None:
        """One of the words stands in the first mark: above it nothing is of interest."""
        self._form = form
        self._words = words
        self._above = 0
        self._rest = b""
        self._is_any = False
        self.lines: list[str] = []
        self.numbers: list[int] = []
        """The lines' indices."""

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        data = self._rest + piece
        end = data.rfind(b"\n") + 1
        self._rest = data[end:] if len(data) - end < _LONGEST else b""
        self._read(data[:end])

    def close(self) -> None:
        """Read what no newline ended."""
        self._read(self._rest)
        self._rest = b""

    def _read(self, data: bytes) -> None:
        at = 0
        self._is_any = self._is_any or any(word in data for word in self._words)
        for match in self._form.finditer(data) if self._is_any else ():
            if len(self.lines) >= _MOST:
                break
            self._above += data.count(b"\n", at, match.start())
            at = match.start()
            self.lines.append(match[0].decode("utf-8", "replace").rstrip("\r"))
            self.numbers.append(self._above)
        self._above += data.count(b"\n", at)
