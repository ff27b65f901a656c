"""Lines that the runtimes with shadow memory have in common: regions, owners, threads, signals."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.rules import Fact, Section
from vllm_forensics.evidence.sanitizer.runs import LEGEND_NAMES
from vllm_forensics.model.sanitizer import Region, Relation, Role

HEX: Final = r"0x[0-9a-fA-F]{1,16}"
THREAD: Final = r"T-?\d+|main thread|thread T?\d+|unknown thread|<unknown>"
_RELATIONS: Final = {
    "inside": Relation.INSIDE,
    "before": Relation.BEFORE,
    "after": Relation.AFTER,
    "to the left": Relation.BEFORE,
    "to the right": Relation.AFTER,
}


def _relation(words: str) -> Relation:
    return next(found for start, found in _RELATIONS.items() if words.startswith(start))


def _heap(report: ReportBuilder, match: re.Match[str]) -> None:
    if report.region is not None:
        return
    report.region = Region(
        kind="heap",
        start=match["start"],
        end=match["end"],
        size=int(match["size"]),
        offset=int(match["offset"]),
        relation=_relation(match["relation"]),
    )


def _global(report: ReportBuilder, match: re.Match[str]) -> None:
    known = report.region
    offset = int(match["offset"])
    # Of several variables near an address, the nearest.
    if known is not None and (known.kind != "global" or (known.offset or 0) <= offset):
        return
    size = int(match["size"])
    report.region = Region(
        kind="global",
        start=match["start"],
        end=f"0x{int(match['start'], 16) + size:x}",
        size=size,
        offset=offset,
        relation=_relation(match["relation"]),
        name=match["name"],
        place=match["place"],
    )


def _variable_of_module(report: ReportBuilder, match: re.Match[str]) -> None:
    known = report.region
    offset = int(match["offset"])
    if known is not None and (known.kind == "heap" or (known.offset or 0) <= offset):
        return
    report.region = Region(
        kind="global" if match["kind"].startswith("global") else "stack",
        start=match["start"],
        end=match["end"],
        size=int(match["size"]),
        offset=offset,
        relation=_relation(match["relation"]),
        name=match["name"] if match["name"] != "??" else None,
        place=match["place"],
    )


def _in_stack(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    if report.region is None:
        report.region = Region(kind="stack")


def _variable(report: ReportBuilder, match: re.Match[str]) -> None:
    start, end, at = int(match["start"]), int(match["end"]), int(match["at"])
    words = match["verdict"]
    if "overflow" in words:
        offset, relation = at - end, Relation.AFTER
    elif "underflow" in words:
        offset, relation = start - at, Relation.BEFORE
    else:
        offset, relation = at - start, Relation.INSIDE
    report.region = Region(
        kind="stack",
        size=end - start,
        offset=offset,
        relation=relation,
        name=match["name"],
        place=f"line {match['line']}" if match["line"] else None,
    )


def _access(report: ReportBuilder, match: re.Match[str]) -> None:
    if match["type"] in {"READ", "WRITE"}:
        report.access_type = match["type"]
    report.access_size = int(match["size"])
    report.address = report.address or match["address"]
    report.thread = match["thread"] or report.thread
    report.set_stack_thread(report.thread)


def _shortened_access(report: ReportBuilder, match: re.Match[str]) -> None:
    report.access_type, report.access_size = match["type"], int(match["size"])


def _signal_access(report: ReportBuilder, match: re.Match[str]) -> None:
    if match["type"] in {"READ", "WRITE"}:
        report.access_type = match["type"]


def _hint(report: ReportBuilder, match: re.Match[str]) -> None:
    if report.hints and match["hint"].startswith(report.hints[-1]):
        report.hints.pop()  # the first half of a line that was broken
    report.hints.append(match["hint"])


def _done(report: ReportBuilder, match: re.Match[str]) -> None:
    del match
    report.done = True


def _legend(report: ReportBuilder, match: re.Match[str]) -> None:
    if report.shadow_byte is not None and report.shadow_byte in match["bytes"].split():
        report.shadow = match["meaning"].strip().lower()


_PID: Final = r"(?:==\d+== ?)?"
OWNER_RULES: Final = (
    Section(rf"freed by thread (?P<thread>{THREAD})(?: \([^)]*\))? here:", Role.FREE),
    Section(
        rf"(?:previously )?allocated by (?:thread )?(?P<thread>{THREAD})(?: \([^)]*\))? here:",
        Role.ALLOCATE,
    ),
    Section(r"(?:previously )?allocated (?:here|at):", Role.ALLOCATE),
    Section(r"freed (?:here|at):", Role.FREE),
    Section(
        rf"Thread (?P<thread>T\d+)(?: \([^)]*\)| '[^']*')* created by "
        rf"(?:thread )?(?P<creator>{THREAD})(?: \([^)]*\))?(?: here| at)?:?",
        Role.THREAD_CREATE,
    ),
    Fact(
        rf"(?:Address )?{HEX} is (?:located )?(?P<offset>\d+) bytes? "
        r"(?P<relation>inside(?: of)?|before|after|to the left of|to the right of) "
        rf"(?:an? )?(?P<size>\d+)-byte region \[(?P<start>{HEX}),\s?(?P<end>{HEX})\)",
        _heap,
    ),
    Fact(
        rf"{HEX} is located (?P<offset>\d+) bytes? "
        r"(?P<relation>inside of|before|after|to the left of|to the right of) "
        r"global variable '(?P<name>[^']*)' (?:defined in|from) '(?P<place>[^']*)' "
        rf"\((?P<start>{HEX})\) of size (?P<size>\d+)",
        _global,
    ),
    Fact(  # HWAddressSanitizer
        rf"{HEX} is located (?P<offset>\d+) bytes? "
        r"(?P<relation>inside of|inside|before|after|to the left of|to the right of) "
        rf"(?:an? )?(?P<size>\d+)-byte (?P<kind>global variable|local variable) (?P<name>\S+) "
        rf"\[(?P<start>{HEX}),\s?(?P<end>{HEX})\) in (?P<place>\S+)",
        _variable_of_module,
    ),
    Section(rf"(?:Address )?{HEX} is located in stack of thread", None, _in_stack),
    Fact(
        r"\[(?P<start>-?\d+), (?P<end>-?\d+)\) '(?P<name>[^']*)'(?: \(line (?P<line>\d+)\))?"
        r" <== Memory access at offset (?P<at>-?\d+) (?P<verdict>[^,;]*)",
        _variable,
    ),
    Fact(r"\[-?\d+, -?\d+\) '"),
    Fact(r"This frame has \d+ object"),
    Fact(rf"(?:Address )?{HEX} is (?:located|a wild pointer)"),
    Fact(r"'[^']*' is ascii string"),
)
SIGNAL_RULES: Final = (
    Fact(rf"{_PID}The signal is caused by an? (?P<type>\w+) memory access", _signal_access),
    Fact(rf"{_PID}(?:Hint|HINT): (?P<hint>.*)", _hint),
    Fact(rf"{_PID}Register values:"),
    Fact(r"==\d+==(?:\*\*\* |WARNING: )"),
    Fact(r"(?:==\d+==)?\w+Sanitizer: (?:nested bug in the same thread|.* another one)"),
    Fact(r"<empty stack>"),
    Fact(r"[re]?[a-ds][a-z0-9]{1,2} = 0x"),
    Fact(r"\w+Sanitizer can not provide additional info"),
    Fact(r"\(longjmp and C\+\+ exceptions"),
    Fact(r"If you suspect a false positive"),
    Fact(rf"{_PID}ABORTING", _done),
    Fact(r"Exiting$", _done),
    Fact(r"MS: \d+ |Base64: |artifact_prefix=|Test unit written to |Command: |Executed \S+ in "),
)
SHADOW_RULES: Final = (
    Fact(
        rf"(?P<type>READ|WRITE|ACCESS) of size (?P<size>\d+) at (?P<address>{HEX})"
        rf"(?: tags: \S+ \(ptr/mem\))?(?: in)?(?: thread (?P<thread>{THREAD}))?",
        _access,
    ),
    Fact(r"(?P<type>READ|WRITE) of size (?P<size>\d+)$", _shortened_access),
    Fact(r"SCARINESS: |DEDUP_TOKEN: |Shadow byte|Memory tags around|Tags for short granules"),
    Fact(rf"(?P<meaning>{LEGEND_NAMES}):\s*(?P<bytes>[0-9a-f ]+)", _legend),
)
