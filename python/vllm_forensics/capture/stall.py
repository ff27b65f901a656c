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
_PATIENCE_S: Final = 30.0
"""No probe may take longer: while it is waited for, the program's end goes unnoticed."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """How a stall is noticed; tests bring their own."""

    clock: Callable[[], float] = time.monotonic
    tree: Callable[[int], Sequence[int]] = tree_of
    cpu: Callable[[Sequence[int]], float] = cpu_of_tree
    """Seconds of processor time; falls when a process ends."""
    written: Callable[[Sequence[int]], int] = lambda pids: sum(map(written_by, pids))
    """Bytes; falls when a process ends."""
    answers: Callable[[Sequence[str], float], bool] = lambda probe, limit: _answers(probe, limit)


class StallWatch:
    """Ask it about once a second; it speaks up once for each time that the program stalls."""

    def __init__(self, options: StallOptions, measures: Measures | None = None) -> None:
        """Nothing is measured before the first question."""
        self._options = options
        self._measures = measures or Measures()
        self._pids: tuple[int, ...] = ()
        self._cpu, self._written = 0.0, 0
        self._cpu_moved = self._output_moved = self._probed = self._measures.clock()
        self._answers = True
        self._told = False

    def look(self, root: int) -> Stall | None:
        """Has the tree below `root` stalled since the last look?"""
        now = self._measures.clock()
        try:
            pids = tuple(self._measures.tree(root))
        except ForensicsError:
            return None
        self._measure(pids, now)
        reason = self._reason(now)
        is_new = reason is not None and not self._told
        self._told = reason is not None
        return Stall(root=root, reason=reason) if reason is not None and is_new else None

    def _measure(self, pids: tuple[int, ...], now: float) -> None:
        cpu, written = self._measures.cpu(pids), self._measures.written(pids)
        if pids != self._pids:  # a process started or ended: that is getting on, and both sums jump
            self._pids = pids
            self._cpu_moved = self._output_moved = now
            self._cpu, self._written = cpu, written
        if cpu - self._cpu > _STILL_SHARE * max(now - self._cpu_moved, 0.1):
            self._cpu_moved, self._cpu = now, cpu
        if written != self._written:
            self._output_moved, self._written = now, written

    def _reason(self, now: float) -> str | None:
        limit = self._options.seconds
        if self._options.probe and now - self._probed >= limit:
            self._probed = now
            self._answers = self._measures.answers(self._options.probe, limit)
        if not self._answers:
            return f"the probe {self._options.probe[0]} failed"
        if now - self._cpu_moved >= limit:
            return f"no processor time for {limit:g} s"
        if now - self._output_moved >= limit:
            return f"no output for {limit:g} s"
        return None


def _answers(probe: Sequence[str], limit: float) -> bool:
    patience = Limits(timeout_s=min(max(limit, 1.0), _PATIENCE_S))
    try:
        return run_program(probe, limits=patience).status == 0
    except ForensicsError:
        return False


def written_by(pid: int) -> int:
    """Bytes that the process gave to write calls of any kind (proc_pid_io(5)); 0 if unreadable."""
    with contextlib.suppress(OSError):
        match = _WRITTEN.search(Path(f"/proc/{pid}/io").read_text(encoding="ascii"))
        return int(match.group(1)) if match else 0
    return 0
