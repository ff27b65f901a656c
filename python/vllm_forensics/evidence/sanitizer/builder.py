"""Collects one report line by line. What the lines mean is the runtimes' knowledge, in tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

from vllm_forensics.evidence.sanitizer.frames import parse_frame
from vllm_forensics.evidence.sanitizer.plain import read_frame
from vllm_forensics.evidence.sanitizer.rules import Fact, Runtime, Section
from vllm_forensics.evidence.sanitizer.runs import Run
from vllm_forensics.evidence.sanitizer.stacks import StackCollector
from vllm_forensics.evidence.sanitizer.wrapped import better_frame, joined, unfinished
from vllm_forensics.model.sanitizer import (
    Access,
    Leak,
    PrintedReport,
    Region,
    Role,
)

_MAX_RAW_LINES: Final = 4_000
_SHADOW_ROW: Final = re.compile(r"(?:=>)? ?0x[0-9a-fA-F]{6,16}:")
_PID: Final = re.compile(r"==(\d{1,18})==")
_FRAME_INSIDE: Final = re.compile(r"#(\d{1,4})(?= )")
_INSIDE: Final = re.compile(
    r"(?:READ|WRITE) of size \d+ at (?P<address>0x[0-9a-f]+)|(?P<located>0x[0-9a-f]+) is located "
    r"|SUMMARY: \w+Sanitizer: (?P<kind>[\w-]+)(?= )"
    r"|(?:(?:previously )?allocated|freed) by thread T\d+(?: \([^()]{1,60}\))? here:$"
    r"|Previous (?:atomic )?(?:read|write) of size \d+ at 0x[0-9a-f]+ by .{1,300}:$"
    r"|(?:Direct|Indirect) leak of \d+ byte\(s\) in \d+ object\(s\) allocated from:$"
    r"|Location is heap block of size \d+ at 0x|Mutex M\d+ previously acquired by .{1,60}here:$"
    r"|Thread T\d+ .{0,80}created by .{1,80} (?:here|at):$"
)
_IN_EVERY_INSIDE: Final = (
    *(" of size ", " is located ", "SUMMARY: ", " by thread T", " leak of ", "Mutex M"),
    "created by ",
)
"""A line without any of these holds none of those; a search for them costs a tenth."""
_WHOLE_HEADER: Final = re.compile(r"sp 0x[0-9a-f]+(?: T\d+\))?$|[:)]$|thread T\d+:?$| overlap$")
_MAX_REJOINED: Final = 2_000
_NEAR: Final = 3
"""A line with another program's text before it belongs to a report whose last line is so near."""
_SUMMARY: Final = re.compile(r"SUMMARY: (\w*Sanitizer|libFuzzer): ?(.*)")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class ReportBuilder(StackCollector):
    """One report while it is read. `feed` says whether a line belongs to it."""

    __slots__ = (
        "_broken", "_header_words", "_raw", "_tail", "_width", "access_size", "access_type",
        "address", "done", "first_line", "foreign", "hints", "kind", "last_line", "last_number",
        "leaks", "location", "locks", "message", "pc", "pid", "provisional", "reads_header",
        "region", "runtime", "shadow", "shadow_byte", "summary", "thread",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, kind: str | None, line: int, text: str) -> None:
        """Begin with the header's line, number and text; `headers` fills in what it says."""
        super().__init__()
        self.runtime = runtime
        self.kind = kind
        self.pid: int | None = None
        self.thread: str | None = None
        self.access_type: str | None = None
        self.access_size: int | None = None
        self.address: str | None = None
        self.pc: str | None = None
        self.message: str | None = None
        self.location: str | None = None
        self.region: Region | None = None
        self.shadow_byte: str | None = None
        self.shadow: str | None = None
        self.leaks: list[Leak] = []
        self.locks: list[str] = []
        self.hints: list[str] = []
        self.summary: str | None = None
        self.first_line = self.last_line = self.last_number = line
        self.provisional = False
        self.done = False
        self.foreign = 0
        self.reads_header: Callable[[ReportBuilder, str], None] | None = None
        """Reads the words of the header again, where the next line turns out to be more of them."""
        self._raw = [text]
        self._tail = text
        self._width = len(text)
        self._broken = False
        self._header_words: str | None = None
        if runtime.first_role is not None:
            self._open(runtime.first_role, None, None, None)

    def feed(self, text: str, number: int) -> bool:
        """Read one line; False where it is not this report's."""
        stripped = text.strip()
        if not stripped:
            self.last_number = number
            return True
        near = number - self.last_number == 1
        self.last_number = number
        if near and text == self._tail:  # a log that holds every line twice
            used = number - self.last_line == 1
        else:
            used = self._read(stripped)
            if not used and (near or number - self.last_line <= _NEAR):
                used = self._read_damaged(stripped, near=near)
            else:
                self._tail = text
            self._width = len(text)
        if used:
            self.foreign = 0
            self.last_line = number
            if len(self._raw) < _MAX_RAW_LINES:
                self._raw.append(text)
            else:
                self._cut = True
        else:
            self.foreign += 1
        return used

    def take_run(self, run: Run, number: int) -> bool:
        """Read the lines of a run, of which this is the last one's number; what `feed` would do.

        False, and nothing is changed, where they have to be looked at one by one.
        """
        if len(self._raw) + len(run.lines) > _MAX_RAW_LINES:
            return False
        if run.frames:
            stack = self._stack
            if stack is None or (not stack.frames and self.foreign):
                return False
            stack.frames.extend(run.frames)
        elif not self.runtime.dumps_shadow:
            return False
        if run.shadow_byte is not None:
            self.shadow_byte = run.shadow_byte
        if self.shadow_byte is not None:
            for meaning, values in run.legend:
                if self.shadow_byte in values:
                    self.shadow = meaning
        self._raw.extend(run.lines)
        self._tail = run.lines[-1]
        self._width = len(self._tail)
        self.foreign = 0
        self.last_line = number - run.blank
        self.last_number = number
        return True

    def _read_header_on(self, stripped: str) -> bool:
        """More words of a header that does not look whole; False where they say nothing."""
        reader, words = self.reads_header, self._header_words or self.message or ""
        if reader is None or len(words) > _MAX_REJOINED or _WHOLE_HEADER.search(words):
            return False
        before = (self.address, self.pc, self.thread)
        message, kind = self.message, self.kind
        self._header_words = joined(words, stripped, width=self._width)
        reader(self, self._header_words)
        longer = kind is not None and self.kind != kind and (self.kind or "").startswith(kind)
        if before != (self.address, self.pc, self.thread) or longer:
            return True
        self.message, self.kind = message, kind
        return False

    def is_repeated_by(self, other: ReportBuilder) -> bool:
        """Is `other` only the same header line once more, as where a log holds each line twice?"""
        return (
            self.last_line == self.first_line == other.first_line - 1
            and self.runtime.ends_with_summary
            and self._raw == other._raw
        )

    @property
    def due(self) -> int | None:
        """The number of the next frame of its stack; -1 where none is to come, None if unknown."""
        return -1 if self._stack is None and self.summary is not None else self.next_index

    @property
    def awaits_pc(self) -> int | None:
        """What the very first frame's pc is known to be, or one instruction behind it."""
        return int(self.pc, 16) if self.pc is not None and self.awaits_use else None

    def would_read(self, stripped: str) -> bool:
        """Is this a line of a report like this one, whosever it is?"""
        return (
            stripped[0] == "#"
            or self.runtime.combined.match(stripped) is not None
            or _SUMMARY.match(stripped) is not None
        )

    def lose_stacks(self) -> None:
        """What was read since the header may have been another report's."""
        self._stacks.clear()
        self.leaks.clear()
        self.locks.clear()
        self.summary = self.region = self.access_type = self.access_size = None
        self.lose_stack()

    @property
    def exhausted(self) -> bool:
        """Nothing more of this report is to come."""
        if self.done:
            return True
        return self.foreign > (8 if self.summary is not None else self.runtime.patience)

    @property
    def has_evidence(self) -> bool:
        """Does anything below the header confirm that it is a report?"""
        if self.address is not None and (self.pc is not None or self.thread is not None):
            return True  # no prose says so much
        stacks = any(stack.frames for stack in self._stacks)
        return bool(stacks or self.summary or self.leaks or self.access_size is not None)

    def _read(self, stripped: str) -> bool:
        if stripped[0] == "#":
            return self._frame(stripped)
        if stripped.startswith("==") and self._is_of_another(stripped):
            return False
        if stripped[0] in "0=" and _SHADOW_ROW.match(stripped):
            if "[" in stripped:
                mark = stripped.partition("[")[2][:2]
                self.shadow_byte = mark.strip("]") or None
            return True
        summary = _SUMMARY.match(stripped) if stripped[0] == "S" else None
        if summary is not None:
            ending = self.runtime.last_words
            self.done = ending is not None and ending.search(stripped) is not None
            if self.summary is None:
                self.summary = f"{summary[1]}: {summary[2]}".rstrip()
            self._stack, self._skipping = None, True
            return True
        return self._rule(stripped)

    def _is_of_another(self, stripped: str) -> bool:
        """Does the line name a process, and not this report's?"""
        named = _PID.match(stripped)
        return named is not None and self.pid is not None and int(named[1]) != self.pid

    def _rule(self, stripped: str) -> bool:
        match = self.runtime.combined.match(stripped)
        if match is None:
            return False
        rule = self.runtime.rules[int((match.lastgroup or "r0")[1:])]
        if rule.action is None and isinstance(rule, Fact):
            return True
        detail = _compiled(rule.pattern).match(stripped)
        if detail is None:  # cannot be: the same pattern has just matched
            return False
        if isinstance(rule, Section):
            groups = detail.groupdict()
            if rule.role is None:
                self._skip()
            else:
                self._open(rule.role, groups.get("thread"), stripped, groups.get("creator"))
        if rule.action is not None:
            rule.action(self, detail)
        return True

    def _read_damaged(self, stripped: str, *, near: bool) -> bool:
        """A line of which another program, or a line's width, has left only a part readable."""
        if self._read_inside(stripped):
            self._tail = stripped
            return True
        if near and len(self._tail) + len(stripped) < _MAX_REJOINED:
            whole = joined(self._tail, stripped, width=self._width)
            if self._read_rejoined(whole, stripped):
                self._tail, self._broken = whole, True
                return True
        self._tail = stripped
        return False

    def _read_inside(self, stripped: str) -> bool:
        """What stands behind the text of another program, where it cannot be another report's."""
        stack = self._stack
        if stack is not None and "#" in stripped:
            due = stack.frames[-1].index + 1 if stack.frames else 0
            for match in _FRAME_INSIDE.finditer(stripped):
                frame = parse_frame(stripped[match.start() :]) if int(match[1]) == due else None
                if frame is not None and (frame.pc is not None or frame.module is not None):
                    stack.frames.append(frame)
                    return True
        if not any(words in stripped for words in _IN_EVERY_INSIDE):
            return False
        inside = _INSIDE.search(stripped)
        if inside is None:
            return False
        address = inside["address"] or inside["located"]
        if address is not None and address != self.address:
            return False
        if inside["kind"] is not None and inside["kind"].lower() != self.kind:
            return False
        return self._read(stripped[inside.start() :])

    def _read_rejoined(self, whole: str, stripped: str) -> bool:
        """The line before and this one, as one."""
        if stripped[0] in "#=":
            return False
        if whole[0] == "#":
            return self._read_frame_on(whole, stripped)
        if self.last_line == self.first_line and self.reads_header is not None:
            return self._read_header_on(stripped)
        if self._broken and self.summary is not None and self._tail.startswith("SUMMARY: "):
            self.summary = joined(self.summary, stripped, width=self._width)
            return True
        combined = self.runtime.combined
        match = combined.match(whole)
        if match is None or match.end() <= len(whole) - len(stripped):
            return False
        # A line that was whole goes on only where others were broken too.
        known = combined.match(self._tail.strip())
        was_whole = known is not None and known.end() == len(self._tail.strip())
        return (self._broken or not was_whole) and self._rule(whole)

    def _read_frame_on(self, whole: str, stripped: str) -> bool:
        stack = self._stack
        if stack is None or not stack.frames:
            return False
        frame = better_frame(stack.frames[-1], whole)
        if frame is not None:
            stack.frames[-1] = frame
            return True
        known = stack.frames[-1]
        before = whole if stripped[0] == "(" else whole[: len(whole) - len(stripped)]
        return known.file is None and known.module is None and unfinished(before)

    def _frame(self, stripped: str) -> bool:
        frame = read_frame(stripped)
        if frame is None:
            return False
        stack = self._stack
        if stack is None:
            self._skip_due = frame.index + 1
            return self._skipping and self.summary is None
        if stack.frames:
            last = stack.frames[-1]
            if frame.index <= last.index:
                if frame == last:  # a log that holds every line twice
                    return True
                # A stack that nothing introduced: not ours to name.
                self._stack, self._skipping = None, self.summary is None
                self._skip_due = frame.index + 1
                return self._skipping
        elif self.foreign > 2 and not self.runtime.ends_with_summary:
            return False
        stack.frames.append(frame)
        return True

    def build(self) -> PrintedReport:
        """The report as far as it was read."""
        for stack in self._stacks:
            if stack.role is Role.USE and stack.thread is None:
                stack.thread = self.thread
        kind = self.kind or self._kind_of_summary() or "unknown"
        access = None
        if self.access_type is not None or self.access_size is not None:
            access = Access(type=self.access_type, size=self.access_size)
        incomplete = self.runtime.ends_with_summary and not self.done and self._lacks_its_end(kind)
        return PrintedReport(
            sanitizer=self.runtime.name,
            kind=kind,
            pid=self.pid,
            thread=self.thread,
            access=access,
            address=self.address,
            pc=self.pc,
            message=self.message,
            location=self.location,
            chain=self._chain(),
            region=self.region,
            shadow=self.shadow,
            leaks=tuple(self.leaks),
            locks=tuple(self.locks),
            hints=tuple(self.hints),
            summary=self.summary,
            truncated=incomplete or self._cut,
            lines=(self.first_line, self.last_line),
            raw="\n".join(self._raw),
        )

    def _lacks_its_end(self, kind: str) -> bool:
        """Was no summary printed, or only its first half?"""
        if self.summary is None:
            return True
        words = "-".join(self.summary.partition(": ")[2].lower().split())
        return words != kind and kind.startswith(words or ".")

    def _kind_of_summary(self) -> str | None:
        if self.summary is None:
            return None
        words = self.summary.partition(": ")[2].split(" ")
        return words[0].lower() or None
