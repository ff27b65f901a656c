"""The first sentence about a report whose header alone says too little, kind by kind.

Every figure is one that the report prints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final

from vllm_forensics.diagnosis.sanitizer.frames import name_of, own_by_default
from vllm_forensics.diagnosis.sanitizer.names import stable_name
from vllm_forensics.diagnosis.sanitizer.signals import (
    abrt,
    bus,
    fpe,
    ill,
    in_thread,
    segv,
    verb_of,
)
from vllm_forensics.model.sanitizer import PrintedReport, Relation, Role

_RANGES: Final = re.compile(
    r"\[(0x[0-9a-f]+), ?(0x[0-9a-f]+)\) and \[(0x[0-9a-f]+), ?(0x[0-9a-f]+)\)"
)
_TYPE_SIZES: Final = re.compile(
    r"size of the allocated type:\s+(\d{1,20}) bytes.{0,200}?"
    r"size of the deallocated type:\s+(\d{1,20}) bytes",
    re.DOTALL,
)
_DEFINED: Final = re.compile(r"\[\d\] size=(\d{1,20}) '([^'\n]{1,300})' (\S{1,500})")
_REQUESTED: Final = re.compile(r"requested allocation size (0x[0-9a-f]{1,16}|\d{1,20})")
_MALLOC_LIMIT: Final = re.compile(r"malloc\((\d{1,20})\)")
_USED: Final = re.compile(r"used: (\d{1,12})Mb; limit: (\d{1,12})Mb")
_RSS: Final = re.compile(r"limit exhausted \((\d{1,12})Mb vs (\d{1,12})Mb\)")
_MISMATCH: Final = re.compile(r"\((.{1,60}) vs (.{1,60})\)")
_NEGATIVE: Final = re.compile(r"size=(-\d{1,20})")
_MAX_CYCLE: Final = 6


def opening(report: PrintedReport, where: str) -> str | None:
    """The sentence; None where the general one says it well. `where`: the first own frame."""
    if report.sanitizer == "ThreadSanitizer" and report.kind in _MUTEX:
        return _MUTEX[report.kind].format(where=where)
    say = _BY_KIND.get(report.kind)
    if say is None and report.kind.endswith("-param-overlap"):
        say = _overlap
    return say(report, where) if say is not None else None


def _mismatch(report: PrintedReport, where: str) -> str | None:
    match = _MISMATCH.search(report.message or "")
    if match is None:
        return None
    return (
        f"{where} frees by {match[2]} what {match[1]} allocated{in_thread(report)}: {report.kind}."
    )


def _type_mismatch(report: PrintedReport, where: str) -> str | None:
    match = _TYPE_SIZES.search(report.raw)
    if match is None:
        return None
    return (
        f"{where} deletes an object of {int(match[1]):,} bytes as one of {int(match[2]):,} bytes"
        f"{in_thread(report)}: {report.kind}."
    )


def _bad_free(report: PrintedReport, where: str) -> str:
    region = report.region
    what = f"{report.address or 'an address'}, which no allocation gave"
    if region is not None and region.kind == "heap" and region.relation is Relation.INSIDE:
        what = f"an address {region.offset} bytes into a {region.size}-byte heap block"
    elif region is not None and region.name is not None:
        what = f"the {region.kind} variable '{region.name}'{_defined_in(region.place)}"
    elif region is not None:
        what = f"an address in {region.kind} memory"
    return f"{where} frees {what}{in_thread(report)}: {report.kind}."


def _defined_in(place: str | None) -> str:
    return f" ({place})" if place else ""


def _double_free(report: PrintedReport, where: str) -> str:
    size = f" {report.region.size}-byte" if report.region and report.region.size is not None else ""
    return f"{where} frees a{size} block for the second time{in_thread(report)}: {report.kind}."


def _too_big(report: PrintedReport, where: str) -> str | None:
    match = _REQUESTED.search(report.message or "")
    if match is None:
        return None
    size = int(match[1], 0)
    as_signed = f", which is {size - (1 << 64):,} as a signed number" if size >> 63 else ""
    return f"{where} asks for {size:,} bytes{as_signed}{in_thread(report)}: {report.kind}."


def _overlap(report: PrintedReport, where: str) -> str | None:
    match = _RANGES.search(report.message or "")
    if match is None:
        return None
    first, first_end, second, second_end = (int(number, 16) for number in match.groups())
    shared = min(first_end, second_end) - max(first, second)
    function = report.kind.removesuffix("-param-overlap")
    return (
        f"{where} gives {function} two ranges that share {shared:,} of "
        f"{first_end - first:,} bytes: {report.kind}."
    )


def _negative(report: PrintedReport, where: str) -> str | None:
    match = _NEGATIVE.search(report.message or "")
    if match is None:
        return None
    return f"{where} passes a size of {match[1]}, which is huge as an unsigned one: {report.kind}."


def _dynamic(report: PrintedReport, where: str) -> str:
    size = report.access.size if report.access else None
    verb, _, memory = verb_of(report).partition(" ")
    amount = f"{size} byte{'s' if size != 1 else ''}" if size else memory
    return (
        f"{where} {verb} {amount} beyond an array of variable length on the stack"
        f"{in_thread(report)}: {report.kind}."
    )


def _odr(report: PrintedReport, where: str) -> str | None:
    del where
    found = _DEFINED.findall(report.raw[:20_000])
    if len(found) < 2:
        return None
    (size, name, place), (other_size, _, other_place) = found[:2]
    sizes = "of one size" if size == other_size else "of different sizes"
    return (
        f"'{name}' is defined twice, {sizes}: {size} bytes at {place}, {other_size} bytes at "
        f"{other_place}: {report.kind}."
    )


def _memory_limit(report: PrintedReport, where: str) -> str | None:
    message = report.message or ""
    if match := _MALLOC_LIMIT.search(message):
        return f"{where} asks for {int(match[1]):,} bytes, above the limit: {report.kind}."
    if match := _USED.search(message):
        return f"The program uses {match[1]} MB, above its limit of {match[2]} MB: {report.kind}."
    if match := _RSS.search(message):
        return f"The program uses {match[2]} MB, above its limit of {match[1]} MB: {report.kind}."
    return None


def _recursion(report: PrintedReport, where: str) -> str:
    use = report.first(Role.USE)
    frames = [frame for frame in (use.frames if use else ()) if own_by_default(frame)]
    names = [stable_name(name_of(frame)) for frame in frames]
    again = [name for name, count in Counter(names).items() if count > 1]
    if not again:
        return (
            f"The stack ends in {where}{in_thread(report)}, and none of the {len(names)} own "
            f"frames that are printed repeats: a large frame, or a small stack: {report.kind}."
        )
    shown = ", ".join(again[:_MAX_CYCLE]) + (", …" if len(again) > _MAX_CYCLE else "")
    shown = " and ".join(again) if len(again) == 2 else shown
    calls = "calls itself" if len(again) == 1 else "call one another without end"
    times = sum(name in again for name in names)
    return (
        f"{shown} {calls}{in_thread(report)} ({times} of the {len(names)} own frames printed): "
        f"{report.kind}."
    )


def _uninitialized(report: PrintedReport, where: str) -> str:
    return f"{where} decides by, or passes on, a value that was never set: {report.kind}."


def _initialization(report: PrintedReport, where: str) -> str | None:
    region = report.region
    if region is None or region.name is None:
        return None
    return (
        f"{where}, while globals are set up, {verb_of(report).split()[0]} the global "
        f"'{region.name}'{_defined_in(region.place)} of another file, which may not be "
        f"set up yet: {report.kind}."
    )


def _pointer_pair(report: PrintedReport, where: str) -> str:
    return f"{where} compares or subtracts pointers into two different objects: {report.kind}."


def _lock_order(report: PrintedReport, where: str) -> str:
    return f"Locks are taken in more than one order, first seen in {where}: {report.kind}."


def _thread_leak(report: PrintedReport, where: str) -> str:
    del where
    created = report.first(Role.THREAD_CREATE)
    name = created.thread if created and created.thread else "A thread"
    has_ended = created is not None and "finished" in (created.what or "")
    return f"{name} {'ended' if has_ended else 'was started'} and was never joined: {report.kind}."


_MUTEX: Final = {
    "unlock-of-an-unlocked-mutex": "{where} unlocks a mutex that is not locked, or that another "
    "thread locked: unlock-of-an-unlocked-mutex.",
    "double-lock-of-a-mutex": "{where} locks a mutex that its own thread holds already: "
    "double-lock-of-a-mutex.",
    "destroy-of-a-locked-mutex": "{where} destroys a mutex that is locked: "
    "destroy-of-a-locked-mutex.",
}
_BY_KIND: Final[dict[str, Callable[[PrintedReport, str], str | None]]] = {
    "segv": segv,
    "invalid-jump": segv,
    "bus": bus,
    "fpe": fpe,
    "ill": ill,
    "abrt": abrt,
    "deadly-signal": abrt,
    "alloc-dealloc-mismatch": _mismatch,
    "new-delete-type-mismatch": _type_mismatch,
    "bad-free": _bad_free,
    "double-free": _double_free,
    "allocation-size-too-big": _too_big,
    "negative-size-param": _negative,
    "dynamic-stack-buffer-overflow": _dynamic,
    "odr-violation": _odr,
    "out-of-memory": _memory_limit,
    "rss-limit-exceeded": _memory_limit,
    "stack-overflow": _recursion,
    "use-of-uninitialized-value": _uninitialized,
    "initialization-order-fiasco": _initialization,
    "invalid-pointer-pair": _pointer_pair,
    "lock-order-inversion": _lock_order,
    "thread-leak": _thread_leak,
}
