"""Holds two reports against each other, part by part of their signatures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vllm_forensics.diagnosis.compared_parts import aligned, listed, verdict
from vllm_forensics.diagnosis.compared_parts import why_signatures as why_bare_signatures
from vllm_forensics.diagnosis.sanitizer.frames import own_by_default, place_of
from vllm_forensics.diagnosis.sanitizer.signature import (
    USE_FRAMES,
    frame_name,
    signature_parts,
)
from vllm_forensics.model.sanitizer import (
    PrintedFrame,
    PrintedReport,
    Role,
    StackEvent,
)
from vllm_forensics.model.sanitizer_sieve import signature_key
from vllm_forensics.model.sanitizer_why import Compared, Why, WhySide


def why_reports(one: tuple[WhySide, PrintedReport], other: tuple[WhySide, PrintedReport]) -> Why:
    """Two reports: every part, and what was left out of the comparison."""
    (side, report), (other_side, other_report) = one, other
    parts = aligned(signature_parts(report), signature_parts(other_report))
    same = signature_key(side.signature) == signature_key(other_side.signature)
    dropped = tuple(pair for pair in _dropped(report, other_report) if not pair.agrees)
    kinds = tuple(dict.fromkeys(_kind_of(pair) for pair in dropped))
    return Why(
        one=side,
        other=other_side,
        same=same,
        parts=parts,
        dropped=dropped,
        explanation=" ".join(
            (verdict(parts, kinds, same=same), *_doubts(report, other_report, same=same))
        ),
    )


def why_signatures(one: WhySide, other: WhySide) -> Why:
    """At least one of the two is only a signature."""
    return why_bare_signatures(one, other, ask="name the logs too, forensics asan --why A B LOG…")


def _dropped(one: PrintedReport, other: PrintedReport) -> Iterator[Compared]:
    """All that a signature leaves out."""
    for name, ours, theirs in (
        ("process", one.pid, other.pid),
        ("thread", one.thread, other.thread),
        ("address", one.address, other.address),
        ("pc", one.pc, other.pc),
        ("size of the access", _access_size(one), _access_size(other)),
        ("size of the region", _region(one, "size"), _region(other, "size")),
        ("offset in the region", _region(one, "offset"), _region(other, "offset")),
        ("message", _message(one), _message(other)),
        ("column", _column(one), _column(other)),
        ("leaked bytes", _leaked(one), _leaked(other)),
        ("runtime frames of the use", _runtime(one), _runtime(other)),
        ("own frames behind the third", _behind(one), _behind(other)),
        ("threads' creation", _creation(one), _creation(other)),
    ):
        yield Compared(name=name, one=_text(ours), other=_text(theirs))
    ours_by_name, theirs_by_name = _by_name(one), _by_name(other)
    for name, frame in ours_by_name.items():
        twin = theirs_by_name.get(name)
        if twin is not None:
            yield Compared(name=f"line in {name}", one=place_of(frame), other=place_of(twin))
            yield Compared(name=f"spelling of {name}", one=frame.function, other=twin.function)
            if frame.function is not None and twin.function is not None:
                yield Compared(name=f"offset of {name}", one=frame.offset, other=twin.offset)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _access_size(report: PrintedReport) -> int | None:
    return report.access.size if report.access else None


def _region(report: PrintedReport, field: str) -> int | None:
    if report.region is None:
        return None
    return report.region.size if field == "size" else report.region.offset


def _message(report: PrintedReport) -> str | None:
    """With its values; elsewhere the message is the header, of addresses."""
    return report.message if report.location else None


def _column(report: PrintedReport) -> str | None:
    parts = (report.location or "").rsplit(":", 2)
    return parts[2] if len(parts) == 3 and parts[1].isdigit() else None


def _leaked(report: PrintedReport) -> int | None:
    return sum(leak.size for leak in report.leaks) if report.leaks else None


def _use_frames(report: PrintedReport, *, own: bool) -> list[str]:
    use = report.first(Role.USE)
    frames = use.frames if use else ()
    return list(dict.fromkeys(frame_name(f) for f in frames if own_by_default(f) is own))


def _runtime(report: PrintedReport) -> str:
    return listed(tuple(_use_frames(report, own=False)))


def _behind(report: PrintedReport) -> str:
    return listed(tuple(_use_frames(report, own=True)[USE_FRAMES:]))


def _creation(report: PrintedReport) -> str:
    if report.first(Role.USE) is None:
        return ""  # it counts then
    stacks = report.stacks(Role.THREAD_CREATE)
    return listed(tuple(sorted({frame_name(f) for stack in stacks for f in _first_own(stack)})))


def _first_own(stack: StackEvent) -> list[PrintedFrame]:
    return [frame for frame in stack.frames if own_by_default(frame)][:1]


def _by_name(report: PrintedReport) -> dict[str, PrintedFrame]:
    """The frames that count, by their names."""
    kept: dict[str, PrintedFrame] = {}
    for event in report.chain:
        if event.role is Role.THREAD_CREATE:
            continue
        limit = USE_FRAMES if event.role not in {Role.FREE, Role.ALLOCATE, Role.ORIGIN} else 1
        for frame in [frame for frame in event.frames if own_by_default(frame)][:limit]:
            kept.setdefault(frame_name(frame), frame)
    return kept


def _kind_of(pair: Compared) -> str:
    for words in ("line", "spelling", "offset"):
        if pair.name.startswith((f"{words} in ", f"{words} of ")) and "region" not in pair.name:
            return f"{words}s"
    return pair.name


def _doubts(one: PrintedReport, other: PrintedReport, *, same: bool) -> Iterable[str]:
    cut = [word for word, report in (("first", one), ("second", other)) if report.truncated]
    if cut and not same:
        yield f"The {' and the '.join(cut)} is cut off: a part that it lacks may be the same."
    if not same and _has_names(one) != _has_names(other):
        yield (
            "One of the two has no function names: the same bug with names has another signature "
            "(forensics asan --symbolize)."
        )


def _has_names(report: PrintedReport) -> bool:
    frames = [frame for event in report.chain for frame in event.frames]
    return not frames or any(frame.function for frame in frames)
