"""Who died, where no line that tells of the death says so: somebody does elsewhere in the text.

He names who crashed in a sentence; or he ran a command or a path, which he quotes; or the program
that the tracker's page is of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.contained import contained_above
from vllm_forensics.evidence.log.labels import labelled_program
from vllm_forensics.evidence.log.people.crash_names import CRASH, DEATH, HEAP, is_verb
from vllm_forensics.evidence.log.people.failing_names import (
    failing_named,
    host_named,
    program_named,
    service_named,
)
from vllm_forensics.evidence.log.people.no_names import is_kind_of_end, somebody
from vllm_forensics.evidence.log.people.page import Page, is_prose
from vllm_forensics.evidence.log.people.reports import Form, is_reported
from vllm_forensics.evidence.log.people.sentence_names import process_named
from vllm_forensics.evidence.log.people.titles import title_of
from vllm_forensics.evidence.log.people.works import is_commits, is_of_work
from vllm_forensics.evidence.log.prompts import program_of_command, started_at_prompt
from vllm_forensics.model.incident import SHELL, Clue, ClueKind

_RUNS: Final = (
    r"(?:\b(?:r[au]n|running|start(?:ed|ing)?|launch(?:ed|ing)?|exec(?:ut(?:e|ed|ing))?|"
    r"open(?:ed|ing)?|invok(?:e|ed|ing)|us(?:e|ed|ing)(?= python[\d.]{0,4} \S))|"
    r"(?:my|the|this|following) command(?: line)?"
    r"(?: (?:that )?(?:I|we)(?: \w{2,4})? \w{2,8})? ?"
    r"(?:(?:is|was):?|:)|"
    r"\u8fd0\u884c|\u6267\u884c|\u542f\u52a8) {0,3}"
    r"(?:the |my |our )?(?:(?:application|app|server|program|script|client|test)s? "
    r"(?:with|using|as|via|by):? |command |program |binary |tool |executable )?"
)
_COMMAND: Final = lazily(
    rf"(?i){_RUNS}(?:[`\"\u201c]{{1,2}}(?P<quoted>[\w.~/][^`\"\u201d]{{0,200}} "
    r"[^`\"\u201d]{1,200}|(?:\.{0,2}/|~/)[^\s`\"\u201d]{1,120})[`\"\u201d]|"
    r"[`'\"]?(?:python[\d.]{0,4} (?:-\w{1,12} ){0,3})?(?P<path>\./[\w./+-]{1,120}|"
    r"(?a:(?:[\w+-]{1,40}/){0,8}[\w+-]{1,60}\.(?:py|sh|exe|ipynb)(?![\w/-]|\.\w))))"
)
"""A command with its arguments or a program's path, as he quotes it."""
_STATEMENT: Final = lazily(
    r"(?i)(?:import|from|select|insert|return|await|the|an?) |(?:(?! -)[^(=]){1,60}[(=]"
)
_ALONE: Final = lazily(
    r"[\s>`]{0,8}(?P<command>(?:(?:uv|poetry|pipenv|pdm|rye|hatch) run |\w{1,40}=\S{1,80} ){0,4}"
    r"(?:(?:~?[\w.-]{0,60}/){0,10}"
    r"(?:python[\d.]{0,4}|pypy[\d.]{0,4}|ipython\d?|pytest|java|ruby|php|perl|Rscript|julia|"
    r"luajit|node|deno|bun|dotnet|mono|vllm)(?:\.exe)? "
    r"(?!-{1,2}[vV](?:ersion)?\b|setup\.py|-m (?:pip|venv|build)\b)[\w./\\\"'~-]|"
    r"\.{1,2}/[\w./+-]{1,120}(?=[ `]|$)|(?:swift|cabal|flatpak|snap) run [\w./-]|"
    r"(?:[\w.~-]{0,40}/){0,8}s?bin/[\w+-]{2,60}(?=\s|$)).{0,300})$"
)
"""A command that stands alone in its line, as people show what to do."""
_DONE: Final = lazily(
    r"(?i)\b(?:when(?:ever)?|while|after|by|upon|on|if|once) (?:I |we |you )?(?:try(?:ing)? to )?"
    r"(?:run(?:ning|s)?|start(?:ing|ed)?|launch(?:ing|ed)?|exit(?:ing|ed)?|quit(?:ting)?|"
    r"execut(?:e|ed|ing)|invok(?:e|ed|ing)) (?:the |my )?(?:\w{2,30}['\u2019]s )?"
    r"(?:`(?P<quoted>[a-z][\w.+-]{1,40})`|(?P<name>[a-z][\w+-]{2,40}(?:\.exe)?)"
    r"(?= ?[,;:]|[.!](?:\s|$)|\s*$| -| (?:with|on|in|from|using|under|as|and|but|it|I|we|you|at|"
    r"for|to|after|before|via|inside|by|or|the|an?|then|while|when|if|again|multiple|several|locally|"
    r"directly|manually|normally|there|this|that|my|all|also|only|without|alone|now|of|"
    r"executable|binary|program|command|tool|daemon|server|service)\b))"
)
"""`when exiting poold`: with a word for what is done with programs alone."""
_STEP: Final = lazily(
    r"\s{0,6}(?:[-*+]|\d{1,2}[.)]) (?:[Oo]pen|[Ss]tart|[Ll]aunch|[Rr]un) (?:up )?"
    r"(?!Terminal|Settings|Preferences|Finder|Explorer|Docker|Task|Control)"
    r"(?P<name>[A-Z][A-Za-z+]{2,30}(?: (?!Me)[A-Z][a-z]{2,12})?)\W{0,3}$"
)
"""`1. Open Poolview`: the first of the steps that somebody tells."""
_PAGE: Final = lazily(
    r"(?P<owner>[\w.-]{1,60})/(?P<name>[\w.-]{2,80}) \u00b7 (?:issue|discussion) #?\d.*"
)
"""What a tracker puts above an issue: whose it is."""
_IMPORTED: Final = lazily(
    r"^\s*(?:from [\w.]{1,80} )?import \w|^#\s?include|\brequire\(|\bpip3? install\b|"
    r"(?i:\bpython\b(?!/)|\blibrary\b)"
)
"""Where anything is imported, what the page is of may be, and its importer died."""
_LONG: Final = 4
_COMMON: Final = {"node", "python", "docker", "linux", "android", "react", "rust", "java", "kube"}
"""A first part of many projects' names, and not what theirs is called."""
"""It tells the number of whom it started, and no name."""
_TOP: Final = 3
_FAR: Final = 60
"""So many lines of a text are read for who died."""


def with_told_programs(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; where no name stands beside them, with whom sentences or commands name."""
    if not clues or not all(map(_is_nameless, clues)):
        return list(clues)
    name = next(filter(None, _named(lines()[:_FAR], clues)), None)
    return [replace(clue, name=name, is_named_elsewhere=True) for clue in clues]


def _is_nameless(clue: Clue) -> bool:
    is_numbered = clue.pid is not None and clue.source != SHELL
    return clue.name is None and clue.writer is None and not is_numbered


def _named(lines: Sequence[str], clues: Sequence[Clue]) -> Iterator[str | None]:
    """Who crashed, or what was run: the lines that tell of a death say it first, then all others.

    A parent's words are of its child, and not of what was run.
    """
    told = [clue.text for clue in clues if clue.is_told]
    page = Page(lines)
    prose = [*told, *filter(is_prose, page.written())]
    crashes = (
        one for line in prose for name in (DEATH, HEAP, CRASH) for one in name.finditer(line)
    )
    is_report = any(clue.kind is ClueKind.HEARSAY for clue in clues)
    form = Form.MESSAGE if is_report else Form.SENTENCE
    reported = (one for one in crashes if one.string in told or is_reported(one, form))
    yield from (process_named(one, is_verb=is_verb(one)) for one in reported)
    yield from _failing(lines, prose)
    if not told and any(clue.of_another for clue in clues):
        return
    for match in (one for line in prose for one in _COMMAND.finditer(line)):
        command = match["path"] or match["quoted"]
        if _STATEMENT.match(command) is None:
            yield program_of_command(command.rstrip(".,:;)"))
    last = max(clue.line for clue in clues)
    yield contained_above(lines, last)
    yield started_at_prompt(lines, last - 1)
    yield started_at_prompt(lines, len(lines))
    for match in filter(None, map(_ALONE.match, lines)):
        yield program_of_command(match["command"].rstrip("`"))
    yield _done_above(page, clues)
    yield contained_above(lines, len(lines))
    yield from map(service_named, prose)
    yield from map(host_named, (title_of(lines).text, *told))
    yield from map(labelled_program, lines)
    steps = filter(None, map(_STEP.match, lines))
    yield from (one["name"] for one in steps if not is_kind_of_end(one["name"]))
    trackers = next(filter(None, map(_PAGE.match, lines[:_TOP])), None)
    below = lines[lines.index(trackers.string) + 1 :] if trackers is not None else ()
    if trackers is not None and not any(_IMPORTED.search(line) for line in below):
        own = _own(trackers["name"], trackers["owner"])
        found = filter(None, map(own.search, (*told, *below)))
        yield from filter(somebody, (match[match.lastgroup or 0] for match in found))


def _failing(lines: Sequence[str], prose: Sequence[str]) -> Iterator[str | None]:
    """Whom the title says failed, in whatever words; else the sentences."""
    title = title_of(lines).text
    if not (is_of_work(title) or is_commits(title)):
        yield from failing_named(title)
    for line in prose:
        yield program_named(line)
    for line in prose:
        yield from failing_named(line)


def _done_above(page: Page, clues: Sequence[Clue]) -> str | None:
    """What somebody did with which program, in the words right above what it printed.

    Quoted it may be anything that runs; else its name has to stand elsewhere in the text too.
    """
    lines = page.lines
    near = [clue for clue in clues if clue.line <= len(lines)]
    above = [page.paragraph_above(clue.line - 1) for clue in near]
    for match in (
        one for text in (*above, *(clue.text for clue in near)) for one in _DONE.finditer(text)
    ):
        name = match["quoted"] or match["name"]
        if any(f"{name}(" in line for line in lines):
            continue  # a function
        known = sum(name.lower() in line.lower() for line in lines)
        if somebody(name) is not None and (match["quoted"] or known > 1):
            return name
    return None


def _own(name: str, owner: str) -> re.Pattern[str]:
    """Where the program that a page is of is called by its name, and as one."""
    wholes = (name, owner)
    names = {one for whole in wholes for one in (whole, re.split(r"[-._]", whole)[0])}
    names -= {one for one in names if one.lower() in _COMMON and one not in wholes}
    known = sorted((one for one in names if len(one) >= _LONG), key=len, reverse=True)
    word = "|".join(map(re.escape, known)) or "(?!)"
    return re.compile(
        rf"(?i)(?:{_RUNS}[`\"]?(?P<run>{word})(?![\w/-]|\.\w)|"
        rf"(?<![\w./@-])(?P<begins>{word}) ?[\u3040-\u9fff]|"
        rf"/s?bin/(?P<path>{word})(?![\w.-])|"
        rf"\bcrash(?:e?s|e?d|ing)? (?P<victim>{word})(?![\w/-])|"
        rf"(?<![\w./@-])(?P<named>{word})(?:[ .-](?:appimage|binary|executable|exe|app)\b|"
        r"(?: \w{2,12})? (?:crash|segf|core[ -]?dump|hang|freez|stuck|die[sd]|abort|exit|"
        r"quit|clos)))"
    )
