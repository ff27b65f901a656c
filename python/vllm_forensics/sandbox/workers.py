"""All that touches blocks beside the scheduler: a shadow worker a group of layers, and transfers.

Steps are executed in the order in which they were scheduled, also while earlier ones are still in
flight: that is how a GPU's stream works. A connector's transfer is in no such order. What it
writes must not be written by a step that is in flight, and what it reads must stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import replace

from vllm_forensics.model.sandbox import (
    Parameters,
    Transfer,
    TransferKind,
    ViolationKind,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.engine.interface import GPU, Engine
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.shadow_worker import Report, ShadowWorker


class Workers:
    """What is told of each step goes to every group's worker."""

    def __init__(
        self, recorder: Recorder, parameters: Parameters, prefixes: Mapping[str, int] | None
    ) -> None:
        """Watch `recorder`'s pool on the GPU; `prefixes`: as the shadow worker takes them."""
        self._recorder = recorder
        self._groups = tuple(
            ShadowWorker(
                recorder,
                block_size=parameters.block_size,
                window=window,
                total=parameters.gpu_blocks,
                prefixes=prefixes,
            )
            for window in parameters.windows()
        )
        self._in_flight: deque[tuple[int, Mapping[int, WorkItem]]] = deque()
        """By number of the step: the blocks that it writes."""
        self._loading: dict[int, WorkItem] = {}
        """By block, what is on its way into it, as if a sequence wrote it."""
        self._lives: dict[tuple[TransferKind, str], tuple[int, ...]] = {}
        """Of each transfer: the generations of its blocks when it began."""

    def execute(self, step: WorkerStep, report: Report) -> None:
        """Run one step; report each access that must not be."""
        writers = dict(self._loading)
        self._groups[0].execute(step, report, writers)
        for worker, items in zip(self._groups[1:], step.further, strict=True):
            only = replace(step, items=items, swapped_in=(), swapped_out=(), copies=())
            worker.execute(only, report, writers)
        if self._loading:  # a transfer is no part of the step
            writers = {b: item for b, item in writers.items() if item is not self._loading.get(b)}
        self._in_flight.append((step.number, writers))
        for transfer in step.transfers:
            self.begin(transfer, report)

    def check_tables(self, step: WorkerStep, engine: Engine, report: Report) -> None:
        """Compare the tables of what was scheduled with the engine's own."""
        self._groups[0].check_tables(step.items, engine, report)
        for group, items in enumerate(step.further, 1):
            self._groups[group].check_tables(items, engine, report, group)

    def completed(self, step: WorkerStep) -> None:
        """What this step and those before it wrote is there: they are in flight no more."""
        while self._in_flight and self._in_flight[0][0] <= step.number:
            self._in_flight.popleft()

    def begin(self, transfer: Transfer, report: Report) -> None:
        """A connector starts to read or write blocks."""
        generations = self._recorder.generations[GPU]
        self._lives[transfer.kind, transfer.request] = tuple(
            generations.get(block, 0) for block in transfer.blocks
        )
        self._require_held(transfer, "begins", report)
        if transfer.kind is TransferKind.SEND:
            return
        load = WorkItem(
            sequence=f"the load of {transfer.request}",
            request=transfer.request,
            start=0,
            tokens=0,
            blocks=(),
            replaces=False,
        )
        for block in transfer.blocks:
            self._loading[block] = load
            for number, writers in self._in_flight:
                other = writers.get(block)
                if other is not None and other is not load:
                    report(
                        ViolationKind.TWO_WRITERS,
                        f"a load for request {transfer.request} writes block {block}, which "
                        f"{other.sequence} still writes in step {number}, in flight",
                        transfer.request,
                        block,
                    )

    def end(self, transfer: Transfer, report: Report) -> None:
        """A connector is done with its blocks."""
        self._require_held(transfer, "goes on", report)
        self._lives.pop((transfer.kind, transfer.request), None)
        if transfer.kind is TransferKind.LOAD:
            for place, block in enumerate(transfer.blocks, transfer.first):
                self._loading.pop(block, None)
                self._recorder.used(GPU, block, transfer.request)
                self._groups[0].loaded(transfer.request, block, place)

    def state(self) -> Hashable:
        """All that they know of tables, blocks and transfers."""
        return tuple(worker.state() for worker in self._groups), frozenset(self._loading)

    def _require_held(self, transfer: Transfer, when: str, report: Report) -> None:
        lives = self._lives.get((transfer.kind, transfer.request), ())
        generations = self._recorder.generations[GPU]
        for block, life in zip(transfer.blocks, lives, strict=True):
            if not self._recorder.alive(GPU, block) or generations.get(block, 0) != life:
                self._recorder.used(GPU, block, transfer.request)
                verb = "writes" if transfer.kind is TransferKind.LOAD else "reads"
                report(
                    ViolationKind.USE_AFTER_FREE,
                    f"a transfer of request {transfer.request} {when} and {verb} block {block}, "
                    f"which was freed",
                    transfer.request,
                    block,
                )
