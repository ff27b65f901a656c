"""The supervisor's JSON lines: what it saw of each process, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vllm_forensics.model.run import FaultRecord, ProcessRecord, SupervisedRun


def parse_supervisor_log(text: str) -> SupervisedRun:
    """Read all lines that are whole; a line that is cut off or foreign is passed over."""
    processes: dict[int, ProcessRecord] = {}
    faults: list[FaultRecord] = []
    cores: list[str] = []
    snapshots: list[tuple[int, str]] = []
    errors: list[str] = []
    oom_kills: int | None = None
    for event in _events(text):
        pid = _number(event.get("pid")) or 0
        kind = event["event"]
        if kind in {"start", "exec"}:
            known = processes.get(pid)
            parent = _number(event.get("parent"))
            processes[pid] = ProcessRecord(
                pid=pid,
                parent=parent if parent is not None else known.parent if known else None,
                command=_word(event.get("command")) or (known.command if known else None),
                exit=None,
            )
        elif kind == "exit":
            known = processes.get(pid)
            processes[pid] = ProcessRecord(
                pid=pid,
                parent=known.parent if known else None,
                command=known.command if known else None,
                exit=_exit(event),
            )
            before, after = (
                _number(event.get(f"oom_kills_{when}")) for when in ("before", "after")
            )
            if before is not None and after is not None:
                oom_kills = max(oom_kills or 0, after - before)
        elif kind == "fault":
            faults.append(_fault(event, pid))
        elif kind == "core" and isinstance(event.get("path"), str):
            cores.append(event["path"])
        elif kind == "snapshot" and isinstance(event.get("path"), str):
            snapshots.append((pid, event["path"]))
        elif kind == "error" and isinstance(event.get("message"), str):
            errors.append(event["message"])
    return SupervisedRun(
        processes=tuple(processes.values()),
        faults=tuple(faults),
        cores=tuple(dict.fromkeys(cores)),
        snapshots=tuple(snapshots),
        oom_kills=oom_kills,
        errors=tuple(errors),
    )


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event


def _fault(event: dict[str, Any], pid: int) -> FaultRecord:
    address = event.get("address")
    return FaultRecord(
        pid=pid,
        tid=_number(event.get("tid")) or pid,
        signal=_number(event.get("signo")) or 0,
        code=_number(event.get("code")) or 0,
        address=_hex(address),
        handled=event.get("handled") is True,
    )


def _exit(event: dict[str, Any]) -> int | None:
    signal = _number(event.get("signal"))
    return -signal if signal is not None else _number(event.get("status"))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _hex(value: object) -> int | None:
    try:
        return int(value, 16) if isinstance(value, str) else None
    except ValueError:
        return None
