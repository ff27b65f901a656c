"""Crashes in what coredumpctl prints for people, or as a list.

`coredumpctl info` and `list` name no field; they are read into the fields that they were made of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from vllm_forensics.evidence.journal_records import (
    COREDUMP_MESSAGE,
    EMBEDDED,
    MAX_RECORDS,
    Fields,
)

_INFO_LINE: Final = re.compile(r"^ *([A-Z][A-Za-z -]*[A-Za-z]): (.*)$")
_INFO_START: Final = re.compile(r"^ *PID: \d+ \(", re.MULTILINE)
_INFO_MORE: Final = re.compile(r"^ *Timestamp: ", re.MULTILINE)
_INFO_FIELDS: Final = {
    "Command Line": "COREDUMP_CMDLINE",
    "Executable": "COREDUMP_EXE",
    "Control Group": "COREDUMP_CGROUP",
    "Unit": "COREDUMP_UNIT",
    "User Unit": "COREDUMP_USER_UNIT",
    "Slice": "COREDUMP_SLICE",
    "Hostname": "COREDUMP_HOSTNAME",
    "Package": "COREDUMP_PACKAGE_NAME",
    "Container Command Line": "COREDUMP_CONTAINER_CMDLINE",
}
_NUMBERED: Final = {"UID": "COREDUMP_UID", "GID": "COREDUMP_GID", "Signal": "COREDUMP_SIGNAL"}
_STORAGE: Final = re.compile(r"(?P<path>/.*?)(?: \((?P<state>[a-z, ]+)\))?$")
_INFO_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC")
_ROW: Final = re.compile(
    r"^(?:[A-Z][a-z]{2} )?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<zone>\S+) +(?P<pid>\d+) +"
    r"(?P<uid>\d+) +(?P<gid>\d+) +(?P<signal>SIG[A-Z0-9+]+|\d+) +"
    r"(?P<state>present|missing|none|truncated|inaccessible|journal|error|-) +"
    r"(?P<exe>\S.{0,4096}?)"
    r"(?: +(?P<size>-|[0-9.]+[BKMGT]?))?$",
    re.MULTILINE,
)


def is_coredumpctl(head: bytes) -> bool:
    """Does a text begin like what coredumpctl prints, for people or as JSON?"""
    text = head.decode("utf-8", "replace")
    is_info = _INFO_START.search(text) is not None and _INFO_MORE.search(text) is not None
    if is_info or _ROW.search(text) is not None:
        return True
    return text.lstrip().startswith("[") and '"corefile"' in text


def parse_coredumpctl(text: str) -> Iterator[Fields]:
    """The records of systemd-coredump, as `info`, `list` or `list --json` tell them."""
    if text.lstrip().startswith("["):
        yield from _listed_json(text)
        return
    starts = [found.start() for found in _INFO_START.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        yield _info_record(text[start:end])
    if not starts:
        for _, row in zip(range(MAX_RECORDS), _ROW.finditer(text), strict=False):
            yield _row_record(row)


def _info_record(text: str) -> Fields:
    fields = {"MESSAGE_ID": COREDUMP_MESSAGE}
    head, _, message = text.partition("Message: ")
    for line in head.splitlines():
        found = _INFO_LINE.match(line)
        if found is None:
            continue
        name, value = found[1], found[2].strip()
        number, _, words = value.partition(" ")
        if name == "PID":
            fields |= {"COREDUMP_PID": number, "COREDUMP_COMM": words.strip("()")}
        elif name in _NUMBERED:
            fields[_NUMBERED[name]] = number
        elif name in _INFO_FIELDS:
            fields[_INFO_FIELDS[name]] = value
        elif name == "Timestamp" and (when := _INFO_TIME.search(value)) is not None:
            fields["COREDUMP_TIMESTAMP"] = _microseconds(when[1])
        elif name == "Storage":
            fields |= _storage(value)
    lines = (line.strip() for line in message.splitlines())
    return fields | {"MESSAGE": "\n".join(lines)}


def _storage(value: str) -> dict[str, str]:
    if value.startswith("journal"):
        return {"COREDUMP": EMBEDDED}
    found = _STORAGE.fullmatch(value)
    if found is None:
        return {}
    cut = {"COREDUMP_TRUNCATED": "1"} if "truncated" in (found["state"] or "") else {}
    return {"COREDUMP_FILENAME": found["path"]} | cut


def _row_record(row: re.Match[str]) -> Fields:
    fields = _listed(row["pid"], row["uid"], row["state"], row["exe"])
    if row["zone"] == "UTC":
        fields["COREDUMP_TIMESTAMP"] = _microseconds(row["time"])
    signal = row["signal"]
    return fields | {
        "COREDUMP_SIGNAL_NAME" if signal.startswith("S") else "COREDUMP_SIGNAL": signal
    }


def _listed_json(text: str) -> Iterator[Fields]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return
    for row in rows[:MAX_RECORDS] if isinstance(rows, list) else ():
        if isinstance(row, dict) and "pid" in row:
            words = (row.get("pid"), row.get("uid"), row.get("corefile"), row.get("exe"))
            fields = _listed(*(str(word) for word in words))
            fields["COREDUMP_TIMESTAMP"] = str(row.get("time"))
            yield fields | {"COREDUMP_SIGNAL": str(row.get("sig"))}


def _listed(pid: str, uid: str, state: str, program: str) -> dict[str, str]:
    """What a list says: not where a core lies, only that one is there."""
    fields = {"MESSAGE_ID": COREDUMP_MESSAGE, "COREDUMP_PID": pid, "COREDUMP_UID": uid}
    fields["COREDUMP_EXE"] = program
    if state in {"present", "truncated", "inaccessible", "missing", "error"}:
        fields["COREDUMP_FILENAME"] = ""
    if state == "truncated":
        fields["COREDUMP_TRUNCATED"] = "1"
    return fields | ({"COREDUMP": EMBEDDED} if state == "journal" else {})


def _microseconds(text: str) -> str:
    try:
        when = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return ""
    return str(int(when.timestamp()) * 1_000_000)
