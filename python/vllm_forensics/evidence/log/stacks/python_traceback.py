"""Python's tracebacks: plain, chained, in groups, with or without their indentation."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import clue_at, shortened
from vllm_forensics.evidence.log.stacks import rich_panel
from vllm_forensics.evidence.log.stacks.rich_panel import is_in_panel, panel_of
from vllm_forensics.model.incident import Clue, ClueKind, Follows, PythonCall
from vllm_forensics.model.python_source import TOP_LEVEL

HEADINGS: Final = (b"Traceback (most recent call",)
FRAMES: Final = (b"---> ", b'", line ', *rich_panel.ARROWS)
LINKS: Final = (b" above exception",)
_HEADER: Final = re.compile(r"(?<!C\+\+ )Traceback \(most recent call last\)")
_FRAME: Final = re.compile(
    # some sites turn the quotes of what is pasted
    r"\s*File [\"\u201c\u201d](?P<file>[^\"\u201c\u201d]{1,400})[\"\u201d], "
    r"line (?P<line>\d{1,9})(?:, in (?P<function>\S.{0,200}))?"
)
_NOTEBOOK: Final = re.compile(
    # IPython: File /opt/app/a.py:12, in f(x); Cell In[3], line 1; older: /opt/app/a.py in f(x)
    r"(?:File )?(?P<file>(?:[/~<]|[A-Za-z]:\\)(?:frozen )?[^\s:,]{1,300})"
    r"(?::(?P<line>\d{1,9})\S{0,4},)? in (?P<function>\S[^(]{0,200})"
    r"|(?:Cell|Input) In ?\[\d{1,6}\](?:, line (?P<cell>\d{1,9})|, in )"
)
_ARROW: Final = re.compile(r"-{1,5}> \d{1,6} ")
"""IPython's mark of the line that was executed."""
_HEADLESS: Final = re.compile(
    r"\s*File \"(?:[^\"]{1,400}\.pyx?|<(?:string|stdin|frozen [\w.]{1,80})>)\", line \d{1,9}, in \S"
)
_UNREAD: Final = re.compile(r"  File \"[^\"]{1,400}\", line \d{1,9}")
"""Of a script that Python could not read it prints no heading."""
_READING: Final = frozenset({"SyntaxError", "IndentationError", "TabError"})
_NAMED: Final = re.compile(r"(?P<type>[A-Z]\w{2,80}) {2,80}Traceback \(most recent call last\)")
_MESSAGE: Final = re.compile(
    # vLLM's executor: Exception in worker W while processing method take: no blocks, Traceback (…
    r"\b(?:[Ee]xception|[Ee]rror) (?:in|while|when|during) [^:]{1,120}: (?P<message>\S.{2,300}?)"
    r",? (?=Traceback \(most recent call last\))"
)
_LAST: Final = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z_]\w{1,80})(?:: (?P<message>.*)|:? *$)"
)
_IS_EXCEPTION: Final = re.compile(r".*(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Group)$")
_RAISE: Final = re.compile(r"\s*raise (?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{1,80})\b")
_INDENT: Final = re.compile(r"( {1,40})  File \"")
_LEVELS: Final = frozenset(
    {"CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTICE", "TRACE", "WARN", "WARNING"}
)
"""With these a line of another writer begins: `INFO:     10.0.0.1:0 - "GET / HTTP/1.1" 200`."""
_DECORATION: Final = " +|-"
_MAX_FRAMES: Final = 64
_MAX_LINES: Final = 400
_ECHO_TYPES: Final = frozenset(
    {
        "AsyncEngineDeadError", "BrokenPipeError", "BrokenProcessPool", "CancelledError",
        "ChildFailedError", "ConnectionAbortedError", "ConnectionRefusedError",
        "ConnectionResetError", "EOFError", "EngineDeadError", "ExceptionGroup",
        "BaseExceptionGroup", "IncompleteReadError", "KeyboardInterrupt", "MQEngineDeadError",
        "ClientDisconnect", "RemoteProtocolError", "ServerDisconnectedError", "SystemExit",
        "TerminatedWorkerError", "ActorDiedError", "RayActorError", "ClientConnectorError",
        "ClientOSError", "Empty", "ReadError", "APIConnectionError", "StreamClosedError",
        "CommClosedError", "KilledWorker", "WorkerLostError",
    }
)  # fmt: skip
"""Exceptions that tell of another process's end, or of somebody's wish to end this one."""
_ECHO_MESSAGES: Final = re.compile(
    r"See (?:root cause|stack trace) (?:above|for)|^cancelled$|Engine loop is not running|"
    r"Background loop (?:has errored|is stopped)|Executor failed\.|"
    r"[Ee]ngine process failed to start|"
    r"Engine (?:core|process) is dead|died unexpectedly|EngineCore encountered an issue|"
    r"^Worker failed with error|WorkerProc initialization failed|"
    r"^ConnectionPool is closed$|Connection (?:reset|closed) by peer|closed by remote peer|"
    r"Failed to send (?:data|message) to (?:the )?engine"
)


_HELPED: Final = re.compile(r"\s{1,20}raise self\._format_exception\(outputs\) from None")
"""How vLLM's client raises that its engine is dead."""


class TracebackBlock:
    """One traceback, while it is read."""

    def __init__(self, line: LogLine, *, is_unread: bool = False) -> None:
        """Begin with its first line; that of a script that could not be read has no heading."""
        self._is_unread = is_unread
        self.first = line
        self.first_line = line.number
        self._frames: list[PythonCall] = []
        bare = line.text.lstrip(" ")
        self._margin = len(line.text) - len(bare) if bare.startswith("Traceback") else 0
        """So far it is indented as a whole: pasted into a list, or as code."""
        self._panel = panel_of(line.text)
        self._lines = 0
        self._after_frame = False
        self._end: LogLine | None = None
        """The last line of source."""
        named = _NAMED.match(line.text)
        self._named = named["type"] if named is not None else None
        """IPython names the exception in front of the heading as well."""
        self._is_notebook = named is not None or _ARROW.match(line.text.lstrip()) is not None
        self.last: LogLine | None = None
        """The line that names the exception."""
        self._waits = False
        """Is its message still to come, in a line of its own?"""
        self._type = self._message = ""
        self.is_caught = is_unread  # who compiles many files goes on
        """Was it told by a logger, or of a thread?"""
        self.is_survived = False
        """Was it signed as a warning?"""
        self.name: str | None = None
        """The process, where a heading above the traceback names it."""
        message = _MESSAGE.search(line.text)
        self._told = message["message"] if message is not None else None
        """What stands before the heading in its line."""

    def sign(self, above: LogLine | None) -> None:
        """A logger signs the line above a traceback, and nothing of it."""
        if above is not None and self.first.pid is None and self.first.name is None:
            self.first = self.first._replace(pid=above.pid, name=above.name)

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where it is a part of the traceback."""
        if self.last is not None:
            return self._takes_message(line.text)
        self._lines += 1
        text = line.text
        if not self._frames and not self._margin and (indent := _INDENT.match(text)) is not None:
            self._margin = len(indent[1])
        if self._margin and text[: self._margin].isspace():
            text = text[self._margin :]
        if self._panel is not None and self._panel.takes(text):
            self._take(self._panel.call(text))
            self._end = line if text.strip() else self._end
            return True
        call = _call(text) or (_notebook_call(text) if self._is_notebook else None)
        if call is not None:
            self._take(call)
            self._end, self._after_frame = line, True
            return True
        if not text.strip() or text.startswith("  ") or _ARROW.match(text) is not None:
            self._end = line if text.strip() else self._end
            return True
        bare = text.lstrip(_DECORATION)
        match = _LAST.match(bare)
        if match is None or not self._frames or not _names_exception(match):
            # A source line that lost its indentation, or text of another writer.
            taken, self._after_frame = self._after_frame, False
            self._end = line if taken else self._end
            return taken
        self.last = line if bare == line.text else line._replace(text=bare)
        self._type, self._message = match["type"], match["message"] or ""
        self._waits = match["message"] is not None and not self._message.strip()
        return True

    def _takes_message(self, text: str) -> bool:
        """A message that begins with an empty line: the first of its own lines, if it is indented.

        As multiprocessing's, of a main module that starts processes while it is imported.
        """
        if not self._waits or not text[:1].isspace():
            is_blank, self._waits = self._waits and not text, False
            return is_blank
        self._message, self._waits = text.strip(), not text.strip()
        return True

    def _take(self, call: PythonCall | None) -> None:
        if call is not None:
            self._frames.append(call)
            del self._frames[:-_MAX_FRAMES]

    @property
    def done(self) -> bool:
        """Is the exception named, with its words, or was it too long in coming?"""
        is_named = self.last is not None and not self._waits
        return is_named or self._lines > _MAX_LINES

    @property
    def is_group(self) -> bool:
        """Is it an exception group's own traceback, behind which its members follow?"""
        return self._type.endswith("ExceptionGroup")

    @property
    def calls(self) -> tuple[PythonCall, ...]:
        """Its calls, innermost first."""
        return tuple(reversed(self._frames))

    def close(self) -> Clue | None:
        """The exception; None where none was named, or only that of a group."""
        if self.last is None or self.is_group:
            return self._cut_off()
        message, name = self._message, self._type.rpartition(".")[2]
        if self._is_unread and name not in _READING:
            return None
        name = name if message else self._whole(name)
        is_echo = is_echo_of_another(name, message)
        return clue_at(
            self.signed(self.last),
            ClueKind.ECHO if is_echo else ClueKind.EXCEPTION,
            "python",
            name=self.name,
            detail=shortened(f"{name}: {message}") if message else name,
            python=tuple(reversed(self._frames)),
            is_caught=self.is_caught or any(map(_is_of_greenlet, self._frames)),
        )

    def unfinished(self) -> Clue | None:
        """What a traceback still tells whose end was cut off with the end of the text."""
        if self._cut_off() is not None or self._end is None or not self._frames or self.last:
            return None
        line = self.signed(self._end)
        return clue_at(
            line,
            ClueKind.STACK if self._told is None else ClueKind.EXCEPTION,
            "python",
            name=self.name if line.name is None else None,  # whose heading it is
            detail=self._told or "an exception, which the text is cut off before",
            python=tuple(reversed(self._frames)),
        )

    def signed(self, line: LogLine) -> LogLine:
        """The line; some loggers sign the heading and give its time, and nothing below it."""
        first, is_signed = self.first, line.name is not None or line.pid is not None
        line = line if is_signed else line._replace(name=first.name, pid=first.pid)
        return line if line.time is not None else line._replace(time=first.time)

    def _whole(self, name: str) -> str:
        """The name of which only the beginning stands there: the line that raises it has all."""
        match = _RAISE.match(self._end.text) if self._end is not None else None
        raised = match["type"].rpartition(".")[2] if match is not None else ""
        return raised if raised.startswith(name) else name

    def _cut_off(self) -> Clue | None:
        """The exception of a traceback that ends in the line that raises it."""
        match = _RAISE.match(self._end.text) if self._end is not None else None
        raised = match["type"] if match is not None else self._named
        if self._end is not None and _HELPED.match(self._end.text) is not None:
            raised = "EngineDeadError"
        if raised is None or self._end is None or self.is_group or not self._frames:
            return None
        name = raised.rpartition(".")[2]
        return clue_at(
            self.signed(self._end),
            ClueKind.ECHO if name in _ECHO_TYPES else ClueKind.EXCEPTION,
            "python",
            detail=f"{name}, whose message is cut off",
            python=tuple(reversed(self._frames)),
        )


def _is_of_greenlet(call: PythonCall) -> bool:
    """Does gevent run it? What a greenlet raises is printed, and the program goes on."""
    return call.function.endswith("Greenlet.run") and "gevent" in call.file


def is_echo_of_another(name: str, message: str) -> bool:
    """Does an exception of this type, with this message, only tell of another process's end?"""
    return name in _ECHO_TYPES or _ECHO_MESSAGES.search(message) is not None


def _call(text: str) -> PythonCall | None:
    frame = _FRAME.match(text)
    if frame is None:
        return None
    function = (frame["function"] or TOP_LEVEL).strip()
    return PythonCall(function=function, file=frame["file"], line=int(frame["line"]))


def _notebook_call(text: str) -> PythonCall | None:
    frame = _NOTEBOOK.match(text)
    if frame is None:
        return None
    function = (frame["function"] or TOP_LEVEL).strip()
    line = int(frame["line"] or frame["cell"] or 0)
    return PythonCall(function=function, file=frame["file"] or "<cell>", line=line)


def link(text: str) -> Follows | None:
    """What the words between two tracebacks say of the second."""
    if " above exception" not in text:
        return None
    if "direct cause of the following" in text:
        return Follows.CAUSED
    return Follows.HANDLING if "During handling of the above" in text else None


def open_traceback(line: LogLine) -> TracebackBlock | None:
    """A traceback that begins in this line."""
    if "Traceback (most" not in line.text or _HEADER.search(line.text) is None:
        return None
    return TracebackBlock(line)


def open_headless(line: LogLine) -> TracebackBlock | None:
    """A traceback whose beginning was cut off: it is pasted from its middle on."""
    if is_in_panel(line.text):
        return TracebackBlock(line)
    if "--> " in line.text and _ARROW.match(line.text.lstrip()) is not None:
        return TracebackBlock(line)
    if '", line ' not in line.text:
        return None
    is_unread = _UNREAD.fullmatch(line.text) is not None
    if not is_unread and _HEADLESS.match(line.text) is None:
        return None
    block = TracebackBlock(line, is_unread=is_unread)
    block.feed(line)
    return block


def _names_exception(match: re.Match[str]) -> bool:
    name = match["type"].rpartition(".")[2]
    if name in _LEVELS:
        return False
    if _IS_EXCEPTION.match(name) is not None:
        return True
    # A class of any name: dotted, or alone with its message; not `else: x` of a source line.
    return name[:1].isupper() and ("." in match["type"] or match["message"] is not None)
