"""Every access that must not be is named, and none that may be."""

import pytest

from vllm_forensics.model.event import EventKind
from vllm_forensics.model.sandbox import ViolationKind, WorkerStep, WorkItem
from vllm_forensics.sandbox.recorder import Recorder
from vllm_forensics.sandbox.shadow_worker import ShadowWorker


class Bench:
    """A recorder, a worker of 16-token blocks, and what it reported."""

    def __init__(self, window: int | None = None, prefixes: dict[str, int] | None = None) -> None:
        self.recorder = Recorder()
        self.worker = ShadowWorker(
            self.recorder, block_size=16, window=window, total=20, prefixes=prefixes
        )
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

    def step(self, *items: WorkItem, **more: tuple[str, ...]) -> None:
        self.recorder.step += 1
        step = WorkerStep(number=self.recorder.step, items=items, **more)  # type: ignore[arg-type]
        self.worker.execute(step, self.report)

    def move(self, **pairs: tuple[tuple[int, int], ...]) -> None:
        self.recorder.step += 1
        step = WorkerStep(number=self.recorder.step, **pairs)  # type: ignore[arg-type]
        self.worker.execute(step, self.report)


def item(
    request: str, start: int, count: int, *blocks: int, replaces: bool = False, sequence: str = ""
) -> WorkItem:
    return WorkItem(
        sequence=sequence or request,
        request=request,
        start=start,
        tokens=count,
        blocks=blocks,
        replaces=replaces,
    )


def test_a_prompt_and_its_tokens_are_no_fault() -> None:
    bench = Bench()
    bench.allocate(1, 2)

    bench.step(item("a", 0, 30, 1, 2, replaces=True))
    bench.step(item("a", 30, 1))
    bench.allocate(3)
    bench.step(item("a", 32, 1, 3))

    assert bench.found == []


def test_a_block_that_was_freed_under_a_running_request_is_found_at_its_next_use() -> None:
    bench = Bench()
    bench.allocate(1, 2)
    bench.step(item("a", 0, 30, 1, 2, replaces=True))

    bench.recorder.freed("gpu", 1, 0)
    bench.step(item("a", 30, 1))

    assert bench.found == [(ViolationKind.USE_AFTER_FREE, "a", 1)]


def test_a_freed_block_that_somebody_else_has_now_is_found_for_the_one_that_lost_it() -> None:
    bench = Bench()
    bench.allocate(1)
    bench.step(item("a", 0, 10, 1, replaces=True))

    bench.recorder.freed("gpu", 1, 0)
    bench.allocate(1, request="b")
    bench.step(item("b", 0, 10, 1, replaces=True))
    before = list(bench.found)
    bench.step(item("a", 10, 1))

    assert before == []
    assert (ViolationKind.USE_AFTER_FREE, "a", 1) in bench.found


def test_a_preempted_request_that_comes_back_with_a_new_table_is_no_fault() -> None:
    bench = Bench()
    bench.allocate(1)
    bench.step(item("a", 0, 10, 1, replaces=True))

    bench.recorder.freed("gpu", 1, 0)
    bench.allocate(2)
    bench.step(item("a", 0, 11, 2, replaces=True))

    assert bench.found == []


def test_a_block_outside_of_the_window_may_be_freed_and_one_inside_may_not() -> None:
    bench = Bench(window=32)
    bench.allocate(1, 2, 3, 4)
    bench.step(item("a", 0, 60, 1, 2, 3, 4, replaces=True))

    bench.recorder.freed("gpu", 1, 0)
    bench.step(item("a", 60, 1))
    outside = list(bench.found)
    bench.recorder.freed("gpu", 2, 0)
    bench.step(item("a", 61, 1))

    assert outside == []
    assert bench.found == [(ViolationKind.USE_AFTER_FREE, "a", 2)]


def test_a_shared_block_may_be_read_by_two_and_written_by_none_of_them() -> None:
    bench = Bench()
    bench.allocate(1, 2)
    bench.step(item("a", 0, 20, 1, 2, replaces=True))
    with bench.recorder.working_for("b"):
        bench.recorder.joined(EventKind.TOUCH, "gpu", 1, 2)
    bench.allocate(3, request="b")

    bench.step(item("b", 16, 4, 1, 3, replaces=True))
    reading = list(bench.found)
    bench.step(item("b", 15, 1))

    assert reading == []
    assert bench.found == [(ViolationKind.ALIASED_BLOCK, "b", 1)]


def test_a_block_may_be_found_in_the_cache_in_the_step_in_which_it_is_computed() -> None:
    bench = Bench()
    bench.allocate(1, 2)
    with bench.recorder.working_for("b"):
        bench.recorder.joined(EventKind.TOUCH, "gpu", 1, 2)
    bench.allocate(3, request="b")

    bench.step(item("a", 0, 20, 1, 2, replaces=True), item("b", 16, 4, 1, 3, replaces=True))

    assert bench.found == []


def test_a_block_that_is_found_must_hold_what_it_is_found_for() -> None:
    bench = Bench(prefixes={"a": 16, "b": 16})
    bench.allocate(1, 2)
    bench.step(item("a", 0, 32, 1, 2, replaces=True))
    for block in (1, 2):
        bench.recorder.freed("gpu", block, 0)
        with bench.recorder.working_for("b"):
            bench.recorder.joined(EventKind.TOUCH, "gpu", block, 1)
    bench.allocate(3, request="b")

    bench.step(item("b", 32, 4, 1, 2, 3, replaces=True), finished=("a",))

    # The first 16 tokens are the same in both; the next are not.
    assert bench.found == [(ViolationKind.WRONG_CONTENT, "b", 2)]


@pytest.mark.parametrize(("last", "found"), [(31, []), (30, [ViolationKind.WRONG_CONTENT])])
def test_a_block_is_there_to_be_found_once_its_last_token_is_written(
    last: int, found: list[ViolationKind]
) -> None:
    bench = Bench(prefixes={"a": 32, "b": 32})
    bench.allocate(1, 2)
    bench.step(item("a", 0, 30, 1, 2, replaces=True))
    for start in range(30, last + 1):
        bench.step(item("a", start, 1))
    with bench.recorder.working_for("b"):
        bench.recorder.joined(EventKind.TOUCH, "gpu", 1, 2)
        bench.recorder.joined(EventKind.TOUCH, "gpu", 2, 2)
    bench.allocate(3, request="b")

    bench.step(item("b", 32, 1, 1, 2, 3, replaces=True), finished=("a",))

    assert [kind for kind, _, _ in bench.found] == found


def test_what_was_swapped_out_and_in_is_still_what_it_was() -> None:
    bench = Bench(prefixes={})
    bench.allocate(1, 2)
    bench.step(item("a", 0, 20, 1, 2, replaces=True))
    for block in (1, 2):
        bench.recorder.freed("gpu", block, 0)
    bench.move(swapped_out=((1, 7), (2, 8)))
    bench.allocate(3, 4)
    bench.move(swapped_in=((7, 3), (8, 4)))

    bench.step(item("a", 20, 1, 3, 4, replaces=True))

    assert bench.found == []


def test_two_that_write_one_block_in_one_step_are_named() -> None:
    bench = Bench()
    bench.allocate(1)

    bench.step(
        item("a", 0, 3, 1, replaces=True, sequence="a.0"),
        item("a", 0, 3, 1, replaces=True, sequence="a.1"),
    )

    assert (ViolationKind.TWO_WRITERS, "a", 1) in bench.found


def test_a_table_that_ends_before_the_tokens_do_is_short() -> None:
    bench = Bench()
    bench.allocate(1)

    bench.step(item("a", 0, 17, 1, replaces=True))

    assert bench.found == [(ViolationKind.SHORT_TABLE, "a", None)]


@pytest.mark.parametrize("block", [20, -1, 10**9])
def test_a_block_that_the_pool_does_not_have_is_out_of_range(block: int) -> None:
    bench = Bench()

    bench.step(item("a", 0, 3, block, replaces=True))

    assert bench.found == [(ViolationKind.OUT_OF_RANGE, "a", block)]


def test_a_block_that_nobody_allocated_is_not_to_be_written() -> None:
    bench = Bench()

    bench.step(item("a", 0, 3, 7, replaces=True))

    assert bench.found == [(ViolationKind.USE_AFTER_FREE, "a", 7)]


def test_tables_of_finished_sequences_are_forgotten() -> None:
    bench = Bench()
    bench.allocate(1)
    bench.step(item("a", 0, 3, 1, replaces=True))
    bench.recorder.freed("gpu", 1, 0)
    bench.allocate(1, request="b")

    bench.step(item("b", 0, 3, 1, replaces=True), finished=("a",))

    assert bench.found == []


def test_uses_in_a_row_are_one_event_and_what_comes_between_parts_them() -> None:
    bench = Bench()
    bench.allocate(1)
    bench.step(item("a", 0, 3, 1, replaces=True))
    for start in range(3, 6):
        bench.step(item("a", start, 1))
    bench.recorder.noted(EventKind.CACHE, "gpu", 1)
    bench.step(item("a", 6, 1))

    told = [(e.kind.value, e.times, e.last_step) for e in bench.recorder.chain("gpu", 1).events]

    assert told == [
        ("allocate", 1, None),
        ("use", 4, 3),
        ("cache", 1, None),
        ("use", 1, None),
    ]
