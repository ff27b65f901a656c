"""The line of a frame that its author wrote, where the compiler's table names another."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.model.answer import Known
from vllm_forensics.model.image import Image
from vllm_forensics.model.process import Address
from vllm_forensics.model.stack import Frame, FrameKind

_SYSTEM_HEADER: Final = re.compile(r"/usr/include/.*|/usr/lib/.*|.*/include/c\+\+/.*")


def at_own_line(image: Image, frame: Frame, pc: Address) -> Frame:
    """The frame with the line of the instruction at `pc`, or of the nearest before it that is own.

    Optimisers mix instructions: at -O2, gcc 12 gives the load of `(*numbers)[3]` to stl_vector.h
    but to no inlined call, so the user's function seems to stand in that header. And a frame's own
    pc is one too far after int3.
    """
    if frame.file is None or frame.kind is FrameKind.INLINED:
        return frame
    answer = image.lines(pc) if pc != frame.pc else None
    if isinstance(answer, Known) and _same_name(answer.value[0].file, frame.file):
        return replace(frame, line=answer.value[0].line)
    if not _SYSTEM_HEADER.fullmatch(frame.file):
        return frame
    decoded = image.instructions(pc)
    before = decoded.value if isinstance(decoded, Known) else ()
    for step in reversed([step for step in before if step.address < pc]):
        found = image.lines(step.address)
        if isinstance(found, Known) and not _SYSTEM_HEADER.fullmatch(found.value[0].file):
            return replace(frame, file=found.value[0].file, line=found.value[0].line)
    return frame


def _same_name(first: str, second: str) -> bool:
    return first.rsplit("/", 1)[-1] == second.rsplit("/", 1)[-1]
