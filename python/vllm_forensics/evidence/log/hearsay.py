"""What people write of a crash: that they saw one, or no more than the word.

A title of an issue and a sentence of a witness tell of a death; documentation, questions and
changes speak of deaths and tell of none. The first is a clue of its own, the other only explains a
stack that stands alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import clue_at, signal_in
from vllm_forensics.model.incident import Clue, ClueKind

NEEDLES: Final = (
    b"egfault", b"egmentation fault", b"egmentation Fault", b"SIGSEGV", b"llegal instruction",
    b"llegal Instruction", b"egment fault", b"egment Fault", b"eg fault", b"eg Fault", b"eg-fault",
    b"ignal 11", b"ignal (11)",
)  # fmt: skip
_CRASH: Final = re.compile(
    r"(?i)\b(?:segment(?:ation)?[ -]faults?|seg[ -]?fault(?:s|ed|ing)?|SIGSEGV|"
    r"illegal instruction|signal \(?11)\b"
)
_SIGNAL: Final = re.compile(r"\bSIG(?:ABRT|BUS|ILL|FPE)\b")
"""In a title alone: elsewhere it is too seldom somebody's own."""
_CRASHED: Final = re.compile(
    r"(?i)\b(?P<name>EngineCore|engine(?: core)?|worker|actor|scheduler|raylet|server|vllm|sglang|"
    r"triton|ollama|[\w-]{1,30}[ -]server|process|program|script)(?: (?:process|proc|server))?"
    r"(?: v?\d[\w.]{0,12})?"
    r"(?: (?:keeps?|always|randomly|suddenly|unexpectedly))? "
    r"(?:crash(?:e[sd]|ing)?|died|dies|(?:was|is|gets|got) killed)\b"
)
"""In a title: who ended, and not of what."""
_A_CRASH: Final = re.compile(r"(?i)\b(?:crash(?:e[sd]|ing)?|core[ -]?dump(?:s|ed|ing)?)\b")
"""In a title, it says why a stack stands alone below it."""
_SAW: Final = re.compile(
    r"(?i)\b(?:got|gets?|getting|hit(?:s|ting)?|sees?|seeing|saw|encounter(?:ed|ing|s)?|"
    r"experienc(?:e|ed|ing)|observ(?:e|ed|ing)|fac(?:e|ed|ing)|r[au]n(?:ning)? into|throw(?:s|n)?|"
    r"raise[sd]?|outputs?|produces?|gives?|gave|received?|causes?|caused|results? in|resulted in|"
    r"(?:end(?:s|ed)?|die[sd]?|dying|crash(?:es|ed|ing)?|fail(?:s|ed|ing)?|exit(?:s|ed)?|abort(?:s|ed)?)"
    r"(?: \w+)? (?:with|in|of|by|due to|because of))\b[^.;:]{0,40}$"
)
"""Stands before the crash's name where somebody saw it."""
_VERB: Final = re.compile(r"(?i)segfault(?:s|ed|ing)$")
_SUBJECT: Final = re.compile(
    r"(?i)(?:\b(?:it|which|and|then|that|\w*(?:server|python|script|program|process|engine|core|"
    r"worker|llm|llama|kernel|code))|`)(?: (?:is|just|always|still|randomly|immediately|now|then|"
    r"also))? $"
)
_HAPPENED: Final = re.compile(
    r"(?i)[^.;:]{0,20}? (?:(?:is|was|are|were|gets|got) (?:raised|thrown|reported|triggered|seen)|"
    r"occurred|happened)\b"
)
_WHO: Final = re.compile(
    r"(?i)\b(?P<name>EngineCore|engine core|workers?|actors?|scheduler|API ?server)\b[^.;:]{0,40}$"
)
_RECORD: Final = re.compile(r"\s*[\"'][\w .-]{1,40}[\"'] ?: ")
"""A line of JSON: a data base of errors."""
_WITNESS: Final = re.compile(r"\b(?:I|I'm|I've|[Mm]y)\b")
_DOUBTS: Final = re.compile(
    r"(?i)\b(?:may|might|could|would|should|can|potential(?:ly)?|possible|possibly|likely|e\.g\.|"
    r"such as|you|no longer|(?:bug)?fix(?:e[sd]|ing)?|prevent(?:s|ed|ing)?|avoid(?:s|ed|ing)?|"
    r"resolve[sd]?|handl(?:e[sd]?|ing)|either|seem(?:s|ed)?|means?|causes:|reasons?)\b"
)
_OCCASION: Final = re.compile(r"(?i)\b(?:when(?:ever)?|if|unless|whether|where)\b")
_NOT: Final = re.compile(r"(?i)\b(?:no|not|never|without|any|n't|n\u2019t)\b[^.;]{0,24}$")
_MORE: Final = re.compile(
    r"(?i)\W{0,3}(?:or (?:other|another|an?)\b|also known|means?\b|occurs when|handl)"
)
_TITLE: Final = re.compile(r"#{1,2} \S")
_OF_WORK: Final = re.compile(
    r"(?i)\b(?:(?:bug|hot)?fix\w*|avoid\w*|prevent\w*|handl\w+|add(?:s|ed|ing)?|remov\w+|guard\w*|"
    r"support\w*|docs?|document\w*|debug\w*|troubleshoot\w*|understand\w*|explain\w*|how|what|"
    r"guide|tutorial|resolv\w+|workarounds?|revert\w*|potential|possible|should|could|may|might|"
    r"feature|request|proposal|improve\w*|catch\w*|instead|no longer|skip\w*|changelog|release|"
    r"faq)\b"
)
"""In the title of a change, of a guide, of a question."""
_NOTES: Final = re.compile(
    r"(?i)\b(?:release notes|change ?log|changes in|fixes since|version history|what's new)\b"
)
"""The beginning of a list of what was mended."""
_WISHES: Final = re.compile(
    r"(?i)#{1,2} (?:\[[\w ]{1,20}\]:? ?|\w{1,12}(?:\(\w{1,20}\))?: )?"
    r"(?:trap|report|show|print|dump|display|enable|implement|allow|make|use|simple|log|detect)\b"
)
"""A title that says what there should be."""
_FIRST: Final = 3
"""A title stands in one of so many lines."""
_BARE: Final = 6
"""A title that holds no more letters beside the crash's name says nothing of anybody."""
_MAX: Final = 5
_SHOWN: Final = 120


class Hearsay:
    """What the text around a log says of a crash."""

    def __init__(self) -> None:
        """Know nothing."""
        self._is_work = False
        self._told = 0

    def begin(self, start: bytes) -> Clue | None:
        """What the title tells; in the text of a change or a guide nobody is believed."""
        lines = start.decode("utf-8", "replace").split("\n")[:_FIRST]
        titles = (one for one in enumerate(lines, 1) if _TITLE.match(one[1]) is not None)
        number, title = next(titles, (0, ""))
        is_wish = _WISHES.match(title) is not None
        is_wish = is_wish or any(_NOTES.search(line) is not None for line in lines)
        self._is_work = is_wish or _OF_WORK.search(title) is not None
        if self._is_work or _CRASH.search(title) is not None:
            return None  # its own word is read with the others
        line = LogLine(number, "", title.rstrip("\r"))
        match = _SIGNAL.search(title) or _CRASHED.search(title)
        if match is None:
            word = _A_CRASH.search(title)
            return None if word is None else self._mention(line, word)
        return self._clue(line, match, match.groupdict().get("name") or _who(title, match))

    def read(self, line: LogLine) -> Clue | None:
        """What the line says of a crash."""
        is_title = line.number <= _FIRST and _TITLE.match(line.text) is not None
        match = _CRASH.search(line.text)
        if match is None or self._told >= _MAX:
            return None
        is_title = is_title and len(_CRASH.sub("", line.text)) > _BARE
        is_told = not self._is_work and _RECORD.match(line.text) is None
        is_told = is_told and (is_title or _is_told(line.text, match))
        self._told += 1
        if not is_told:
            return self._mention(line, match)
        return self._clue(line, match, _who(line.text, match))

    def is_of_work(self, clue: Clue) -> bool:
        """Does the title of a change or a guide only name the error that it is about?"""
        is_title = clue.line <= _FIRST and _TITLE.match(clue.text) is not None
        return self._is_work and is_title and clue.kind is ClueKind.ECHO

    def _mention(self, line: LogLine, match: re.Match[str]) -> Clue:
        return replace(self._clue(line, match, None), kind=ClueKind.MENTION)

    def _clue(self, line: LogLine, match: re.Match[str], name: str | None) -> Clue:
        start = max(0, match.start() - _SHOWN // 2)
        return replace(
            clue_at(line, ClueKind.HEARSAY, "somebody"),
            of_another=True,
            name=name,
            signal=signal_in(match[0]),
            detail=f"as line {line.number} says: {line.text[start : match.end() + _SHOWN].strip()}",
        )


def _who(text: str, match: re.Match[str]) -> str | None:
    """Of which process of a server somebody says it."""
    who = _WHO.search(text, 0, match.start())
    return who["name"] if who is not None else None


def _is_told(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 400) : match.start()]
    if _DOUBTS.search(before) or _NOT.search(before) or _MORE.match(text, match.end()):
        return False
    if _OCCASION.search(before) and _WITNESS.search(before) is None:
        return False
    if _VERB.search(match[0]) is not None and _SUBJECT.search(before) is not None:
        return True
    return _SAW.search(before) is not None or _HAPPENED.match(text, match.end()) is not None
