"""Deaths in the words of runtimes that no table knows, read by the form of their lines.

Such a line holds a fatal signal, by name, number or words, beside a verb of dying, and is written
by a machine: it has a prefix, an address, a process's number, or nothing but the message. It is
asked last of all, and what it tells is never more than likely.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.people.crash_names import DEATH, is_verb
from vllm_forensics.evidence.log.people.prose import Voice, voice_of
from vllm_forensics.evidence.log.people.sentence_names import process_named
from vllm_forensics.evidence.log.phrases import clue_at, signal_in
from vllm_forensics.model.incident import UNNAMED, Clue, ClueKind

NEEDLES: Final = (
    *(name.encode() for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SEGV_")),
    *(
        f"ignal{before}{number}".encode()
        for before in (" ", ": ", " (", "=", " #")
        for number in ("4", "6", "7", "8", "11")
    ),
    b"ignal SEGV", b"ignal ABRT", b"ignal BUS", b"egmentation ", b"egfault",
    b"Bus error", b"Bus Error", b"ccess violation", b"ccess Violation",
    b"EXC_BAD_ACCESS", b"ACCESS_VIOLATION", b"emory fault",
)  # fmt: skip
_HOLDS: Final = lazily("|".join(re.escape(needle.decode()) for needle in NEEDLES))
"""Asked of a line first: most that come here were found for another word."""
_SIGNAL: Final = (
    r"(?:(?i:signal(?: number| no\.?)?)[ :=#(]{1,3}(?P<number>4|6|7|8|11)\b(?![.:/]\d|-\w)|"
    r"(?i:signal) (?P<short>SEGV|ABRT|BUS|ILL|FPE)\b|"
    r"(?P<name>SIG(?:SEGV|ABRT|BUS|ILL|FPE)\b|SEGV_(?:MAPERR|ACCERR)|EXC_BAD_ACCESS|"
    r"(?:EXCEPTION|STATUS)_ACCESS_VIOLATION|Segmentation [Ff]ault|[Ss]egfault|"
    r"[Ss]egmentation (?:fault|violation)|[Mm]emory fault|Bus [Ee]rror|[Aa]ccess [Vv]iolation))"
)
_TELLS: Final = (
    # Received signal 11; (from thread 3) caught SIGSEGV; Unhandled Exception: SIGSEGV
    lazily(
        rf"(?i:\b(?:received|caught|catching|got|raised|trapped|encountered|unhandled|fatal|crashed|crash)\b)"
        rf"(?:[ :]{{1,3}}[\w.-]{{1,20}}){{0,3}}?[ :(\"'`]{{1,4}}{_SIGNAL}"
    ),
    # Signal 11 caught; Segmentation fault at address 0x48; SIGSEGV received
    lazily(
        rf"{_SIGNAL}(?:[ ,:]{{1,3}}[\w() ]{{1,40}}?)?[ ,:()]{{1,3}}(?:has been |was |is )?"
        r"(?i:caught|received|raised|detected|encountered|occurred|trapped|"
        r"@ ?0x[0-9a-f]{6,16}|(?:at|accessing|for address|on address)(?: the)?(?: memory)?"
        r"(?: addr(?:ess)?| pc| ip| location)?[ :=]{1,3}(?:0x|#x)?[0-9a-fA-F]{1,16}\b|"
        r"\(core dumped\))"
    ),
    # ERROR: SIGSEGV; *** Signal 11 (SIGSEGV) ***
    lazily(
        rf"^\W{{0,12}}(?:"
        rf"(?i:(?:fatal |internal )?(?:error|exception|crash|crashed|signal)): {{1,3}}|"
        rf"[*!=]{{3,80}} ?){_SIGNAL}[^A-Za-z]{{0,60}}(?:\w{{1,40}}\W{{0,8}}){{0,4}}$"
    ),
)
_TIMED: Final = lazily(
    rf"(?:^|[|:] ){_SIGNAL}: (?:[Ss]egmentation|[Bb]us|[Ii]llegal|[Ff]loating|[Aa]bort)\w*"
    r"(?: \w{1,20}){0,3}\W*$"
)
"""SIGSEGV: Segmentation fault; without a time it is a table's entry."""
_TOLD: Final = lazily(
    r"\b(?i:exit(?:ed|ing)?|terminated|killed|died|crashed|dumped|ended|aborted|stopped|dead)\b"
    rf"(?:[ :,]{{1,3}}\w{{1,12}}){{0,4}}?[ :(,]{{1,3}}{_SIGNAL}"
)
_OWN: Final = lazily(r"(?i)crash|abort|dump")
_PROSE: Final = lazily(
    r"\b(?:the|it|its|this|that|these|those|I|we|you|my|our|your|there|because|but|so|not|never|"
    r"please|after|before|while|some|any|many|which|who|then|just|also|always|get|gets|getting|"
    r"keep|keeps|still|seems?|like|issue|bug|report|problem|since|only|every|each|first|now|"
    r"can|will|have|been|crashes|fails|dies|exits|aborts|happens|segfaults|does|do|did|were|are|where|these|to|of|and|or)\b"
)
_OF_WORK: Final = lazily(
    r"(?i)\b(?:fix(?:e[sd])?|fixing|avoid\w{0,3}|prevent\w{0,3}|handl(?:e[rsd]?|ing)|add(?:s|ed)?|"
    r"support\w{0,3}|ignor(?:e[sd]?|ing)|tests?|testing|expect\w{0,3}|install\w{0,3}|register\w{0,3}|"
    r"mask(?:ed)?|unblock\w{0,2}|restor\w{0,3}|sen[dt]s?|docs?|examples?|feature|revert\w{0,2}|"
    r"improv\w{0,4}|workaround|no longer|whether|recover(?:ed|s)?|inject\w{0,3}|simulat\w{0,4}|"
    r"suppress\w{0,3}|forward\w{0,3}|resolved?|passed|skip(?:ped)?|default action)\b"
)
"""A change, a test, or a program that says what it does with signals."""
_CODE: Final = lazily(
    r"^\s*(?:#(?:define|include|if|\s)|//|/\*|\||[-+] |case\b|return\b|def\b|if\b|raise\b|throw\b|"
    r"\"(?!msg|message|log|error|stderr|line)[\w-]{1,40}\": |assert\b|import\b|from\b|"
    r"\d{1,2}\) SIG)|\bsig(?:action|nal)\(|\bkill\b ?[(-]|==|!=|&&|\|\||[{;]\s*$|printf\b|\bdie\b|"
    r"%[dsu]\b|[=(,]\s?[\"']SIG|\|\s*$|SIG_(?:DFL|IGN)|"
    r"\bSIG[A-Z]{2,6}\b[^A-Z]{1,24}\bSIG[A-Z]{2,6}\b[^A-Z]{1,24}\bSIG"
)
_MACHINE: Final = lazily(
    r"^(?:[\[(<=!]|\*(?! ))|^\d{2,4}[-/.:]\d|^[\w.-]{1,40}(?:\[\d{1,9}\])?: |0x[0-9a-f]{2,16}|"
    r"\b(?i:pid|tid|thread|process)\b[ =:#]{0,2}[(\[]?\d|\(\d{1,2}\)|\[\d{1,9}\]|\*{3}|!{3}|={4}"
)
_ADVICE: Final = lazily(r"(?i)[,.;!:]? {1,3}please (?:report|file|send|submit|include|attach)\b")
"""What a crash handler asks for: the rest of the line is for its reader."""
_SHORT: Final = 8
"""So few words are the whole message of a runtime."""
_NUMBER: Final = lazily(
    r"\b(?i:(?P<name>process|child|worker|server|task|rank|job)s?(?: process)?)\W{0,2}"
    r"(?i:\(?pid)?[ :=#]{0,3}(?<!\w)(?P<pid>\d{1,9})\b(?! ?(?:ms|s|sec|bytes|[KMG]i?B)\b)"
)
_WRITER: Final = lazily(r"(?P<name>[\w.-]{1,40})\[(?P<pid>\d{1,9})\]: ")
"""syslog's mark, where no date stands before it."""
_WORDS: Final = lazily(r"[A-Za-z]{2,}")
_REACH: Final = 1_000
_PLAIN: Final = 2
"""So many of prose's words may stand in a machine's sentence."""


def read_unnamed(line: LogLine) -> Clue | None:
    """What the line tells, where it has the form of a death's message."""
    text = line.text[:_REACH]
    if _HOLDS.search(text) is None:
        return None
    told = _TOLD.search(text)
    forms = (*_TELLS, _TIMED) if line.time is not None else _TELLS
    match = told or next(filter(None, (form.search(text) for form in forms)), None)
    if match is None or not _is_a_machines(line, match):
        return None
    who = _NUMBER.search(text, 0, match.start()) if told is not None else _WRITER.match(text)
    # Who crashes or aborts may say so himself, and his stack follows; only others say who exited.
    is_parents = told is not None and (who is not None or _OWN.match(told[0]) is None)
    clue = clue_at(line, ClueKind.CHILD if is_parents else ClueKind.SIGNAL, UNNAMED)
    return replace(
        clue,
        signal=signal_in(match["number"] or match["short"] or _word(match["name"])),
        pid=int(who["pid"]) if who is not None else None,
        name=who["name"].lower() if who is not None else _subject(text),
        of_another=is_parents,
        detail=text[match.start() :].strip()[:200],
    )


def _subject(text: str) -> str | None:
    """Who died, where the line is a sentence that begins with him: `uWSGI process got …`."""
    death = DEATH.search(text)
    return process_named(death, is_verb=is_verb(death)) if death is not None else None


def _word(name: str) -> str:
    if name.startswith(("SEGV_", "EXC_BAD", "EXCEPTION_", "STATUS_")) or "iolation" in name:
        return "SIGSEGV"
    return name


def _is_a_machines(line: LogLine, match: re.Match[str]) -> bool:
    """Did a program write the line, and of a death that took place?"""
    asks = _ADVICE.search(match.string, match.end())
    text = match.string[: asks.start()] if asks is not None else match.string
    voice = voice_of(text, match.start(), match.end(), in_prose=True)
    if voice is not Voice.OWN or _OF_WORK.search(text) or _CODE.search(text):
        return False
    prose = len(_PROSE.findall(text))
    if line.time is not None or line.stream or _MACHINE.search(text) is not None:
        return prose <= _PLAIN
    return prose == 0 and len(_WORDS.findall(text)) <= _SHORT
