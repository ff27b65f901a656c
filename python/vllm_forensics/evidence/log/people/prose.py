"""Who speaks in a line: what died, somebody who tells of it, or a text that only shows the words.

People write about crashes, programs search logs for them and tests expect them: the words alone
are no death. What stands around them in the line tells the one from the other.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from vllm_forensics.evidence.log.people.doubt import (
    is_asked,
    is_doubted,
    is_explained,
    is_general,
    is_mended,
    is_of_any,
    is_possible,
    is_refuted,
    is_seen_here,
    is_supposed,
    is_taught,
    is_witnessed,
)

_REACH: Final = 1_000
"""So far around the words a line is looked at."""
_QUOTES: Final = "\"\u201c\u2018'`"
_CLOSED: Final = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019"}
_MARKS: Final = f" {_QUOTES}"
_LECTURE: Final = re.compile(
    r"(?i)\s*\u2022|.*\bever (?:been|had|seen|encountered|run into)\b|"
    r"\W{0,6}(?:an )?example (?:error )?(?:text|message)s?\b[^:]{0,20}:"
)
"""Before it: a slide's bullet, a question to the reader, or what announces an example."""
_LINKED: Final = re.compile(r"[^\]\[]{0,80}\]\(")
"""The words of a link: the death is told elsewhere."""
_CAUSED: Final = re.compile(
    r"[^.!?:;]{0,80}?\b(?:can|may|might|could) (?:\w{3,6} )?"
    r"(?:be|come|happen|occur|mean|indicate)\b"
)
"""Behind it in the same sentence: of what such a death may come."""
_ADVICE: Final = re.compile(
    r".{0,300}\b(?:[Rr]aise|[Ss]et|[Uu]se|[Ii]ncrease|[Rr]educe|[Cc]hange|[Ee]nsure|[Mm]ust|[Ss]hould)\b"
)
"""Behind a quoted message: what to do about it, wherever it comes up."""
_COMMENT: Final = re.compile(
    r"\s*(?://(?!#|[\w.-]{1,60}/|[\w.-]{0,60}:\w)|/\*|<!--|;;|REM )|"
    r"\s+#\s(?!\s(?:$|Assertion failed: )|Child(?:-SP|EBP) )"
)
"""Bazel's targets are called `//pool:take`, Node tells its own failed assertions behind `# `, and
WinDbg heads its columns so."""
_TRAILING: Final = re.compile(r"[;{})\],]\s{1,20}(?://|/\*|#)")
_PATTERN: Final = re.compile(r"[\w)\]]\|$|\\b$|(?:^|\W)\^$|\.\*$|\(\?:?$")
_PATTERN_GOES_ON: Final = re.compile(r"\|[\w(\\]|\\[bswd(]|\.\*(?!\*)|\$[\"'/|)]")
_OPEN_QUOTE: Final = re.compile(
    r"(?:^|[^\w\\/])(?P<prefix>[rRfFbBuUL]{0,2})(?P<quote>[\"'])"
    r"(?P<inside>(?:(?!(?P=quote)).){0,300})$"
)
_CODE_OPENS: Final = re.compile(
    r"(?:#\s?define \w{1,60}|[=!]=|=~|&&|\|\||<<<|<<|\+|[\w\])\"'] {1,8}=|"
    r"\b(?:in|if|elif|while|not|and|or|case|return|assert|echo|printf|contains|match(?:es)?)|"
    r"\b(?:grep|rg|egrep|awk|sed|journalctl)\b[^|]{0,200})$"
)
_RAISES: Final = re.compile(r"\s*(?:raise|throw|return) ")
_KEY: Final = re.compile(r"(?:^|[{,\s])[A-Za-z_]\w{0,60}:$")
_CALLED: Final = re.compile(
    r"(?<![\w.])(?!(?:\w{1,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Exit|ProcessPool)\()"
    r"[\w.\])>]{1,80}!?\([^()]{0,200}$"
)
"""An exception's repr is what a log prints."""
_LITERAL_ENDS: Final = re.compile(
    r".{0,200}?(?:\\n)?[\"'] {0,4}(?:[,;)+\]}\\:]|\.\w+\()|.{0,200}\\n[\"']"
)
_IS_JSON: Final = re.compile(r"\s*(?:\{|\[\{) ?\"")
_WORD_BEHIND: Final = re.compile(r"[`\u201d\"] [\w(\u2014-]")
_QUOTED: Final = re.compile(r"[\w:*,][ (]{1,3}[`\u201c\"][^`\u201d\"]{0,200}$")
_SENTENCE: Final = re.compile(
    r"(?<![\w/.=-])(?:[a-z]{2,15}|It|I|The|Th(?:is|at|ese|en)|We|My|Our|An?|And|But|So|When|Now),? "
    r"[a-z]{1,15}[ ,]{1,2}[\"'`\u2018\u201c(]{0,3}$|"
    r"[\u3040-\u9fff]\*{0,2}[(\uff08\uff1a, ]{0,2}[\"`\u201c]{1,2}$|"
    r"[A-Za-z]{2,15}[,;)]? [\"`\u201c(]{1,3}$|"
    r"(?:^|\W )(?:The|An?|My|Its) $"
)
"""Two plain words before the message, and no colon; or one, and a quote; or an article alone."""
_NARRATED: Final = re.compile(
    r"(?:^|\s)(?:I|[Ww]e|i|[Mm]y|[Oo]ur)(?:['\u2019][a-z]{1,3})? [a-z]{1,15},? .{0,900}"
    r"[a-z]{2}[.!?:,] {1,2}(?:[\w.-]{1,30}: (?:\[\w{1,12}\] )?)?$"
)
"""Before it in the line somebody speaks of himself: he quotes what he saw."""
_GOES_ON: Final = re.compile(
    r"[\"'`)\u2019\u201d]{0,2},? (?:errors?|messages?|crash(?:es)?|bugs?|issues?|problems?|"
    r"exceptions?|when|while|whenever|during|because|after|if)\b|"
    r"[\"'`\u201d]{1,2} (?:(?:is|was|are|were|gets?|got) (?:visible|displayed|shown|printed|logged|"
    r"raised|thrown|reported|seen|output|returned)|appear(?:s|ed)|pops|comes|came|shows up|"
    r"occur(?:s|red)|happen(?:s|ed))\b"
)
_PLACEHOLDER: Final = re.compile(r"\b(?:PID|pid)[ =:]{1,2}[`<(\[]{1,2}(?:N{2,}|pid|PID)[`>)\]]")
"""A number that was left out: `(PID `NNN`)`."""
_GOES_WITHOUT: Final = re.compile(r"[Ff]ailed to import (?:from )?[\w.]{1,80} with \w{1,40}\(")
"""vLLM's warning about its own kernels: what it goes on without."""


_ON_IN_CHINESE: Final = re.compile(r"[\uff0c\u3002\uff01\uff1f][\u3040-\u9fff]{4}")
"""Behind a program's message a sentence goes on, within the same line."""


class Voice(Enum):
    """Whose the words of a line are."""

    OWN = auto()
    """As they were printed."""
    TOLD = auto()
    """In somebody's sentence."""
    SHOWN = auto()
    """In code, in a lesson, in a list of changes: nobody died."""


def voice_of(text: str, start: int, end: int, *, in_prose: bool = False) -> Voice:
    """Who speaks the words that stand in the line from start to end."""
    words = text[max(0, end - _REACH) : end]
    is_any = is_of_any(text[max(0, start - _REACH) : start])
    if in_prose and (is_doubted(words) or is_general(words) or is_any):
        return Voice.SHOWN
    start, end = _message(text, start, end)
    before, after = text[max(0, start - _REACH) : start], text[end : end + _REACH]
    if is_code(before, after) or is_supposed(before) or _LECTURE.match(text, 0, start + 1):
        return Voice.SHOWN
    if _GOES_WITHOUT.search(before) is not None or _PLACEHOLDER.search(text) is not None:
        return Voice.SHOWN
    if is_explained(after, of_message=True) or is_refuted(after):
        return Voice.SHOWN
    is_quoted = _QUOTED.search(before) is not None
    if not (is_witnessed(before) or is_seen_here(after)) and (
        is_possible(before)
        or is_mended(before, after)
        or is_asked(text)
        or _is_lesson(text, start)
        or _LINKED.match(after) is not None
        or (is_quoted and (_CAUSED.match(after) or _ADVICE.match(after)) is not None)
    ):
        return Voice.SHOWN
    is_told = _SENTENCE.search(before) is not None or _GOES_ON.match(after) is not None
    is_told = is_told or (is_quoted and _WORD_BEHIND.match(after) is not None)
    is_told = is_told or _NARRATED.search(before) is not None
    is_told = is_told or _ON_IN_CHINESE.search(text, start) is not None
    return Voice.TOLD if is_told else Voice.OWN


def _message(text: str, start: int, end: int) -> tuple[int, int]:
    """Of a quoted message what stands in the quotes; quotes within are its own."""
    while start < end and (mark := text[start]) in _MARKS:
        if mark in _CLOSED and text.find(_CLOSED[mark], start + 1, end) >= 0:
            return start, end
        start += 1
    opened = text[start - 1 : start]
    closed = text.find(_CLOSED[opened], start) if opened in _CLOSED else -1
    return start, closed if closed >= 0 else end


def _is_lesson(text: str, start: int) -> bool:
    """Is a message only quoted, in a sentence that teaches what messages there are?"""
    begin = max(0, start - _REACH)
    if not any(mark in text[max(0, start - 1) : start + 1] for mark in _QUOTES):
        return False
    return not is_witnessed(text[begin:]) and is_taught(text[begin:start])


def is_comment(line: str) -> bool:
    """Does a program's comment begin in the line?"""
    return _COMMENT.match(line) is not None


def is_code(before: str, after: str) -> bool:
    """Do words stand in a comment, in a literal of a program or in a pattern?"""
    if is_comment(before) or _TRAILING.search(before) is not None:
        return True
    is_row = before.lstrip()[:1] == "|"
    if not is_row and (_PATTERN.search(before) or _PATTERN_GOES_ON.match(after)) is not None:
        return True
    quote = _OPEN_QUOTE.search(before)
    return quote is not None and _is_literal(before, quote, after)


def _is_literal(before: str, quote: re.Match[str], after: str) -> bool:
    """Is the quote that is open a program's, and neither a log's nor a person's?"""
    if set(quote["prefix"]) & set("rRfFL"):
        return True
    opens = before[: quote.start("prefix")].rstrip()
    is_ended = _LITERAL_ENDS.match(after) is not None
    if not opens.strip("([{+- "):
        return is_ended
    if _RAISES.match(opens) is not None or (opens.endswith("':") and quote["prefix"]):
        return True
    if _IS_JSON.match(before) is not None:
        return False
    if opens[-1] in "(,":
        is_code = _CALLED.search(opens) is not None or (is_ended and opens[-1] == ",")
        return is_code or _CODE_OPENS.search(opens) is not None
    is_key = opens.endswith("':") if opens.lstrip()[:1] == "'" else _KEY.search(opens) is not None
    is_key = is_key and _IS_JSON.match(quote["inside"]) is None  # a document that was printed
    return _CODE_OPENS.search(opens) is not None or opens[-1] in "[{" or (is_ended and is_key)
