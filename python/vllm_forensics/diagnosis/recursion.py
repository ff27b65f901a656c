"""A stack that repeats itself: which frames, and how often, without unwinding all of it."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.context import FaultContext
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.image import Image
from vllm_forensics.model.stack import Frame, FrameKind, Recursion
from vllm_forensics.model.word_search import positions_of_word

_MAX_PERIOD: Final = 12
_LEAST_REPEATS: Final = 3
_NEAR_START: Final = 4
_DEEPEST_START: Final = 32
_LONGEST_STACK: Final = 64 << 20


def find_recursion(
    image: Image, context: FaultContext, frames: tuple[Frame, ...]
) -> Recursion | None:
    """The shortest cycle that the innermost frames go through, and how often it is on the stack.

    Beyond the frames that were unwound, the repeats are counted in memory: a cycle pushes the same
    return address again and again, at equal distances. None where no cycle repeats three times.
    Further in than a few frames, only a cycle that goes on to the last frame counts: the stack may
    have ended deep in calls that the cycle makes, but a short loop there is only how code is.
    """
    calls = [frame for frame in frames if frame.kind is FrameKind.NATIVE]
    for first in range(min(_DEEPEST_START, len(calls))):
        for period in range(1, _MAX_PERIOD + 1):
            count = _repeats(calls[first:], period)
            if count >= _LEAST_REPEATS:
                whole = first + count * period >= len(calls) - period
                if first >= _NEAR_START and not whole:
                    continue
                total, is_whole = count, True
                if whole:
                    total, is_whole = _count_in_memory(image, context, calls[first].pc)
                return Recursion(
                    first_index=calls[first].index,
                    period=period,
                    count=max(count, total),
                    is_least=not is_whole,
                )
    return None


def _repeats(calls: list[Frame], period: int) -> int:
    """How often the first `period` frames repeat from the start; judged by return address."""
    count = 1
    while (count + 1) * period <= len(calls) and all(
        calls[count * period + at].pc == calls[at].pc for at in range(period)
    ):
        count += 1
    return count


def _count_in_memory(image: Image, context: FaultContext, return_address: int) -> tuple[int, bool]:
    """How often a return address stands on the stack between the fault and the stack's end.

    And whether that is all of it: false where memory cannot be read, or is too much.
    """
    mapping = image.mapping_at(context.sp)
    start = context.sp
    if isinstance(mapping, Gap):
        above = [m for m in image.mappings if m.start > context.sp]
        if not above:
            return 0, False
        mapping_end, start = above[0].end, above[0].start
    else:
        mapping_end = mapping.value.end
    raw = image.read(start, min(mapping_end - start, _LONGEST_STACK))
    if isinstance(raw, Gap):
        return 0, False
    machine = image.process.architecture
    word = return_address.to_bytes(machine.word_size, machine.byte_order)
    count = sum(1 for _ in positions_of_word(raw.value, word))
    return count, mapping_end - start <= _LONGEST_STACK
