"""One short name for one bug: the same for every core of it, whatever the addresses were.

Version 1: the class of the first fault's signal, and the first five frames that are not a
runtime's, by their plain names (`sanitizer_names`) where the file is the one that crashed, else by
build-id and offset. The kind of the fault is left out: a stray pointer is null today and wild
tomorrow. A recursion counts once, however deep; a stack overflow is its cycle, wherever in it the
stack ended. Which frames are passed over and where a stack's tail begins is data:
`runtime_frames`. Where no native frame is own, the innermost one and Python's count instead.
docs/signature.md says the same to a user.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.runtime_frames import is_ending, is_own, is_raising
from vllm_forensics.diagnosis.sanitizer.names import stable_name
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.process import Signal
from vllm_forensics.model.report import Crash
from vllm_forensics.model.sanitizer_sieve import SIGNATURE_VERSION
from vllm_forensics.model.signature import SignaturePart
from vllm_forensics.model.stack import Frame, FrameKind

COUNTED_FRAMES: Final = 5
_FOR_THE_EYE: Final = 80
_BELOW: Final = " < "
_CLASSES: Final = {
    11: "memory-access", 7: "memory-access", 6: "abort", 8: "arithmetic", 4: "instruction",
    5: "instruction",
}  # fmt: skip
"""By number, signal(7) for x86 and Arm: SEGV and BUS, ABRT, FPE, ILL and TRAP."""
_OTHER: Final = "signal"
_VARIANT: Final = re.compile(r"_(?:evex|avx|sse|ssse|erms|rtm|asimd|sve|mops)\w*$")
"""Of the C library's functions, chosen by the processor: __strlen_evex, __memcpy_avx_unaligned."""


def signed(crash: Crash) -> Crash:
    """The crash with its signature. It comes last: Python's frames may count."""
    thread = crash.threads[0]
    parts = signature_parts(
        crash.signal,
        crash.fault.kind,
        thread.stack.frames[thread.fault_index :],
        program=crash.program,
        builds={module.path: module.build_id for module in crash.modules},
    )
    return replace(crash, signature=signature_of(parts), signature_parts=parts)


def signature_of(parts: tuple[SignaturePart, ...]) -> str:
    """`v1:CLASS:NAME:HASH`; NAME is the first frame, for the eye, HASH covers all parts."""
    text = "\n".join(f"{part.name} {part.value}" for part in parts)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    name = " ".join(parts[1].value.split()) if len(parts) > 1 else "unknown"
    return f"v{SIGNATURE_VERSION}:{parts[0].value}:{name[:_FOR_THE_EYE]}:{digest}"


def signature_parts(
    signal: Signal,
    kind: FaultKind,
    frames: tuple[Frame, ...],
    *,
    program: str | None,
    builds: Mapping[str, str | None],
) -> tuple[SignaturePart, ...]:
    """All that counts, in words, in a fixed order; always at least two parts.

    `signal` is the first fault's, `frames` are those from the fault outwards, `builds` the modules'
    build-ids by path.
    """
    head = SignaturePart(name="signal", value=_CLASSES.get(signal.number, _OTHER))
    names = [frame_name(frame, builds) for frame in telling_frames(frames)]
    if not names:
        name = (program or "unknown").rsplit("/", 1)[-1]
        return head, SignaturePart(name="program", value=name)
    if kind is FaultKind.STACK_OVERFLOW:
        again = sorted(name for name, count in Counter(names).items() if count > 1)
        if again:
            return head, SignaturePart(name="recursion", value=_BELOW.join(again))
    distinct = list(dict.fromkeys(names))[:COUNTED_FRAMES]
    return head, *(
        SignaturePart(name=f"frame {number}", value=name)
        for number, name in enumerate(distinct, start=1)
    )


def telling_frames(frames: tuple[Frame, ...]) -> list[Frame]:
    """The frames that tell bugs apart: without the runtime's, from the cause to the tail."""
    native = tuple(frame for frame in frames if frame.kind is not FrameKind.PYTHON)
    found: list[Frame] = []
    raising: list[Frame] = []
    for frame in native:
        if is_ending(frame):
            if found:
                break
        elif is_own(frame):
            (raising if not found and is_raising(frame) else found).append(frame)
    if found or raising:
        return found or raising
    ending = [frame for frame in native if is_own(frame)][:1]
    innermost = [frame for frame in native if _is_place(frame)][:1]
    return ending or [*innermost, *(f for f in frames if f.kind is FrameKind.PYTHON and is_own(f))]


def frame_name(frame: Frame, builds: Mapping[str, str | None]) -> str:
    """The plain name, where it can be trusted; else build-id and offset, else module and offset."""
    if frame.kind is FrameKind.PYTHON:
        return f"{frame.function} ({(frame.file or '?').rsplit('/', 1)[-1]})"
    if frame.function is not None and frame.names_trusted:
        return _VARIANT.sub("", stable_name(frame.function))
    build = builds.get(frame.module or "")
    module = build or (frame.module or "?").rsplit("/", 1)[-1]
    return f"{module}+{frame.module_offset or 0:#x}"


def _is_place(frame: Frame) -> bool:
    """Does a runtime's frame say where it happened?"""
    if frame.kind is FrameKind.SIGNAL or frame.function is None:
        return False
    return not is_raising(frame) and not is_ending(frame)
