"""A phrase: one line that a runtime writes when a process dies, and what it says.

Each family of texts is a table of phrases; adding one is adding an entry, with an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall
from vllm_forensics.model.signals import signal_name, signal_number

_MAX_TEXT: Final = 400
_MAX_DETAIL: Final = 300
_BEFORE: Final = 1_000
_BEHIND: Final = 600
"""So far around its needle a phrase reaches: a line may be made to cost more than it is long."""
_DOUBT: Final = re.compile(
    r"(?i)\b(?:means?|if|when(?:ever)?|whether|unless|would|could|may|might|should|e\.g\.|such as|"
    r"instead of|how to|often|typically|usually|sometimes|commonly|indicates?)(?!\w)"
)
_EXPLAINS: Final = re.compile(
    r"\W{0,4}(?:\([^()]{1,40}\) )?(?:means?|indicates?|signif(?:y|ies)|stands for|refers to|"
    r"denotes?|(?:occurs?|happens?) when)\b"
)
"""Behind a death's name: somebody explains it."""
_LECTURE: Final = re.compile(r"(?i)\s*\u2022|.*\bever (?:been|had|seen|encountered|run into)\b")
"""Before it: a slide's bullet, or a question to the reader."""
_QUOTES: Final = "\"\u201c\u2018'`"
_TEACHES: Final = re.compile(
    r"(?i)\b(?:understand(?:ing)?|decoding|demystif\w{1,6}|explain(?:ed|ing)?|guide|tutorial|"
    r"dreaded|infamous|notorious|cryptic|known as|may|might|could|would|such as|means?|"
    r"typically|usually|commonly|(?:if|when(?:ever)?) (?:you|a program|a process))\b"
)
"""Unlike a word of doubt, none of these stands in what somebody saw: `crash when importing`."""
_WITNESS: Final = re.compile(r"\b(?:I|[Ww]e|[Mm]y)\b")
"""Who speaks of himself tells what he saw, and not what there is to be seen."""
_SIGNALS_IN_WORDS: Final = (
    ("segmentation", "SIGSEGV"),
    ("segfault", "SIGSEGV"),
    ("access violation", "SIGSEGV"),
    ("bus error", "SIGBUS"),
    ("illegal", "SIGILL"),
    ("floating", "SIGFPE"),
    ("divide", "SIGFPE"),
    ("arithmetic", "SIGFPE"),
    ("numerical", "SIGFPE"),
    ("abort", "SIGABRT"),
    ("killed", "SIGKILL"),
    ("terminated", "SIGTERM"),
    ("trap", "SIGTRAP"),
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """One line and its meaning.

    The pattern's groups fill the clue: pid, name, signal, exit, module, offset, function, detail.
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
        self._search = AhoCorasick(of_needle, implementation=Implementation.DFA)
        self.needles = tuple(needle.encode() for needle in of_needle)
        """What the log has to be searched for."""

    def read(self, line: LogLine) -> Clue | None:
        """What the line says, where it is one of the phrases."""
        text = line.text
        for number, at in self._candidates(text):
            phrase, source = self._entries[number]
            match = _compiled(phrase.pattern).search(text, max(0, at - _BEFORE), at + _BEHIND)
            if match is not None and not _is_prose(text, match, phrase):
                return _clue(line, phrase, source, match.groupdict())
        return None

    def _candidates(self, text: str) -> list[tuple[int, int]]:
        """The phrases whose needle stands in the text, in order, with the needle's first place."""
        first: dict[int, int] = {}
        if not text.isascii():  # JSON may hold half of a pair: '\\ud800' has no UTF-8
            text = text.encode("utf-8", "replace").decode("utf-8")
        for needle, start, _ in self._search.find_matches_as_indexes(text, overlapping=True):
            first.setdefault(needle, start)
        return sorted(
            (number, at) for needle, at in first.items() for number in self._numbers[needle]
        )


def _is_prose(text: str, match: re.Match[str], phrase: Phrase) -> bool:
    """Does the line speak of deaths, and tell of none?"""
    if phrase.in_prose and _DOUBT.search(text, 0, match.end()) is not None:
        return True
    if _EXPLAINS.match(text, match.end()) is not None:
        return True
    return _LECTURE.match(text, 0, match.start() + 1) is not None or _is_quoted(text, match.start())


def _is_quoted(text: str, start: int) -> bool:
    """Is a message only quoted, in a sentence that teaches what messages there are?"""
    begin = max(0, start - _BEFORE)
    if not any(mark in text[max(0, start - 1) : start + 1] for mark in _QUOTES):
        return False
    if _WITNESS.search(text, begin) is not None:
        return False
    return _TEACHES.search(text, begin, start) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when a line is first held against it: most of hundreds never are."""
    return re.compile(pattern)


def clue_at(line: LogLine, kind: ClueKind, source: str) -> Clue:
    """A clue that knows its place and nothing else."""
    return Clue(
        kind=kind,
        source=source,
        line=line.number,
        text=line.text.strip()[:_MAX_TEXT],
        writer_pid=line.pid,
        writer=line.name,
        time=line.time,
        is_tagged=line.tagged,
    )


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
    low = word.lower()
    for words, name in _SIGNALS_IN_WORDS:
        if words in low:
            return name
    return None


def ended_by(status: int) -> tuple[str | None, int | None]:
    """Signal and exit status of what a parent or a shell reports: -11, 139 and 256 - 11 alike."""
    if status < 0:
        return signal_in(str(-status)), status
    if 128 < status < 128 + 32:
        return signal_in(str(status - 128)), status
    return None, status


def _clue(line: LogLine, phrase: Phrase, source: str, groups: dict[str, str | None]) -> Clue | None:
    clue = clue_at(line, phrase.kind, source)
    signal, status = phrase.signal, None
    if (text := groups.get("exit")) is not None:
        of_status, status = ended_by(int(text))
        signal = of_status or signal
        if status == 0:
            return None
    if (text := groups.get("signal")) is not None:
        signal = signal_in(text) or signal
    module, function, offset = (groups.get(name) for name in ("module", "function", "offset"))
    native: tuple[NativeCall, ...] = ()
    if module is not None or function is not None:
        native = (NativeCall(function=function, module=base_name(module), offset=offset),)
    pid = groups.get("pid")
    detail = groups.get("detail") or phrase.detail
    return replace(
        clue,
        pid=int(pid) if pid else None,
        name=groups.get("name"),
        of_another=phrase.of_another,
        signal=signal,
        exit=status,
        detail=detail.strip()[:_MAX_DETAIL] if detail else None,
        native=native,
    )


def base_name(path: str | None) -> str | None:
    """A file's name without its folder; None stays None."""
    return path.replace("\\", "/").rsplit("/", 1)[-1] if path else None
