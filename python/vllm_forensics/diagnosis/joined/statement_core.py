"""What a core says, as a statement that logs and traces are compared with."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.joined.clocks import moment
from vllm_forensics.diagnosis.joined.statement import Statement, base_name
from vllm_forensics.diagnosis.runtime_frames import is_own
from vllm_forensics.model.finding import FaultKind
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall, PythonCall
from vllm_forensics.model.joined import SourceKind
from vllm_forensics.model.report import Crash
from vllm_forensics.model.signals import code_name, signal_name
from vllm_forensics.model.stack import Frame, FrameKind

_SOURCE: Final = "a core"
_HEAP: Final = {FaultKind.HEAP_CORRUPTION, FaultKind.DOUBLE_FREE, FaultKind.INVALID_FREE}
_GIVEN_UP: Final = {
    FaultKind.UNCAUGHT_EXCEPTION,
    FaultKind.ASSERTION_FAILURE,
    FaultKind.PURE_VIRTUAL_CALL,
    FaultKind.FATAL_PYTHON_ERROR,
    FaultKind.STACK_SMASHING,
}


def of_core(crash: Crash, written_s: float | None) -> Statement:
    """A core, as a whole."""
    facts = dict(crash.kept_facts)
    thread = crash.threads[0] if crash.threads else None
    culprit = crash.culprit
    registers = thread.registers if thread is not None else {}
    time = facts.get("time")
    return Statement(
        source=crash.core,
        kind=SourceKind.CORE,
        text=_core_text(crash),
        time=time,
        time_s=moment(time) or written_s,
        host=facts.get("host"),
        pid=crash.pid,
        clue=_core_clue(crash, time),
        signal=signal_name(crash.signal.number),
        ends=False,
        address=crash.fault.address if crash.signal.from_kernel else None,
        pc=thread.fault_pc if thread is not None else None,
        sp=registers.get("rsp", registers.get("sp")),
        function=plain_name(culprit.function)
        if culprit and culprit.function and culprit.names_trusted
        else None,
        module=base_name(culprit.module) if culprit else None,
        program=base_name(crash.program),
        crash=crash,
    )


def _core_clue(crash: Crash, time: str | None) -> Clue:
    kind, signal = ClueKind.SIGNAL, signal_name(crash.signal.number)
    by: str | None = None
    detail: str | None = _fault_words(crash)
    if crash.fault.kind in _HEAP:
        kind, detail = ClueKind.HEAP, crash.fault.message or detail
    elif crash.fault.kind in _GIVEN_UP:
        kind, detail = ClueKind.ABORT, crash.fault.message or detail
    elif crash.fault.kind is FaultKind.TRUNCATED_MAPPING:
        kind = ClueKind.ENVIRONMENT
    elif crash.fault.kind is FaultKind.EXTERNAL_SIGNAL:
        kind, detail = ClueKind.CHILD, None
        sender = crash.signal.sender_pid
        is_named = sender is not None and sender not in {0, crash.pid}
        by = f"process {sender}" if is_named else "another process"
    frames = _fault_frames(crash)
    culprit = crash.culprit
    if culprit is not None and culprit.kind is not FrameKind.PYTHON:
        frames = (culprit, *(frame for frame in frames if frame.index > culprit.index))
    elif culprit is None and not crash.signal.from_kernel:
        frames = tuple(frame for frame in frames if frame.kind is FrameKind.PYTHON)
    return Clue(
        kind=kind,
        source=_SOURCE,
        line=0,
        text=_core_text(crash),
        pid=crash.pid,
        of_another=kind is ClueKind.CHILD,
        time=time,
        signal=signal,
        detail=detail,
        sender=by,
        native=tuple(_native(frame) for frame in frames if frame.kind is not FrameKind.PYTHON),
        python=tuple(
            PythonCall(function=frame.function or "?", file=frame.file or "?", line=frame.line or 0)
            for frame in _python_frames(frames)
        ),
    )


def _fault_frames(crash: Crash) -> tuple[Frame, ...]:
    if not crash.threads:
        return ()
    thread = crash.threads[0]
    return tuple(
        frame
        for frame in thread.stack.frames
        if frame.index >= thread.fault_index and frame.kind is not FrameKind.SIGNAL
    )


def _python_frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """From the first that is the user's own: wrappers stand above it."""
    python = tuple(frame for frame in frames if frame.kind is FrameKind.PYTHON)
    first = next((at for at, frame in enumerate(python) if is_own(frame)), 0)
    return python[first:]


def _native(frame: Frame) -> NativeCall:
    return NativeCall(
        function=frame.function if frame.names_trusted else None,
        module=base_name(frame.module),
        offset=f"{frame.module_offset:#x}" if frame.module_offset is not None else None,
    )


def _core_text(crash: Crash) -> str:
    signal = f"{signal_name(crash.signal.number)} ({code_name(crash.signal)})"
    return f"{signal}, {_fault_words(crash)}{_culprit_words(crash)}"


def _fault_words(crash: Crash) -> str:
    fault = crash.fault
    words = fault.kind.value.replace("-", " ")
    if fault.access is not None and fault.address is not None:
        words = f"{words}, {fault.access.value} at {fault.address:#x}"
    if fault.message:
        words = f'{words}: "{fault.message}"'
    return words


def _culprit_words(crash: Crash) -> str:
    culprit = crash.culprit
    if culprit is None:
        return ""
    if culprit.function is not None and culprit.names_trusted:
        at = f" {base_name(culprit.file)}:{culprit.line}" if culprit.file and culprit.line else ""
        return f", in {culprit.function}{at}"
    return (
        f", in {base_name(culprit.module)}+{culprit.module_offset or 0:#x}"
        if culprit.module
        else ""
    )
