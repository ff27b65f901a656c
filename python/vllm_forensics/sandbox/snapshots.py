"""Which states of a run are kept, and how many of them memory can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vllm_forensics.model.sandbox import Parameters, Snapshot
from vllm_forensics.sandbox.recorder import Recorder, StepSeen

_MOST: Final = 8_000_000
"""Blocks in all snapshots together, about 100 MB: 80,000 states of a pool of 100 blocks."""

_CHEAP: Final = 1000
"""Blocks of a pool whose state may be taken after each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsWanted:
    """After which steps the whole state is taken."""

    steps: frozenset[int] = frozenset()
    every: int | None = None
    at_end: bool = False

    def holds(self, step: int) -> bool:
        """Whether a snapshot of this step is wanted."""
        return step in self.steps or (self.every is not None and step % self.every == 0)


def affordable(parameters: Parameters) -> SnapshotsWanted:
    """The state after every step, to be compared; none of a pool that is large."""
    blocks = parameters.gpu_blocks + parameters.cpu_blocks
    return SnapshotsWanted(every=1 if blocks <= _CHEAP else None)


class SnapshotKeeper:
    """Takes the states that are wanted, hands each on, and counts those that are too many."""

    def __init__(self, wanted: SnapshotsWanted, take: Callable[[Snapshot], None]) -> None:
        """`take` gets each snapshot that is kept."""
        self.unkept = 0
        self._wanted = wanted
        self._take = take
        self._blocks = 0
        self._last: int | None = None

    def watch(self, recorder: Recorder) -> None:
        """Be told of each step of a run, and of its end."""
        recorder.on_step.append(self._step_seen)
        recorder.on_end.append(self._ended)

    def _step_seen(self, seen: StepSeen) -> None:
        if self._wanted.holds(seen.step.number):
            self._last = seen.step.number
            if self._blocks >= _MOST:
                self.unkept += 1
            else:
                self._keep(seen.snapshot())

    def _ended(self, snapshot: Snapshot) -> None:
        """Also where the step that it died in is one that was asked for."""
        asked = self._wanted.at_end or self._wanted.holds(snapshot.step)
        if asked and snapshot.step != self._last:
            self._keep(snapshot)

    def _keep(self, snapshot: Snapshot) -> None:
        self._blocks += sum(pool.total for pool in snapshot.pools)
        self._take(snapshot)
