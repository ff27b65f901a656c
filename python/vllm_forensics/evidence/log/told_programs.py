"""The program that somebody says he ran, where he tells of a death and not whose it was.

He ran a command or a path, which he quotes; or the program that the tracker's page is of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.page import Page, is_prose
from vllm_forensics.evidence.log.prompts import program_of_command
from vllm_forensics.evidence.log.sentence_names import somebody
from vllm_forensics.model.incident import Clue

_RUNS: Final = (
    r"(?:\b(?:r[au]n|running|start(?:ed|ing)?|launch(?:ed|ing)?|execut(?:e|ed|ing)|open(?:ed|ing)?|"
    r"invok(?:e|ed|ing))|\u8fd0\u884c|\u6267\u884c|\u542f\u52a8) ?"
    r"(?:the |my |our )?(?:command |program |binary |tool |executable )?"
)
_COMMAND: Final = lazily(
    rf"(?i){_RUNS}(?:[`\"\u201c]{{1,2}}(?P<quoted>[\w.~/][^`\"\u201d]{{0,200}} "
    r"[^`\"\u201d]{1,200}|(?:\.{0,2}/|~/)[^\s`\"\u201d]{1,120})[`\"\u201d]|"
    r"(?P<path>\./[\w./+-]{1,120}))"
)
"""A command with its arguments or a program's path, as he quotes it."""
_STATEMENT: Final = lazily(r"(?i)(?:import|from|select|insert|return|await|the|an?) |.{1,60}[(=]")
_PAGE: Final = lazily(r"[\w.-]{1,60}/(?P<name>[\w.-]{2,80}) \u00b7 (?:issue|discussion) #?\d")
"""What a tracker puts above an issue: whose it is."""
_TOP: Final = 3
_FAR: Final = 60
"""So many lines of a text are read for who died."""


def with_told_programs(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; where somebody tells of them, with the program that he ran and no other name."""
    is_told = any(clue.is_told for clue in clues)
    if not is_told or not all(map(_is_nameless, clues)):
        return list(clues)
    name = next(filter(None, _named(lines()[:_FAR], clues)), None)
    return [replace(clue, name=name) for clue in clues]


def _is_nameless(clue: Clue) -> bool:
    return clue.name is None and clue.writer is None and clue.pid is None


def _named(lines: Sequence[str], clues: Sequence[Clue]) -> Iterator[str | None]:
    """What was run, as the lines that tell of a death say it first, and then all others."""
    told = [clue.text for clue in clues]
    prose = [*told, *filter(is_prose, Page(lines).written())]
    for match in (one for line in prose for one in _COMMAND.finditer(line)):
        command = match["path"] or match["quoted"]
        if _STATEMENT.match(command) is None:
            yield program_of_command(command.rstrip(".,:;)"))
    page = next(filter(None, map(_PAGE.match, lines[:_TOP])), None)
    if page is not None and somebody(page["name"]) is not None:
        own = _own(page["name"])
        found = filter(None, map(own.search, prose))
        yield from (match["name"] or match["subject"] for match in found)


def _own(name: str) -> re.Pattern[str]:
    """Where somebody runs the program of this name, or begins his sentence with it."""
    return re.compile(
        rf"(?i)(?:{_RUNS}(?P<name>{re.escape(name)})(?![\w./-])|"
        rf"^\W{{0,4}}(?P<subject>{re.escape(name)}) ?[\u3040-\u9fff])"
    )
