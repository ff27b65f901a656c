"""The log of `strace -f -ttt -o FILE`: calls, signals and ends, in the order of their return.

Without `-t` it has no times: the lines' order stands in for them, in steps that no clock shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vllm_forensics.model.signals import signal_number
from vllm_forensics.model.syscalls import SignalEvent, SyscallTrace, SystemCall, ThreadEnd

_MAX_LINE: Final = 1 << 14
_LINE: Final = re.compile(
    r"(\d{1,10}) +(?:(?:(\d{1,2}):(\d{2}):)?(\d{1,12}(?:\.\d{1,9})?) )?(?! )(.*)"
)
_STEP_S: Final = 1e-15
_CALL: Final = re.compile(r"([a-z_][a-z0-9_]{0,40})\((.*)", re.DOTALL)
_RESUMED: Final = re.compile(r"<\.\.\. ([a-z_][a-z0-9_]{0,40}) resumed>(.*)", re.DOTALL)
_UNFINISHED: Final = " <unfinished ...>"
_RESULT: Final = re.compile(
    r"(0x[0-9a-f]{1,16}|-?\d{1,20}|\?)(?:<[^>]*>)?(?: ([A-Z][A-Z0-9]{1,30}))?"
)
_SIGNAL: Final = re.compile(r"--- (SIG[A-Z0-9_+]{1,12}) (?:\{(.*)\} )?---")
_FIELD: Final = re.compile(r"si_(code|addr|pid)=([^,}\s]{1,40})")
_KILLED: Final = re.compile(r"\+\+\+ killed by (SIG[A-Z0-9_+]{1,12})( \(core dumped\))? \+\+\+")
_EXITED: Final = re.compile(r"\+\+\+ exited with (\d{1,3}) \+\+\+")
# Strings, and the paths behind descriptors, in which strace writes < and > as \74 and \76, are
# stepped over as a whole.
_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|<[^<>]*+>|[()\[\]{},]', re.DOTALL)
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


def parse_strace_log(text: str, *, shm_free: int | None = None) -> SyscallTrace:
    """Read all lines that can be read; what is cut off or foreign is passed over.

    A call that another thread's line interrupted stands where it returned. One that never did
    stands at the end, without a result.
    """
    calls: list[SystemCall] = []
    signals: list[SignalEvent] = []
    ends: list[ThreadEnd] = []
    begun: dict[int, tuple[float, str]] = {}
    for tid, time_s, rest in _lines(text):
        line = f"{tid} {rest}"
        if rest.startswith("---"):
            signals += _signal(tid, time_s, rest)
        elif rest.startswith("+++"):
            ends += _end(tid, time_s, rest)
        elif rest.endswith(_UNFINISHED):
            begun[tid] = (time_s, rest.removesuffix(_UNFINISHED))
        elif (resumed := _RESUMED.match(rest)) is not None:
            _, start = begun.pop(tid, (0.0, ""))
            if start.startswith(f"{resumed.group(1)}("):
                calls += _call(tid, time_s, start + resumed.group(2))
        else:
            calls += _call(tid, time_s, line.partition(" ")[2])
    for tid, (time_s, start) in begun.items():
        calls += _call(tid, time_s, start)
    return SyscallTrace(
        calls=tuple(calls), signals=tuple(signals), ends=tuple(ends), shm_free=shm_free
    )


def _lines(text: str) -> Iterator[tuple[int, float, str]]:
    for number, line in enumerate(text.split("\n")):
        match = _LINE.fullmatch(line[:_MAX_LINE])
        if match is not None:
            tid, hours, minutes, seconds, rest = match.groups()
            time_s = float(seconds) if seconds is not None else number * _STEP_S
            time_s += 60.0 * int(minutes or 0) + 3600.0 * int(hours or 0)
            yield int(tid), time_s, rest.rstrip()


def _call(tid: int, time_s: float, text: str) -> list[SystemCall]:
    match = _CALL.match(text)
    if match is None:
        return []
    name, inside = match.groups()
    arguments, rest = _split_arguments(inside)
    _, equals, result = rest.partition("= ")
    found = _RESULT.match(result) if equals else None
    value = found.group(1) if found else "?"
    failed = found is not None and value == "-1"
    return [
        SystemCall(
            tid=tid,
            time_s=time_s,
            name=name,
            arguments=arguments,
            result=None if value == "?" else _result_of(value),
            error=found.group(2) if found is not None and failed else None,
            text=f"{tid} {text}",
        )
    ]


def _result_of(text: str) -> int:
    """Hexadecimal as of mmap, octal as of umask(2), else decimal."""
    if text.startswith("0x"):
        return int(text, 16)
    is_octal = text.startswith("0") and not set(text) & {"8", "9"}
    return int(text, 8 if is_octal else 10)


def _split_arguments(text: str) -> tuple[tuple[str, ...], str]:
    """Cut at the commas of the outermost level; what follows the closing bracket is the rest.

    A mark without its partner is taken as a letter, or as the end of what was cut off.
    """
    arguments: list[str] = []
    stack: list[str] = []
    start = 0
    for match in _MARK.finditer(text):
        mark = match.group()
        if mark in _OPENING:
            stack.append(_OPENING[mark])
        elif stack and mark == stack[-1]:
            stack.pop()
        elif not stack and mark in {",", ")"}:
            if argument := text[start : match.start()].strip():
                arguments.append(argument)
            start = match.end()
            if mark == ")":
                return tuple(arguments), text[start:]
    if argument := text[start:].strip():
        arguments.append(argument)
    return tuple(arguments), ""


def _signal(tid: int, time_s: float, text: str) -> list[SignalEvent]:
    match = _SIGNAL.match(text)
    if match is None:
        return []
    fields = dict(_FIELD.findall(match.group(2) or ""))
    return [
        SignalEvent(
            tid=tid,
            time_s=time_s,
            name=match.group(1),
            code=fields.get("code", ""),
            address=_number(fields.get("addr", "")),
            sender=_number(fields.get("pid", "")),
            text=f"{tid} {text}",
        )
    ]


def _end(tid: int, time_s: float, text: str) -> list[ThreadEnd]:
    line = f"{tid} {text}"
    killed, exited = _KILLED.match(text), _EXITED.match(text)
    if killed is not None:
        number = signal_number(killed.group(1))
        if number is None:
            return []
        dumped = killed.group(2) is not None
        return [ThreadEnd(tid=tid, time_s=time_s, status=-number, dumped_core=dumped, text=line)]
    if exited is not None:
        status = int(exited.group(1))
        return [ThreadEnd(tid=tid, time_s=time_s, status=status, dumped_core=False, text=line)]
    return []  # superseded by execve in another thread: the process goes on


def _number(text: str) -> int | None:
    if text == "NULL":
        return 0
    try:
        return int(text, 0)
    except ValueError:
        return None
