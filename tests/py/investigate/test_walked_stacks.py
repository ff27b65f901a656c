"""Which frames of a walk are the kernel's, between a handler and what it interrupted."""

import pytest

from vllm_forensics.investigate.walked_stacks import trampolines_of
from vllm_forensics.model.unwind import WalkedFrame


def frames(kinds: str) -> tuple[WalkedFrame, ...]:
    """`c` was called, `n` stands at its own pc; a space is a frame that was left out."""
    return tuple(
        WalkedFrame(level=level, pc=level, is_call=kind == "c", function=None)
        for level, kind in enumerate(kinds)
        if kind != " "
    )


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("nccc", set()),
        # raise, handler, trampoline with a table, what was interrupted, its caller.
        ("ncnnc", {2}),
        # The same without a table for the trampoline.
        ("nccnc", {2}),
        # The handler itself stands on top.
        ("nnnc", {1}),
        ("ncnc", {1}),
        # A fault in a handler: two of each.
        ("ncnnnnc", {2, 4}),
        # What was interrupted stands at address 0: it ends the walk.
        ("nccn", {2}),
        ("nc nc", set()),
        ("", set()),
    ],
)
def test_only_the_trampoline_is_one(kinds: str, expected: set[int]) -> None:
    assert trampolines_of(frames(kinds)) == expected
