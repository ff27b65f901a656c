"""GWP-ASan, the sampling allocator of Android, Chrome and Scudo: segv_handler_posix.cpp.

Its reports name no process, and their kind in words that we write as the other runtimes do.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import HEX, SIGNAL_RULES
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Region, Relation, Role

HEADER: Final = "*** GWP-ASan detected a memory error ***"
_RELATIONS: Final = {
    "into": Relation.INSIDE,
    "to the left": Relation.BEFORE,
    "before": Relation.BEFORE,
    "to the right": Relation.AFTER,
    "after": Relation.AFTER,
}


def _error(report: ReportBuilder, match: re.Match[str]) -> None:
    report.kind = "-".join(match["kind"].replace("(Wild) ", "").lower().split())
    report.message = match["kind"]
    report.address = match["address"]
    report.thread = match["thread"]
    report.set_stack_thread(report.thread)
    if match["size"] is None:
        return
    size, start = int(match["size"]), match["start"]
    offset = int(match["offset"]) if match["offset"] else None
    relation = _RELATIONS.get(match["relation"] or "")
    end = None
    if start is not None:
        # To the right is counted from the beginning by some versions, from the end by others.
        first = int(start, 16)
        end, away = f"0x{first + size:x}", int(match["address"], 16) - first
        if away >= size:
            offset, relation = away - size, Relation.AFTER
        elif away >= 0:
            offset, relation = away, Relation.INSIDE
    report.region = Region(
        kind="heap", start=start, end=end, size=size, offset=offset, relation=relation
    )


def _unknown(report: ReportBuilder, match: re.Match[str]) -> None:
    report.kind, report.message = "unknown", match[0]
    report.provisional = False


def _done(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.done = True


RUNTIME: Final = Runtime(
    name="GWP-ASan",
    rules=(
        Section(
            rf"(?P<kind>[A-Z][a-z]+ (?:[A-Za-z()]+ )*[A-Za-z]+)"
            rf"(?: \(warning: .{{0,400}}?\))? at (?P<address>{HEX})"
            r"(?: \((?:(?P<offset>\d+) bytes? "
            r"(?P<relation>into|to the left|to the right|before|after)"
            rf"(?: of)? )?an? (?P<size>\d+)-byte allocation(?: at (?P<start>{HEX}))?\)|"
            r" \([^)]*\))? by thread (?P<thread>\d+|<unknown>) here:",
            Role.USE,
            _error,
        ),
        Section(rf"{HEX} was deallocated by thread (?P<thread>\d+|<unknown>) here:", Role.FREE),
        Section(rf"{HEX} was allocated by thread (?P<thread>\d+|<unknown>) here:", Role.ALLOCATE),
        Fact(r"GWP-ASan cannot provide any more information", _unknown),
        Fact(r"\*\*\* End GWP-ASan report", _done),
        *SIGNAL_RULES,
    ),
)
