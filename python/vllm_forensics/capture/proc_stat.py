"""The kernel's line about a process or thread: /proc/PID/stat, see proc_pid_stat(5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PARENT: Final = 1
USER_TICKS: Final = 11
SYSTEM_TICKS: Final = 12
START_TICKS: Final = 19
"""Where these stand among the fields behind the name, which are counted from nought."""


def stat_fields(folder: Path) -> list[str] | None:
    """The fields behind the name, which may hold spaces and parentheses itself; None: it is gone.

    Args:
        folder: `/proc/PID`, or that of a thread.

    """
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > START_TICKS else None
