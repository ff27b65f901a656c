"""The native stack in the lines below a clue that was read when the whole text was known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.stacks.native_stack import NativeBlock
from vllm_forensics.model.incident import Clue

_REACH: Final = 40
"""So many lines below it belong to its stack."""


def with_stack_below(clue: Clue, lines: Sequence[str], first: int) -> Clue:
    """The clue with the frames that stand in the lines from `first` on, counted from nought."""
    block = NativeBlock(clue)
    for at in range(first, min(len(lines), first + _REACH)):
        # a page may show it as a change's new lines
        block.feed(LogLine(at + 1, "", lines[at].removeprefix("+")))
        if block.done:
            break
    return block.close() or clue
