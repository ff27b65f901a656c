"""Titles: what an issue's heading repeats of a log, and pages whose title is a death's name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.book import BOOK
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.native_stack import NativeBlock
from vllm_forensics.model.incident import Clue

NEEDLES: Final = (b" bus error", b" floating point exc", b" illegal instruct")
_HEADING: Final = re.compile(
    r"(?:#{1,6} |[*-] |\*\*|`{1,3}|\[[Bb](?:ug|UG)\]:? ?){1,4}(?:(?:\w{2,12}\.? )?[Bb]ug: ?)?"
)
_OF_TEXT: Final = re.compile(r"# (?!A fatal error has|Fatal |Check failed)\S")
"""Java's machine and V8 begin their own records so."""
_BARE: Final = re.compile(r"[A-Za-z]+(?: [A-Za-z]+){0,4}\W{0,4}")
_TITLE: Final = 3
"""So far from its beginning a page has its title."""
_DEFINES: Final = re.compile(
    r"(?i)\b(?:an?|the|called) \W{0,2}(?:bus error|segmentation (?:fault|violation)|segfault|"
    r"access violation|floating[ -]point exception|illegal instruction|"
    r"SIG(?:SEGV|BUS|ILL|FPE|ABRT)) ?(?:signal )?(?:\([^()]{1,120}\),? )?"
    r".{0,80}?\b(?:is|are|occurs?|happens?|means?|refers?|arises?)\b"
)
"""A sentence that says what such a death is."""


def as_title(clue: Clue | None, line: LogLine) -> Clue | None:
    """A clue whose line is a text's title: that repeats what was seen, and did not print it."""
    is_title = line.number <= _TITLE and _OF_TEXT.match(line.text) is not None
    return replace(clue, is_told=True) if clue is not None and is_title else clue


def clue_of_heading(line: LogLine) -> Clue | None:
    """What an issue's title repeats of a log: more than a bare `Segmentation fault`."""
    match = _HEADING.match(line.text)
    if match is None or _BARE.fullmatch(line.text, match.end()) is not None:
        return None
    clue = BOOK.read(line._replace(text=line.text[match.end() :]))
    return replace(clue, is_told=True) if clue is not None else None


def is_defined(block: object, line: LogLine) -> bool:
    """Does the line explain the death that is the page's title, so that nobody died?"""
    return (
        isinstance(block, NativeBlock)
        and block.is_bare_word(_TITLE)
        and _DEFINES.search(line.text) is not None
    )
