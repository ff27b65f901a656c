"""Finds every clue to a death in a log of any size: a byte search first, then lines around hits.

The log is read once, in pieces. What is kept is one unfinished line, the open stacks, the last
lines' prefixes and a bounded number of clues: time is linear in its size, memory is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Final

from vllm_forensics.evidence.log import asserted, openers, records, unnamed
from vllm_forensics.evidence.log.asserted import read_asserted, with_sources
from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.contained import with_contained
from vllm_forensics.evidence.log.forms import with_forms
from vllm_forensics.evidence.log.labels import with_kernels, with_labels
from vllm_forensics.evidence.log.lines import LogLine, last_time, log_lines, plain
from vllm_forensics.evidence.log.needles import Search, words
from vllm_forensics.evidence.log.openers import Block, comes_first, open_block
from vllm_forensics.evidence.log.own_prefix import OwnPrefixes
from vllm_forensics.evidence.log.people import hearsay, titles
from vllm_forensics.evidence.log.people.called_places import with_called_places, with_functions
from vllm_forensics.evidence.log.people.hearsay import HEAD, Hearsay
from vllm_forensics.evidence.log.people.no_programs import without_libraries
from vllm_forensics.evidence.log.people.setting import Setting
from vllm_forensics.evidence.log.people.titles import clue_of_heading, is_defined
from vllm_forensics.evidence.log.people.told_places import told_place
from vllm_forensics.evidence.log.people.told_programs import with_told_programs
from vllm_forensics.evidence.log.prompts import with_commands, with_programs
from vllm_forensics.evidence.log.records import Record
from vllm_forensics.evidence.log.sanitized import SanitizedPart
from vllm_forensics.evidence.log.signs_of_life import SignsOfLife
from vllm_forensics.evidence.log.stacks import python_traceback
from vllm_forensics.evidence.log.stacks.faulthandler import FaultBlock
from vllm_forensics.evidence.log.stacks.goroutine import with_messages
from vllm_forensics.evidence.log.stacks.native_stack import (
    NativeBlock,
    is_own_frame,
)
from vllm_forensics.evidence.log.stacks.py_spy import SpyBlock
from vllm_forensics.evidence.log.stacks.python_traceback import (
    TracebackBlock,
    link,
)
from vllm_forensics.evidence.log.stacks.shown_stack import shown_stack
from vllm_forensics.evidence.log.unnamed import read_unnamed
from vllm_forensics.evidence.log.unsigned import Unsigned
from vllm_forensics.evidence.log.writers import kernel_record
from vllm_forensics.evidence.log.writers.apple import with_apples_faults
from vllm_forensics.evidence.log.writers.bare_exceptions import bare_exceptions
from vllm_forensics.evidence.log.writers.kernel import decoded
from vllm_forensics.evidence.log.writers.runtimes import PANICS
from vllm_forensics.evidence.log.writers.uncaught import uncaught
from vllm_forensics.evidence.unicode_text import as_utf8
from vllm_forensics.model.incident import (
    SPY,
    Clue,
    ClueKind,
    Follows,
    IncidentReading,
    PythonCall,
)

_STOPS: Final = (b"reakpoint ", b"stop reason = ", b" by thread T", b" created by T",
                 b" created by main", b" by main thread:")  # fmt: skip
_STOP: Final = re.compile(
    r"hit (?:Temporary )?[Bb]reakpoint |^Breakpoint \d{1,6}, |"
    r"stop reason = (?:breakpoint|step|exec|instruction step)|"
    # long before the fault
    r"^(?:previously )?(?:allocated|freed) by thread T\d|"
    r"^\s*Thread T\d{1,6} .{0,80}created by (?:T\d|main)|"
    r"^\s*(?:[A-Z]\w{2,8} ){1,2}(?:\w{4,8} ){0,2}of size \d{1,9} at 0x[0-9a-f]{6,16} by "
)
_STOPPED: Final = 8
"""So many lines below a debugger's own stop, or an earlier event, a stack tells of no death."""
_NEEDLES: Final = tuple(
    dict.fromkeys(
        (
            *BOOK.needles,
            *openers.NEEDLES,
            *python_traceback.LINKS,
            *records.NEEDLES,
            *titles.NEEDLES,
            *_STOPS,
            *hearsay.NEEDLES,
            *unnamed.NEEDLES,
            *asserted.NEEDLES,
        )
    )
)
_LARGE: Final = 1 << 20
_MAX_UNFINISHED: Final = 1 << 20
_MAX_CLUES: Final = 4_000
_KEPT_AT_THE_END: Final = 200
_KEPT_LAST: Final = 1 << 16
"""Of a text's end, where programs say of what they end."""
_MAX_CALL: Final = 600
_MAX_OPEN: Final = 64
_TAIL: Final = 1 << 13
"""Of the bytes before a hit, so many are looked through for who still lived."""
_WITH_STACK: Final = {
    ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.GPU, ClueKind.STACK
}  # fmt: skip
_OF_A_CRASH: Final = {ClueKind.HEARSAY, ClueKind.MENTION, ClueKind.SIGNAL, ClueKind.CHILD}
_OF_OTHERS: Final = {ClueKind.CHILD, ClueKind.ECHO}
_OF_PEOPLE: Final = {ClueKind.HEARSAY, ClueKind.MENTION, ClueKind.START, ClueKind.NOT_MEMORY}
_DATED: Final = 400
"""Of the bytes before a hit, so many are looked through for a time."""
_BEGINNING: Final = 2_000
"""A title stands in so many bytes."""
_MENTION: Final = re.compile(
    r"(?i)segment(?:ation)? (?:fault|violation)|segfault|core dumped|\bkilled\b|crash|SIGSEGV|"
    r"SIGKILL|OOM"
)
_SEEN_MAX: Final = 5
_NUMBER: Final = re.compile(r"\d{1,20}")
"""Lines that differ by numbers only are told once."""
_QUOTED: Final = "Worker failed with error '"
"""What follows is the worker's own error, and the traceback is that of who asked it."""
_NUMBERED: Final = re.compile(rb"\d{1,2}: ")
_CAUGHT: Final = re.compile(
    rb"(?m)(?<![A-Z_])(?:ERROR|WARN(?:ING)?|CRITICAL|EXCEPTION)\b|level[\"=: ]{1,4}(?:error|warn)|"
    rb"^FAIL: \w{1,200} \(|"  # unittest: it goes on with the next test
    rb"^(?:.{0,80} )?Exception (?:in (?:thread|callback|Tkinter callback|ASGI application)\b|"
    rb"ignored in )|"
    rb"\b(?:Task|Future) exception was never retrieved|"
    rb"^--- Logging error ---|Unhandled (?:error in Deferred|exception in event loop)"
)
"""In the lines above a traceback that a logger or a thread's last resort printed."""
_WARNED: Final = re.compile(rb"(?<![A-Z_])WARN(?:ING)?\b(?!.*\b(?:ERROR|CRITICAL|FATAL)\b)")
"""Who signs an exception's traceback as a warning goes on: it was tried in vain."""
_ORIGINAL: Final = re.compile(
    rb"^-- Process \d{1,6} terminated with the following error:|^\W{0,4}Original Traceback \(most",
    re.MULTILINE,
)
"""How PyTorch tells, in an exception's own words, of the one that a child had raised."""
_LINK: Final = 4
"""So many lines may lie between two tracebacks of one chain or group."""


def parse_incident_log(pieces: Iterable[bytes]) -> IncidentReading:
    """Every clue in a log that is handed over in pieces of any size; raises on none."""
    scanner = _Scanner()
    for piece in as_utf8(pieces):
        scanner.feed(piece)
    return scanner.close()


class _Scanner:
    def __init__(self) -> None:
        self._rest = b""
        self._is_cut = False
        self._line = 0
        self._size = 0
        self._clues: list[Clue] = []
        self._late: list[Clue] = []
        self._lone: list[Clue] = []
        self._left_out = 0
        self._blocks: dict[str, Block] = {}
        self._lives = SignsOfLife()
        self._now: str | None = None
        self._above = b""
        self._sanitized = SanitizedPart()
        self._setting = Setting()
        self._seen: list[str] = []
        self._stop = -_STOPPED - 1
        self._record = Record()
        self._hearsay = Hearsay()
        self._unsigned = Unsigned()
        self._links: dict[str, tuple[Follows, int]] = {}
        self._groups: dict[str, tuple[PythonCall, ...]] = {}
        """The calls of the group whose members are told, by stream."""
        self._prefixes = OwnPrefixes()
        self._previous = b""
        self._is_caught = self._is_survived = self._is_original = False
        self._last = b""
        self._signer: LogLine | None = None
        """Who signed the line above a traceback, where he signs no other of its lines."""

    def feed(self, piece: bytes) -> None:
        """Read one more piece of the log."""
        self._size += len(piece)
        self._setting.feed(piece)
        self._last = (self._last + piece[-_KEPT_LAST:])[-_KEPT_LAST:]
        data = self._rest + piece if self._rest else piece
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= _MAX_UNFINISHED:  # a line without end: cut it
            end = len(data)
        self._rest = data[end:] if end else data
        if end:
            self._read(data, end)
            self._is_cut = data[end - 1 : end] != b"\n"

    def close(self) -> IncidentReading:
        """The end of the log: close what is open."""
        if self._rest:
            self._read(self._rest, len(self._rest))
        for stream, block in list(self._blocks.items()):
            unfinished = _unfinished(block) if isinstance(block, TracebackBlock) else None
            self._close(stream)
            if unfinished is not None:
                self._add(unfinished)
        clues = self._sanitized.close([*self._clues, *self._late])
        clues = [self._record.named(clue) for clue in self._hearsay.judged(clues)]
        if not any(map(_says_of_what, clues)):
            ends = self._last.removesuffix(b"\n")
            clues += uncaught(ends, self._line - ends.count(b"\n"))
        text = cache(self._setting.lines)  # which several ask for
        if len(self._lone) == 1 and not any(clue.native for clue in clues):
            clues += self._lone if any(clue.kind in _OF_A_CRASH for clue in clues) else []
        clues += self._record.cut_short(text)
        if all(clue.kind in _OF_PEOPLE or clue.source == SPY for clue in clues):
            head = text(HEAD)
            clues += [] if self._hearsay.is_work else bare_exceptions(head)
            clues = with_called_places([*clues, *self._hearsay.alone(head)], lambda: head)
        clues = with_forms(clues, text)
        clues.sort(key=lambda clue: clue.line)
        printed = with_apples_faults(self._setting.printed(clues), text)
        printed = with_messages(with_sources(printed, text), text)
        printed = without_libraries(printed, text(HEAD))
        printed = with_commands(printed, text)
        seen = self._lives.seen()
        if not seen:  # among several the command above does not tell which one
            printed = with_programs(with_kernels(printed, text), text)
            printed = with_contained(with_labels(printed, text), text)
            printed = without_libraries(with_told_programs(printed, text), text(HEAD))
            printed = with_functions(printed, text)
        printed = self._hearsay.quoted(printed)
        return IncidentReading(
            clues=tuple(map(self._lives.without_pipe, printed)),
            processes=seen,
            size_bytes=self._size,
            lines=self._line,
            left_out=self._left_out,
            stopped=self._setting.stopped(clues),
            succeeded=self._setting.succeeded(self._size),
            answered=tuple(self._lives.answered),
            teaches=self._setting.teaches,
            told_place=told_place(printed, text()) if printed else None,
            shown_stack=shown_stack(text()) if printed and not _has_stack(printed) else (),
            seen_instead=tuple(self._seen),
        )

    def _read(self, data: bytes, end: int) -> None:
        is_beginning = not self._line
        self._line -= self._is_cut  # the same line goes on
        self._sanitized.feed(data[:end] if end < len(data) else data, self._line)
        if is_beginning:
            told = self._hearsay.begin(data[:_BEGINNING])
            if told is not None:
                self._add(told)
        position, first = 0, self._line
        search = Search(data, words(_NEEDLES, is_large=self._size > _LARGE), end)
        hit = search.next_hit(0)
        while position < end:
            if hit is not None and hit.position < position:
                hit = search.next_hit(position)
            if not self._blocks:
                start = hit.position if hit is not None else end
                if start > position:
                    self._line = first + (hit.lines if hit is not None else search.lines_read)
                    self._lives.read(data[max(position, start - _TAIL) : start], self._line)
                    self._above = data[max(position, start - _DATED) : start]
                    position = start
                if hit is None:
                    self._line += data[end - 1 : end] != b"\n"
                    return
            stop = data.find(b"\n", position, end)
            if stop < 0:
                stop = end
            self._line += 1
            self._take(data[position:stop], has_needle=hit is not None and hit.position == position)
            position = stop + 1

    def _take(self, raw: bytes, *, has_needle: bool) -> None:
        raw = raw.lstrip(b"\0") if raw[:1] == b"\0" else raw  # a hole where a file was cut
        raw = plain(raw.removesuffix(b"^M"))  # a carriage return, as editors show it
        if _NUMBERED.match(raw) is not None and self._is_of_r_or_rust(raw):
            return
        self._note_above(raw)
        bare = self._prefixes.taken_off(raw)
        time = last_time(raw) if len(bare) < len(raw) else None
        for one in log_lines(bare, self._line):
            line = self._dated(one if time is None else one._replace(time=one.time or time))
            if has_needle:
                self._record.note_prompt(raw, self._line)
                begun = self._learned(bare, line)
                if begun is not None:  # it may be a heading with a process's name
                    self._record.note(begun)
            self._lives.note(line)
            stream = self._unsigned.stream_of(line, self._blocks)
            block = self._blocks.get(stream)
            if has_needle and self._begin(line, block):
                continue
            if block is not None and (not has_needle or comes_first(block, line)):
                taken = block.feed(line)
                if block.done:
                    self._close(stream)
                if taken:
                    continue
            if has_needle:
                self._phrase(line)

    def _learned(self, raw: bytes, line: LogLine) -> LogLine | None:
        """What begins in the line behind a prefix that nobody knows."""
        begun = self._prefixes.learn(raw, line.text)
        return line._replace(text=begun) if begun is not None else None

    def _note_above(self, raw: bytes) -> None:
        """Who is above a traceback: a child, which may have any name, or who caught it."""
        heading = raw.find(b"Traceback (most")
        above, self._previous = self._above.removesuffix(b"\n") or self._previous, raw
        if heading < 0:
            return
        *_, last = lines = above.rsplit(b"\n", 2)[-2:]
        self._is_original = _ORIGINAL.search(b"\n".join((last, raw))) is not None
        self._is_survived = _WARNED.search(raw[:heading]) is not None
        self._is_caught = _CAUGHT.search(b"\n".join((*lines, raw[:heading]))) is not None
        signed = log_lines(last, self._line - 1) if self._is_caught else []
        self._signer = next((one for one in signed if one.pid and not one.name), None)
        above = last if self._above else b""
        if b"Process " in above:
            above = self._prefixes.taken_off(above)
            for line in log_lines(above, self._line - 1):
                self._record.note(self._learned(above, line) or line)

    def _dated(self, line: LogLine) -> LogLine:
        """The line; a crash handler writes no time, so it has that of what stands above it."""
        if line.time is not None:
            self._now, self._above = line.time, b""
            return line
        if self._above:
            self._now = last_time(self._above) or self._now
            self._above = b""
        return line._replace(since=self._now) if self._now is not None else line

    def _is_of_r_or_rust(self, raw: bytes) -> bool:
        """Calls whose numbers lost the blank before them look like a runner's prefix."""
        block = self._blocks.get("")
        if not isinstance(block, NativeBlock):
            return False
        is_rusts = block.source == PANICS.source and (b"::" in raw or b" at /" in raw)
        if not is_rusts and (block.source != "R" or not raw.startswith(b"1: ")):
            return False
        return block.feed(LogLine(self._line, "", raw[:_MAX_CALL].decode("utf-8", "replace")))

    def _begin(self, line: LogLine, block: Block | None) -> bool:
        """Open the dump, traceback or stack that begins in this line."""
        is_stop = line.number - self._stop <= _STOPPED
        opened = open_block(line, block, is_stop=is_stop)
        if opened is None:
            follows = link(line.text)
            if follows is not None:
                self._close(line.stream)
                self._links[line.stream] = (follows, line.number)
            return follows is not None
        if isinstance(opened, TracebackBlock):
            opened.name = self._record.child_above(line.number)
            opened.is_caught |= self._is_caught
            opened.is_survived = self._is_survived
            if self._is_original:
                self._close(line.stream)
                self._told_again()
            opened.sign(self._signer)
            if line.text.lstrip(" +|").find("Traceback (most") > 0:
                told = BOOK.read(line)  # a record without newlines: the end is told before it
                if told is not None and told.of_another:
                    self._add(told)
        self._open(line.stream, opened)
        if opened.done:
            self._close(line.stream)
        return True

    def _phrase(self, line: LogLine) -> None:
        clue = BOOK.read(line) or clue_of_heading(line) or read_unnamed(line)
        clue = clue or read_asserted(line)
        block = self._blocks.get(line.stream)
        if clue is None and is_defined(block, line):
            self._blocks.pop(line.stream, None)
            return
        if clue is None:
            self._no_phrase(line, block)
            return
        record = kernel_record.open_record(line, clue)
        if record is not None:
            self._open(line.stream, record)
            return
        clue = decoded(clue)
        if _QUOTED in line.text and not clue.of_another:
            clue = replace(clue, of_another=True, name="Worker")
        if clue.source != "kernel":
            clue = self._record.complete(clue)
        if clue.kind in _WITH_STACK and clue.source != "kernel":
            if isinstance(block, FaultBlock) and clue.source == "a signal handler":
                self._add(clue)
                return
            opened = NativeBlock(clue)
            if is_own_frame(line.text):
                opened.feed(line)
            self._open(line.stream, opened)
        else:
            self._add(clue)

    def _no_phrase(self, line: LogLine, block: Block | None) -> None:
        """A part of something else, or a word about deaths."""
        if block is not None:
            block.feed(line)
        if self._record.note(line):
            return
        if (actor := self._record.dead_actor(line)) is not None:
            self._add(actor)
            return
        if block is None and (told := self._hearsay.read(line)) is not None:
            self._add(told)
        if _STOP.search(line.text) is not None:
            self._stop = line.number
            return
        match = _MENTION.search(line.text) if block is None else None
        if match is not None and len(self._seen) < _SEEN_MAX:
            text = _around(match)
            if not any(_NUMBER.sub("", text) in _NUMBER.sub("", one) for one in self._seen):
                self._seen.append(f"line {line.number}: {text}")

    def _open(self, stream: str, block: Block) -> None:
        self._close(stream)
        if len(self._blocks) >= _MAX_OPEN:
            self._close(next(iter(self._blocks)))
        self._blocks[stream] = block

    def _close(self, stream: str) -> None:
        block = self._blocks.pop(stream, None)
        if block is None or (isinstance(block, TracebackBlock) and block.is_survived):
            return
        clue = block.close()
        if clue is None and isinstance(block, NativeBlock) and (lone := block.lone()) is not None:
            self._lone.append(lone)
        if isinstance(block, TracebackBlock):
            follows = self._follows(stream, block)
            if follows is not None and clue is not None:
                clue = replace(clue, follows=follows)
            clue = self._of_group(stream, block, follows, clue)
        if clue is None:
            return
        if isinstance(block, SpyBlock):
            clue = self._record.titled(clue)
        if isinstance(block, TracebackBlock) and block.last is not None:
            told = BOOK.read(block.signed(block.last))
            told = None if told is not None and told.kind is ClueKind.ABORT else told
            if told is not None and _QUOTED in block.last.text:
                clue = replace(told, of_another=True, name="Worker", detail=told.detail)
            elif told is not None and (
                clue.kind is not ClueKind.ECHO or told.kind is ClueKind.CHILD
            ):
                clue = replace(
                    told,
                    name=told.name or clue.name,  # the heading's above the traceback
                    python=clue.python,
                    detail=told.detail or clue.detail,
                    follows=clue.follows,
                )
        self._add(clue)

    def _follows(self, stream: str, block: TracebackBlock) -> Follows | None:
        """How a traceback hangs together with the one above it in its stream."""
        follows, line = self._links.pop(stream, (None, 0))
        last = block.last.number if block.last is not None else self._line
        if follows is not None and block.first_line - line > _LINK:
            follows = None
        if block.is_group or follows is Follows.GROUPED:
            self._links[stream] = (Follows.GROUPED, last)
        return follows

    def _told_again(self) -> None:
        """The exception right above was raised where a child's was noticed, which is below."""
        last = self._clues[-1] if self._clues else None
        is_near = last is not None and 0 < self._line - last.line <= _LINK
        if last is not None and is_near and last.kind is ClueKind.EXCEPTION:
            self._clues[-1] = replace(last, kind=ClueKind.ECHO)

    def _of_group(
        self, stream: str, block: TracebackBlock, follows: Follows | None, clue: Clue | None
    ) -> Clue | None:
        """A member of an exception group: whoever raised the group had called it."""
        if block.is_group:
            outer = self._groups.get(stream, ()) if follows is Follows.GROUPED else ()
            self._groups[stream] = (*block.calls, *outer)
            return clue
        if follows is not Follows.GROUPED:
            self._groups.pop(stream, None)
            return clue
        outer = self._groups.get(stream, ())
        return replace(clue, python=(*clue.python, *outer)) if clue is not None else None

    def _add(self, clue: Clue) -> None:
        """Keep the first clues and the last ones: a log may say the same for days."""
        if len(self._clues) < _MAX_CLUES:
            self._clues.append(clue)
            return
        self._late.append(clue)
        if len(self._late) > 2 * _KEPT_AT_THE_END:
            self._left_out += len(self._late) - _KEPT_AT_THE_END
            del self._late[:-_KEPT_AT_THE_END]


def _says_of_what(clue: Clue) -> bool:
    """Does it tell of what a process died, and not only that it ended, or that somebody saw it?"""
    return clue.kind not in {*_OF_PEOPLE, *_OF_OTHERS} or (
        clue.kind is ClueKind.CHILD and clue.signal is not None
    )


def _around(mention: re.Match[str]) -> str:
    """The words around a mention, none of them cut."""
    text, start, end = mention.string, max(0, mention.start() - 40), mention.end() + 60
    if start:
        start = text.find(" ", start, mention.start()) + 1 or mention.start()
    if end < len(text):
        end = text.rfind(" ", mention.end(), end) if " " in text[mention.end() : end] else end
    return f"{'…' * bool(start)}{text[start:end].strip()}{'…' * (end < len(text))}"


def _unfinished(block: TracebackBlock) -> Clue | None:
    """A traceback that the text is cut off in; its heading may say what it is of."""
    clue = None if block.is_survived else block.unfinished()
    told = BOOK.read(block.first) if clue is not None and clue.kind is ClueKind.EXCEPTION else None
    if clue is None or told is None or told.of_another:
        return clue
    return replace(told, python=clue.python)


def _has_stack(clues: list[Clue]) -> bool:
    """Does any clue show more than one frame, of whatever language?"""
    return any(len(clue.native) > 1 or len(clue.python) > 1 for clue in clues)
