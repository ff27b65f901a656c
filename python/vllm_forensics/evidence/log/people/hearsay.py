"""What people write of a crash: that they saw one, or no more than the word.

A title of an issue and a sentence of a witness tell of a death; documentation, questions and
changes speak of deaths and tell of none. The first is a clue of its own, the other only explains a
stack that stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.people.crash_names import (
    CRASH,
    DEATH,
    EXCEPTION,
    HANG,
    HEAP,
    MEMORY,
    is_verb,
    may_name_a_crash,
    signal_of,
    status_of,
)
from vllm_forensics.evidence.log.people.failing_names import failing_named
from vllm_forensics.evidence.log.people.layout import is_section
from vllm_forensics.evidence.log.people.lessons import count_of_witnesses, without_speech
from vllm_forensics.evidence.log.people.no_names import KINDS
from vllm_forensics.evidence.log.people.of_messages import is_wish_or_change
from vllm_forensics.evidence.log.people.page import Page, is_printed
from vllm_forensics.evidence.log.people.reports import Form, is_mine, is_reported
from vllm_forensics.evidence.log.people.sentence_names import process_named, speaker_of
from vllm_forensics.evidence.log.people.sentence_places import import_named, place_named
from vllm_forensics.evidence.log.people.titles import (
    defines_a_death,
    exception_in,
    is_sentence_above,
    title_of,
)
from vllm_forensics.evidence.log.people.works import (
    asks_for_more,
    is_commits,
    is_labelled_a_wish,
    is_lesson,
    is_list_of_news,
    is_maintainers,
    is_marked,
    is_of_work,
)
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.model.incident import OOPS, Clue, ClueKind, NativeCall

NEEDLES: Final = (
    b"egfault", b"egmentation fault", b"egmentation Fault", b"SIGSEGV", b"llegal instruction",
    b"llegal Instruction", b"egment fault", b"egment Fault", b"eg fault", b"eg Fault", b"eg-fault",
    b"ignal 11", b"ignal (11)", b"OOM killer", b"OOM Killer", b"OOM-killer", b"oom killer",
    b"oom-killer", b"kernel killed",
)  # fmt: skip
_EMPHASIS: Final = re.compile(
    r"(?<![\w*`.])(_|\*{1,3})([A-Za-z](?:[a-z]|-(?=[a-z])){1,20})\1(?![\w*`(.])"
)
"""Marks of a page around a word."""
_RECORD: Final = re.compile(
    r"\s*[\"'][\w .-]{1,40}[\"'] ?: |\s*(?:- )?\{ ?[\"']?\w[\w .-]{0,40}[\"']? ?: "
)
"""A line of JSON or YAML: a data base of errors."""
_FIRST: Final = 3
"""A title stands in one of so many lines."""
_BEGINS: Final = 8
"""In so many lines somebody comes to what he wants."""
_PID: Final = re.compile(r"(?i)\bpid[ :=#]{0,3}(\d{1,9})\b")
_MAX: Final = 5
_SHOWN: Final = 120
_BARE: Final = 6
_SHORT: Final = 30
"""A text of so few lines is a message."""
_OF_MACHINE: Final = re.compile(
    r"(?i)^(?!.*\b(?:GPU|CUDA|VRAM|JavaScript|heap|HIP|NPU|XPU|Metal)\b).*"
    r"(?:\b(?:pods?|containers?(?! (?:boot|start|image))|kubernetes|k8s|cgroups?|"
    r"memory limits?|nodes?|jvm|host|celery)\b|"
    r"\bOOM(?:'?ed\b|[ -]?kill))"
)
"""Of whose memory a title speaks."""
_OF_SERVERS: Final = ("stops", "starting", "starts", "stopping", "booting", "boots")
"""A video stops as well, and keeps starting."""
_SERVER: Final = re.compile(
    rf"(?i)(?:\b(?:{KINDS})s?|[a-z]{{2,20}}(?:server|d)|\W{{0,3}}[a-z]{{2,20}}(?:[_-][a-z]{{2,20}})"
    r"{1,3})[`\"']? (?:\w{2,12} ){0,2}$"
)
"""Who runs until he is stopped, right before the verb."""
_SAYS_WHY: Final = re.compile(r"(?i)fatal python error: \w")
"""Python's own words before it gives up."""
_JOINED: Final = re.compile(r" ?[/,&+] ?|,? (?:and|or) ")
_CASE: Final = re.compile(
    r"(?i)\s{0,3}#{1,6} (?:use[ -]?cases?|scenarios?|options?|alternatives?|proposals?|case)"
    r"(?: \w{1,3})?\s*:?\s*$"
)
"""What stands below such a heading was thought up."""
_KINDS: Final = {HEAP: ClueKind.HEAP, HANG: ClueKind.HANG}
HEAD: Final = 60
"""So many lines are read of a text that holds nothing else."""


class Hearsay:
    """What the text around a log says of a crash."""

    def __init__(self) -> None:
        """Know nothing."""
        self._is_work = self._is_change = self._quotes = False
        self._is_event = True
        self._has_crashed = False
        self._title = LogLine(0, "", "")
        self._told = 0
        self._name: str | None = None
        """Who crashed, as the title says."""

    def begin(self, start: bytes) -> Clue | None:
        """What the title tells; in the text of a change or a guide nobody is believed."""
        lines = start.decode("utf-8", "replace").split("\n")
        title = title_of(lines)
        self._is_change = any(map(is_maintainers, lines)) or is_commits(title.text)
        self._is_work = (
            is_of_work(title.text)
            or self._is_change
            or any(map(is_list_of_news, lines[:_FIRST]))
            or any(map(asks_for_more, lines[:_BEGINS]))
            or any(map(is_labelled_a_wish, lines[:_FIRST]))
            or (_is_bare(title.text) and _is_explained(lines))
        )
        self._quotes = (
            self._is_change
            or any(map(is_labelled_a_wish, lines[:_FIRST]))
            or (title.is_marked and is_wish_or_change(title.text))
        )
        if not title.is_marked and not is_sentence_above(title, lines):
            return None
        self._title = LogLine(title.number, "", title.text)
        clue = self._told_in(self._title, (DEATH, CRASH, MEMORY), Form.TITLE)
        if not self._is_work and (clue is None or clue.signal is None):
            clue = exception_in(self._title, clue) or clue
        self._is_event = clue is None or clue.kind is ClueKind.HEARSAY
        self._has_crashed = clue is not None and self._is_event
        self._name = clue.name if clue is not None and self._has_crashed else None
        return clue

    def read(self, line: LogLine) -> Clue | None:
        """What the line says of a crash, by the name of its signal."""
        if line.number == self._title.number or self._told >= _MAX:
            return None
        clue = self._told_in(line, (DEATH,), Form.SENTENCE)
        self._told += clue is not None
        return clue

    def alone(self, lines: Sequence[str]) -> list[Clue]:
        """What the first sentences of a text say of an end in which nothing else is told."""
        if not may_name_a_crash("\n".join(lines)):
            return []
        is_message = (
            (self._title.number and self._is_event)
            or len(lines) <= _SHORT
            or count_of_witnesses(lines) > 0
        )
        told = [clue for clue in self._sentences(lines, is_message=is_message) if clue is not None]
        told = [clue for clue in told if clue.kind is not ClueKind.MENTION]
        named = [clue for clue in told if clue.signal is not None]
        return named or told

    def _sentences(self, lines: Sequence[str], *, is_message: bool) -> Iterator[Clue | None]:
        form = Form.MESSAGE if is_message else Form.SENTENCE
        names = [DEATH, HEAP, CRASH] if is_message else [DEATH]
        if is_message and not self._has_crashed:
            names.append(HANG)
        page = Page(lines)
        is_case = False
        for number, text in enumerate(lines, start=1):
            is_case = _CASE.match(text) is not None or (is_case and not is_section(text))
            if is_case:
                continue
            if number == self._title.number:
                yield self._told_in(self._title, (HEAP, HANG), Form.TITLE)
            elif not (page.is_fenced(number - 1) or is_printed(text) or is_section(text)):
                text = without_speech(text)
                yield self._told_in(LogLine(number, "", text), names, form)

    @property
    def is_work(self) -> bool:
        """Is the text a change, a wish or a lesson, in which nobody is believed?"""
        return self._is_work

    def quoted(self, clues: Sequence[Clue]) -> list[Clue]:
        """The clues: a record that a change or a wish quotes is told, and a lone stack shows."""
        if not self._quotes:
            return list(clues)
        return [
            clue if clue.kind is ClueKind.STACK else replace(clue, is_told=True) for clue in clues
        ]

    def judged(self, clues: Sequence[Clue]) -> Iterator[Clue]:
        """The clues: what a title repeats is told, and one of a change only names its error.

        A title names the exception as well before which a traceback was cut off.
        """
        own = [clue for clue in clues if clue.line == self._title.number]
        named = {clue.signal for clue in own if clue.source != "somebody"} - {None}
        numbers = {clue.pid for clue in clues if clue.line != self._title.number} - {None}
        is_told = any(clue.source != "somebody" or clue.signal is not None for clue in own)
        raised = None if is_told or self._is_work else EXCEPTION.search(self._title.text)
        for clue in clues:
            if clue.kind is ClueKind.STACK and clue.source == "python" and raised is not None:
                yield replace(clue, kind=ClueKind.EXCEPTION, detail=raised[0], is_told=True)
                continue
            is_title = clue.line == self._title.number
            if clue.source == "somebody":
                if not is_title or not named or clue.signal in named:
                    yield clue  # else of another word of the same line, such as `killed`
            elif not is_title:
                if not (self._is_work and clue.is_told):
                    yield clue
            elif (self._is_event or clue.source == OOPS) and not self._is_work:
                # It repeats one line of many, whose process need not be the one below.
                pid = clue.pid if not numbers or clue.pid in numbers else None
                name = clue.name or self._name
                if not clue.of_another:
                    name = name or speaker_of(self._title.text)
                name = name or next(filter(None, failing_named(self._title.text)), None)
                signal = self._named(clue)
                told = replace(clue, pid=pid, name=name, is_told=True, signal=signal)
                told = self._with_import(told)
                yield told if told.native else replace(told, native=self._place())

    def _with_import(self, clue: Clue) -> Clue:
        """The clue, with the import at which the title says that it was."""
        death = DEATH.search(self._title.text) if clue.kind is ClueKind.SIGNAL else None
        if death is None or clue.python or clue.native:
            return clue
        imported = import_named(self._title.text, death.start(), death.end())
        return replace(clue, python=(imported,)) if imported is not None else clue

    def _named(self, clue: Clue) -> str | None:
        """The signal that the title gives itself beside glibc's words, which imply another."""
        name = DEATH.search(self._title.text) if clue.kind is ClueKind.HEAP else None
        return (signal_of(name) if name is not None else None) or clue.signal

    def _place(self) -> tuple[NativeCall, ...]:
        """The function that the title says was damaged in, if that can be nothing else."""
        text = self._title.text
        heap = HEAP.search(text)
        place = place_named(text, heap.start(), heap.end()) if heap is not None else None
        is_sure = place is not None and (place.function is None or "::" in place.function)
        return (place,) if place is not None and is_sure else ()

    def _told_in(self, line: LogLine, names: Sequence[re.Pattern[str]], form: Form) -> Clue | None:
        """The crash that is reported in a line; else one that it speaks of."""
        line = line._replace(text=_EMPHASIS.sub(r"\2", line.text))
        found: list[re.Match[str]] = []
        for match in (match for name in names for match in name.finditer(line.text)):
            if all(one.end() < match.start() or match.end() < one.start() for one in found):
                found.append(match)
        if not found:
            return None
        is_person = _RECORD.match(line.text) is None and not is_marked(line.text)
        is_believed = not self._is_work or (not self._is_change and is_mine(line.text))
        if is_person and is_believed:
            told = (one for one in found if is_reported(one, form, _end(one, found)))
            clues = [_clue(line, crash) for crash in filter(_is_somebodys, told)]
            if clues:
                return _together(clues)
        return replace(_clue(line, found[0]), kind=ClueKind.MENTION, name=None, native=())


def _together(clues: Sequence[Clue]) -> Clue:
    """The first crash of a line that tells a signal; another may tell whose: `crashed, killed`."""
    first = clues[0]
    if first.kind is not ClueKind.HEARSAY or first.signal is not None or first.exit is not None:
        return first
    ends = (one for one in clues if one.kind is ClueKind.HEARSAY and one.signal is not None)
    end = next(ends, first)
    return replace(end, name=end.name or first.name, native=end.native or first.native)


def _is_somebodys(crash: re.Match[str]) -> bool:
    """Is it said of whom, where a word is said of jobs and commands as well?"""
    word = crash[0].lower()
    if crash.re is CRASH and word.startswith("abort"):
        return process_named(crash, is_verb=True) is not None
    if crash.re is CRASH and word.endswith(_OF_SERVERS):
        return _SERVER.search(crash.string, 0, crash.start()) is not None
    return True


def _killed(crash: re.Match[str]) -> str | None:
    """The signal of who runs out of a machine's or a container's memory, and no GPU's.

    And of an `abort`, which the verb does not name.
    """
    word = crash[0].lower()
    if word in {"abort", "aborts"} or _SAYS_WHY.match(crash.string, crash.start()) is not None:
        return "SIGABRT"
    is_killed = crash.re is MEMORY and _OF_MACHINE.search(crash.string) is not None
    return "SIGKILL" if is_killed else None


def _end(crash: re.Match[str], found: Sequence[re.Match[str]]) -> int:
    """Where several names of one crash end: `double free / memory corruption`."""
    end = crash.end()
    for other in sorted(found, key=re.Match.start):
        if other.start() > end and _JOINED.fullmatch(crash.string, end, other.start()):
            end = other.end()
    return end


def _is_bare(title: str) -> bool:
    """Does a title hold no more than a death's name, as that of an article?"""
    return len(DEATH.sub("", title)) <= _BARE


def _is_explained(lines: Sequence[str]) -> bool:
    """Does the text below say what a death of this name is, or how one deals with it?"""
    if count_of_witnesses(lines) > 0:
        return False
    return any(map(defines_a_death, lines)) or any(map(is_lesson, lines))


def _clue(line: LogLine, match: re.Match[str]) -> Clue:
    is_servers = match.re is CRASH and match[0].lower().endswith(_OF_SERVERS)  # no function starts
    place = None if is_servers else place_named(line.text, match.start(), match.end())
    imported = import_named(line.text, match.start(), match.end()) if place is None else None
    pid = _PID.search(line.text)
    return replace(
        clue_at(line, _KINDS.get(match.re, ClueKind.HEARSAY), "somebody"),
        of_another=True,
        is_told=True,
        pid=int(pid[1]) if pid is not None else None,
        name=process_named(match, is_verb=is_verb(match)),
        native=(place,) if place is not None else (),
        python=(imported,) if imported is not None else (),
        signal=signal_of(match) if match.re is DEATH else _killed(match),
        exit=status_of(match) if match.re is DEATH else None,
        detail=f"as line {line.number} says: {_around(line.text, match)}",
    )


def _around(text: str, match: re.Match[str]) -> str:
    """The words around those that tell, whole, with marks where others are left out."""
    start, end = max(0, match.start() - _SHOWN // 2), match.end() + _SHOWN
    before = text[:start].rpartition(" ")[0] if start else ""
    if end >= len(text):
        return f"{'…' if before else ''}{text[len(before) :].strip()}"
    shown = text[len(before) : end].rpartition(" ")[0]
    return f"{'…' if before else ''}{shown.strip()}…"
