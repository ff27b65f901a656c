"""The JSON of `forensics core`: users script against it. Fields are added, never renamed."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

import msgspec

from vllm_forensics.model.cases import Seen
from vllm_forensics.model.finding import Origin
from vllm_forensics.model.report import (
    Crash,
    Failure,
    Group,
    ModuleReport,
    ParallelCaller,
    Report,
    ThreadReport,
)
from vllm_forensics.model.signals import code_name, signal_name
from vllm_forensics.model.stack import Frame, Variable
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.moments import utc

_ENTRY: Final = "\n    "
"""A new line within an entry of a list within the report."""
Hex = str
"""A number as a hexadecimal string: `"0x0"` is a value, null means unknown."""


class SignalWire(msgspec.Struct, frozen=True, kw_only=True):
    """A signal; of the first fault, where a handler sent it again."""

    number: int
    name: str
    code: str | None
    sender_pid: int | None


class FaultWire(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong at the faulting instruction."""

    kind: str
    access: Literal["read", "write", "execute"] | None
    address: Hex | None
    size: int | None
    instruction: str | None
    message: str | None


class CulpritWire(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame in the user's own code."""

    function: str | None
    file: str | None
    line: int | None
    module: str | None
    module_offset: Hex | None
    tier: str


class FrameWire(msgspec.Struct, frozen=True, kw_only=True):
    """One call."""

    index: int
    pc: Hex
    function: str | None
    arguments: str | None
    file: str | None
    line: int | None
    module: str | None
    module_offset: Hex | None
    kind: Literal["native", "inlined", "python", "signal"]
    tier: str


class RecursionWire(msgspec.Struct, frozen=True, kw_only=True):
    """A run of frames that repeats."""

    first_index: int
    period: int
    count: int
    is_least: bool
    """There may be more: the rest of the stack could not be read."""


class ThreadWire(msgspec.Struct, frozen=True, kw_only=True):
    """One thread; registers are those at the fault for the crashing one."""

    id: int
    name: str | None
    crashed: bool
    gil: Literal["holds", "waits"] | None
    frames: list[FrameWire]
    frames_truncated: bool
    recursion: RecursionWire | None
    registers: dict[str, Hex]
    disassembly: list[str]


class ModuleWire(msgspec.Struct, frozen=True, kw_only=True):
    """A mapped ELF file."""

    path: str
    build_id: str | None
    start: Hex
    end: Hex
    debug_info: bool | None
    matches_core: bool | None
    debug_from: str | None
    """The debuginfod server, or the place of --symbols, that its debug information came from."""


class OriginWire(msgspec.Struct, frozen=True, kw_only=True):
    """One step back to where the bad value came from."""

    what: str
    function: str | None
    file: str | None
    line: int | None
    instruction: str | None
    value: Hex | None
    certainty: Literal["proved", "likely", "unknown"]


class VariableWire(msgspec.Struct, frozen=True, kw_only=True):
    """A variable of the culprit's frame."""

    name: str
    value: str


class PartWire(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the signature is made of."""

    part: str
    value: str


class GapWire(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be learned."""

    what: str
    remedy: str


class ParallelCallerWire(msgspec.Struct, frozen=True, kw_only=True):
    """The Python calls of the thread that opened the parallel loop of the crashing one."""

    thread: int
    frames: list[FrameWire]
    certainty: Literal["likely"]


class CrashWire(msgspec.Struct, frozen=True, kw_only=True):
    """One core, explained."""

    core: str
    program: str | None
    command: str
    pid: int
    architecture: str | None
    signal: SignalWire
    delivered: SignalWire
    reraised_by: str | None
    fault: FaultWire
    culprit: CulpritWire | None
    threads: list[ThreadWire]
    parallel_caller: ParallelCallerWire | None
    """Null where the crashing thread is none of OpenMP's, or not one thread alone fits."""
    modules: list[ModuleWire]
    origin: list[OriginWire]
    objects: list[VariableWire]
    explanation: str
    proof: list[str]
    next_steps: list[str]
    signature: str
    signature_parts: list[PartWire]
    depth: Literal["notes", "stack", "full"]
    kept_by: str | None
    kept_facts: dict[str, str]
    seen: SeenWire | None
    gaps: list[GapWire]


class SeenWire(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of a signature before this triage; a count of 0: it is new."""

    count: int
    first: str | None
    """In UTC: 2026-11-29T08:00:00Z."""
    last: str | None
    note: str | None


class GroupWire(msgspec.Struct, frozen=True, kw_only=True):
    """Crashes with one signature."""

    signature: str
    count: int
    cores: list[str]
    representative: str
    seen: SeenWire | None


class FailureWire(msgspec.Struct, frozen=True, kw_only=True):
    """An input that could not be explained."""

    path: str
    error: str
    remedy: str


class CoreReportWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics core --format json`."""

    schema: Literal["forensics.core/1"]
    crashes: list[CrashWire]
    groups: list[GroupWire]
    failures: list[FailureWire]


def schema() -> dict[str, Any]:
    """The JSON schema of the report."""
    return msgspec.json.schema(CoreReportWire)


def to_wire(report: Report, *, with_crashes: bool = True) -> CoreReportWire:
    """The report in the contract's names; strings must have been cleaned.

    Without the crashes, those that stand for groups are needed all the same: they know what was
    seen before.
    """
    seen = {crash.core: crash.seen for crash in report.crashes}
    failures = [*report.failures, *filter(None, [report.store_failure])]
    return CoreReportWire(
        schema="forensics.core/1",
        crashes=[crash_to_wire(crash) for crash in report.crashes if with_crashes],
        groups=[_group(group, seen.get(group.representative)) for group in report.groups],
        failures=[_failure(failure) for failure in failures],
    )


def json_opening() -> str:
    """The report's text before its first crash."""
    return _around_crashes(Report(crashes=(), groups=(), failures=()))[0]


def json_entry(crash: Crash) -> str:
    """One crash as it stands in the report, from its own line on. Strings must have been cleaned.

    Between two stands a comma, between the last one and `json_closing` nothing.
    """
    return ("\n" + json_text(crash_to_wire(crash)).rstrip("\n")).replace("\n", _ENTRY)


def json_closing(report: Report) -> str:
    """The report's text after its last crash; `report` needs no others than the groups' heads."""
    return _around_crashes(report)[1]


def _around_crashes(report: Report) -> tuple[str, str]:
    opening, _, closing = json_text(to_wire(report, with_crashes=False)).partition("[]")
    return f"{opening}[", f"]{closing}"


def crash_to_wire(crash: Crash) -> CrashWire:
    """One crash in the contract's names."""
    return CrashWire(
        core=crash.core,
        program=crash.program,
        command=crash.command,
        pid=crash.pid,
        architecture=crash.architecture.value if crash.architecture else None,
        signal=_signal(crash.signal),
        delivered=_signal(crash.delivered),
        reraised_by=crash.reraised_by,
        fault=FaultWire(
            kind=crash.fault.kind.value,
            access=crash.fault.access.value if crash.fault.access else None,
            address=_hex(crash.fault.address),
            size=crash.fault.size,
            instruction=crash.fault.instruction,
            message=crash.fault.message,
        ),
        culprit=_culprit(crash.culprit),
        threads=[_thread(thread) for thread in crash.threads],
        parallel_caller=_parallel_caller(crash.parallel_caller),
        modules=[_module(module) for module in crash.modules],
        origin=[_origin(step) for step in crash.origin],
        objects=[VariableWire(name=found.name, value=found.value) for found in crash.objects],
        explanation=crash.explanation,
        proof=list(crash.proof),
        next_steps=list(crash.next_steps),
        signature=crash.signature,
        signature_parts=[
            PartWire(part=part.name, value=part.value) for part in crash.signature_parts
        ],
        depth=crash.depth.value,
        kept_by=crash.keeper,
        kept_facts=dict(crash.kept_facts),
        seen=seen_to_wire(crash.seen),
        gaps=[GapWire(what=gap.what, remedy=gap.remedy) for gap in crash.gaps],
    )


def _parallel_caller(caller: ParallelCaller | None) -> ParallelCallerWire | None:
    if caller is None:
        return None
    frames = [_frame(frame) for frame in caller.frames]
    return ParallelCallerWire(thread=caller.tid, frames=frames, certainty="likely")


def _signal(signal: Any) -> SignalWire:
    return SignalWire(
        number=signal.number,
        name=signal_name(signal.number),
        code=code_name(signal) if signal.is_recorded else None,
        sender_pid=signal.sender_pid,
    )


def _culprit(frame: Frame | None) -> CulpritWire | None:
    if frame is None:
        return None
    return CulpritWire(
        function=frame.function,
        file=frame.file,
        line=frame.line,
        module=frame.module,
        module_offset=_hex(frame.module_offset),
        tier=frame.tier.value,
    )


def _thread(thread: ThreadReport) -> ThreadWire:
    recursion = thread.stack.recursion
    return ThreadWire(
        id=thread.tid,
        name=thread.name,
        crashed=thread.crashed,
        gil=cast("Literal['holds', 'waits'] | None", thread.gil),
        frames=[_frame(frame) for frame in thread.stack.frames],
        frames_truncated=thread.stack.truncated,
        recursion=RecursionWire(
            first_index=recursion.first_index,
            period=recursion.period,
            count=recursion.count,
            is_least=recursion.is_least,
        )
        if recursion
        else None,
        registers={name: f"{value:#x}" for name, value in thread.registers.items()},
        disassembly=[
            f"{'=>' if step.address == thread.fault_pc else '  '} {step.address:#x}  {step.text}"
            for step in thread.disassembly
        ],
    )


def _frame(frame: Frame) -> FrameWire:
    return FrameWire(
        index=frame.index,
        pc=f"{frame.pc:#x}",
        function=frame.function,
        arguments=arguments_text(frame.arguments),
        file=frame.file,
        line=frame.line,
        module=frame.module,
        module_offset=_hex(frame.module_offset),
        kind=frame.kind.value,
        tier=frame.tier.value,
    )


def arguments_text(arguments: tuple[Variable, ...]) -> str | None:
    """`this=0x0, id=3`; None where they are not known."""
    return ", ".join(f"{found.name}={found.value}" for found in arguments) or None


def _module(module: ModuleReport) -> ModuleWire:
    return ModuleWire(
        path=module.path,
        build_id=module.build_id,
        start=f"{module.start:#x}",
        end=f"{module.end:#x}",
        debug_info=module.debug_info,
        matches_core=module.matches_core,
        debug_from=module.debug_from,
    )


def _origin(step: Origin) -> OriginWire:
    return OriginWire(
        what=step.what,
        function=step.function,
        file=step.file,
        line=step.line,
        instruction=step.instruction,
        value=_hex(step.value),
        certainty=step.certainty.value,
    )


def seen_to_wire(seen: Seen | None) -> SeenWire | None:
    """The same in the contract's names."""
    if seen is None:
        return None
    return SeenWire(
        count=seen.count,
        first=utc(seen.first_s),
        last=utc(seen.last_s),
        note=seen.note or None,
    )


def _group(group: Group, seen: Seen | None) -> GroupWire:
    return GroupWire(
        signature=group.signature,
        count=len(group.cores),
        cores=list(group.cores),
        representative=group.representative,
        seen=seen_to_wire(seen),
    )


def _failure(failure: Failure) -> FailureWire:
    return FailureWire(path=failure.path, error=failure.error, remedy=failure.remedy)


def _hex(value: int | None) -> Hex | None:
    return None if value is None else f"{value:#x}"
