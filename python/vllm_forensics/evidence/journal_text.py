"""A journal that was exported, as the lines that journalctl prints: a log with times and hosts.

`-o export` and `-o json` put the time, the host and the sender of a message into fields of their
own (systemd.io/JOURNAL_EXPORT_FORMATS). Each message becomes one line of `-o short-iso`, at the
line where it stands in the file; every other line becomes an empty one, so that lines keep their
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from vllm_forensics.evidence.journal_records import is_journal_export

_ASKED: Final = (
    *(b"MESSAGE", b"__REALTIME_TIMESTAMP", b"_SOURCE_REALTIME_TIMESTAMP", b"_HOSTNAME"),
    *(b"SYSLOG_IDENTIFIER", b"_COMM", b"SYSLOG_PID", b"_PID"),
)
_LONGEST: Final = 1 << 20
"""Of a message, and of a line without its end."""
_SIZE: Final = 8

Fields = dict[bytes, bytes]


def as_log(head: bytes, pieces: Iterable[bytes]) -> Iterable[bytes]:
    """The pieces of a text as they are, and those of a journal as a log; `head` is its beginning.

    Whatever fails while the pieces are read, fails here too.
    """
    if not is_journal_export(head):
        return pieces
    if head.lstrip(b"\x1e\r\n ").removeprefix(b"data: ").startswith(b"{"):
        return _of_json(pieces)
    return _Export().lines(pieces)


def _of_json(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield b"".join(_json_line(line) + b"\n" for line in lines)
        if len(rest) > 64 * _LONGEST:
            rest = b""
    if rest:
        yield _json_line(rest) + b"\n"


def _json_line(line: bytes) -> bytes:
    try:
        found = json.loads(line.strip(b"\x1e\r ").removeprefix(b"data: "))
    except (ValueError, RecursionError):
        return line
    if not isinstance(found, dict):
        return line
    fields = {name: value for name in _ASKED if (value := _value(found.get(name.decode())))}
    return b" ".join(_printed(fields))  # one line stays one


def _value(value: object) -> bytes | None:
    """A string, or the bytes of one that is not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")[:_LONGEST]
    if isinstance(value, list) and all(isinstance(one, int) and 0 <= one < 256 for one in value):
        return bytes(value[:_LONGEST])
    return None


class _Export:
    """Reads the export format piece by piece; of a record only what is asked for is kept."""

    def __init__(self) -> None:
        self._fields: Fields = {}
        self._above = 0
        """Lines of the record above its message."""
        self._below = 0
        self._name: bytes | None = None
        """Of a value that comes with its size."""
        self._value = bytearray()
        self._left = 0

    def lines(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The log."""
        held = b""
        for piece in pieces:
            out: list[bytes] = []
            held = self._taken(held + piece, out)
            if len(held) > _LONGEST:  # no field's name is as long: it is damaged
                held = b""
            yield b"".join(out)
        yield self._record()

    def _taken(self, data: bytes, out: list[bytes]) -> bytes:
        """Take every whole line and value, and return what is left."""
        at = 0
        while at < len(data):
            if self._name is not None:
                at = self._take_value(data, at)
                continue
            end = data.find(b"\n", at)
            if end < 0:
                break
            name, equals, value = data[at:end].partition(b"=")
            if name and not equals:
                start = end + 1 + _SIZE
                if start > len(data):
                    break
                self._name, self._value = name, bytearray()
                self._left = int.from_bytes(data[end + 1 : start], "little")
                self._count(1 + data.count(b"\n", end + 1, start))
                at = start
                continue
            if name:
                self._keep(name, value)
                self._count(1)
            else:
                out.append(self._record() + b"\n")
            at = end + 1
        return data[at:]

    def _take_value(self, data: bytes, at: int) -> int:
        """As much of a value with a size as there is, and the line break behind it."""
        part = data[at : at + self._left]
        self._left -= len(part)
        if self._name in _ASKED:
            self._value += part[: _LONGEST - len(self._value)]
            if self._name != b"MESSAGE":
                self._count(part.count(b"\n"))
        else:
            self._count(part.count(b"\n"))
        at += len(part)
        if self._left == 0 and at < len(data):
            self._keep(self._name or b"", bytes(self._value))
            self._count(1)
            self._name = None
            at += 1
        return at

    def _keep(self, name: bytes, value: bytes) -> None:
        if name in _ASKED:
            self._fields[name] = value[:_LONGEST]

    def _count(self, lines: int) -> None:
        if b"MESSAGE" in self._fields:
            self._below += lines
        else:
            self._above += lines

    def _record(self) -> bytes:
        """The message of the record that ends here, among empty lines for all others."""
        above, below = self._above, max(0, self._below - 1)
        printed = _printed(self._fields)
        self._fields, self._above, self._below = {}, 0, 0
        return b"\n" * above + b"".join(line + b"\n" for line in printed) + b"\n" * below


def _printed(fields: Fields) -> list[bytes]:
    """`2026-01-15T08:12:45.123456+00:00 node1 serve[42]: …`, for each line of the message."""
    message = fields.get(b"MESSAGE")
    if message is None:
        return []
    sender = fields.get(b"SYSLOG_IDENTIFIER") or fields.get(b"_COMM") or b"unknown"
    pid = fields.get(b"SYSLOG_PID") or fields.get(b"_PID")
    number = b"[%b]" % pid if pid and pid.isdigit() else b""
    host = fields.get(b"_HOSTNAME", b"unknown")
    prefix = b"%b %b %b%b: " % (_time(fields), host, sender.replace(b" ", b"_"), number)
    return [prefix + line for line in message.splitlines() or [b""]]


def _time(fields: Fields) -> bytes:
    text = fields.get(b"_SOURCE_REALTIME_TIMESTAMP") or fields.get(b"__REALTIME_TIMESTAMP") or b""
    try:
        at = datetime.fromtimestamp(int(text[:20]) / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return b"-"
    return at.isoformat(timespec="microseconds").encode()
