"""Notices that a supervised tree does not get on: no output, no processor time, a dead probe."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vllm_forensics.capture.live import cpu_of_tree, tree_of
from vllm_forensics.capture.process import Limits, run_program
from vllm_forensics.errors import ForensicsError

_STILL_SHARE: Final = 0.01
"""Less than this of one processor counts as doing nothing: timers and heartbeats go on."""
_WRITTEN: Final = re.compile(r"^wchar: (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallOptions:
    """When a program counts as stalled."""

    seconds: float
    """So long without output, or without processor time; and how often the probe is asked."""
    probe: tuple[str, ...] = ()
    """A command that fails when the program does not answer; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """What was missed, in words."""

    root: int
    reason: str


class StallWatch:
    """Ask it about once a second; it speaks up once for each time that the program stalls."""

    def __init__(self, options: StallOptions, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is measured before the first question."""
        self._options = options
        self._clock = clock
        self._cpu = self._written = -1.0
        self._cpu_moved = self._output_moved = self._probed = clock()
        self._told = False

    def look(self, root: int) -> Stall | None:
        """Has the tree below `root` stalled since the last look?"""
        now = self._clock()
        try:
            pids = tree_of(root)
        except ForensicsError:
            return None
        self._measure(pids, now)
        reason = self._reason(now)
        if reason is None:
            self._told = False
            return None
        if self._told:
            return None
        self._told = True
        return Stall(root=root, reason=reason)

    def _measure(self, pids: Sequence[int], now: float) -> None:
        cpu, written = cpu_of_tree(pids), float(sum(_written_by(pid) for pid in pids))
        if self._cpu < 0 or cpu - self._cpu > _STILL_SHARE * max(now - self._cpu_moved, 0.1):
            self._cpu_moved = now
            self._cpu = cpu
        if written != self._written:
            self._output_moved = now
            self._written = written

    def _reason(self, now: float) -> str | None:
        limit = self._options.seconds
        if self._options.probe and now - self._probed >= limit:
            self._probed = now
            if not _answers(self._options.probe, limit):
                return f"the probe {self._options.probe[0]} failed"
        if now - self._cpu_moved >= limit:
            return f"no processor time for {limit:g} s"
        if now - self._output_moved >= limit:
            return f"no output for {limit:g} s"
        return None


def _answers(probe: Sequence[str], limit: float) -> bool:
    try:
        return run_program(probe, limits=Limits(timeout_s=max(limit, 1.0))).status == 0
    except ForensicsError:
        return False


def _written_by(pid: int) -> int:
    """Bytes that the process gave to write calls of any kind (proc_pid_io(5))."""
    with contextlib.suppress(OSError):
        match = _WRITTEN.search(Path(f"/proc/{pid}/io").read_text(encoding="ascii"))
        return int(match.group(1)) if match else 0
    return 0
