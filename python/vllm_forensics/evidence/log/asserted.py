"""A failed assertion in words that no table knows: its form tells it, and where it stands.

Whoever wrote it, an assertion's last words hold one of a few words, that it failed, and the line of
a source in a language whose assertions end the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.people.prose import Voice, is_code, voice_of
from vllm_forensics.evidence.log.phrases import clue_at, shortened
from vllm_forensics.model.incident import UNNAMED, Clue, ClueKind

NEEDLES: Final = (
    b"ssert", b"SSERT", b"nvariant ", b"INVARIANT ", b"VERIFY", b"INSIST(", b"REQUIRE(",
)  # fmt: skip
_HOLDS: Final = lazily("|".join(re.escape(needle.decode()) for needle in NEEDLES))
_ASSERTS: Final = (
    r"(?:(?i:\b(?:\w{1,20}[ _])?assert(?:ion)?s?\b)|\b(?i:invariant)|\bVERIFY\w{0,4}|"
    r"\b(?:INSIST|REQUIRE|ENSURE)\()"
)
_FAILED: Final = r"\b(?i:fail(?:ed|ure|s)?|violated|violation)\b"
_TELLS: Final = lazily(rf"(?:{_ASSERTS}[^\n]{{0,300}}?{_FAILED}|{_FAILED} {_ASSERTS})")
_SOURCE: Final = lazily(
    r"[\w./\\+-]{1,240}\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hip|inl|m|mm|rs|d|zig|C|H)[\"'>)]?"
    r"(?:[:(+]|[,;:]? {0,2}(?:at |on )?[Ll]ine[ :#=<]{1,3}| : |, | )\d{1,7}\b"
)
_BARE: Final = lazily(
    r"^\W{0,4}ASSERTION FAILED: \S|[\])>*\w]: Assertion [`'][^\n]{1,300}['`] failed\.?\s*$"
)
"""Such words are the assertion's own; its source stands on a line beside them."""
_OF_THE_LIVING: Final = lazily(
    # of the kernel's it warns alone; tests, compilers and linters tell of others' assertions
    r"(?i)\bRTNL\b|###!!!|\bwarning\b|\bnon-?fatal\b|static_?assert|\btests?\b|AssertionError|"
    r"\bexpected\b|\berror: (?:static|assert)|\d:\d{1,5}: error:|\bignor"
)
_PROSE: Final = lazily(
    r"\b(?:the|it|its|I|we|you|my|our|your|because|but|please|when|which|who|then|seems?|since|"
    r"bug|crash(?:es|ed)?|issue|problem|why|how)\b"
)
_WRITER: Final = lazily(
    r"(?:[^\s`':\[]{0,200}/)?(?P<name>(?!(?i:error|fatal|std\w+|warning|info|debug|critical)\b)"
    r"[A-Za-z][\w.+-]{0,60}?)(?:\[(?P<pid>\d{1,9})\])?: "
)
_REACH: Final = 1_000
_IN_FILE: Final = lazily(
    r"(?:<b>|\W{0,8})(?P<source>\(in file [\w./\\: +-]{1,240}\.(?:c|cc|cpp|cxx|h|hpp|m|mm|rs):"
    r"\d{1,7}[^\n]{0,400})"
)
_CUT: Final = lazily(r"\bfile [\w./\\+-]{1,240}\.(?:c|cc|cpp|cxx|h|hpp)$")
_ITS_LINE: Final = lazily(r"line \d{1,7}\b")
"""What an editor broke: `in file pool.cc` and below it `line 88`."""
_WRAPPED: Final = 4
"""Over so many lines a paste breaks one at most."""
_OWN: Final = lazily(
    r"(?:(?<![^\s`(])(?P<name>[A-Za-z][\w.+-]{1,60}): )?"
    r"(?P<detail>[^\s:`]{1,240}:\d{1,7}: .{1,900})$"
)
_BELOW: Final = lazily(
    r"\W{0,6}(?P<source>[\w./\\+-]{1,240}\.(?:c|cc|cpp|cxx|h|hpp|m|mm|rs)[:(]\d{1,7}\)?"
    r"(?: in | : |: ?)\S.{0,300})"
)
"""`Pool.cpp:88 in void take()`, `/src/Pool.cpp(88) : void ns::take()`."""


def read_asserted(line: LogLine) -> Clue | None:
    """What the line tells, where it has the form of a failed assertion that names its source."""
    text = line.text[:_REACH]
    if _HOLDS.search(text) is None:
        return None
    match = _TELLS.search(text)
    if match is None or (_SOURCE.search(text) is None and _BARE.search(text) is None):
        return None
    if _OF_THE_LIVING.search(text) is not None or _PROSE.search(text[: match.start()]) is not None:
        return None
    voice = voice_of(text, match.start(), match.end(), in_prose=True)
    if voice is Voice.SHOWN or is_code(text[: match.start()], text[match.end() :]):
        return None
    who = _WRITER.match(text)
    clue = clue_at(line, ClueKind.ABORT, UNNAMED)
    return replace(
        clue,
        signal="SIGABRT",
        pid=int(who["pid"]) if who is not None and who["pid"] else None,
        name=who["name"] if who is not None and who["pid"] else None,
        detail=shortened(text.strip().strip("*")),
        is_told=voice is Voice.TOLD,
    )


def with_sources(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues; with the source of an assertion whose line was broken, or that has two."""
    if not any(map(_lacks_source, clues)):
        return list(clues)
    text = lines()
    return [_completed(clue, text) if _lacks_source(clue) else clue for clue in clues]


def _lacks_source(clue: Clue) -> bool:
    is_own = clue.kind is ClueKind.ABORT and not clue.native
    return is_own and _SOURCE.search(clue.text) is None


def _completed(clue: Clue, lines: Sequence[str]) -> Clue:
    at = clue.line - 1
    next_line = lines[at + 1] if at + 1 < len(lines) else ""
    in_file = _IN_FILE.match(next_line)
    if in_file is not None:
        return replace(clue, detail=shortened(f"{clue.detail} {in_file['source']}"))
    if _CUT.search(clue.detail or "") is not None and _ITS_LINE.match(next_line) is not None:
        return replace(clue, detail=shortened(f"{clue.detail} {next_line.strip()}"))
    if clue.source != UNNAMED or _BARE.search(clue.text) is None:
        return clue
    below = _BELOW.match(next_line)
    if below is not None:
        return replace(clue, detail=shortened(f"{clue.detail} at {below['source'].strip()}"))
    for begin in range(at - 1, max(-1, at - _WRAPPED), -1):
        if not lines[begin].strip():
            break
        if _SOURCE.search(lines[begin]) is not None:
            whole = " ".join(line.strip() for line in lines[begin : at + 1])
            own = _OWN.search(whole)
            return replace(
                clue,
                detail=shortened(own["detail"] if own is not None else whole),
                name=clue.name or (own["name"] if own is not None else None),
                text=whole,
            )
    return clue
