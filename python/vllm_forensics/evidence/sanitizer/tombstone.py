"""Android's crash reports where memory tagging or GWP-ASan found the fault: tombstone.cpp.

    signal 11 (SIGSEGV), code 9 (SEGV_MTESERR), fault addr 0x0a00007a3f2b1000 (write)
    Cause: [MTE]: Use After Free, 0 bytes into a 32-byte allocation at 0x7a3f2b1000
    backtrace:
          #00 pc 0000000000002b40  /data/app/lib/arm64/libq.so (copy_block+12)
    deallocated by thread 2138:

A tombstone of any other crash is no sanitizer's report.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.memory_rules import HEX
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.model.sanitizer import PrintedReport, Region, Relation, Role

NEEDLE: Final = b"*** *** *** ***"
"""Debuggerd prints sixteen groups."""
LATE_NEEDLE: Final = b"Cause: [MTE]: "
"""Where the banner was not copied; the process is named some lines above."""
_PREFIX: Final = re.compile(r"(?P<before>.*?)(?:\*{3} ){4,31}\*{3}\s*$")
_FIRST: Final = re.compile(
    r"(?P<before>.{0,200}?)pid: (?P<pid>\d{1,10}), tid: (?P<tid>\d{1,10}), name: .* >>> "
)
_RELATIONS: Final = {
    "into": Relation.INSIDE,
    "left": Relation.BEFORE,
    "before": Relation.BEFORE,
    "right": Relation.AFTER,
    "after": Relation.AFTER,
}


class Tombstone(ReportBuilder):
    """One crash; a report only where its cause or its signal says so."""

    __slots__ = ("tagged",)

    def __init__(self, line: int, text: str) -> None:
        """Begin with the banner, or with the line that names the process."""
        super().__init__(_MTE, None, line, text)
        self.tagged = False
        self.provisional = True
        self.message = "a crash of another kind"

    def caused(self, tool: str, kind: str) -> None:
        """Debuggerd's own explanation."""
        self.runtime = _GWP_ASAN if tool == "GWP-ASan" else _MTE
        self.kind = "-".join(kind.replace("(Wild) ", "").lower().split())
        self.tagged = True

    @property
    def has_evidence(self) -> bool:
        """Was memory tagging, or GWP-ASan, what found it?"""
        return self.tagged

    def build(self) -> PrintedReport:
        """Without a cause, the check that failed is all that is known."""
        if self.kind is None:
            self.kind = "tag-mismatch"
        return super().build()


def open_report(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """A tombstone where the line begins one, and what stands before it."""
    match = _PREFIX.match(text) or _FIRST.match(text)
    if match is None:
        return None
    begun = text[match.end("before") :]
    report = Tombstone(number, begun.strip())
    if match.re is _FIRST:
        report.feed(begun, number)
    return report, match["before"]


def _process(report: ReportBuilder, match: re.Match[str]) -> None:
    report.pid = int(match["pid"])
    report.thread = match["tid"]


def _signal(report: ReportBuilder, match: re.Match[str]) -> None:
    report.address = match["address"]
    report.access_type = match["type"].upper() if match["type"] else None
    report.message = match[0]
    if match["code"] in {"SEGV_MTESERR", "SEGV_MTEAERR"} and isinstance(report, Tombstone):
        report.tagged = True
        if match["code"] == "SEGV_MTEAERR":
            report.hints.append("checked asynchronously: the fault happened before this place")


def _cause(report: ReportBuilder, match: re.Match[str]) -> None:
    if not isinstance(report, Tombstone):
        return
    if report.kind is not None:  # several are possible: the first is the likeliest
        report.hints.append(match[0])
        return
    report.caused(match["tool"], match["kind"])
    report.message = match[0]
    if match["size"] is not None:
        start, size = int(match["start"], 16), int(match["size"])
        report.region = Region(
            kind="heap",
            start=match["start"],
            end=f"0x{start + size:x}",
            size=size,
            offset=int(match["offset"]),
            relation=_RELATIONS[match["relation"]],
        )


def _backtrace(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.set_stack_thread(report.thread)


_RULES: Final = (
    Fact(r"pid: (?P<pid>\d{1,10}), tid: (?P<tid>\d{1,10}), name: ", _process),
    Fact(
        r"signal \d+ \(\w+\), code -?\d+ \((?P<code>\w+)[^)]*\), fault addr "
        rf"(?P<address>{HEX})?-*(?: \((?P<type>read|write)\))?",
        _signal,
    ),
    Fact(
        r"Cause: \[(?P<tool>MTE|GWP-ASan)\]: (?P<kind>[A-Z][A-Za-z ()]{2,40})"
        r"(?:, (?P<offset>\d+) bytes? (?P<relation>into|left|right|before|after)(?: of)? an? "
        rf"(?P<size>\d+)-byte allocation at (?P<start>{HEX}))?",
        _cause,
    ),
    Section(r"backtrace:", Role.USE, _backtrace),
    Section(r"deallocated by thread (?P<thread>\d+)", Role.FREE),
    Section(r"allocated by thread (?P<thread>\d+)", Role.ALLOCATE),
    Section(r"(?:memory near|memory map|open files|log main|--- --- ---)", None),
    Fact(r"(?:Build fingerprint|Revision|ABI|Timestamp|Process uptime|Executable|Cmdline|uid): "),
    Fact(r"(?:tagged_addr_ctrl|pac_enabled_keys|esr|Abort message|Note): "),
    Fact(r"\d+ total frames$|(?:x\d+|lr|sp|pc|pst|r\d+|ip) +[0-9a-f]{8,16}\b"),
)
_MTE: Final = Runtime(name="MTE", rules=_RULES, first_role=None, ends_with_summary=False)
_GWP_ASAN: Final = Runtime(name="GWP-ASan", rules=_RULES, first_role=None, ends_with_summary=False)
