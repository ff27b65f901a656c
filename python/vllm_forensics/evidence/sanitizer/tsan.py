"""ThreadSanitizer: tsan_report.cpp."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import HEX, SIGNAL_RULES, THREAD
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Region, Relation, Role

_PARENTHESIS: Final = re.compile(r"\s*\([^)]*\)")


def kind_of(message: str) -> str:
    """`data race on vptr (ctor/dtor vs virtual call) (pid=1)` → `data-race-on-vptr`."""
    return "-".join(_PARENTHESIS.sub("", message).lower().split()).rstrip(":")


def _access(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type = "WRITE" if match["type"].lower().endswith("write") else "READ"
    report.access_size = int(match["size"])
    report.address = match["address"]
    report.thread = _thread(match["thread"])
    report.set_stack_thread(report.thread)


def _external(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type = "WRITE" if match["type"] == "Modifying" else "READ"
    report.address = match["address"]
    report.thread = _thread(match["thread"])
    report.set_stack_thread(report.thread)


def _other(report: ReportBuilder, match: re.Match[str]) -> None:
    report.set_stack_thread(_thread(match["thread"]))


def _thread(words: str) -> str:
    return words.removeprefix("thread ")


def _lock(report: ReportBuilder, match: re.Match[str]) -> None:
    report.locks.append(match[0].rstrip(":"))


def _acquired(report: ReportBuilder, match: re.Match[str]) -> None:
    report.locks.append(match[0].rstrip(":"))
    thread = match["thread"]
    if thread is not None:
        report.set_stack_thread(_thread(thread))
    elif "by the same thread" in match[0]:
        report.set_stack_thread(report.thread_before)


def _block(report: ReportBuilder, match: re.Match[str]) -> None:
    start, size = int(match["start"], 16), int(match["size"])
    offset = int(report.address, 16) - start if report.address else None
    report.region = Region(
        kind="heap",
        start=match["start"],
        end=f"0x{start + size:x}",
        size=size,
        offset=offset,
        relation=Relation.INSIDE if offset is not None and 0 <= offset < size else None,
    )
    report.set_stack_thread(_thread(match["thread"]))


def _global(report: ReportBuilder, match: re.Match[str]) -> None:
    start, size = int(match["start"], 16), int(match["size"])
    report.region = Region(
        kind="global",
        start=match["start"],
        end=f"0x{start + size:x}",
        size=size,
        name=match["name"],
    )


def _ruled_off(report: ReportBuilder, match: re.Match[str]) -> None:
    """The same line stands above the header and below the summary."""
    del match
    report.done = report.summary is not None


_BY: Final = rf"by (?P<thread>{THREAD})(?: \([^)]*\)| \[[^\]]*\]| '[^']*')*:?"
RUNTIME: Final = Runtime(
    name="ThreadSanitizer",
    rules=(
        Section(
            r"(?P<type>(?:Atomic )?(?:[Rr]ead|[Ww]rite)) of size (?P<size>\d+) at "
            rf"(?P<address>{HEX}) {_BY}",
            Role.USE,
            _access,
        ),
        Section(
            r"Previous (?:atomic )?(?:read|write) of size \d+ at "
            rf"{HEX} {_BY}",
            Role.PREVIOUS_ACCESS,
            _other,
        ),
        Section(  # of an object that Swift or a library guards
            r"(?P<type>Modifying|[Rr]ead-only) access of (?P<object>.{1,200}?) at "
            rf"(?P<address>{HEX}) {_BY}",
            Role.USE,
            _external,
        ),
        Section(
            rf"Previous (?:modifying|read-only) access of .{{1,200}}? at {HEX} {_BY}",
            Role.PREVIOUS_ACCESS,
            _other,
        ),
        Section(
            rf"Location is heap block of size (?P<size>\d+) at (?P<start>{HEX}) allocated {_BY}",
            Role.ALLOCATE,
            _block,
        ),
        Fact(
            rf"Location is global '(?P<name>[^']*)' of size (?P<size>\d+) at (?P<start>{HEX})",
            _global,
        ),
        Section(r"Location is |As if synchronized via", None),
        Section(r"(?P<lock>Mutex M\d+ \([^)]*\)) created at:", None, _lock),
        Section(
            r"Mutex M\d+ acquired here while holding mutex M\d+(?: in )?"
            rf"(?P<thread>{THREAD})?(?: \([^)]*\))?:?",
            Role.USE,
            _acquired,
        ),
        Section(
            rf"Mutex M\d+ previously acquired by the same thread(?P<thread>{THREAD})? here:",
            Role.LOCK_ACQUIRE,
            _acquired,
        ),
        Section(r"and:$", Role.LOCK_ACQUIRE),
        Section(
            rf"Thread (?P<thread>T\d+)(?: \([^)]*\)| '[^']*')* created (?:at:|by "
            rf"(?:thread )?(?P<creator>{THREAD})(?: \([^)]*\))?(?! here)(?: at)?:?)",
            Role.THREAD_CREATE,
        ),
        Fact(r"(?P<lock>Cycle in lock order graph: .*)", _lock),
        Fact(r"And \d+ more similar|Mutex M\d+ is already destroyed|DEDUP_TOKEN: |Hint: use TSAN"),
        Fact(r"={18}$", _ruled_off),
        *SIGNAL_RULES,
    ),
)
