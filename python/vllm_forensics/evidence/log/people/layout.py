"""How a text is laid out: as a lesson with headings, definitions and invented values, or not.

Nothing here depends on what a text is about, and next to nothing on its language: who explains
writes sentences, cuts them into sections, says what a name means, and takes numbers out of the
air where a machine would print its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_HEADING: Final = re.compile(
    r"\s{0,3}(?:#{2,6} \S|\*\*[^*]{3,60}\*\*:?$|\d{1,2}[.)、] ?\S.{0,58}$|"
    r"[一二三四五六七八九十][、,.]\S.{0,40}$)"
)
_SENTENCE: Final = re.compile(r"[.!?](?=\s|$)|[。\uff01\uff1f]")
_TERM: Final = (
    r"(?:segmentation (?:fault|violation)s?|segfaults?|core[ -]?dumps?|SIG[A-Z]{3,5}|"
    r"OOM[ -]?kill(?:er|ed)|out of memory|bus error|exit (?:code|status) \d{1,3}|double free|"
    r"stack overflow|access violation|segment\w{2,10}fehler|speicherzugriffsfehler|"
    r"erreur de segmentation|falha de segmenta\w{2,5}|fall[oa] de segmentaci\w{2,4}|"
    r"violaci\w{2,4} de segmento|сегфолт|"
    r"ошибка сегмент\w{2,12}|"
    r"段错误|核心转储|"
    r"セグメンテーション\w{0,6}|コアダンプ|"
    r"세그멘?테?이?션? ?\w{0,4})"
)
_DEFINITION: Final = re.compile(
    rf"(?i)\W{{0,6}}(?:an? |the |eine? |une? |la |le |el |uma? |um )?[\"'“`«]?{_TERM}"
    r"[\"'”`»]?\s?(?:\([^()]{1,80}\)|\uff08[^\uff08\uff09]{1,80}\uff09|,[^,.]{1,60},)?\s?"
    r"(?:(?:is|are|means?|refers|ist|sind|bezeichnet|est|sont|es|son|é|são|это)\b|"
    r"[—-] ?это\b|是|指|とは|は|이?란|[은는])"
)
"""What a death's name means: nobody explains that in a report of his own."""
_NAME: Final = re.compile(rf"(?i)\W{{0,6}}{_TERM}\W{{0,4}}")
_PLACE: Final = re.compile(
    r"<(?!(?:value )?optimized|synthetic|module\b|std\w{2,3}>|string>|lambda>|genexpr>|unknown>|"
    r"signal handler|(?:0x)?[0-9a-f]{6,16}>|details>|summary>|pre>|code>|su[bp]>|div>|table>)"
    r"(?![^<>]{0,24}\b0x)"
    r"[a-zA-Z][\w -]{1,30}>|\[e\.g\. [^\]]{1,40}\]|\{[a-z][\w -]{2,20}\}|"
    r"\bX{3,10}\b|=x{3,10}\b|/path/to/|"
    r"\bmy-?(?:app|pod|container|program|service|deployment)\b|\bexample\.(?:com|org)\b"
)
"""Where the reader has something of his own to fill in; no debugger's value, and no page's mark."""
_INVENTED: Final = re.compile(
    r"(?<![\w.])(?:0x)?0{0,8}(?:1234(?:5(?:6(?:7(?:89?0?)?)?)?)?|23456(?:7(?:89?)?)?|"
    r"34567|45678|54321|98765|99999)(?![\w]|\.(?!678))|"
    r"0x0{0,8}(?:7f+)?(?:deadbeef|cafebabe|1234567\w{0,9}|abcdef\w{0,10})\b|"
    r"\b0{0,4}7f+123456\w{0,8}\b"
)
"""Digits in their order, which no machine gives."""
_PROGRAM: Final = re.compile(r"\s*(?:int|void) main ?\(")
_COMPILED: Final = re.compile(
    r"(?:[$>#] ?)?(?:gcc|g\+\+|cc|clang|clang\+\+|nvcc|rustc) .{0,200}\.\w{1,4}\b"
)
_LISTED: Final = 3
_FRAME: Final = re.compile(
    r"\W{0,8}(?:#\d{1,3} |\d{1,3}# |frame #|\[?)\s{0,3}0x[0-9a-fA-F]{6,16}\b|"
    r"\s{0,12}\S{1,240}\.go:\d{1,6} \+0x"
)
_SYSLOG: Final = re.compile(
    r"\[ {0,6}\d{1,9}\.\d{6}\] \S|"
    r"\W{0,4}(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) "
    r"(?!(?:localhost|host(?:name)?|server\d?|node-?\d?|web-?\d{1,2}|my\w{1,20})\b)"
    r"[\w.-]{2,40} [\w./-]{2,40}(?:\[\d{1,9}\])?: "
)
"""The kernel's clock, or a time, a machine and a program; examples are of hosts without a name."""
_OUTPUT: Final = 2
_SECTION: Final = re.compile(r"#{2,6} \S")
_MANY: Final = 4
"""So many sentences weigh as much as a heading or two."""


def is_invented(text: str) -> bool:
    """Are the numbers of a line taken out of the air?"""
    return _INVENTED.search(text) is not None


def shows_output(lines: Sequence[str]) -> bool:
    """Does a stack, or a machine's own log, stand in the text whose values were not made up?"""
    real = [line for line in lines if not is_invented(line)]
    return any(
        sum(one.match(line) is not None for line in real) >= _OUTPUT for one in (_FRAME, _SYSLOG)
    )


def invented_in(lines: Sequence[str]) -> int:
    """How many different values in a text are made up, or left for the reader to fill in."""
    found = {one for line in lines for one in _PLACE.findall(line)}
    return len(found | {one for line in lines for one in _INVENTED.findall(line)})


def weight_of_layout(head: Sequence[str], prose: Sequence[str]) -> int:
    """How much the shape of what people wrote is that of a lesson."""
    definitions = sum(_DEFINITION.match(line) is not None for line in prose)
    headings = sum(_HEADING.match(line) is not None for line in head)
    sentences = sum(len(_SENTENCE.findall(line)) for line in prose)
    return 2 * definitions + headings // 2 + sentences // _MANY


def explains_its_title(head: Sequence[str], prose: Sequence[str]) -> bool:
    """Is a death's name all of the title, as of an article, and is said below what it is?"""
    title = next(filter(None, map(str.strip, head)), "")
    return _NAME.fullmatch(title) is not None and any(map(_DEFINITION.match, prose))


def weight_of_listing(lines: Sequence[str]) -> int:
    """How much it weighs that a whole program stands in the text, and how it is compiled."""
    is_whole = any(map(_PROGRAM.match, lines)) and any(map(_COMPILED.match, lines))
    return _LISTED if is_whole else 0


def is_section(line: str) -> bool:
    """Is the line the title of a part of a text, and nothing that was printed?"""
    return _SECTION.match(line) is not None
