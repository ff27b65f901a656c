"""What a connector moves beside the steps: its blocks must stay, and only it may write them."""

import pytest

from vllm_forensics.model.sandbox import (
    Parameters,
    Transfer,
    TransferKind,
    ViolationKind,
    WorkerStep,
    WorkItem,
)
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.workers import Workers


class Bench:
    """A recorder, workers for blocks of 16 tokens, and what they reported."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.workers = Workers(self.recorder, Parameters(gpu_blocks=20), {})
        self.found: list[tuple[ViolationKind, str | None, int | None]] = []

    def report(
        self, kind: ViolationKind, message: str, request: str | None, block: int | None
    ) -> None:
        assert message
        self.found.append((kind, request, block))

    def allocate(self, *blocks: int, request: str = "a") -> None:
        with self.recorder.working_for(request):
            for block in blocks:
                self.recorder.allocated("gpu", block)

    def step(self, *items: WorkItem, finished: tuple[str, ...] = ()) -> WorkerStep:
        self.recorder.step += 1
        step = WorkerStep(number=self.recorder.step, items=items, finished=finished)
        self.workers.execute(step, self.report)
        return step


def prompt(request: str, *blocks: int, start: int = 0) -> WorkItem:
    return WorkItem(
        sequence=request,
        request=request,
        start=start,
        tokens=len(blocks) * 16 - start,
        blocks=blocks,
        replaces=True,
    )


def transfer(kind: TransferKind, request: str, *blocks: int) -> Transfer:
    return Transfer(kind=kind, request=request, blocks=blocks, first=0)


def test_a_request_may_read_what_was_loaded_for_it() -> None:
    bench = Bench()
    bench.allocate(1, 2)
    load = transfer(TransferKind.LOAD, "a", 1)

    bench.workers.begin(load, bench.report)
    bench.step()
    bench.workers.end(load, bench.report)
    bench.step(prompt("a", 1, 2, start=16))

    assert bench.found == []


def test_what_is_read_before_it_was_loaded_is_not_what_it_should_be() -> None:
    bench = Bench()
    bench.allocate(1, 2)
    bench.workers.begin(transfer(TransferKind.LOAD, "a", 1), bench.report)

    bench.step(prompt("a", 1, 2, start=16))

    assert bench.found == [(ViolationKind.WRONG_CONTENT, "a", 1)]


@pytest.mark.parametrize("kind", TransferKind)
def test_blocks_that_are_given_back_while_a_transfer_goes_on_are_named(kind: TransferKind) -> None:
    bench = Bench()
    bench.allocate(1)
    moving = transfer(kind, "a", 1)
    bench.workers.begin(moving, bench.report)

    bench.recorder.freed("gpu", 1, 0)
    bench.allocate(1, request="b")
    bench.workers.end(moving, bench.report)

    assert bench.found == [(ViolationKind.USE_AFTER_FREE, "a", 1)]


def test_a_load_into_a_block_that_a_step_in_flight_writes_is_two_writers() -> None:
    bench = Bench()
    bench.allocate(1)
    step = bench.step(prompt("a", 1))
    bench.recorder.freed("gpu", 1, 0)
    bench.allocate(1, request="b")
    load = transfer(TransferKind.LOAD, "b", 1)

    bench.workers.begin(load, bench.report)
    in_flight = list(bench.found)
    bench.found.clear()
    bench.workers.completed(step)
    bench.workers.begin(load, bench.report)

    assert in_flight == [(ViolationKind.TWO_WRITERS, "b", 1)]
    assert bench.found == []


def test_a_step_that_writes_what_is_being_loaded_is_two_writers() -> None:
    bench = Bench()
    bench.allocate(1)
    bench.workers.begin(transfer(TransferKind.LOAD, "a", 1), bench.report)

    bench.step(prompt("b", 1))

    assert bench.found == [(ViolationKind.TWO_WRITERS, "b", 1)]


def test_two_groups_of_layers_must_not_have_one_block() -> None:
    bench = Bench()
    bench.workers = Workers(
        bench.recorder, Parameters(gpu_blocks=20, hybrid=True, sliding_window=32), {}
    )
    bench.allocate(1)
    bench.recorder.step += 1
    items = (prompt("a", 1),)

    step = WorkerStep(number=0, items=items, further=((prompt("a", 1),),))
    bench.workers.execute(step, bench.report)

    assert bench.found == [(ViolationKind.TWO_WRITERS, "a", 1)]
