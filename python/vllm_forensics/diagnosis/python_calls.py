"""Python's calls where a core does not hold all of them: whose reading to believe, what to name."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.model.python_stack import UNREAD, PythonFrame, PythonThread
from vllm_forensics.model.stack import Frame, FrameKind


def more_of_each(
    own: Sequence[PythonThread], theirs: Sequence[PythonThread]
) -> tuple[tuple[PythonThread, ...], frozenset[int]]:
    """Of each thread the reading with more calls, theirs where both have as many.

    Seen: of 37 calls in a minicore pystack told ten, as if the outermost had called the innermost;
    ours told all, and left open what some of them are called.

    Args:
        own: our reading, which was not whole.
        theirs: pystack's, which leaves out the calls that it cannot read.

    Returns:
        The threads, and the ids of those of which something is missing.

    """
    most = {thread.tid: thread for thread in theirs}
    in_part = set()
    for one in own:
        known = len(most[one.tid].frames) if one.tid in most else 0
        if len(one.frames) != known or not all(map(_is_read, one.frames)):
            in_part.add(one.tid)
        if len(one.frames) > known:
            most[one.tid] = one
    return tuple(most.values()), frozenset(in_part)


def _is_read(frame: PythonFrame) -> bool:
    return UNREAD not in {frame.function, frame.file} and frame.line is not None


def place_of_calls(frames: Sequence[Frame]) -> str | None:
    """The innermost Python function of the user's own, or any; None where there is none."""
    calls = [frame for frame in frames if frame.kind is FrameKind.PYTHON and _is_told(frame)]
    own = next((frame for frame in calls if is_own(frame)), next(iter(calls), None))
    if own is None:
        return None
    place = f" ({own.file}:{own.line})" if own.file not in {None, UNREAD} and own.line else ""
    return f"{own.function}{place}"


def _is_told(frame: Frame) -> bool:
    """Does its name say something: is it no `__call__` of a file that could not be read?"""
    name = frame.function or UNREAD
    return name != UNREAD and (frame.file != UNREAD or not name.startswith("__"))
