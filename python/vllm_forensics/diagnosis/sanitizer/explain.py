"""Explains one sanitizer report: who allocated, freed and used, in which threads; what to do."""

from __future__ import annotations

from typing import Final

from vllm_forensics.diagnosis.sanitizer.advice import next_steps
from vllm_forensics.diagnosis.sanitizer.frames import (
    IsOwn,
    first_own,
    only_in_interpreter,
    own_by_default,
    where_of,
)
from vllm_forensics.diagnosis.sanitizer.kinds import cwe_of, is_null_page, severity_of
from vllm_forensics.diagnosis.sanitizer.lifetime import lifetime
from vllm_forensics.diagnosis.sanitizer.opening import opening
from vllm_forensics.diagnosis.sanitizer.signature import leak_signature, signature_of
from vllm_forensics.diagnosis.sanitizer.threads import creations, deadlock, other_access
from vllm_forensics.model.locations import Certainty
from vllm_forensics.model.sanitizer import (
    Culprit,
    ExplainedLeak,
    ExplainedReport,
    PrintedReport,
    Region,
    Relation,
    Role,
    StackEvent,
)

_BLAME: Final = (
    Role.USE,
    Role.LEAK,
    Role.FREE,
    Role.ALLOCATE,
    Role.PREVIOUS_ACCESS,
    Role.ORIGIN,
    Role.LOCK_ACQUIRE,
    Role.THREAD_CREATE,
)


def explain_report(report: PrintedReport, is_own: IsOwn = own_by_default) -> ExplainedReport:
    """Judge one report. Where nothing of it is own by `is_own`, the default rule decides."""
    own = _own_places(report, is_own)
    if not own and is_own is not own_by_default:
        is_own = own_by_default
        own = _own_places(report, is_own)
    severity, why = severity_of(report)
    return ExplainedReport(
        printed=report,
        culprit=_culprit(report, is_own),
        severity=severity,
        why=why,
        cwe=cwe_of(report),
        signature=signature_of(report),
        explanation=" ".join([*_sentences(report, is_own), *_doubts(report)]),
        next_steps=next_steps(report),
        own=own,
        leaks=_explained_leaks(report, is_own) if report.leaks else (),
    )


def _own_places(report: PrintedReport, is_own: IsOwn) -> tuple[tuple[int, int], ...]:
    return tuple(
        (at, index)
        for at, event in enumerate(report.chain)
        for index, frame in enumerate(event.frames)
        if is_own(frame)
    )


def _explained_leaks(report: PrintedReport, is_own: IsOwn) -> tuple[ExplainedLeak, ...]:
    """One for each leak record. A log that is cut off may lack the last one's stack."""
    stacks = report.stacks(Role.LEAK)
    padded = (*stacks, *[None] * (len(report.leaks) - len(stacks)))
    return tuple(
        ExplainedLeak(
            signature=leak_signature(report, stack),
            culprit=_culprit_in(stack, is_own),
            interpreter_only=only_in_interpreter(stack),
        )
        for _, stack in zip(report.leaks, padded, strict=False)
    )


def _doubts(report: PrintedReport) -> list[str]:
    frames = (frame for event in report.chain for frame in event.frames)
    if not any(frame.symbolized is Certainty.LIKELY for frame in frames):
        return []
    return ["Names and lines are likely, not proved: they are from files on this machine."]


def _culprit(report: PrintedReport, is_own: IsOwn) -> Culprit | None:
    for role in _BLAME:
        for event in report.stacks(role):
            culprit = _culprit_in(event, is_own)
            if culprit is not None:
                return culprit
    if report.location is None:
        return None
    file, _, rest = report.location.rpartition("/")[2].partition(":")
    head = report.location[: len(report.location) - len(rest) - 1] if rest else report.location
    line = rest.partition(":")[0]
    if not line.isdigit():
        return None
    return Culprit(function=None, file=head or file, line=int(line), role=Role.USE, index=0)


def _culprit_in(event: StackEvent | None, is_own: IsOwn) -> Culprit | None:
    frame = first_own(event, is_own)
    if event is None or frame is None:
        return None
    return Culprit(
        function=frame.function,
        file=frame.file,
        line=frame.line,
        role=event.role,
        index=frame.index,
    )


def _sentences(report: PrintedReport, is_own: IsOwn) -> list[str]:
    sentences = [_first(report, is_own)]
    if report.first(Role.FREE) is not None or report.first(Role.ALLOCATE) is not None:
        sentences += lifetime(report, is_own)
    elif report.region is not None and report.region.name and _is_near(report):
        place = f", {report.region.place}" if report.region.place else ""
        name = f"{report.region.kind} '{report.region.name}'{place}"
        sentences.append(f"The nearest variable is {name}.")
    sentences += _others(report, is_own)
    if report.shadow:
        sentences.append(f"The shadow byte says: {report.shadow}.")
    if report.truncated:
        sentences.append("The report is cut off: what follows in it is not known.")
    return sentences


def _is_near(report: PrintedReport) -> bool:
    """Is the region only what lies nearest, and not yet named by the first sentence?"""
    return report.access is None and report.kind not in {"bad-free", "lock-order-inversion"}


def _first(report: PrintedReport, is_own: IsOwn) -> str:
    if report.leaks:
        return _leaks(report, is_own)
    where = where_of(report.first(Role.USE), is_own)
    if report.location is not None and report.message is not None:
        inside = f", in {where}" if where else ""
        return f"{report.message} at {report.location}{inside}."
    said = opening(report, where or "the program")
    if said is not None:
        return said[0].upper() + said[1:] if said.startswith("the program") else said
    thread = f" in {report.thread}" if report.thread else ""
    if report.access is not None and report.access.type is not None:
        verb = "reads" if report.access.type == "READ" else "writes"
        size = _bytes(report.access.size) if report.access.size is not None else "memory"
        what = _relative(report.region) if report.region else _address(report)
        return f"{where or 'The program'} {verb} {size}{what}{thread}: {report.kind}."
    words = report.message or report.kind
    if report.sanitizer in {"ThreadSanitizer", "libFuzzer"} or len(words) > 160:
        words = report.kind
    inside = f", in {where}" if where else ""
    return f"{report.sanitizer}{inside}{thread}: {words.rstrip(':. ')}."


def _address(report: PrintedReport) -> str:
    if report.address is None:
        return " at an address that is not printed"
    if is_null_page(report):
        return f" at {report.address} (in the null page: a null pointer, or a field of one)"
    return f" at {report.address}"


def _relative(region: Region) -> str:
    size = f"a {region.size}-byte {region.kind} " if region.size is not None else f"{region.kind} "
    noun = "variable" if region.name else "block"
    name = f" '{region.name}'" if region.name else ""
    if region.offset is None or region.relation is None:
        return f" in {size}{noun}{name}"
    if region.relation is Relation.INSIDE:
        return f" at offset {region.offset} of {size}{noun}{name}"
    word = "past the end of" if region.relation is Relation.AFTER else "before the start of"
    distance = _bytes(region.offset) if region.offset else "directly"
    return f", {distance} {word} {size}{noun}{name}"


def _leaks(report: PrintedReport, is_own: IsOwn) -> str:
    total, count = sum(leak.size for leak in report.leaks), len(report.leaks)
    direct = [at for at, leak in enumerate(report.leaks) if leak.direct]
    stacks = report.stacks(Role.LEAK)
    inside = [at for at, stack in enumerate(stacks[:count]) if only_in_interpreter(stack)]
    candidates = [at for at in direct if at not in inside] or direct or list(range(count))
    largest = max(candidates, key=lambda at: report.leaks[at].size)
    where = where_of(stacks[largest] if largest < len(stacks) else None, is_own)
    size = _bytes(report.leaks[largest].size)
    by = f"; the largest, {size}, was allocated by {where}" if where else ""
    text = (
        f"{_bytes(total)} in {count:,} leak record{'s' if count != 1 else ''} were never freed: "
        f"{len(direct):,} direct, {count - len(direct):,} reachable only from those{by}."
    )
    if inside:
        of_python = sum(report.leaks[at].size for at in inside)
        text += (
            f" {len(inside):,} leak{'s' if len(inside) != 1 else ''} ({_bytes(of_python)}) only in "
            "CPython: not yours."
        )
    return text


def _others(report: PrintedReport, is_own: IsOwn) -> list[str]:
    sentences = other_access(report, is_own)
    if report.kind == "lock-order-inversion":
        sentences += deadlock(report, is_own)
    return [*sentences, *_origins(report, is_own), *creations(report, is_own)]


def _origins(report: PrintedReport, is_own: IsOwn) -> list[str]:
    """MemorySanitizer: where the value was created, and through which places it went."""
    sentences, stored = [], []
    for origin in report.stacks(Role.ORIGIN):
        source = where_of(origin, is_own)
        words = (origin.what or "").removeprefix("Uninitialized value was ").rstrip(":")
        words = words.partition(" in the stack frame of")[0]
        if source is None:
            continue
        if words.startswith("stored"):
            stored.append(source)
        else:
            sentences.append(f"The value was {words or 'created'} in {source}.")
        if "deallocation" in words:
            sentences.append("The memory had been freed: it is also a use after free.")
    if stored:
        sentences.append(f"From there it was stored in {', then in '.join(stored[:3])}.")
    return sentences


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' if count != 1 else ''}"
