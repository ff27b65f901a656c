"""gdb's machine-interface records into frames and variables; pygdbmi reads the records' syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.stack import SourceLine, Variable

SIGNAL_FRAME: Final = "<signal handler called>"
_LWP: Final = re.compile(r"LWP (\d{1,20})")
_LINE: Final = re.compile(r'Line (\d{1,20}) of "(.*)"')
_RECORD: Final = re.compile(r"\d*[~^]")
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BARE_RECORD: Final = re.compile(r'\d*(?:~""|\^[a-z-]+(,.*)?)\s*')
"""A record whose strings are empty."""
_TOKEN: Final = re.compile(r'([\w.-]+=)?+(""|[{}\[\],])')
_BRACKETS: Final = {"{": "}", "[": "]"}
_MAX_DEPTH: Final = 100
_DAMAGED: Final = (AssertionError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What pygdbmi 0.11 raises at a record that is cut off or nested without end."""
_MAX_LINE: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MiResult:
    """What one command gave back."""

    ok: bool
    payload: Mapping[str, Any]
    console: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MiFrame:
    """One frame as gdb lists it; the names are gdb's, with nothing checked yet."""

    level: int
    pc: int
    function: str | None
    file: str | None
    line: int | None

    @property
    def is_signal(self) -> bool:
        """Is this the kernel's signal frame?"""
        return self.function == SIGNAL_FRAME


def parse_records(lines: Iterable[str]) -> MiResult:
    """Read a command's records; lines that are none are passed over."""
    from pygdbmi.gdbmiparser import parse_response  # where gdb is not asked, nor is this

    console: list[str] = []
    payload: Mapping[str, Any] = {}
    ok, error = False, None
    for line in lines:
        if len(line) > _MAX_LINE or not _RECORD.match(line):
            continue
        if not _is_whole(line):
            continue
        try:
            record = parse_response(line)
        except _DAMAGED:
            continue
        if record["type"] == "console" and isinstance(record["payload"], str):
            console.append(record["payload"])
        elif record["type"] == "result":
            ok = record["message"] in {"done", "connected", "running"}
            found = record["payload"]
            payload = found if isinstance(found, dict) else {}
            error = None if ok else str(payload.get("msg", "gdb gave no reason"))
    return MiResult(ok=ok, payload=payload, console="".join(console), error=error)


def _is_whole(line: str) -> bool:
    """Does the record keep to the grammar of gdb's manual, section "GDB/MI Output Syntax"?

    pygdbmi 0.11 never returns from `^done,stack=[`, nor from `^done,a=[b={c""},d={e=""}]`, and
    takes time that grows with the square of the rest at a string without an end.
    """
    record = _BARE_RECORD.fullmatch(_STRING.sub('""', line))
    if record is None:
        return False
    position, before = 0, "value"
    expected: list[str] = []
    values = record[1] or ""
    for token in _TOKEN.finditer(values):
        name, text = token.groups()
        if token.start() != position or (name and text in {",", "}", "]"}):
            return False
        position = token.end()
        if text == ",":
            fits, before = before == "value", text
        elif text in {"}", "]"}:
            fits, before = before != "," and bool(expected) and expected.pop() == text, "value"
        else:
            fits = before != "value" and (name is not None or expected[-1:] != ["}"])
            before = "value" if text == '""' else text
            if text in _BRACKETS:
                expected.append(_BRACKETS[text])
        if not fits or len(expected) > _MAX_DEPTH:
            return False
    return position == len(values) and before == "value" and not expected


def parse_thread_ids(result: MiResult) -> dict[int, str]:
    """Kernel thread id → gdb's own number, from -thread-info."""
    found = {}
    for thread in _dicts(result.payload.get("threads")):
        match = _LWP.search(str(thread.get("target-id", "")))
        if match:
            found[int(match.group(1))] = str(thread.get("id", ""))
    return found


def parse_frames(result: MiResult) -> tuple[MiFrame, ...]:
    """The frames of -stack-list-frames, innermost first."""
    stack = result.payload.get("stack")
    if isinstance(stack, dict):
        stack = stack.get("frame")
    frames = []
    for item in _dicts(stack):
        found = item.get("frame", item)
        raw = found if isinstance(found, dict) else {}
        pc = _number(raw.get("addr"), 16)
        level = _number(raw.get("level"), 10)
        if pc is None or level is None:
            # "<unavailable>": gdb could not tell where the frame is; what follows rests on nothing.
            break
        function = _text(raw.get("func"))
        frames.append(
            MiFrame(
                level=level,
                pc=pc,
                function=plain_name(function) if function not in {None, "??"} else None,
                file=_text(raw.get("fullname")) or _text(raw.get("file")),
                line=_number(raw.get("line"), 10),
            )
        )
    return tuple(frames)


def parse_variables(result: MiResult) -> tuple[Variable, ...]:
    """The variables of -stack-list-variables, arguments first."""
    found = [
        Variable(
            name=str(item.get("name", "")),
            value=str(item.get("value", "")),
            type=_text(item.get("type")),
            is_argument=item.get("arg") == "1",
        )
        for item in _dicts(result.payload.get("variables"))
        if item.get("name") and not str(item["name"]).endswith("@entry")
    ]
    # Inner blocks come first; a name that they hide is not visible at the line.
    visible = {variable.name: variable for variable in reversed(found)}
    ordered = [
        variable for variable in found if visible[variable.name] is variable or variable.is_argument
    ]
    return tuple(sorted(ordered, key=lambda variable: not variable.is_argument))


def parse_line(result: MiResult) -> SourceLine | None:
    """The answer of `info line *ADDRESS`."""
    match = _LINE.search(result.console)
    return SourceLine(file=match.group(2), line=int(match.group(1))) if match else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object, base: int) -> int | None:
    try:
        return int(str(value), base) if value is not None else None
    except ValueError:
        return None
