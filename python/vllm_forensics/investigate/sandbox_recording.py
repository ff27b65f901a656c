"""Opens a recorded run."""

from __future__ import annotations

from vllm_forensics.capture.sandbox_files import event_lines
from vllm_forensics.model.sandbox_recording import Recording
from vllm_forensics.sandbox.recording_reader import parse_recording


def read_recording(path: str) -> Recording:
    """The recording in a file.

    Raises:
        EvidenceError: it cannot be read, or is none.

    """
    return parse_recording(event_lines(path), path)
