"""Hardware-assisted AddressSanitizer: hwasan_report.cpp."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import (
    HEX,
    OWNER_RULES,
    SHADOW_RULES,
    SIGNAL_RULES,
)
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import Region, Relation, Role


def _cause(report: ReportBuilder, match: re.Match[str]) -> None:
    report.hints.append(f"cause: {match['cause']}")


def _chunk(report: ReportBuilder, match: re.Match[str]) -> None:
    offset, size = int(match["offset"]), int(match["size"])
    if report.region is None:
        report.region = Region(
            kind="heap",
            start=match["start"],
            end=match["end"],
            size=size,
            offset=offset if offset < size else offset - size,
            relation=Relation.INSIDE if offset < size else Relation.AFTER,
        )


def _object(report: ReportBuilder, match: re.Match[str]) -> None:
    report.region = Region(
        kind="heap", start=match["start"], end=match["end"], size=int(match["size"])
    )


def read_header(report: ReportBuilder, message: str) -> None:
    """The object whose tail was overwritten, which the header alone names."""
    match = _TAIL.search(message)
    if match is not None:
        _object(report, match)


_TAIL: Final = re.compile(rf"heap object \[(?P<start>{HEX}),(?P<end>{HEX})\) of size (?P<size>\d+)")
RUNTIME: Final = Runtime(
    name="HWAddressSanitizer",
    rules=(
        Section(r"deallocated here:", Role.FREE),
        Fact(
            rf"\[(?P<start>{HEX}),(?P<end>{HEX})\) is a \w+ \w+ heap chunk; "
            r"size: (?P<size>\d+) offset: (?P<offset>\d+)",
            _chunk,
        ),
        Fact(r"Cause: (?P<cause>.*)", _cause),
        *SHADOW_RULES,
        *OWNER_RULES,
        *SIGNAL_RULES,
        Fact(r"Thread: T\d+ 0x"),
        Section(r"Previously allocated frames:|Potentially referenced stack objects:", None),
        Fact(r"Invalid access starting at offset|Stack of overwritten|tag:|Tail contains:"),
        Fact(r"expected:|Tail magic|Registers where the failure occurred|x\d+ +[0-9a-f]{16}"),
    ),
)
