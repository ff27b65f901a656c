"""Recognises the line that begins a report, whichever runtime wrote it. One entry a runtime."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vllm_forensics.evidence.sanitizer import (
    asan,
    go,
    gwp_asan,
    hwasan,
    kernel,
    libfuzzer,
    lsan,
    msan,
    scudo,
    small,
    symbolizer_markup,
    tombstone,
    tsan,
    ubsan,
    valgrind,
    valgrind_xml,
)
from vllm_forensics.evidence.sanitizer.builder import ReportBuilder
from vllm_forensics.evidence.sanitizer.rules import Runtime

NEEDLES: Final = (
    *(b"Sanitizer", b"runtime error:", b"libFuzzer", b"GWP-ASan det", b"Scudo ERROR"),
    *(*kernel.NEEDLES, go.NEEDLE, tombstone.NEEDLE, small.NEEDLE, valgrind_xml.NEEDLE),
)
"""A line without any of these begins no report, but for those below."""
LATE_NEEDLES: Final = (valgrind.NEEDLE, tombstone.LATE_NEEDLE, symbolizer_markup.NEEDLE)
"""Some begin with words that are many, or in every log; these follow within a few lines."""
LINES_ABOVE: Final = 10
"""So many lines at most lie between the beginning and its late needle."""

_MAX_HEADER: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    runtime: Runtime
    kind_of: Callable[[str], str | None]
    warns: bool = False
    """Reports as WARNING, not only as ERROR."""
    signals: Runtime | None = None
    """How a fatal signal is read, where that differs: it is printed as AddressSanitizer does."""


_TOOLS: Final = {
    "RealtimeSanitizer": _Tool(runtime=small.REALTIME, kind_of=small.realtime_kind),
    "NumericalStabilitySanitizer": _Tool(
        runtime=small.NUMERICAL, kind_of=small.numerical_kind, warns=True
    ),
    "TypeSanitizer": _Tool(runtime=small.TYPE, kind_of=small.type_kind),
    "DataFlowSanitizer": _Tool(
        runtime=small.DATA_FLOW,
        kind_of=small.data_flow_kind,
        warns=True,
        signals=small.DATA_FLOW,
    ),
    "AddressSanitizer": _Tool(runtime=asan.RUNTIME, kind_of=asan.kind_of),
    "HWAddressSanitizer": _Tool(runtime=hwasan.RUNTIME, kind_of=asan.kind_of),
    "LeakSanitizer": _Tool(runtime=lsan.RUNTIME, kind_of=lsan.kind_of, signals=lsan.SIGNAL_RUNTIME),
    "MemorySanitizer": _Tool(runtime=msan.RUNTIME, kind_of=asan.kind_of, warns=True),
    "ThreadSanitizer": _Tool(
        runtime=tsan.RUNTIME, kind_of=tsan.kind_of, warns=True, signals=tsan.RUNTIME
    ),
    "UndefinedBehaviorSanitizer": _Tool(runtime=ubsan.SIGNAL_RUNTIME, kind_of=asan.kind_of),
    "libFuzzer": _Tool(runtime=libfuzzer.RUNTIME, kind_of=libfuzzer.kind_of),
}
_HEADER: Final = re.compile(
    r"(?:==(?P<pid>\d+)== ?)?(?P<level>ERROR|WARNING): "
    r"(?P<tool>\w{0,30}Sanitizer|libFuzzer)(?P<colon>:)? (?P<message>.+)"
)
# ==1==AddressSanitizer: hard rss limit exhausted; AddressSanitizer: CHECK failed: …
_BARE: Final = re.compile(
    r"(?:==(?P<pid>\d+)== ?)?(?P<tool>\w{1,24}Sanitizer)(?P<colon>:)? "
    r"(?P<message>(?:hard|soft) rss limit exhausted.*|CHECK failed:? .*)"
)
_CUT_HEADER: Final = re.compile(
    r"(?:==(?P<pid>\d+)== ?)ERROR: (?P<tool>\w*AddressSanitizer):(?P<message>)\s*$"
)
"""The rest of the header is in the next line."""
_NO_COLON: Final = re.compile(
    r"failed to (?:allocate|reserve|map) |CHECK failed"
    # clang 3.1
    r"|[a-z-]+ on (?:unknown )?address 0x|crashed on |attempting (?:double-)?free"
)
_SIGNAL: Final = re.compile(r" on (?:unknown )?address .*\(pc 0x|^CHECK failed|^failed to ")
_PID_IN_WORDS: Final = re.compile(r"\(pid=(\d+)\)")


def may_begin(text: str) -> bool:
    """Is the line worth a look? Cheap: most lines are not."""
    return (
        "Sanitizer" in text
        or "runtime error:" in text
        or "libFuzzer" in text
        or "GWP-ASan" in text
        or "Scudo" in text
        or "== " in text
        or "SAN: " in text
        or "KFENCE: " in text
        or "DATA RACE" in text
        or "*** ***" in text
        or ", tid: " in text
        or "ubsan: " in text
    )


def open_report(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """A new report where the line begins one, and the text that stands before its header."""
    text = text[:_MAX_HEADER]
    found = _other_tool(text, number)
    if found is not None:
        return found
    if "runtime error:" in text:
        found = ubsan.open_report(text, number)
        if found is not None:
            return found
    if gwp_asan.HEADER in text:
        report = ReportBuilder(gwp_asan.RUNTIME, None, number, text.strip())
        report.provisional = True
        return report, text.partition(gwp_asan.HEADER)[0]
    if "Scudo ERROR" in text:
        return _scudo(text, number)
    match = _header(text)
    if match is None:
        return None
    return _opened(_TOOLS[match["tool"]], match, number), text[: match.start()]


def _other_tool(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    """A report of a tool that is no runtime of a compiler, or that prints as none of them does."""
    if "== " in text:
        header = valgrind.header_of(text)
        if header is not None:
            pid, words, before = header
            return valgrind.ValgrindReport(words, number, pid), before
    if "SAN: " in text or "KFENCE: " in text:
        found = kernel.open_report(text, number)
        if found is not None:
            return found
    if "DATA RACE" in text:
        return go.open_report(text, number)
    if "*** ***" in text or ", tid: " in text:
        return tombstone.open_report(text, number)
    return small.open_minimal(text, number) if "ubsan: " in text else None


def _header(text: str) -> re.Match[str] | None:
    """The header in the line, where a runtime that we know printed it as a report's."""
    is_labelled = "ERROR: " in text or "WARNING: " in text
    if not is_labelled and " limit exhausted" not in text and "CHECK failed" not in text:
        return None
    match = _HEADER.search(text) if is_labelled else None
    if match is None:
        match = _BARE.search(text) or _CUT_HEADER.search(text)
    elif match["colon"] is None and not (
        match["level"] == "ERROR" and _NO_COLON.match(match["message"])
    ):
        return None
    tool = _TOOLS.get(match["tool"]) if match is not None else None
    if match is None or tool is None:
        return None
    if match.groupdict().get("level") == "WARNING" and not tool.warns:
        return None
    return match


def _scudo(text: str, number: int) -> tuple[ReportBuilder, str] | None:
    match = scudo.HEADER.search(text)
    if match is None:
        return None
    message = match["message"].rstrip("'")
    report = ReportBuilder(scudo.RUNTIME, scudo.kind_of(message), number, text.strip())
    report.message, report.address = message, scudo.address_of(message)
    return report, ""


def _opened(tool: _Tool, match: re.Match[str], number: int) -> ReportBuilder:
    message = match["message"].strip()
    signal = tool.signals is not None and _SIGNAL.search(message) is not None
    runtime = tool.signals if signal and tool.signals is not None else tool.runtime
    report = ReportBuilder(runtime, None, number, match[0].strip())
    if tool.kind_of is asan.kind_of:
        report.reads_header = asan.read_header
    asan.read_header(report, message)
    if tool.runtime is hwasan.RUNTIME:
        hwasan.read_header(report, message)
    if not signal:
        report.kind = tool.kind_of(message)
    pid = match["pid"]
    in_words = _PID_IN_WORDS.search(message)
    if pid is None and in_words is not None:
        pid = in_words[1]
    report.pid = int(pid) if pid is not None and len(pid) < 19 else None
    report.provisional = pid is None or not message
    return report
