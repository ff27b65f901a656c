"""Puts a recording together: from a run while it runs, or line by line from a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vllm_forensics.model.event import Event, EventKind
from vllm_forensics.model.sandbox import SandboxRun, Snapshot
from vllm_forensics.model.sandbox_recording import RecordedStep, Recording, Scheduled
from vllm_forensics.sandbox.recorder import Recorder, StepSeen
from vllm_forensics.sandbox.snapshots import SnapshotKeeper, SnapshotsWanted

MOST_EVENTS: Final = 1_000_000
"""Of one recording in memory, about 400 bytes each."""
MOST_STEPS: Final = 1_000_000


class Collector:
    """Steps, the events in them, and snapshots, in any order; ended by `built`."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self._events: dict[int, list[Event]] = defaultdict(list)
        self._steps: dict[int, RecordedStep] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._count = 0
        self._last = -1
        self.lost = 0
        """Events and steps that were one too many."""

    def watch(self, recorder: Recorder, snapshots: SnapshotsWanted) -> SnapshotKeeper:
        """Be told of all steps of a run; the recorder's sink is this object's business too."""
        recorder.on_step.append(self._step_seen)
        keeper = SnapshotKeeper(snapshots, self.snapshot)
        keeper.watch(recorder)
        return keeper

    def write(self, event: Event) -> None:
        """Take one event; uses decide nothing and are left out."""
        if event.kind is EventKind.USE:
            return
        if self._count >= MOST_EVENTS:
            self.lost += 1
            return
        self._count += 1
        number = self._last + 1 if event.step is None else event.step
        self._events[number].append(event)

    def step(self, step: RecordedStep) -> None:
        """Take one step; its events are told apart."""
        if len(self._steps) >= MOST_STEPS:
            self.lost += 1
            return
        self._steps[step.number] = step
        self._last = max(self._last, step.number)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take the state after one step."""
        self._snapshots[snapshot.step] = snapshot

    def _step_seen(self, seen: StepSeen) -> None:
        record = seen.record
        self.step(
            RecordedStep(
                number=seen.step.number,
                scheduled=tuple(
                    Scheduled(
                        request=item.request,
                        sequence=item.sequence,
                        start=item.start,
                        tokens=item.tokens,
                    )
                    for item in seen.step.items
                ),
                preempted=seen.step.preempted,
                finished=seen.done.finished,
                refused=seen.done.refused,
                queues=(record.running, record.waiting, record.swapped),
            )
        )

    def built(self) -> tuple[RecordedStep, ...]:
        """All steps in order; one of which only events are known did not come to its end."""
        told = bool(self._steps)
        numbers = sorted(self._steps.keys() | self._events.keys() | self._snapshots.keys())
        return tuple(
            replace(
                self._steps.get(number, RecordedStep(number=number, completed=not told)),
                events=tuple(self._events.get(number, ())),
                snapshot=self._snapshots.get(number),
            )
            for number in numbers
        )


def recorded(
    drive: Callable[[Recorder], SandboxRun],
    name: str,
    snapshots: SnapshotsWanted | None = None,
) -> tuple[Recording, SandboxRun]:
    """Drive a run and keep all of its steps."""
    collector = Collector()
    recorder = Recorder(collector, kept=1000 if snapshots is None else 100_000)
    collector.watch(recorder, snapshots or SnapshotsWanted())
    result = drive(recorder)
    lost = (f"{collector.lost:,} events were too many to keep",) if collector.lost else ()
    return Recording(
        name=name,
        engine=result.engine,
        version=result.tree.version if result.tree else None,
        parameters=result.parameters,
        load=result.load,
        steps=collector.built(),
        outcome=result.outcome,
        error=result.error,
        why=result.why,
        findings=tuple(sorted({violation.kind.value for violation in result.violations})),
        gaps=lost,
    ), result
