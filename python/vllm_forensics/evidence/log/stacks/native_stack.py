"""A line that tells a death, and the native stack below it, in whichever form."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import shortened
from vllm_forensics.evidence.log.stacks.apple_json import TRIGGERED, AppleThread
from vllm_forensics.evidence.log.stacks.debugger_python import DebuggersPython
from vllm_forensics.evidence.log.stacks.goroutine import GO, of_gos_logger
from vllm_forensics.evidence.log.stacks.handler_frames import is_handler_frame
from vllm_forensics.evidence.log.stacks.json_frames import calls_listed
from vllm_forensics.evidence.log.stacks.native_frame import (
    Frame,
    call_of,
    completed,
    frame_in,
    frame_of_anybody,
)
from vllm_forensics.evidence.log.stacks.stack_tells import (
    given_to_handler,
    is_of_allocator,
    of_handled,
    of_handler,
    of_heap,
    of_watchdog,
    signal_by,
    source_of_end,
    words_of_end,
)
from vllm_forensics.model.incident import OOPS, SHELL, Clue, ClueKind, NativeCall

_MAX_FRAMES: Final = 48
_PATIENCE: Final = 24
"""So many lines without a frame may stand before and between a stack's frames."""
_LONGEST: Final = 1_000
_CRASHED: Final = re.compile(r"\s*Thread \d{1,5}(?: \"[^\"]{0,80}\")? crashed:")
"""Swift: the threads above it were asleep."""
_THREAD: Final = re.compile(
    r"\s*(?P<current>\[Current thread is )?\[?(?:Thread )?\d{1,5} "
    r"\([^()]{0,60}\(?LWP (?P<lwp>\d{1,9})\)"
)
"""gdb: which thread the core is of, and whose stack follows."""
_KCRASH: Final = "[KCrash Handler]"
HANDLED: Final = "<signal handler called>"
"""gdb: what stands above was called by the kernel."""
_CRASHED_THREAD: Final = re.compile(
    r"\s{0,4}Thread (?P<number>[0-9A-Fa-f]{1,8}):?(?P<crashed> \([Cc]rashed\))?\s*$"
)
"""As Windows' crash handlers head the stacks of all threads."""
_UNWINDS: Final = re.compile(r"(?i)panic|backtrace|unwind|rust_")
"""In every stack of a Rust panic."""
_TOP: Final = 12
"""So deep in a stack a call of abort still is its reason."""
BACKTRACE: Final = "backtrace()"
_LONE: Final = (
    # gdb's and LLDB's innermost frames, macOS's and backward-cpp's headings
    re.compile(r"\s*#0 {1,3}(?:0x[0-9a-f]{6,16} in )?[\w~?<(][^(]{0,400}\("),
    re.compile(r"\s*(?:\* )?frame #0: 0x[0-9a-f]{6,16} \S{1,240}`"),
    re.compile(r"\s*\[0x0\]\s{1,4}[A-Za-z_][\w.-]{0,120}[!+]"),
)
_PACKAGE: Final = re.compile(
    r"/data/app/(?:~~[^/\s]{1,60}/)?(?P<name>[a-z]\w{0,40}(?:\.\w{1,40}){1,8})-[\w=~-]{1,40}/"
)
"""Where Android keeps an app, whose process has the package's name."""
_WHAT: Final = re.compile(r"\s*(?:what\(\)|Message): {1,4}(?P<what>.{1,300})")
"""Of an exception in C++, and of a panic that Rust's color-eyre prints."""
_RANK: Final = re.compile(r"\[[^\[\]]{0,60}?(?P<name>Rank \d{1,5})\] ")
"""Of the process of a group that throws, in front of its message."""
_ABORT_MESSAGE: Final = re.compile(r"\s*Abort message: '(?P<what>.{1,300}?)'?$")
"""Why it gave up, as Android's tombstones quote it."""
_ASKED_TO_GIVE_UP: Final = {None, "SIGABRT", "SIGTRAP"}
_OWN_NUMBER: Final = re.compile(r"\s{0,8}(?:pid|PID|Pid)(?:=|: ?)(?P<pid>\d{1,9})\b(?!.{0,40}tid:)")
_TARGET: Final = re.compile(r"\s*Target \d{1,3}: \((?P<name>[^()]{1,60})\) stopped\.")
"""LLDB tells its program's name below the frame where it stopped."""
_RUN_BY: Final = re.compile(
    r"\s*[A-Z]:\\(?:[^\\\n]{1,80}\\){0,20}(?P<name>[\w .+-]{1,60}\.exe), run by \S"
)
"""Unity, on Windows, the path of its program."""
_RAN_FOR: Final = re.compile(r"\b(?:PID|Pid): (?P<pid>\d{1,9}),? [Cc]omm: (?P<name>\S{1,40})")
# Unreal's crash in one line: libgame.so!Ns::f() const [/src/f.cpp:12] libgame.so!…
_IN_LINE: Final = re.compile(
    r"\s(?P<module>[\w.+-]{1,80}\.(?:so|dll|dylib)[\d.]{0,12})!"
    r"(?P<function>[A-Za-z_~][^\[\n]{0,300}?) ?\["
)
_FREE: Final = {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT}
"""Below a process's own last words a frame may have any form."""
_OWN_FORMS: Final = {"R", "Julia", "Paddle", OOPS}
"""Their stacks hold lines that are like anybody's, and are read by forms of their own."""
_NEAR: Final = 12
"""So many lines below them its stack begins."""
_NOT_FRAMES: Final = ("Extension modules", "INFO", "WARN")


def begins_lone_stack(text: str) -> bool:
    """Is it the innermost frame of a debugger's stack?"""
    return any(form.match(text) for form in _LONE) and frame_in(text) is not None


def is_own_frame(text: str) -> bool:
    """Does the line tell a death by the frame that it holds: a handler's, or Apple's list?"""
    return TRIGGERED in text or is_handler_frame(text)


class NativeBlock:
    """A line that tells a death, and the native stack that may follow it."""

    def __init__(self, clue: Clue) -> None:
        """Begin with the line."""
        self._clue = clue
        self._calls: list[NativeCall] = []
        self._silent = 0
        self._last = clue.text
        self._detail = clue.detail
        self._waits_for_what = clue.kind is ClueKind.ABORT
        self._last_first = clue.source in {"Paddle", "backward-cpp"}
        self._apple: AppleThread | None = None
        self._python = DebuggersPython()
        self._current: str | None = None
        self._is_others = False
        """Does the stack of a thread follow that is not the one of the core?"""
        self._handled: tuple[str | None, NativeCall | None] = (None, None)
        """What a handler was given: of which signal, and where it hit."""
        if "instance of" in clue.text and (at := clue.text.find("what():")) > 0:
            self._is_message(clue.text[at:])  # somebody pasted it into one line
        if clue.kind in _FREE and ".so!" in clue.text:
            self._calls = [call_of(match.groupdict()) for match in _IN_LINE.finditer(clue.text)]

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where it is a frame or a message; False where it is not."""
        if "LWP " in line.text and self._is_of_another(line.text):
            return False
        if "Thread " in line.text and self._is_below_the_crashed(line.text):
            return False
        if self._python.feed(line.text):
            self._silent = 0
            return True
        self._is_others = self._is_others and _KCRASH not in line.text
        if not self._is_others and (self._is_message(line.text) or self._is_frame(line.text)):
            return True
        self._silent += 1
        return False

    def _is_of_another(self, text: str) -> bool:
        """Does a heading say that what follows is another thread's stack than the core's?"""
        thread = _THREAD.match(text)
        if thread is not None and thread["current"] is not None:
            self._current = thread["lwp"]
        elif thread is not None:
            is_known = self._current is not None and bool(self._calls)
            self._is_others = is_known and thread["lwp"] != self._current
        return self._is_others

    def _is_below_the_crashed(self, text: str) -> bool:
        """Does a heading begin another thread, below the one that is said to have crashed?"""
        thread = _CRASHED_THREAD.match(text)
        if thread is not None and thread["crashed"]:
            self._current = thread["number"]
        elif thread is not None and self._current is not None:
            self._is_others = True
        return self._is_others

    def _is_message(self, text: str) -> bool:
        if self._clue.source == "Android" and "Abort message: '" in text:
            return self._quotes_why(text)
        if not self._waits_for_what:
            return False
        match = _WHAT.match(text) if "what()" in text or "Message: " in text else None
        if match is not None:
            kind, what = self._detail, match["what"].partition(" Aborted (core")[0].strip()
            self._detail = shortened(f"{kind}: {what}" if kind and kind != what else what)
            rank = _RANK.match(what) if self._clue.name is None else None
            if rank is not None:
                self._clue = replace(self._clue, name=rank["name"])
        elif (self._detail or "").endswith(":") and text.strip():
            # Rust: the message stands on the line below
            self._detail = shortened(f"{self._detail} {text.strip()}")
        else:
            return False
        self._waits_for_what = False
        return True

    def _quotes_why(self, text: str) -> bool:
        """Is it the message with which a process of Android's gave up?"""
        quoted = _ABORT_MESSAGE.match(text)
        if quoted is None or self._clue.signal not in _ASKED_TO_GIVE_UP:
            return False
        self._detail = shortened(quoted["what"])
        self._clue = replace(self._clue, kind=ClueKind.ABORT)
        return True

    def _is_frame(self, text: str) -> bool:
        if (self._clue.pid is None or self._clue.name is None) and self._name_process(text):
            return True
        if HANDLED in text or _CRASHED.match(text) is not None:
            self._calls.clear()
            self._clue = of_handled(self._clue, self._last)
            return True
        self._place_assertion(text)
        if self._is_apples(text) or self._is_listed(text):
            return True
        if self._calls and (fuller := completed(self._calls[-1], text)) is not None:
            self._calls[-1] = fuller
            self._silent = 0
            self._hear(f"{self._last} {text.strip()}")  # its arguments took several lines
            return True
        frame = self._frame(text)
        if frame is None:
            return False
        self._silent = 0
        self._hear(text)
        if frame.form.last_first:
            self._calls.insert(0, frame.call)
            del self._calls[_MAX_FRAMES:]
        elif len(self._calls) < _MAX_FRAMES:
            self._calls.append(frame.call)
        return True

    def _hear(self, frame: str) -> None:
        """Keep a frame, and what a function that ends a program was given to say in it."""
        self._last = frame[:_LONGEST]
        if self._clue.source == "Android" and self._clue.name is None and "/data/app/" in frame:
            package = _PACKAGE.search(self._last)
            self._clue = replace(self._clue, name=package["name"] if package else None)
        if "pc=" in frame and self._clue.kind is ClueKind.STACK:
            signal, place = given_to_handler(self._last)
            self._handled = (signal or self._handled[0], place or self._handled[1])
        said = words_of_end(self._last)
        if said is not None and self._clue.signal in {None, "SIGABRT"}:
            kind, self._detail = said
            self._place_assertion(self._last)
            self._clue = replace(self._clue, kind=kind, signal="SIGABRT")

    def _is_apples(self, text: str) -> bool:
        """Is it the list of frames in Apple's JSON, or of the list of libraries behind it?"""
        if self._apple is None and self._clue.source == "macOS" and TRIGGERED in text:
            self._apple = AppleThread(text)
            return True
        is_image = self._apple is not None and self._apple.feed(text)
        self._silent = 0 if is_image else self._silent
        return is_image

    def _place_assertion(self, text: str) -> None:
        """Put the source of a failed assertion before it, which gdb shows among its arguments."""
        if (self._detail or "").startswith("Assertion `"):
            source = source_of_end(text)
            self._detail = shortened(f"{source}{self._detail}") if source else self._detail

    def _is_listed(self, text: str) -> bool:
        """Does the line hold several frames, as JSON?"""
        listed = calls_listed(text)
        self._calls += listed[: _MAX_FRAMES - len(self._calls)]
        self._silent = 0 if listed else self._silent
        return bool(listed)

    def _name_process(self, text: str) -> bool:
        """For which process the kernel ran when it faulted, or which one prints its own death."""
        if self._clue.source == OOPS and (ran := _RAN_FOR.search(text)) is not None:
            self._clue = replace(self._clue, pid=int(ran["pid"]), name=ran["name"])
            return True
        target = _TARGET.match(text) or _RUN_BY.match(text) if self._clue.name is None else None
        if target is not None:
            self._clue = replace(self._clue, name=target["name"])
            return True
        is_own = self._clue.kind is ClueKind.SIGNAL and not self._calls and self._silent < _NEAR
        is_own = is_own and self._clue.pid is None and not self._clue.of_another
        own = _OWN_NUMBER.match(text) if is_own else None
        if own is not None:
            self._clue = replace(self._clue, pid=int(own["pid"]))
        return own is not None

    def _frame(self, text: str) -> Frame | None:
        text = text.rstrip()
        if len(text) < 5 or text.startswith(_NOT_FRAMES):
            return None
        frame = frame_in(text, self._clue.source)
        if frame is not None or self._clue.kind not in _FREE or self._clue.source in _OWN_FORMS:
            return frame
        is_far = not self._calls and self._silent > _NEAR
        return None if is_far else frame_of_anybody(text, self._clue.text)

    def is_bare_word(self, last_line: int) -> bool:
        """Does it hold no more than a shell's word, on one of the first lines?"""
        clue = self._clue
        is_bare = clue.source == SHELL and "core dumped" not in clue.text
        return is_bare and clue.line <= last_line and clue.pid is None and not self._calls

    def goes_on(self, text: str) -> bool:
        """Is it a frame of this stack, and not the beginning of another?"""
        few = 0 if self._clue.kind is ClueKind.STACK else 1
        if self._clue.source == "macOS" and TRIGGERED in text:
            return True
        is_other = self._is_others or (len(self._calls) > few and begins_lone_stack(text))
        return not is_other and self._frame(text) is not None

    @property
    def is_title(self) -> bool:
        """Does it hold no more than what somebody's title tells?"""
        return self._clue.text.startswith("# ") and not self._calls

    @property
    def source(self) -> str:
        """Who wrote the line."""
        return self._clue.source

    @property
    def has_frames(self) -> bool:
        """Did any frame come?"""
        return bool(self._calls)

    @property
    def done(self) -> bool:
        """Has it waited long enough for another frame?"""
        return self._silent > _PATIENCE

    def lone(self) -> Clue | None:
        """A debugger's only frame: it tells where, if anything else tells that somebody died."""
        is_one = self._clue.kind is ClueKind.STACK and self._clue.source == "a debugger"
        is_one = is_one and len(self._calls) == 1 and not self._clue.native
        return replace(self._clue, native=tuple(self._calls)) if is_one else None

    def close(self) -> Clue | None:
        """The clue with all that came; None for a frame alone: debuggers show it at each stop."""
        listed = self._apple.calls() if self._apple is not None else ()
        signal, hit = self._handled
        if signal is not None:
            self._clue = replace(self._clue, kind=ClueKind.SIGNAL, signal=signal)
        own = self._clue.native
        if self._calls and len(own) == 1 and own[0].function is None:
            own = () if self._calls[0].module == own[0].module else own  # its message names less
        calls = (*own, *self._calls, *listed, *((hit,) if hit is not None else ()))
        few = (
            0
            if self._clue.detail or self._clue.source == BACKTRACE
            else 1
            if self._last_first
            else 2
        )
        if self._clue.source == GO and self._clue.kind is ClueKind.STACK:
            return of_gos_logger(self._clue, calls)
        python = self._clue.python or self._python.calls()
        if self._clue.kind is ClueKind.STACK and len(calls) < few:
            return replace(self._clue, python=python) if python else None  # py-bt alone
        if " panicked at " in (self._detail or "") and not any(
            _UNWINDS.search(call.function or "") for call in calls
        ):
            calls = ()  # Windows without symbols: the nearest export's name stands for each frame
        signal = self._clue.signal
        if signal is None and self._clue.kind in {ClueKind.SIGNAL, ClueKind.STACK}:
            signal = signal_by(calls[:_TOP])
        told = self._clue.native, self._clue.python, self._clue.detail, self._clue.signal
        if told == (calls, python, self._detail, signal):
            return self._clue
        clue = replace(self._clue, native=calls, python=python, detail=self._detail, signal=signal)
        if is_of_allocator(calls[:_TOP]):
            return of_heap(clue)
        if clue.kind is ClueKind.STACK and signal is None:
            return of_watchdog(clue) or of_handler(clue)
        return clue
