"""Which processes a log names, and their signs of life: the prefixes with which they sign lines."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vllm_forensics.model.incident import Clue, SeenProcess

if TYPE_CHECKING:
    from vllm_forensics.evidence.log.lines import LogLine

_MAX_PROCESSES: Final = 512
_MAX_NAMES: Final = 8
_PREFIXES: Final = (
    re.compile(rb"\((?P<name>\w[\w. =-]{0,60}?)?[ ,]{0,3}pid=(?P<pid>\d{1,9})[^()\n]{0,80}\)"),
    re.compile(rb"\[(?P<name>[\w.:-]{1,60}) pid=(?P<pid>\d{1,9})\]"),
    re.compile(rb'"p(?:id|rocess(?:_?[iI]d)?)": ?(?P<pid>\d{1,9})(?P<name>)\b'),
)
"""A process signs its line. Each begins with a letter of its own: so a search is fast."""
_ANSWER: Final = re.compile(
    rb"\"(?:POST|PUT|PATCH|DELETE|GET) /(?!health|metrics|ping|livez|readyz)[^\"\n ]{0,400}"
    rb"(?: HTTP/[\d.]{1,3})?\" 2\d\d\b"
)
"""An access log's, as uvicorn, gunicorn, nginx and Apache write it; but not to who only watches."""
_MAX_ANSWERS: Final = 4_096
_CLOCK: Final = re.compile(rb"(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_TO_CLOCK: Final = 40
"""So far behind its signature a line has its time."""


class _Life:
    """Signs of life of one process, noted with every line that it wrote."""

    __slots__ = ("first_line", "last_line", "last_time", "name", "names")

    def __init__(self, line: int) -> None:
        self.name = ""
        self.names: set[str] = set()
        self.first_line = self.last_line = line
        self.last_time: str | None = None


class SignsOfLife:
    """The processes that a log names, and the numbers that belong to pipes only."""

    def __init__(self) -> None:
        """Nobody was seen yet."""
        self._lives: dict[int, _Life] = {}
        self._pipes: set[tuple[int, str | None]] = set()
        self.answered: list[int] = []
        """Lines above which, in a stretch of nothing else, a server answered as it should."""

    def read(self, data: bytes, line: int) -> None:
        """Who wrote something in a stretch that holds nothing else of interest, up to a line."""
        if _ANSWER.search(data) is not None and len(self.answered) < _MAX_ANSWERS:
            self.answered.append(line)
        # A few processes write most of it: of each, and of each of its names, the last line tells.
        last: dict[tuple[bytes, bytes], re.Match[bytes]] = {}
        for prefix in _PREFIXES:
            last |= {(one["pid"], one["name"] or b""): one for one in prefix.finditer(data)}
        for match in sorted(last.values(), key=re.Match.start):
            begin = data.rfind(b"\n", 0, match.start()) + 1
            end = data.find(b"\n", match.end())
            end = min(end if end >= 0 else len(data), match.end() + _TO_CLOCK)
            clock = _CLOCK.search(data, begin, end)
            self._live(
                int(match["pid"]),
                line,
                (match["name"] or b"").decode("utf-8", "replace").strip(),
                clock[0].decode() if clock else None,
            )

    def note(self, line: LogLine) -> None:
        """Who signs a line, and whose pipe it came through."""
        if line.pid is not None and line.signs:
            self._live(line.pid, line.number, line.name or "", line.time)
        if line.pipe is not None and len(self._pipes) < _MAX_PROCESSES:
            self._pipes.add(line.pipe)

    def seen(self) -> tuple[SeenProcess, ...]:
        """Everybody, in the order of their first lines."""
        return tuple(
            SeenProcess(
                pid=pid,
                name=life.name,
                first_line=life.first_line,
                last_line=life.last_line,
                last_time=life.last_time,
                other_names=frozenset(life.names - {life.name}),
            )
            for pid, life in self._lives.items()
        )

    def without_pipe(self, clue: Clue) -> Clue:
        """Where processes sign their lines, journald's number is that of who held the pipe.

        Seen: `serve[10]: (Worker_TP0 pid=31) …` and `serve[10]: Fatal Python error: …`. All that a
        service starts writes into one pipe, and a crash handler signs nothing.
        """
        if clue.writer_pid is None or (clue.writer_pid, clue.writer) not in self._pipes:
            return clue
        return replace(clue, writer_pid=None, writer=None, is_tagged=False)

    def _live(self, pid: int, line: int, name: str, time: str | None) -> None:
        life = self._lives.get(pid)
        if life is None:
            if len(self._lives) >= _MAX_PROCESSES:
                return
            life = self._lives[pid] = _Life(line)
        life.last_line = line
        if name:
            life.name = name
            if len(life.names) < _MAX_NAMES:
                life.names.add(name)
        if time:
            life.last_time = time
