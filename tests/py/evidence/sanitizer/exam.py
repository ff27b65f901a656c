"""Compares what was read with what a sample's description says, field by field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllm_forensics.model.sanitizer import LogReading, PrintedFrame, PrintedReport, Role

SAMPLES = Path(__file__).parents[2] / "data" / "sanitizer"
EXPECTED: dict[str, dict[str, Any]] = json.loads(
    (SAMPLES / "expected.json").read_text(encoding="utf-8")
)["files"]


def functions(frames: tuple[PrintedFrame, ...], count: int) -> list[str | None]:
    return [frame.function for frame in frames[:count]]


def frames_of(report: PrintedReport, *roles: Role) -> tuple[PrintedFrame, ...]:
    for role in roles:
        event = report.first(role)
        if event is not None:
            return event.frames
    return ()


def differences(name: str, reading: LogReading) -> list[str]:
    """What is wrong, as `field: expected, got`; empty where all is right."""
    expected = EXPECTED[name]
    wrong = []
    reports = list(reading.reports)
    counts = {expected["n_reports"], expected["n_reports_distinct"]}
    if len(reports) not in counts:
        wrong.append(f"reports: {sorted(counts)}, got {[report.kind for report in reports]}")
        return wrong
    for field, want, got in _fields(expected, reports):
        if field not in expected["dontcare"] and want != got:
            wrong.append(f"{field}: {want!r}, got {got!r}")
    return wrong


def _fields(
    expected: dict[str, Any], reports: list[PrintedReport]
) -> Iterator[tuple[str, object, object]]:
    for at, (want, report) in enumerate(zip(expected["reports"], reports, strict=False)):
        yield from _short(at, want, report, expected["dontcare"])
    if not reports:
        return
    first = reports[0]
    access = first.access
    yield "sanitizer", expected["sanitizer"], first.sanitizer
    yield "kind", expected["kind"], first.kind
    yield "pid", expected["pid"], first.pid
    yield "thread", expected["thread"], first.thread
    yield "address", expected["address"], first.address
    yield "access", expected["access"], access.type if access else None
    yield "size", expected["size"], access.size if access else None
    use = frames_of(first, Role.USE)
    yield "frames_use", expected["frames_use"], functions(use, 5)
    allocated = frames_of(first, Role.ALLOCATE, Role.LEAK)
    origin = frames_of(first, Role.ORIGIN)
    freed = frames_of(first, Role.FREE)
    previous = frames_of(first, Role.PREVIOUS_ACCESS)
    yield "alloc_top_functions", expected["alloc_top_functions"], functions(allocated, 3)
    yield "has_alloc_stack", expected["has_alloc_stack"], bool(allocated)
    yield "free_top_functions", expected["free_top_functions"], functions(freed, 3)
    yield "has_free_stack", expected["has_free_stack"], bool(freed)
    for name, stack in (("prev", previous), ("origin", origin)):
        if f"has_{name}_stack" in expected:
            yield f"has_{name}_stack", expected[f"has_{name}_stack"], bool(stack)
            top = functions(stack, 3)
            yield f"{name}_top_functions", expected[f"{name}_top_functions"], top
    threads = len(first.stacks(Role.THREAD_CREATE))
    yield "n_thread_stacks", expected["n_thread_stacks"], threads
    if expected.get("summary") and expected["note"] != "truncated inside the free stack":
        yield "summary", expected["summary"], first.summary
    if "region" in expected:
        yield "region", expected["region"], _region(first)
    if "location" in expected:
        yield "location", expected["location"], first.location
        yield "message", expected["message"], first.message
    if "leaks" in expected:
        leaks = [
            {"direct": leak.direct, "size": leak.size, "objects": leak.objects}
            for leak in first.leaks
        ]
        yield "leaks", expected["leaks"], leaks
    if expected.get("top_frame"):
        yield "top_frame", expected["top_frame"], _top(use)


def _short(
    at: int, want: dict[str, Any], report: PrintedReport, ignored: list[str]
) -> Iterator[tuple[str, object, object]]:
    prefix = f"report {at} "
    access = report.access
    yield prefix + "sanitizer", want["sanitizer"], report.sanitizer
    yield prefix + "kind", want["kind"], report.kind
    if want["line"] is not None:
        yield prefix + "line", want["line"], report.lines[0]
    if "address" not in ignored or want["address"] is not None:
        yield prefix + "address", want["address"], report.address
    if "access" not in ignored or want["access"] is not None:
        yield prefix + "access", want["access"], access.type if access else None
    if "size" not in ignored or want["size"] is not None:
        yield prefix + "size", want["size"], access.size if access else None
    if want["kind"] not in {"memory-leak", "thread-leak", "odr-violation"}:
        use = functions(frames_of(report, Role.USE), 3)
        yield prefix + "frames_use", want["frames_use"], use


def _region(report: PrintedReport) -> dict[str, object] | None:
    region = report.region
    if region is None:
        return None
    return {
        "start": region.start,
        "end": region.end,
        "size": region.size,
        "offset": region.offset,
        "relation": region.relation.value if region.relation else None,
    }


def _top(frames: tuple[PrintedFrame, ...]) -> dict[str, object] | None:
    if not frames:
        return None
    top = frames[0]
    return {
        "function": top.function,
        "file": top.file,
        "line": top.line,
        "column": top.column,
        "module": top.module,
        "offset": top.offset,
    }
