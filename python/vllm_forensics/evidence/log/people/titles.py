"""Titles: what an issue's heading repeats of a log, and pages whose title is a death's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.openers import open_block
from vllm_forensics.evidence.log.people.crash_names import EXCEPTION
from vllm_forensics.evidence.log.people.page import is_printed
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.evidence.log.stacks.native_stack import NativeBlock
from vllm_forensics.evidence.log.stacks.python_traceback import is_echo_of_another
from vllm_forensics.model.incident import Clue, ClueKind

NEEDLES: Final = (b" bus error", b" floating point exc", b" illegal instruct")
_HEADING: Final = re.compile(
    r"(?:#{1,6} |[*-] |\*\*|`{1,3}|\[[Bb](?:ug|UG)\]:? ?){1,4}(?:(?:\w{2,12}\.? )?[Bb]ug: ?)?"
)
_OF_TEXT: Final = re.compile(
    r"#{1,2} (?!A fatal error has .{10,80}:\s*$|Fatal (?!Python error: )|Check failed)(?=\S)"
)
"""Java's machine and V8 begin their own records so."""
_SUBJECT: Final = re.compile(
    r"(?:(?:[Ss]ubject|[Tt]itle|[Ss]ummary): )?(?!Skip to )(?=`?[A-Za-z\[].{3,150}$)"
)
"""A title without its mark: one line, and an empty one below; pages begin with a link as well."""
_TRACKED: Final = re.compile(r"(?:Issue|Bug|Ticket) #?\d{1,8}\s*$")
"""A tracker's page: the number of what the line above calls by its title."""
_BARE: Final = re.compile(r"[A-Za-z]+(?: [A-Za-z]+){0,4}\W{0,4}")
_ENDS_IN: Final = re.compile(r"\b(?:with|due to|by|because of):? (?:an? )?[`'\"]?$")
_TITLE: Final = 3
"""So far from its beginning a page has its title."""
_WORDS: Final = 3
_DEFINES: Final = re.compile(
    r"(?i)\b(?:an?|the|called) \W{0,2}(?:bus error|segmentation (?:fault|violation)|segfault|"
    r"access violation|floating[ -]point exception|illegal instruction|"
    r"SIG(?:SEGV|BUS|ILL|FPE|ABRT)) ?(?:signal )?(?:\([^()]{1,120}\),? )?"
    r".{0,80}?\b(?:is|are|occurs?|happens?|means?|refers?|arises?)\b"
)
"""A sentence that says what such a death is."""


class Title(NamedTuple):
    """A text's title."""

    number: int
    text: str
    is_marked: bool
    """Does it have a title's mark, and is no line that only stands alone above?"""


def title_of(lines: Sequence[str]) -> Title:
    """The title of a text; of line nought where it has none."""
    for number, line in enumerate(lines[:_TITLE], start=1):
        if (match := _OF_TEXT.match(line)) is not None:
            return Title(number, line[match.end() :].rstrip("\r"), is_marked=True)
        if line.strip() and any(map(_TRACKED.match, lines[number : number + 1])):
            return Title(number, line.rstrip("\r"), is_marked=True)
    number, line = next((one for one in enumerate(lines, start=1) if one[1].strip()), (0, ""))
    below = lines[number] if 0 < number < len(lines) else ""
    match = _SUBJECT.match(line.rstrip("\r"))
    if match is None or below.strip() or is_printed(line):
        return Title(0, "", is_marked=False)
    return Title(number, line[match.end() :].rstrip("\r"), is_marked=match.end() > 0)


def is_sentence_above(title: Title, lines: Sequence[str]) -> bool:
    """Is it a title, though without its mark: words of nobody's log, and a text below?"""
    is_long = len(title.text.split()) >= _WORDS and title.text.rstrip()[-1:] not in {":", ","}
    below = any(line.strip() for line in lines[title.number :])
    line = LogLine(title.number, "", title.text)
    return (
        is_long
        and below
        and BOOK.read(line) is None
        and open_block(line, None, is_stop=False) is None
    )


def clue_of_heading(line: LogLine) -> Clue | None:
    """What an issue's title repeats of a log: more than a bare `Segmentation fault`."""
    match = _HEADING.match(line.text)
    if match is None or _BARE.fullmatch(line.text, match.end()) is not None:
        return None
    clue = BOOK.read(line._replace(text=line.text[match.end() :]))
    return replace(clue, is_told=True) if clue is not None else None


def exception_in(title: LogLine, crash: Clue | None) -> Clue | None:
    """The exception that a title repeats with its message, where no table knows the line.

    Beside a crash it is how that ended (`crashes with KeyError: 42`), or what followed.
    """
    match = EXCEPTION.search(title.text)
    name, _, message = match[0].partition(": ") if match is not None else ("", "", "")
    if match is None or is_echo_of_another(name.rpartition(".")[2], message):
        return None
    is_reported = crash is not None and crash.kind is ClueKind.HEARSAY
    is_end = _ENDS_IN.search(title.text[: match.start()]) is not None
    if not (message or (is_reported and is_end)):
        return None
    if (is_reported and not is_end) or BOOK.read(title) is not None:
        return None
    return replace(clue_at(title, ClueKind.EXCEPTION, "somebody", detail=match[0]), is_told=True)


def defines_a_death(line: str) -> bool:
    """Is it a sentence that says what such a death is?"""
    return _DEFINES.search(line) is not None


def is_defined(block: object, line: LogLine) -> bool:
    """Does the line explain the death that is the page's title, so that nobody died?"""
    return (
        isinstance(block, NativeBlock)
        and block.is_bare_word(_TITLE)
        and _DEFINES.search(line.text) is not None
    )
