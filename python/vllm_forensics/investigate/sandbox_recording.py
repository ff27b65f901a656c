"""Opens a recorded run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from vllm_forensics.capture.sandbox_files import event_lines
from vllm_forensics.evidence.scheduler_log import parse_scheduler_log
from vllm_forensics.model.sandbox_recording import Recording
from vllm_forensics.sandbox.live.reader import is_trace
from vllm_forensics.sandbox.live.recording import recording_of
from vllm_forensics.sandbox.log_replay import Assumed, recording_of_log
from vllm_forensics.sandbox.recording_reader import looks_like_recording, parse_recording


def is_recording(path: str) -> bool:
    """Whether a file is one, and not a load.

    Raises:
        EvidenceError: it cannot be read.

    """
    first = next(event_lines(path), b"")
    return looks_like_recording(first) or not first.lstrip().startswith(b"{")


def read_recording(path: str, assumed: Assumed | None = None) -> Recording:
    """The run in a file: a recording, a live engine's trace, or a vLLM's own log.

    `assumed` stands in for what a log does not tell.

    Raises:
        EvidenceError: it cannot be read, or is none of them.

    """
    gaps: list[str] = []
    lines = event_lines(path, gaps.append)
    first = next(lines, b"")
    found = _read(first, chain((first,), lines), path, assumed or Assumed())
    return replace(found, gaps=(*found.gaps, *gaps)) if gaps else found


def _read(first: bytes, everything: Iterable[bytes], path: str, assumed: Assumed) -> Recording:
    if is_trace(first):
        return recording_of(everything, path)
    if first.lstrip().startswith(b"{"):
        return parse_recording(everything, path)
    log = parse_scheduler_log(line.decode("utf-8", "replace") for line in everything)
    return recording_of_log(log, path, assumed)
