"""Records of systemd-coredump in what journalctl prints.

`journalctl -o json` has one object a line (also with `data: ` or RS before it, or spread over lines
by -o json-pretty); a value that is not UTF-8 is an array of bytes, one that is large and was not
asked for with --all is null. `-o export` (systemd.io/JOURNAL_EXPORT_FORMATS) has NAME=VALUE lines;
a value with line breaks or other bytes has its name alone on a line, then its size as 64 bits,
little end first, then itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Fields = Mapping[str, str]

COREDUMP_MESSAGE: Final = "fc2e22bc6ee647b6b90729ab34a250b1"
"""SD_MESSAGE_COREDUMP of sd-messages.h: the MESSAGE_ID of every such record."""
_MARK: Final = COREDUMP_MESSAGE.encode()
_LARGEST_VALUE: Final = 1 << 20
_LARGEST_LINE: Final = 64 << 20
_MAX_FIELDS: Final = 1024
MAX_RECORDS: Final = 100_000
EMBEDDED: Final = "(in the journal)"
"""The value of a COREDUMP field begins so: the core itself, which is not read here.

Behind it stands where that is in what was printed, if it is there whole: `@OFFSET+SIZE` of its
bytes, `[OFFSET+SIZE` of an array of numbers; or the record's own place, `@CURSOR`."""
_CURSOR: Final = re.compile(r"s=[0-9a-f]{32};i=[0-9a-f]{1,16}(?=;|$)")

_CORE_IN_JSON: Final = re.compile(rb'"COREDUMP" ?: ?\[')
_ARRAY_END: Final = re.compile(rb"\]")
_LINE_END: Final = re.compile(rb"\n")


def is_journal_export(head: bytes) -> bool:
    """Does a file begin like journalctl's export format or JSON?"""
    start = head.lstrip(b"\x1e\r\n ").removeprefix(b"data: ")
    if start.startswith((b"__CURSOR=", b"__REALTIME_TIMESTAMP=", b"__SEQNUM=")):
        return True
    is_object = start.startswith(b"{") and (b'"__' in head or b'"_' in head or b'"MESSAGE' in head)
    return is_object and any(name in head for name in (b'"__CURSOR"', b'"COREDUMP_', b'"_BOOT_ID"'))


def parse_journal_export(data: memoryview) -> Iterator[Fields]:
    """The records of systemd-coredump in export format or JSON; whatever else there is, is skipped.

    Damage ends only the record that it is in. Values above a megabyte are left out.
    """
    head = bytes(data[:4096]).lstrip(b"\x1e\r\n ").removeprefix(b"data: ")
    records = _json_records(data) if head.startswith(b"{") else _export_records(data)
    for _, record in zip(range(MAX_RECORDS), records, strict=False):
        yield record


def with_held_cores(records: Iterable[Fields], held: Iterable[Fields]) -> Iterator[Fields]:
    """Records of a journal, of which those that `held` has a core of name their own place."""
    cursors = {record.get("__CURSOR") for record in held if "COREDUMP" in record}
    for record in records:
        cursor = record.get("__CURSOR", "")
        if cursor not in cursors:
            yield record
            continue
        place = _CURSOR.match(cursor)
        yield {**record, "COREDUMP": EMBEDDED + (f"@{place[0]}" if place is not None else "")}


def _json_records(data: memoryview) -> Iterator[Fields]:
    pretty: list[bytes] | None = None
    where = ""
    for start, end in _lines(data):
        line, found = _without_core(data, start, end)
        text = line.strip(b"\x1e\r ").removeprefix(b"data: ")
        where = found or where
        if text == b"{":
            pretty = [text]
        elif pretty is not None:
            pretty.append(text)
            if text in {b"}", b"},"}:
                yield from _json_record(b"".join(pretty).rstrip(b","), where)
                pretty, where = None, ""
        elif text.startswith(b"{"):
            yield from _json_record(text, where)
            where = ""


def _without_core(data: memoryview, start: int, end: int) -> tuple[bytes, str]:
    """A line without the core in it, and where that is; nothing of a line without end."""
    core = _CORE_IN_JSON.search(data, start, end)
    close = _ARRAY_END.search(data, core.end(), end) if core is not None else None
    if core is None or close is None:
        return (bytes(data[start:end]) if end - start < _LARGEST_LINE else b""), ""
    before, after = data[start : core.start()], data[close.end() : end]
    if len(before) + len(after) >= _LARGEST_LINE:
        return b"", ""
    line = bytes(before) + b'"COREDUMP":""' + bytes(after)
    return line, f"[{core.end()}+{close.start() - core.end()}"


def _json_record(text: bytes, where: str) -> Iterator[Fields]:
    if _MARK not in text:
        return
    core = _CORE_IN_JSON.search(text)
    if core is not None:  # over several lines; each of its bytes would become an object
        end = text.find(b"]", core.end())
        text = text[: core.start()] + b'"COREDUMP":""' + text[end + 1 :]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict) and found.get("MESSAGE_ID") == COREDUMP_MESSAGE:
        values = {str(name): _json_value(value) for name, value in found.items()}
        if "COREDUMP" in values:
            values["COREDUMP"] = EMBEDDED + where
        yield {name: value for name, value in values.items() if value is not None}


def _json_value(value: Any) -> str | None:
    """A string, an array of bytes, or several values of one field, of which the last counts."""
    if isinstance(value, str):
        return value[:_LARGEST_VALUE]
    if isinstance(value, list) and value:
        if all(isinstance(part, int) and 0 <= part < 256 for part in value):
            return bytes(value[:_LARGEST_VALUE]).decode("utf-8", "surrogateescape")
        return _json_value(value[-1])
    return str(value) if isinstance(value, int | float) else None


def _export_records(data: memoryview) -> Iterator[Fields]:
    fields: dict[str, str] = {}
    at, end = 0, len(data)
    while at < end:
        line, at = _line_at(data, at)
        if not line:
            if fields.get("MESSAGE_ID") == COREDUMP_MESSAGE:
                yield fields
            fields = {}
            continue
        name, equals, value = line.partition(b"=")
        where = ""
        if not equals and at + 8 <= end:
            size = int.from_bytes(data[at : at + 8], "little")
            if at + 8 + size > end:
                break
            where = f"@{at + 8}+{size}"
            value = bytes(data[at + 8 : at + 8 + min(size, _LARGEST_VALUE)])
            at += 8 + size + 1
        if len(fields) < _MAX_FIELDS:
            key = name.decode("ascii", "replace")
            is_core = key == "COREDUMP"
            fields[key] = EMBEDDED + where if is_core else value.decode("utf-8", "surrogateescape")
    if fields.get("MESSAGE_ID") == COREDUMP_MESSAGE:
        yield fields


def _lines(data: memoryview) -> Iterator[tuple[int, int]]:
    """Where each line begins and ends."""
    at = 0
    while at < len(data):
        found = _LINE_END.search(data, at)
        end = found.start() if found is not None else len(data)
        yield at, end
        at = end + 1


def _line_at(data: memoryview, at: int) -> tuple[bytes, int]:
    """The line that begins at `at`, cut at what is too long for one, and where the next begins."""
    held = b""
    step = 1 << 12
    position = at
    while position < len(data):
        piece = bytes(data[position : position + step])
        found = piece.find(b"\n")
        if found >= 0:
            return held + piece[:found], position + found + 1
        if len(held) < _LARGEST_LINE:
            held += piece
        position += len(piece)
        step = min(step * 2, 1 << 20)
    return held, len(data)
