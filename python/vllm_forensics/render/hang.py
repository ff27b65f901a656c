"""What a look at a living process tree gave, for a person and for a script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.hang import HangFinding, HangReport, LiveProcess, Node, Wait
from vllm_forensics.model.stack import Frame, FrameKind, Stack
from vllm_forensics.render.json_text import json_text
from vllm_forensics.render.rows import Rows, paragraph, steps
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_FRAMES = 5
_LABEL_WIDTH = 8


class NodeWire(msgspec.Struct, frozen=True, kw_only=True):
    """A thread, or a whole process."""

    pid: int
    tid: int | None


class WaitWire(msgspec.Struct, frozen=True, kw_only=True):
    """One edge of the wait-for graph."""

    waiter: NodeWire
    holder: NodeWire
    resource: str
    proof: str


class HangFindingWire(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict."""

    kind: Literal["deadlock", "gil-wait", "busy-loop", "waiting-on-peer", "stopped", "idle"]
    summary: str
    proof: list[str]


class LiveThreadWire(msgspec.Struct, frozen=True, kw_only=True):
    """One thread while it was watched."""

    id: int
    name: str
    state: str
    cpu_share: float
    frames: list[str]
    """Functions, or module and offset, the innermost first."""


class LiveProcessWire(msgspec.Struct, frozen=True, kw_only=True):
    """One process while it was watched."""

    pid: int
    parent: int
    command: str
    threads: list[LiveThreadWire]


class HangReportWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics core --pid PID --format json`."""

    schema: Literal["forensics.hang/1"]
    findings: list[HangFindingWire]
    waits: list[WaitWire]
    processes: list[LiveProcessWire]
    snapshots: list[str]
    gaps: list[str]


def schema() -> dict[str, Any]:
    """The JSON schema of the report."""
    return msgspec.json.schema(HangReportWire)


def render_hang_json(report: HangReport) -> str:
    """The report as JSON, ending in a newline."""
    stacks = _by_thread(report)
    wire = HangReportWire(
        schema="forensics.hang/1",
        findings=[
            HangFindingWire(
                kind=finding.kind.value, summary=finding.summary, proof=list(finding.proof)
            )
            for finding in report.findings
        ],
        waits=[_wait(wait) for wait in report.waits],
        processes=[_process(process, stacks) for process in report.processes],
        snapshots=list(report.snapshots),
        gaps=list(report.gaps),
    )
    return json_text(wire)


def render_hang(report: HangReport, style: TerminalStyle) -> str:
    """The verdicts first, then each process with its threads and their innermost calls."""
    return render_parts(_parts(report), style)


def _parts(report: HangReport) -> Iterator[RenderableType]:
    for finding in report.findings:
        yield from _finding(finding)
    stacks = _by_thread(report)
    for process in report.processes:
        yield Text()
        title = Text(f"process {process.pid}", style="head")
        outside = "" if process.in_tree else ", outside of the tree"
        title.append(f"  {process.command}  child of {process.parent}{outside}", style="quiet")
        yield title
        yield _threads(process, stacks)
    for gap in report.gaps:
        yield Text()
        yield paragraph(Text(f"not seen: {gap}", style="caution"))
    if report.snapshots:
        yield Text()
        yield steps([f"forensics core --gdb {shlex.quote(report.snapshots[0])}"], _LABEL_WIDTH)


def _finding(finding: HangFinding) -> Iterator[RenderableType]:
    yield Text(f"━━ {finding.kind.value} ━━", style="title")
    yield paragraph(Text(finding.summary))
    for proof in finding.proof:
        yield paragraph(Text(f"  {proof}", style="quiet"))


def _threads(process: LiveProcess, stacks: dict[tuple[int, int], Stack]) -> Rows:
    table = Rows(gap=1)
    shares = [f"{thread.cpu_share:.0%}" for thread in process.threads]
    digits = max(map(len, shares), default=0)
    for thread, share in zip(process.threads, shares, strict=True):
        found = _innermost(stacks.get((process.pid, thread.tid)))
        calls = " ← ".join(_call_at(frame) for frame in found) or f"state {thread.state}"
        table.add_row(f"  {thread.tid} {thread.name}", f"{share:>{digits}}", Text(calls))
    return table


def _calls(stack: Stack | None) -> list[str]:
    return [_call(frame) for frame in _innermost(stack)]


def _innermost(stack: Stack | None) -> list[Frame]:
    """The innermost native calls, then the innermost Python ones."""
    frames = stack.frames if stack else ()
    native = [frame for frame in frames if frame.kind is not FrameKind.PYTHON]
    python = [frame for frame in frames if frame.kind is FrameKind.PYTHON]
    return [*native[:_FRAMES], *python[:_FRAMES]]


def _call_at(frame: Frame) -> str:
    """With its line, which for a native call stands in the text alone."""
    if frame.kind is FrameKind.PYTHON or frame.file is None or frame.line is None:
        return _call(frame)
    return f"{_call(frame)} ({frame.file.rsplit('/', 1)[-1]}:{frame.line})"


def _call(frame: Frame) -> str:
    if frame.kind is FrameKind.PYTHON:
        return f"{frame.function} ({(frame.file or '?').rsplit('/', 1)[-1]}:{frame.line or '?'})"
    module = (frame.module or "?").rsplit("/", 1)[-1]
    return frame.function or f"{module}+{frame.module_offset or 0:#x}"


def _by_thread(report: HangReport) -> dict[tuple[int, int], Stack]:
    return {(pid, stack.tid): stack for pid, stack in report.stacks}


def _wait(wait: Wait) -> WaitWire:
    return WaitWire(
        waiter=_node(wait.waiter),
        holder=_node(wait.holder),
        resource=wait.resource,
        proof=wait.proof,
    )


def _node(node: Node) -> NodeWire:
    return NodeWire(pid=node.pid, tid=node.tid)


def _process(process: LiveProcess, stacks: dict[tuple[int, int], Stack]) -> LiveProcessWire:
    return LiveProcessWire(
        pid=process.pid,
        parent=process.parent,
        command=process.command,
        threads=[
            LiveThreadWire(
                id=thread.tid,
                name=thread.name,
                state=thread.state,
                cpu_share=round(thread.cpu_share, 3),
                frames=_calls(stacks.get((process.pid, thread.tid))),
            )
            for thread in process.threads
        ],
    )
