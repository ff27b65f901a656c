"""One short name for one bug: the same for every core of it, whatever the addresses were.

Version 1: the fault's kind, and the first five frames that are not a runtime's, by name where the
names are known and by module and offset where they are not. Lines, arguments and addresses are left
out; a recursion counts once.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.model.finding import Finding
from vllm_forensics.model.stack import Frame

_FRAMES: Final = 5
_NOISE: Final = re.compile(r"\.(isra|constprop|part|cold|lto_priv)(\.\d+)*|\[abi:\w+\]")


def signature_of(finding: Finding, frames: tuple[Frame, ...], program: str | None) -> str:
    """`v1:KIND:NAME:HASH`; NAME is the first frame, for the eye, HASH covers all that counts."""
    names = [_name(frame) for frame in frames if is_own(frame)]
    distinct = [name for at, name in enumerate(names) if name not in names[:at]][:_FRAMES]
    if not distinct:
        distinct = [(program or "unknown").rsplit("/", 1)[-1]]
    text = "\n".join((finding.kind.value, *distinct))
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"v1:{finding.kind.value}:{distinct[0][:80]}:{digest}"


def _name(frame: Frame) -> str:
    if frame.function is not None and frame.names_trusted:
        return (
            _NOISE.sub("", frame.function)
            .replace("std::__1::", "std::")
            .replace("std::__cxx11::", "std::")
        )
    module = (frame.module or "?").rsplit("/", 1)[-1]
    return f"{module}+{frame.module_offset or 0:#x}"
