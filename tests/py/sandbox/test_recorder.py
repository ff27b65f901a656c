"""Events, lives and holders; and classes that are as they were after the recording."""

from typing import Any

import pytest

from vllm_forensics.model.event import Event, EventKind
from vllm_forensics.sandbox.event_sink import JsonLines
from vllm_forensics.sandbox.recorder import Recorder, wrapped


def test_each_allocation_is_a_new_life_and_a_touch_is_none() -> None:
    recorder = Recorder()

    recorder.allocated("gpu", 3)
    recorder.joined(EventKind.TOUCH, "gpu", 3, 2)
    recorder.freed("gpu", 3, 1)
    recorder.freed("gpu", 3, 0)
    recorder.allocated("gpu", 3)

    told = [(event.kind.value, event.generation) for event in recorder.chain("gpu", 3).events]
    assert told == [("allocate", 1), ("touch", 1), ("free", 1), ("free", 1), ("allocate", 2)]
    assert recorder.alive("gpu", 3)
    assert recorder.used_blocks["gpu"] == 1


def test_pools_count_their_blocks_apart() -> None:
    recorder = Recorder()

    recorder.allocated("gpu", 1)
    recorder.allocated("cpu", 1)
    recorder.freed("cpu", 1, 0)

    assert recorder.alive("gpu", 1)
    assert not recorder.alive("cpu", 1)
    assert len(recorder.chain("cpu", 1).events) == 2


def test_an_event_names_the_request_the_step_and_who_called() -> None:
    recorder = Recorder()
    recorder.step = 7

    def caller() -> None:
        def wrapper() -> None:
            recorder.allocated("gpu", 1)

        wrapper()

    with recorder.working_for("a"):
        caller()

    (event,) = recorder.chain("gpu", 1).events
    assert (event.request, event.step) == ("a", 7)
    assert event.function is not None
    assert event.function.endswith("caller")


def test_for_whom_it_failed_is_the_innermost() -> None:
    recorder = Recorder()

    with pytest.raises(KeyError), recorder.working_for("a"), recorder.working_for("b"):
        raise KeyError

    assert recorder.failing == "b"
    assert recorder.request is None


def test_only_the_last_events_are_kept_and_all_are_counted() -> None:
    recorder = Recorder(kept=10)

    for _ in range(50):
        recorder.noted(EventKind.CACHE, "gpu", 1)

    assert recorder.count == 50
    assert len(recorder.chain("gpu", 1).events) == 10


def test_classes_are_wrapped_where_they_define_a_method_and_put_back() -> None:
    class Base:
        def inherited(self) -> str:
            return "base"

    class Pool(Base):
        def own(self) -> str:
            return "own"

    before = Pool.own

    def louder(original: Any) -> Any:
        def method(self: Any) -> Any:
            return original(self).upper()

        return method

    def run() -> tuple[str, str]:
        with wrapped({(Pool, "own"): louder, (Pool, "inherited"): louder, (Pool, "no"): louder}):
            return Pool().own(), Pool().inherited()

    assert run() == ("OWN", "base")
    assert Pool.own is before
    assert not hasattr(Pool, "no")


def test_a_line_holds_what_is_known_and_nothing_else() -> None:
    lines: list[bytes] = []

    JsonLines(lines.append).write(Event(kind=EventKind.FREE, block=3, pool="gpu", step=0))

    assert lines == [b'{"step":0,"kind":"free","pool":"gpu","block":3}\n']
