"""A stack that repeats itself."""

from dataclasses import replace

from tests.py.support.images import (
    CODE,
    STACK,
    STACK_END,
    a_frame,
    a_process,
    context_of,
    crash_image,
    segv,
    words,
)

from vllm_forensics.diagnosis.recursion import find_recursion
from vllm_forensics.model.process import Architecture
from vllm_forensics.model.stack import Frame, Recursion

EMPTY = {STACK: bytes(STACK_END - STACK)}


def recursion(
    frames: tuple[Frame, ...], memory: dict[int, bytes] | None = None
) -> Recursion | None:
    image = crash_image(
        registers={"rsp": STACK}, signal=segv(0), frames=frames, memory=memory or EMPTY
    )
    return find_recursion(image, context_of(image), frames)


def calls(*pcs: int) -> tuple[Frame, ...]:
    return tuple(a_frame(at, f"f{pc}", pc=CODE + pc) for at, pc in enumerate(pcs))


def test_a_function_that_calls_itself() -> None:
    assert recursion(calls(9, 1, 1, 1, 1)) == Recursion(first_index=1, period=1, count=4)


def test_two_functions_that_call_each_other() -> None:
    assert recursion(calls(1, 2, 1, 2, 1, 2)) == Recursion(first_index=0, period=2, count=3)


def test_two_repeats_are_no_recursion() -> None:
    assert recursion(calls(1, 1, 2, 3)) is None
    assert recursion(calls(1, 2, 1, 2, 3)) is None


def test_calls_of_one_function_from_different_places_are_no_cycle() -> None:
    frames = tuple(a_frame(at, "visit", pc=CODE + at) for at in range(9))

    assert recursion(frames) is None


def test_beyond_the_frames_the_repeats_are_counted_in_memory() -> None:
    stack = (words(CODE + 1) * 1000).ljust(STACK_END - STACK, b"\0")

    found = recursion(calls(9, *[1] * 60), {STACK: stack})

    assert found == Recursion(first_index=1, period=1, count=1000)


def test_where_the_stack_cannot_be_read_the_frames_are_the_least() -> None:
    found = recursion(calls(9, *[1] * 60), {STACK: b"cut"})

    assert found == Recursion(first_index=1, period=1, count=60, is_least=True)


def test_words_of_other_machines_are_counted_as_they_hold_them() -> None:
    stack = ((CODE + 1).to_bytes(4, "little") * 1000).ljust(STACK_END - STACK, b"\0")
    frames = calls(9, *[1] * 60)
    image = crash_image(
        registers={"rsp": STACK},
        signal=segv(0),
        frames=frames,
        memory={STACK: stack},
        process=replace(a_process(), architecture=Architecture.I386),
    )

    found = find_recursion(image, context_of(image), frames)

    assert found == Recursion(first_index=1, period=1, count=1000)


def test_a_recursion_that_ended_within_the_frames_is_not_counted_in_memory() -> None:
    stack = (words(CODE + 1) * 1000).ljust(STACK_END - STACK, b"\0")

    found = recursion(calls(1, 1, 1, 2, 3, 4, 5), {STACK: stack})

    assert found == Recursion(first_index=0, period=1, count=3)


def test_an_empty_stack_has_none() -> None:
    assert recursion(()) is None


def test_a_cycle_far_in_counts_where_it_goes_on_to_the_last_frame() -> None:
    """The stack ended in a call that the cycle makes; seen with std::to_string of gcc 12."""
    leaves = (11, 12, 13, 14, 15, 16)

    assert recursion(calls(*leaves, 1, 2, 1, 2, 1, 2)) == Recursion(
        first_index=6, period=2, count=3
    )
    assert recursion(calls(*leaves, 1, 2, 1, 2, 1, 2, 3, 4, 5)) is None
