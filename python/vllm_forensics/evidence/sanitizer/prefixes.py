"""What a log puts before a line: times, levels, tags of pods and processes, quotes of mails."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from vllm_forensics.evidence.alternatives import Alternative, Alternatives

_DATE: Final = (
    # GitHub Actions, Kubernetes CRI, docker -t, Jenkins: 2026-01-15T08:12:45.123Z
    Alternative(
        r"[\[\d]",
        r"\[?\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
        r"(?:Z| ?(?:GMT)?[+-]\d\d:?\d\d| UTC| GMT)?\]?(?:[ \t]|$)",
    ),
    # journald, syslog: Nov 29 12:25:00; in other languages déc. 15, янв 15, 15 janv., 1月 15
    Alternative(
        r"[^\W_]",
        r"(?:[^\W\d_]{3,5}\.? [ \d]\d|\d\d? [^\W\d_]{3,5}\.?|1?\d月 [ \d]\d) (?:\d{4} )?"
        r"\d\d:\d\d:\d\d(?:\.\d{1,9})? ",
    ),
    # journald's full times: Thu 2026-01-15 08:12:45 UTC
    Alternative(
        r"[^\W\d_]",
        r"[^\W\d_]{1,3}\.? \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [A-Z+-][A-Z\d:]{1,5} ",
    ),
    # ctime(3), as OpenWrt's log and dmesg -T have it: Thu Jan 15 08:12:45 2026
    Alternative(
        r"[\[A-Z]",
        r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: [A-Z]{3,5})?"
        r" \d{4}\]? ",
    ),
    # logcat -v threadtime: 11-29 12:00:01.000
    Alternative(r"\d", r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9} "),
    Alternative(r"[\[\d]", r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?[ \t]"),
    # the kernel's clock: [  12.345678]
    Alternative(r"\[", r"\[ {0,8}\d{1,9}\.\d{1,9}\] "),
)
_KERNELS: Final = re.compile(r"\[[A-Z][a-z]{2} ")
# A logger's level: INFO, [ERROR] -; but not the ERROR of a header without a process. It changes
# from line to line, and so names no stream.
_LEVEL: Final = Alternative(
    r"[\[A-Z]",
    r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL(?! ERROR:)|STDOUT|"
    r"STDERR)\]?"
    r"(?: {1,4}- |: ?| )(?! {0,8}(?:\w{0,24}Sanitizer|libFuzzer|- ))",
)
_LOGGER: Final = Alternative(
    r"[A-Z]", r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[A-Za-z_][\w-]{0,60}(?:\.[\w-]{1,60}){1,12}:"
)
"""Python's own: INFO:pool.osd.3.stderr:"""
_AFTER_DATE: Final = (
    # Kubernetes CRI: stderr F
    Alternative("s", r"std(?:out|err) [FP](?: |$)"),
    # GitLab: 00O
    Alternative(r"\d", r"\d\d[OE][ +]"),
    # logcat: 4321  4321 I wrap.sh :
    Alternative(r"[ \d]", r" {0,8}\d{1,9} {1,8}\d{1,9} [VDIWEF] [^:]{1,40}?: ?"),
)
_PROGRAM: Final = (
    # syslog: host program[123]: or host kernel:, and not `Process Worker-1:` of a container's log,
    # nor a date's `11-30 11:`
    Alternative(
        r"[^\s:\[\]=#(,]",
        r"(?!\d{1,9}\.\d{6} )(?![A-Z][a-z]{1,30} (?!kernel:)[^\s:\[\]=#]{1,64}:)"
        r"[^\s:\[\]=#(,]{1,64} (?!\d{1,9}:)"
        r"(?!SUMMARY|ERROR|WARNING|HINT|Hint|Cause|Mutex|Thread|"
        r"(?:failed|exited|terminated|crashed|killed|died|error|exception|signal|status|code):)"
        r"[^\s:\[\]=#]{1,64}(?:\[\d{1,9}\])?: ?",
    ),
    # rsyslog's of the kernel, where it is not named: host [12345.678901]
    Alternative(r"[^\s:\[\]=#(,]", r"[^\s:\[\]=#(,]{1,64} (?=\[ {0,8}\d{1,9}\.\d{6}\] )"),
    # BusyBox names no host; a kernel that nobody names tells of others so
    Alternative(
        r"[^\s:\[\]=#(,]", r"[^\s:\[\]=#(,]{1,64}\[\d{1,9}\]:(?! ?(?:segfault|unhandled) ) ?"
    ),
)
_ALWAYS: Final = (
    # docker compose, foreman: api-1  |
    Alternative(r"[\w.@/-]", r"[\w.@/-]{1,80} {0,40}\|(?: |$)"),
    # kubectl logs --prefix, and other tags in brackets: [pod/name/container], [worker-3], [stderr];
    # but pytest-xdist's [gw0] is of whom it speaks, and not who writes
    Alternative(r"\[", r"\[(?!BUG\] Seg)[A-Za-z][^\]\s]{0,120}\]:?(?: (?!node down: )|$)"),
    # Open MPI's, of a container whose name begins with a digit: [4f0a8c9673b0:1447852]
    Alternative(r"\[", r"\[\d[\d.-]{0,40}[A-Za-z_][\w.-]{0,79}:\d{1,9}\](?: |$)"),
    # Ray, vLLM: (EngineCore pid=12)
    Alternative(
        r"\(", r"\([^()=]{0,60}\b(?:pid|PID)=(?:\d{1,9}|raylet|gcs_server)[^()]{0,80}\)(?: |$)"
    ),
    Alternative(r"\(", r"\(raylet[^()]{0,80}\)(?: |$)"),
    # mpirun --tag-output: [1,0]<stderr>:
    Alternative(r"\[", r"\[\d{1,6}(?:,\d{1,6})?\]<std\w{3}>: ?"),
    # ctest -V, srun -l: 12:
    Alternative(r"\d", r"\d{1,6}:(?: |$)"),
    # pytest
    Alternative("E", r"E(?: {3}|$)"),
)
_QUOTES: Final = (
    # Quoted mail, a table's cell, a level that a CI puts before a line, a heading, Buildkite's
    # clock: part of the text around a log, which often stands before some of its lines only
    Alternative(r"[ \t>]", r"[ \t]{0,8}> ?"),
    Alternative(r"[ \t|]", r"[ \t]{0,8}\|(?: |$)"),
    Alternative("#", r"##\[\w{1,12}\]"),
    Alternative("#", r"#{2,6} (?=\S)"),
    # so that a page takes no # for a heading's
    Alternative("/", r"//(?=#)"),
    # what a list or a block of markdown moved to the right
    Alternative(
        r"[ \t]",
        r"[ \t]{1,12}(?=\[[\w.-]{1,80}:\d{1,9}\] |\[rank\d{1,5}\]|\([^()=]{0,60}\bpid=\d)",
    ),
    # llama-server's router: the port of the server that wrote the line
    Alternative(r"\[", r"\[\d{4,5}\] (?=[#\w/.~])(?![Ss]ignal)"),
    Alternative("[\x1b_]", r"\x1b?_bk;t=\d{10,16}\x07?"),
)
# docker build: #12 3.456
_STEP: Final = Alternative("#", r"#\d{1,4} \d{1,6}\.\d{1,4}(?: |$)")
# gh run view --log: job, step
_JOB: Final = Alternative(r"[^\t]", r"[^\t]{1,80}\t[^\t]{1,80}\t(?=\d{4}-)")
_STANDARD: Final = Alternative("[sS]", r"(?:stderr|stdout|STDERR|STDOUT)(?::| \|)(?: |$)")


def _prefixes(tags: Iterable[Alternative]) -> Alternatives:
    return Alternatives({"date": _DATE, "step": [_STEP], "tag": tags, "quote": _QUOTES})


_WITHOUT_TABS: Final = _prefixes([*_ALWAYS, _STANDARD])
PREFIXES: Final = _prefixes([*_ALWAYS, _JOB, _STANDARD])
AFTER_A_DATE: Final = Alternatives(
    {"logger": [_LOGGER], "level": [_LEVEL], "tag": _AFTER_DATE, "program": _PROGRAM}
)
_AFTER_A_PROGRAM: Final = Alternatives({"logger": [_LOGGER], "level": [_LEVEL], "tag": _AFTER_DATE})
"""Syslog names one program a line: `Job failed: ` behind it is no other."""
_MAX_PREFIXES: Final = 8


def strip_prefixes(text: str) -> tuple[str, str]:
    """The stream that the prefixes name, and what follows them."""
    any_prefix = PREFIXES if "\t" in text else _WITHOUT_TABS
    match = any_prefix[text[:1]](text)
    if match is None:
        return "", text
    position, tags, behind = 0, [], None
    for number in range(_MAX_PREFIXES):
        if number:
            match = any_prefix[text[position : position + 1]](text, position)
        if match is None and behind is not None:
            match = behind[text[position : position + 1]](text, position)
        if match is None:
            break
        if match.lastgroup == "date":
            # behind the kernel's clock, of whichever form, stands the kernel's own text
            is_kernels = ":" not in match[0] or _KERNELS.match(match[0]) is not None
            behind = None if is_kernels else AFTER_A_DATE
        elif match.lastgroup in {"quote", "level"}:
            pass
        elif match.lastgroup == "logger":
            tags.append(match[0].partition(":")[2])
        elif match.lastgroup == "step":
            tags.append(match[0].partition(" ")[0])
        else:
            tags.append(match[0].strip())
            behind = _AFTER_A_PROGRAM if match.lastgroup == "program" else behind
        position = match.end()
    return " ".join(tags), text[position:]
