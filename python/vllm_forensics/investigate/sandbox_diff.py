"""Two runs, recorded or driven now, and where they part."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vllm_forensics.errors import UsageError
from vllm_forensics.investigate.sandbox import Prepared, Wanted, prepared
from vllm_forensics.model.sandbox_diff import SandboxDiff
from vllm_forensics.model.sandbox_recording import Origin, Recording
from vllm_forensics.sandbox.collector import recorded
from vllm_forensics.sandbox.compare import compare
from vllm_forensics.sandbox.log_replay import compare_with_log
from vllm_forensics.sandbox.snapshots import SnapshotsWanted, affordable

_TWICE_EVENTS: Final = 300_000
"""Beyond that a run takes long, and is not driven once more for the state before the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One side: a recording, or what to drive."""

    name: str
    recording: Recording | None = None
    wanted: Wanted | None = None


def compare_scenarios(
    left: Scenario, right: Scenario, *, on_fetch: Callable[[str], None]
) -> SandboxDiff:
    """Where and why the two part.

    Raises:
        UsageError: a scenario cannot be driven, or B is a log.
        ToolError: a vLLM could not be fetched.
        UnmodelledError: a vLLM asked for something that the sandbox does not stand in for.

    """
    if right.recording is not None and right.recording.origin is Origin.LOG:
        raise UsageError(
            f"{right.name} is a log: it is compared with a run",
            remedy=f"forensics sandbox replay {shlex.quote(right.name)}",
        )
    sides = [_Driven(scenario, on_fetch) for scenario in (left, right)]
    if sides[0].recording.origin is Origin.LOG:
        return compare_with_log(sides[0].recording, sides[1].recording)
    found = compare(sides[0].recording, sides[1].recording)
    apart = found.first or found.order
    if apart is None or not any(side.can_repeat for side in sides):
        return found
    # The same run once more, with the state before the step in which they part.
    before = SnapshotsWanted(steps=frozenset({apart.step - 1}))
    return compare(sides[0].again(before), sides[1].again(before))


class _Driven:
    """A scenario, driven where it is not recorded already."""

    def __init__(self, scenario: Scenario, on_fetch: Callable[[str], None]) -> None:
        self._name = scenario.name
        self._ready: Prepared | None = None
        if scenario.recording is not None:
            self.recording = scenario.recording
            self.can_repeat = False
            return
        if scenario.wanted is None:
            raise UsageError("there is nothing to compare", remedy="give two runs")
        self._ready = prepared(scenario.wanted, on_fetch=on_fetch)
        states = affordable(self._ready.parameters)
        self.recording, result = recorded(self._ready.drive, self._name, states)
        self.can_repeat = states.every is None and result.events <= _TWICE_EVENTS

    def again(self, snapshots: SnapshotsWanted) -> Recording:
        """The same recording with snapshots, where it can be driven."""
        if self._ready is None or not self.can_repeat:
            return self.recording
        return recorded(self._ready.drive, self._name, snapshots)[0]
