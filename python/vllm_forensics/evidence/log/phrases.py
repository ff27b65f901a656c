"""A phrase: one line that a runtime writes when a process dies, and what it says.

Each family of texts is a table of phrases; adding one is adding an entry, with an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, TypedDict, Unpack

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.needles import Words
from vllm_forensics.evidence.log.people.no_names import somebody
from vllm_forensics.evidence.log.people.page import is_prose
from vllm_forensics.evidence.log.people.prose import Voice, is_code, voice_of
from vllm_forensics.evidence.log.people.sentence_names import process_named
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall, PythonCall
from vllm_forensics.model.signals import signal_name, signal_number

_MAX_TEXT: Final = 400
_FAR: Final = 300
_BEFORE_IT: Final = 80
_BLANKS: Final = re.compile(r" {3,}")
_MAX_DETAIL: Final = 300
"""Characters of what is quoted of a line."""
_BEFORE: Final = 1_000
_BEHIND: Final = 600
"""So far around its needle a phrase reaches: a line may be made to cost more than it is long."""
_ENDS: Final = re.compile(
    r"(?<= )(?:kill|crash|terminat|exit|died|dies|abort|finish|fail|quit|restart)\w"
)
"""A verb, and its subject before it."""
_VERB_BEFORE: Final = 30
"""So far before a status its verb stands: `restarted due to error code 137`."""
_ENDED: Final = re.compile(r" (?:terminated|exited|died|crashed|failed): $")
"""The same before a colon, behind which stands how."""
_SIGNALS_IN_WORDS: Final = (
    ("segmentation", "SIGSEGV"),
    ("segment violation", "SIGSEGV"),
    ("pointer dereferenc", "SIGSEGV"),
    ("segfault", "SIGSEGV"),
    ("signal 11", "SIGSEGV"),
    ("signal (11", "SIGSEGV"),
    ("segment fault", "SIGSEGV"),
    ("segment error", "SIGSEGV"),
    ("seg fault", "SIGSEGV"),
    ("seg-fault", "SIGSEGV"),
    ("access violation", "SIGSEGV"),
    ("stack overflow", "SIGSEGV"),
    ("memory fault", "SIGSEGV"),
    ("in page error", "SIGBUS"),
    ("bus error", "SIGBUS"),
    ("illegal", "SIGILL"),
    ("floating", "SIGFPE"),
    ("divide", "SIGFPE"),
    ("division by", "SIGFPE"),
    ("arithmetic", "SIGFPE"),
    ("numerical", "SIGFPE"),
    ("abort", "SIGABRT"),
    ("killed", "SIGKILL"),
    ("terminated", "SIGTERM"),
    ("trap", "SIGTRAP"),
    ("bad access", "SIGSEGV"),
    ("invalid address", "SIGSEGV"),
    ("cpu time limit", "SIGXCPU"),
    ("file size limit", "SIGXFSZ"),
    ("bad system call", "SIGSYS"),
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """One line and its meaning.

    The pattern's groups fill the clue: pid, name, thread (a name that is a thread's, and likely its
    process's too), signal, exit, module, offset, function, detail.
    """

    kind: ClueKind
    needle: str
    """Stands in every line that the pattern matches; the log is searched for it as bytes."""
    pattern: str
    example: str
    signal: str | None = None
    detail: str | None = None
    of_another: bool = False
    """Does the writer of the line speak of another process?"""
    in_prose: bool = False
    """May people write it as well? Then it counts only where no word of doubt stands before it."""
    sender: str | None = None
    """Who ended the process on purpose."""


_UNWANTED: Final = re.compile(r"unexpectedly|not expected| died")
"""Of whom a parent says that, his end was none that it wanted, whatever his status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The phrases of one writer, in the order in which they are tried."""

    source: str
    phrases: tuple[Phrase, ...]


class PhraseBook:
    """Families made ready to be searched for in lines."""

    def __init__(self, families: Iterable[Family]) -> None:
        """Take the phrases in order; the first that matches a line wins."""
        self._entries = tuple(
            (phrase, family.source) for family in families for phrase in family.phrases
        )
        of_needle: dict[str, list[int]] = {}
        for number, (phrase, _) in enumerate(self._entries):
            of_needle.setdefault(phrase.needle, []).append(number)
        self._numbers = tuple(tuple(numbers) for numbers in of_needle.values())
        self._words = Words(of_needle)
        self.needles = tuple(needle.encode() for needle in of_needle)
        """What the log has to be searched for."""
        # A log may say the same for days.
        self._told = lru_cache(maxsize=512)(self._tell)

    def read(self, line: LogLine) -> Clue | None:
        """What the line says, where it is one of the phrases."""
        told = self._told(line.text)
        if told is None:
            return None
        kind, source, found, at = told
        if at > _FAR:  # of a long line that part is shown which says it
            line = line._replace(text=f"…{line.text[at - _BEFORE_IT :]}")
        return clue_at(line, kind, source, **found)

    def _tell(self, text: str) -> tuple[ClueKind, str, Told, int] | None:
        """What the first phrase says that a text is: its kind, its source, the rest, and where."""
        for number, at in self._candidates(text):
            phrase, source = self._entries[number]
            match = _compiled(phrase.pattern).search(text, max(0, at - _BEFORE), at + _BEHIND)
            if match is None:
                continue
            voice = voice_of(text, match.start(), match.end(), in_prose=phrase.in_prose)
            if voice is Voice.SHOWN or _is_literal(text, match):
                continue
            told = _told(phrase, match.groupdict())
            if told is None:
                return None
            is_nameless = phrase.of_another and not (told["name"] or told["pid"])
            is_verbs = _ENDS.match(text, match.start()) or _ENDED.search(text, 0, match.start())
            near = max(0, match.start() - _VERB_BEFORE)
            verb = match if is_verbs is not None else _ENDS.search(text, near, match.end())
            if phrase.in_prose and is_nameless and verb is not None:
                told["name"] = process_named(verb, is_verb=True)
                is_word = told["name"] is not None and f"/{told['name']}" not in text
                told["is_named_elsewhere"] = is_word and is_prose(text)
            if voice is Voice.TOLD and told["name"]:
                told["name"] = somebody(told["name"])
            told["is_told"] = voice is Voice.TOLD
            return phrase.kind, source, told, match.start()
        return None

    def _candidates(self, text: str) -> list[tuple[int, int]]:
        """The phrases whose needle stands in the text, in order, with the needle's first place."""
        first: dict[int, int] = {}
        for needle, start in self._words.found(text):
            first.setdefault(needle, start)
        return sorted(
            (number, at) for needle, at in first.items() for number in self._numbers[needle]
        )


def _is_literal(text: str, match: re.Match[str]) -> bool:
    """Does the message begin in a program's literal, behind what the pattern reads before it?"""
    start = match.start("detail") if "detail" in match.re.groupindex else -1
    return start > match.start() and is_code(text[:start], text[match.end() :])


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when a line is first held against it: most of hundreds never are."""
    return re.compile(pattern)


_OWN_THREAD: Final = re.compile(r"(?:python|pypy|perl|ruby|php|node|java)[\d.]{0,8}")


class Told(TypedDict, total=False):
    """What a line says, beside its place."""

    pid: int | None
    name: str | None
    of_another: bool
    signal: str | None
    exit: int | None
    detail: str | None
    native: tuple[NativeCall, ...]
    python: tuple[PythonCall, ...]
    is_told: bool
    sender: str | None
    is_caught: bool
    is_named_elsewhere: bool


def clue_at(line: LogLine, kind: ClueKind, source: str, **told: Unpack[Told]) -> Clue:
    """A clue that knows its place, and what is told."""
    return Clue(
        kind=kind,
        source=source,
        line=line.number,
        text=line.text.strip()[:_MAX_TEXT],
        writer_pid=line.pid,
        writer=line.name,
        time=line.time,
        since=line.since,
        is_tagged=line.tagged,
        **told,
    )


_FATAL_TEN: Final = "SIGUSR1"
"""By its number a bus error on BSDs, on macOS and on MIPS, where a process dies of a fault."""


def signal_in(text: str) -> str | None:
    """`SIGSEGV` for `11`, `-11`, `SEGV`, `SIGSEGV`, `Segmentation fault`."""
    word = text.strip().removeprefix("-")
    if word.isascii() and word.isdecimal():
        number = int(word[:3])
        return signal_name(number) if 0 < number < 65 else None
    upper = word.upper()
    for name in (upper, f"SIG{upper}"):
        if signal_number(name) is not None:
            return name
    low = word.lower().replace("_", " ")
    for words, name in _SIGNALS_IN_WORDS:
        if words in low:
            return name
    return None


_NT_SIGNALS: Final = {
    0xC0000005: "SIGSEGV",
    0xC00000FD: "SIGSEGV",
    0xC000001D: "SIGILL",
    0xC0000094: "SIGFPE",
    0xC0000409: "SIGABRT",
}
"""Of Windows' statuses those that come near to a signal."""


def ended_by(status: int) -> tuple[str | None, int | None]:
    """Signal and exit status of what a parent or a shell reports: -11, 139 and 256 - 11 alike."""
    if status >= 1 << 31 or status < -(1 << 16):  # Windows' own, with its sign and without
        unsigned = status % (1 << 32)
        return _NT_SIGNALS.get(unsigned), unsigned - (1 << 32)
    if status < 0:
        return signal_in(str(-status if status > -128 else -status - 128)), status
    if 128 < status < 128 + 32:
        return signal_in(str(status - 128)), status
    return None, status


def _told(phrase: Phrase, groups: dict[str, str | None]) -> Told | None:
    """What a phrase says with its groups; None where all went well."""
    signal, status = phrase.signal, None
    if (text := groups.get("exit")) is not None:
        of_status, status = ended_by(int(text))
        signal = of_status or signal
        if status == 0 and _UNWANTED.search(phrase.pattern) is None:
            return None
    if (text := groups.get("signal")) is not None:
        signal = signal_in(text) or signal
        if phrase.kind is ClueKind.SIGNAL and signal == _FATAL_TEN:
            signal = "SIGBUS"
    module, function, offset = (groups.get(name) for name in ("module", "function", "offset"))
    native: tuple[NativeCall, ...] = ()
    if module is not None or function is not None:
        native = (NativeCall(function=function, module=base_name(module), offset=offset),)
    pid, name, thread = groups.get("pid"), groups.get("name"), groups.get("thread")
    if thread is not None and _OWN_THREAD.fullmatch(thread) is not None:
        name, thread = thread, None  # it has its process's name, and no other
    detail = groups.get("detail") or phrase.detail
    return Told(
        pid=(int(pid) or None) if pid else None,
        name=(name or thread or "").strip() or None,
        is_named_elsewhere=name is None and bool(thread),
        of_another=phrase.of_another,
        signal=signal,
        exit=status,
        detail=shortened(detail.strip()) if detail else None,
        native=native,
        sender=phrase.sender,
    )


def base_name(path: str | None) -> str | None:
    """A file's name without its folder; None stays None."""
    return path.replace("\\", "/").rstrip("/`").rsplit("/", 1)[-1] if path else None


def shortened(words: str) -> str:
    """What is quoted of a line, with a mark where its end is left out."""
    words = _BLANKS.sub(" ", words) if "   " in words else words
    return words if len(words) <= _MAX_DETAIL else f"{words[: _MAX_DETAIL - 1].rstrip()}…"
