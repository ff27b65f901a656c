"""The processes of an incident: roles, parents, last signs of life, ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.clues import subject_pid
from vllm_forensics.diagnosis.incident.roles import (
    role_of_clue,
    role_of_frames,
    role_of_name,
)
from vllm_forensics.model.incident import (
    Clue,
    ClueKind,
    Death,
    IncidentProcess,
    IncidentReading,
    ProcessRole,
    SeenProcess,
)

MAX_PROCESSES: Final = 64
"""More are not told one by one."""


def processes_of(
    reading: IncidentReading, death: Death, clues: Sequence[Clue]
) -> tuple[IncidentProcess, ...]:
    """Every process that the log names, the dead one first."""
    seen = {one.pid: one for one in reading.processes}
    pids = dict.fromkeys(
        [death.pid, *(one.pid for one in reading.processes), *(subject_pid(one) for one in clues)]
    )
    found = [
        _dead(
            death,
            _parent(death.pid, clues),
            seen[death.pid].last_time if death.pid in seen else None,
        )
    ]
    unsigned = _by_role(reading.processes, clues)
    for pid in pids:
        if pid is None or pid == death.pid or len(found) >= MAX_PROCESSES:
            continue
        about = [clue for clue in clues if subject_pid(clue) == pid]
        name = seen[pid].name if pid in seen else None
        name = name or next((clue.name for clue in about if clue.name), None)
        role = role_of_name(name) or next(
            (one for clue in about if (one := role_of_clue(clue))), None
        )
        times = [clue.time for clue in about if clue.time]
        found.append(
            IncidentProcess(
                pid=pid,
                name=name,
                role=role or ProcessRole.UNKNOWN,
                parent=_parent(pid, clues),
                last_seen=(seen[pid].last_time if pid in seen else None)
                or next(reversed(times), None),
                end=_end(_final(about, seen.get(pid), death)) or _end(unsigned.get(pid, ())),
            )
        )
    return tuple(found)


def _dead(death: Death, parent: int | None, last_seen: str | None) -> IncidentProcess:
    end = death.signal or (f"exit {death.exit}" if death.exit is not None else None)
    return IncidentProcess(
        pid=death.pid,
        name=death.name,
        role=death.role,
        parent=parent,
        last_seen=last_seen or death.time,
        end=end or death.cause.detail,
    )


def _parent(pid: int | None, clues: Sequence[Clue]) -> int | None:
    """Who told of its end: runtimes that start processes tell of their own children only."""
    if pid is None:
        return None
    return next(
        (
            clue.writer_pid
            for clue in clues
            if clue.kind is ClueKind.CHILD
            and clue.pid == pid
            and clue.source in {"vllm", "the Python parent"}
            and clue.writer_pid not in {None, pid}
        ),
        None,
    )


def _by_role(
    processes: Sequence[SeenProcess], clues: Sequence[Clue]
) -> dict[int | None, tuple[Clue, ...]]:
    """Errors without a prefix, whose frames only one of the processes can have.

    Python prints a client's last traceback below the engine's log, and no logger signs it.
    """
    pids: dict[ProcessRole, set[int | None]] = {}
    for one in processes:
        if (role := role_of_name(one.name)) is not None:
            pids.setdefault(role, set()).add(one.pid)
    found: dict[int | None, tuple[Clue, ...]] = {}
    for clue in clues:
        role = role_of_frames(clue.python)
        owners = pids.get(role, set()) if role is not None else set()
        if subject_pid(clue) is None and clue.writer is None and len(owners) == 1:
            [pid] = owners
            found[pid] = (*found.get(pid, ()), clue)
    return found


def _final(about: Sequence[Clue], seen: SeenProcess | None, death: Death) -> list[Clue]:
    """Without the exceptions that it lived on after: the first death came later than they."""
    died = death.evidence[0].line if death.evidence else 0
    lived = seen is not None and seen.last_line > died
    return [
        clue
        for clue in about
        if not (lived and clue.kind is ClueKind.EXCEPTION and clue.line < died)
    ]


def _end(about: Sequence[Clue]) -> str | None:
    for clue in about:
        if clue.signal is not None:
            return clue.signal
        if clue.exit is not None:
            return f"exit {clue.exit}"
    return next((clue.detail for clue in about if clue.kind is not ClueKind.CHILD), None)
