"""What happened to each block, as Python reads it and as it is printed."""

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from vllm_forensics._native import (
    BlockAllocator,
    CacheShape,
    CPUWorker,
    EventKind,
    EventLog,
    PagedKVCache,
    Pool,
    SequenceStep,
    StepPlan,
)

SHAPE = CacheShape(block_size=2, num_layers=1, num_heads=1, head_size=2)


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    EventLog.clear()
    EventLog.enable()
    yield
    EventLog.disable()
    EventLog.clear()
    EventLog.set_step(0)


def test_it_is_off_until_enabled() -> None:
    EventLog.disable()

    BlockAllocator(1, 16).allocate()

    assert not EventLog.enabled()
    assert EventLog.events() == []


def test_one_life_is_told_in_order_with_the_python_lines() -> None:
    allocator = BlockAllocator(2, 16)

    block = allocator.allocate()
    allocator.fork(block)
    allocator.free(block)
    allocator.free(block)

    events = EventLog.events()
    assert [event.kind for event in events] == [
        EventKind.allocate,
        EventKind.fork,
        EventKind.free,
        EventKind.free,
    ]
    assert {(event.block, event.generation, event.pool) for event in events} == {
        (block, 1, Pool.device)
    }
    assert {event.thread for event in events} == {threading.get_native_id()}
    assert {event.file for event in events} == {__file__}
    lines = [event.line for event in events]
    assert [line - lines[0] for line in lines] == [0, 1, 2, 3]


def test_generations_tell_two_lives_of_one_block_apart() -> None:
    allocator = BlockAllocator(1, 16)

    for _ in range(2):
        allocator.free(allocator.allocate())

    assert [event.generation for event in EventLog.events()] == [1, 1, 2, 2]


def test_a_copy_names_both_blocks_and_the_line_of_the_specimen() -> None:
    cache = PagedKVCache(2, SHAPE)
    source, target = cache.allocator.allocate(), cache.allocator.allocate()
    EventLog.clear()

    cache.copy_blocks([(source, target)])

    (event,) = EventLog.events()
    assert (event.kind, event.block, event.source) == (EventKind.copy, target, source)
    assert event.file == "csrc/cache.cpp"
    assert event.line > 0


def test_a_step_swaps_copies_and_uses_under_its_number() -> None:
    worker = CPUWorker(SHAPE)
    worker.initialize_cache(3, 2)
    first, second = (worker.device_cache.allocator.allocate() for _ in range(2))
    aside = worker.host_cache.allocator.allocate()
    token = np.zeros((1, 1, 1, 2))
    EventLog.clear()

    worker.execute_model(
        StepPlan(
            [SequenceStep(block_table=[second], context_length=1)],
            blocks_to_swap_out=[(first, aside)],
            blocks_to_copy=[(first, second)],
        ),
        query=token,
        keys=token,
        values=token,
    )

    assert [(event.kind, event.pool, event.block) for event in EventLog.events()] == [
        (EventKind.swap, Pool.host, aside),
        (EventKind.copy, Pool.device, second),
        (EventKind.use, Pool.device, second),
        (EventKind.use, Pool.device, second),
    ]
    assert {event.step for event in EventLog.events()} == {1}


def test_events_are_plain_and_read_only() -> None:
    BlockAllocator(1, 16).allocate()
    (event,) = EventLog.events()

    with pytest.raises(AttributeError):
        event.block = 3  # type: ignore[misc]
    assert re.fullmatch(
        rf"allocate device block 0 generation 1 step 0 thread \d+ {re.escape(__file__)}:\d+",
        str(event),
    )


def test_trace_prints_each_event_on_one_line() -> None:
    program = """
        from vllm_forensics._native import BlockAllocator
        allocator = BlockAllocator(1, 16)
        allocator.free(allocator.allocate())
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"FORENSICS_TRACE": "stderr"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    lines = [line for line in done.stderr.splitlines() if line.startswith("forensics: ")]
    assert [line.split(" step ")[0] for line in lines] == [
        "forensics: allocate device block 0 generation 1",
        "forensics: free device block 0 generation 1",
    ]
    assert all(line.endswith(" <string>:4") for line in lines)
