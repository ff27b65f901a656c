"""The source around a frame's line, where this machine has the file."""

from __future__ import annotations

from vllm_forensics.capture.files import read_source
from vllm_forensics.model.report import SourceExcerpt
from vllm_forensics.model.stack import Frame


def excerpt_of(frame: Frame, *, before: int) -> SourceExcerpt | None:
    """The frame's line, as many as `before` it, and the next one; None where it cannot be read."""
    if frame.file is None or frame.line is None:
        return None
    first = max(1, frame.line - before)
    lines = read_source(frame.file, first, frame.line + 1)
    if frame.line - first >= len(lines):
        return None
    return SourceExcerpt(file=frame.file, first_line=first, lines=lines, marked_line=frame.line)
