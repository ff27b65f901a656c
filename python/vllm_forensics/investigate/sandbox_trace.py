"""What the traces of live engines tell, without an engine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from vllm_forensics.capture.sandbox_files import event_lines
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.sandbox import SandboxRun
from vllm_forensics.sandbox.live.check import check_trace

_TRACES: Final = "vllm-*.jsonl"


def traces_in(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The files that are meant, of folders the traces in them, the oldest first.

    Raises:
        EvidenceError: a folder holds none.

    """
    found: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        inside = [file for file in Path(path).glob(_TRACES) if file.is_file()]
        if not inside:
            raise EvidenceError(
                f"{path} holds no {_TRACES}",
                remedy=f"record one: VLLM_FORENSICS_TRACE={shlex.quote(str(path))} vllm serve …",
            )
        inside.sort(key=lambda file: (file.stat().st_mtime_ns, file.name))
        found += map(str, inside)
    return tuple(found)


def show_trace(path: str) -> SandboxRun:
    """Check every step of a trace as a worker would use it, and tell how it ends.

    Raises:
        EvidenceError: it cannot be read, or is no trace.

    """
    return check_trace(event_lines(path), path)
