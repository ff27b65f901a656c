"""Valgrind's XML output: docs/internals/xml-output-protocol4.txt of its sources.

Each `<error>` is words and stacks, as in the text output, so `valgrind.ValgrindReport` reads both.
The XML is evidence, so it may be hostile or cut off: it is parsed as it comes, a document type and
with it every entity is refused, and after damage reading goes on at the next error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from xml.parsers import expat

from vllm_forensics.evidence.sanitizer.valgrind import ValgrindReport, is_header
from vllm_forensics.model.sanitizer import PrintedFrame, PrintedReport, Role

NEEDLE: Final = b"<valgrindoutput"
_FAR: Final = 400
"""After so many other lines a document is taken to have been cut off."""
_TAG: Final = re.compile(
    rb"<(?:\?xml|/?(?:valgrindoutput|protocol(?:version|tool)|preamble|line|p?pid|tool|usercomment"
    rb"|logfilequalifier|var|value|args|v?argv|exe|arg|status|state|time|error|unique|h?threadid"
    rb"|tid|threadname|kind|x?(?:aux)?what|text|leaked(?:bytes|blocks)|stack|frame|ip|obj|fn|dir"
    rb"|file|suppression|s?name|skind|skaux|sframe|rawtext|fatal_signal|signo|signame|sicode|event"
    rb"|siaddr|announcethread|isrootthread|errorcounts|pair|count|suppcounts|first_observed_at"
    rb"|address|allocation_context|other_segment_(?:start|end)|clientmsg)/?>)"
)
"""Valgrind's own elements: neither a prefix nor another program's line is XML."""
_MAX_TEXT: Final = 8_192
_STACKS_OF_OTHERS: Final = {"first_observed_at", "other_segment_start", "other_segment_end"}
"""drd's; no access of the error's own."""
_MAX_DEPTH: Final = 32
_MAX_PIECE: Final = 1 << 16
_MAX_THREADS: Final = 10_000
_RESTART: Final = re.compile(rb"\s*<(?:error|fatal_signal|announcethread|errorcounts)>")
_FIRST: Final = re.compile(rb"(?:<\?xml[^>]{0,200}\?>\s*)?<valgrindoutput")
_ROOT: Final = b"<valgrindoutput>"
_WORDS: Final = {
    ("error", "what"),
    ("xwhat", "text"),
    ("error", "auxwhat"),
    ("xauxwhat", "text"),
}
_RECORDS: Final = {"error", "fatal_signal", "announcethread"}
_FIELDS: Final = _RECORDS | {"xwhat", "xauxwhat"}


class _RefusedError(Exception):
    """The XML uses what Valgrind never writes."""


def parse_valgrind_xml(pieces: Iterable[bytes]) -> tuple[PrintedReport, ...]:
    """Every error in the output of `valgrind --xml=yes`, handed over in pieces of any size.

    Several documents may follow one another, and the last may be cut off: what came before is kept,
    the error that was cut off too, marked as truncated. Raises on no input. Lines are counted from
    1. `occurrences` is Valgrind's own count, where the document reached its end.
    """
    reader = XmlReader()
    rest = b""
    number = 1
    for piece in pieces:
        lines = (rest + piece).split(b"\n") if rest else piece.split(b"\n")
        rest = lines.pop()
        for line in lines:
            reader.feed(line + b"\n", number)
            number += 1
        if len(rest) > _MAX_PIECE:
            reader.feed(rest, number)
            rest = b""
    reader.feed(rest, number)
    reader.close()
    return reader.reports


class XmlReader:
    """Reads line by line and collects the errors."""

    def __init__(self) -> None:
        """Wait for the first document."""
        self._path: list[str] = []
        self.finished = False
        """Has the document that was begun last come to its end?"""
        self._parser: expat.XMLParserType | None = None
        self._done: list[PrintedReport] = []
        self._line = 0
        self._begin()

    @property
    def reports(self) -> tuple[PrintedReport, ...]:
        """The errors read so far, in order."""
        return (*self._done, *self._document)

    def feed(self, data: bytes, line: int) -> None:
        """Take a line, or a part of one."""
        self._line = line
        if self._parser is not None and self._parse(self._parser, data):
            return
        rest = self._restart(data)
        if self._parser is not None:
            self._parse(self._parser, rest)

    def close(self) -> None:
        """The end: an error that was not finished is kept as far as it goes."""
        self._drop()
        self._end_document()
        self._parser = None

    def _parse(self, parser: expat.XMLParserType, data: bytes) -> bool:
        try:
            parser.Parse(data)
        except (expat.ExpatError, _RefusedError):
            self._parser = None
            self._drop()
            return False
        return True

    def _restart(self, data: bytes) -> bytes:
        """What of the data a new parser can begin with; empty where it must wait on."""
        first = _FIRST.search(data)
        if first is not None:
            self._end_document()
            self._new_parser()
            return data[first.start() :]
        if self._begun and _RESTART.match(data) is not None:
            self._new_parser()
            return _ROOT + data
        return b""

    def _new_parser(self) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _refuse
        parser.EntityDeclHandler = _refuse
        self._parser = parser
        self._path.clear()
        self._begun = True
        self.finished = False

    def _begin(self) -> None:
        self._path.clear()
        self._text = ""
        self._begun = False
        self._pid: int | None = None
        self._document: list[PrintedReport] = []
        self._at: dict[str, int] = {}
        """Where the error of a `<unique>` stands in the document."""
        self._threads: dict[str, tuple[PrintedFrame, ...]] = {}
        self._count = ""
        self._new_record()

    def _new_record(self) -> None:
        self._report: ValgrindReport | None = None
        self._record_line = self._line
        self._unique: str | None = None
        self._thread: str | None = None
        self._signal: dict[str, str] = {}
        self._named: list[str] = []
        self._frame: dict[str, str] = {}
        self._frames: list[PrintedFrame] = []

    def _end_document(self) -> None:
        self._done.extend(self._document)
        self._begin()

    def _drop(self) -> None:
        """The input ended, or broke, inside of an error: keep what it said."""
        if self._report is not None:
            self._add(truncated=True)
        self._new_record()

    def _start(self, name: str, _: dict[str, str]) -> None:
        if len(self._path) >= _MAX_DEPTH:
            raise _RefusedError
        self._path.append(name)
        self._text = ""
        if name in _RECORDS:
            self._new_record()
        elif name == "stack":
            self._frames = []
            if self._report is None and self._signal:
                self._begin_signal()
        elif name == "frame":
            self._frame = {}
        elif name in _STACKS_OF_OTHERS and self._report is not None:
            self._report.tell("Other segment start (thread 0)")

    def _characters(self, text: str) -> None:
        if len(self._text) < _MAX_TEXT:
            self._text += text[:_MAX_TEXT]

    def _end(self, name: str) -> None:
        if self._path:
            self._path.pop()
        parent = self._path[-1] if self._path else ""
        text, self._text = self._text.strip(), ""
        if parent == "frame":
            self._frame[name] = text
        elif name == "frame":
            self._take_frame()
        elif (parent, name) in _WORDS:
            self._take_words(text)
        elif parent in _FIELDS:
            self._take_field(parent, name, text)
        elif parent == "pair":
            self._take_count(name, text)
        else:
            self._end_part(name, text)

    def _end_part(self, name: str, text: str) -> None:
        """The end of a part of the document."""
        if name in {"error", "fatal_signal"}:
            if self._report is not None:
                self._add(truncated=False)
            self._new_record()
        elif name == "announcethread" and len(self._threads) < _MAX_THREADS:
            self._threads[self._thread or ""] = tuple(self._frames)
        elif name == "pid":
            self._pid = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
        elif name == "valgrindoutput":
            self.finished = True

    def _take_words(self, words: str) -> None:
        words = " ".join(words.split())
        if self._report is not None:
            self._report.tell(words)
        elif is_header(words):
            self._report = ValgrindReport(words, self._record_line, self._pid)
        else:
            self._report = ValgrindReport(f"Thread #{self._thread or 0}: x", self._record_line)
            self._report.pid, self._report.message = self._pid, words
            self._report.kind = None

    def _take_field(self, parent: str, name: str, text: str) -> None:
        if name == "unique":
            self._unique = text
        elif name == "tid" or (name == "hthreadid" and parent == "announcethread"):
            self._thread = text
        elif name == "hthreadid":
            self._named.append(text)
        elif name == "kind":
            self._signal["kind"] = text
        elif parent == "fatal_signal" and name in {"signo", "signame", "event", "siaddr"}:
            self._signal[name] = text

    def _begin_signal(self) -> None:
        if "signo" not in self._signal:
            return
        said = self._signal
        name = f" ({said['signame']})" if said.get("signame") else ""
        words = f"Process terminating with default action of signal {said['signo']}{name}"
        if not is_header(words):
            return
        self._report = ValgrindReport(words, self._record_line, self._pid)
        if "siaddr" in said and "event" in said:
            self._report.tell(f"{said['event']} at address {said['siaddr']}")

    def _take_frame(self) -> None:
        said = self._frame
        folder, file = said.get("dir"), said.get("file")
        line = said.get("line", "")
        frame = PrintedFrame(
            index=len(self._frames),
            pc=said.get("ip"),
            function=said.get("fn") or None,
            file=f"{folder}/{file}" if folder and file else file,
            line=int(line) if line.isascii() and line.isdigit() and len(line) < 10 else None,
            module=said.get("obj"),
        )
        if len(self._frames) < 1_000:
            self._frames.append(frame)
            if self._report is not None:
                self._report.add_frame(frame)

    def _take_count(self, name: str, text: str) -> None:
        if name == "count":
            self._count = text
        elif name == "unique" and self._count.isascii() and self._count.isdigit():
            at = self._at.get(text)
            if at is not None:
                count = max(1, int(self._count[:12]))
                self._document[at] = replace(self._document[at], occurrences=count)

    def _add(self, *, truncated: bool) -> None:
        report = self._report
        if report is None:
            return
        if report.kind is None:
            report.kind = _kebab(self._signal.get("kind", "")) or "unknown"
        thread = f"#{self._thread}" if self._thread else None
        if report.thread is None:
            report.name_thread(thread)
        for name in self._named[:2]:
            frames = self._threads.get(name, ())
            if frames:
                report.add_stack(Role.THREAD_CREATE, f"#{name}", frames)
        report.last_line = max(self._line, report.first_line)
        built = report.build()
        if truncated:
            built = replace(built, truncated=True)
        if self._unique is not None:
            self._at[self._unique] = len(self._document)
        self._document.append(built)


def _refuse(*_: object) -> None:
    raise _RefusedError


def _kebab(name: str) -> str:
    """`CondErr` → `cond-err`: a kind that no table knows keeps Valgrind's name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name)[:80].lower()


class EmbeddedXml:
    """Documents inside of a log of other lines, which may have prefixes."""

    def __init__(self) -> None:
        """No document is open."""
        self._reader: XmlReader | None = None
        self._last = 0
        self._done: list[PrintedReport] = []

    @property
    def is_open(self) -> bool:
        """Has a document begun, and not ended?"""
        return self._reader is not None

    def take(self, raw: bytes, number: int) -> bool:
        """Take a physical line where it is XML of a document."""
        if self._reader is None:
            if NEEDLE not in raw:
                return False
            self._reader = XmlReader()
        elif number - self._last > _FAR:
            self.close()
            return False
        tag = _TAG.search(raw)
        if tag is None:
            return False
        self._last = number
        self._reader.feed(raw[tag.start() :].rstrip(b"\r") + b"\n", number)
        if self._reader.finished:
            self.close()
        return True

    def close(self) -> None:
        """No more of the document is to come."""
        if self._reader is not None:
            self._reader.close()
            self._done.extend(self._reader.reports)
            self._reader = None

    @property
    def reports(self) -> tuple[PrintedReport, ...]:
        """The errors of the documents that are closed."""
        return tuple(self._done)
