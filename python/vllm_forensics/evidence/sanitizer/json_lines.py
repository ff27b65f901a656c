"""What a logger that writes JSON says in a line: its message, its exception, its process.

Sources: Docker's json-file driver, Kubernetes' and journald's exporters, python-json-logger,
structlog, Loguru (`serialize=True`), the Elastic Common Schema, zap, Bunyan and pino, MongoDB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

_MESSAGES: Final = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "event")
_STREAMS: Final = ("pod", "pod_name", "container", "container_name", "_PID")
_PIDS: Final = ("pid", "process", "process_id", "processId")
"""Each is the writer's number, or as in Elastic's and Loguru's an object that holds it."""
_NAMES: Final = ("processName", "process_name")
_NAME: Final = re.compile(r"(?!MainProcess)[\w.:-]{1,60}")
"""multiprocessing calls so whatever it did not start."""
_STACKS: Final = (
    *("exc_info", "exception", "exc_text", "traceback", "stack_trace", "stacktrace"),
    *("error.stack_trace", "stack"),
)
_ERRORS: Final = ("error", "err", "exception")
"""Objects that hold a stack."""
_MAX_PID: Final = 999_999_999


def from_json(text: str) -> tuple[str, str] | None:
    """The stream that a line of JSON names, and what it says; None where it says nothing.

    An exception that a logger puts beside the message stands below it.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    inner = record.get("record")
    if isinstance(inner, dict) and isinstance(whole := record.get("text"), str):  # Loguru's
        return " ".join(("json", *_writer(inner))), whole
    for key in _MESSAGES:
        value = record.get(key)
        if isinstance(value, str):
            value = _with_attributes(value, record.get("attr"))
            names = [str(record[name]) for name in _STREAMS if name in record]
            stream = " ".join(("json", *names, *_writer(record)))
            return stream, "\n".join((value.rstrip("\n"), *_stacks(record, value)))
    return None


def _writer(record: dict[str, object]) -> Iterator[str]:
    """The process that wrote the line, as a prefix would name it."""
    for key in _PIDS:
        told = record.get(key)
        named = told if isinstance(told, dict) else record
        pid = (told.get("pid") or told.get("id")) if isinstance(told, dict) else told
        if isinstance(pid, str) and pid.isascii() and pid.isdecimal() and len(pid) < 10:
            pid = int(pid)
        if type(pid) is int and 0 < pid <= _MAX_PID:
            names = (*_NAMES, "name") if named is told else _NAMES
            name = next((one for key in names if isinstance(one := named.get(key), str)), "")
            yield f"[{name} pid={pid}]" if _NAME.fullmatch(name) else f"[pid={pid}]"
            return


def _stacks(record: dict[str, object], message: str) -> Iterator[str]:
    """What stands beside the message of the exception that was raised."""
    holders = [record, *(one for key in _ERRORS if isinstance(one := record.get(key), dict))]
    for holder in holders:
        for key in _STACKS:
            stack = holder.get(key)
            if isinstance(stack, str) and "\n" in stack and stack not in message:
                yield stack
                return


def _with_attributes(message: str, attributes: object) -> str:
    """MongoDB tells what it has to say beside the message, and the frames of a stack too."""
    if not isinstance(attributes, dict):
        return message
    frame = attributes.get("frame")
    if isinstance(frame, dict):
        return f"    @ 0x{frame.get('a', 0)} {frame.get('C') or frame.get('s') or '(unknown)'}"
    if isinstance(stack := attributes.get("bt"), dict) and "backtrace" in stack:
        return json.dumps({"backtrace": stack["backtrace"]}, separators=(",", ":"))
    if isinstance(attributes.get("file"), str) and isinstance(attributes.get("line"), int):
        what = attributes.get("expr") or attributes.get("msgid") or ""
        return f"{message} {what} {attributes['file']} {attributes['line']}"
    told = attributes.get("message")
    return told.rstrip() if isinstance(told, str) else message
