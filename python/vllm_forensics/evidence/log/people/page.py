"""A text as a page: what a person wrote, and between it, in fences, what he pasted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

_HEAD: Final = 400
"""So many lines of a text show what kind it is."""
_ABOVE: Final = 14
_PARAGRAPH: Final = 3
_CUT_OFF: Final = -1
"""Of a line in a fence that opens above the text."""
_PATCH: Final = re.compile(r"[> \t]{0,16}(?:`{3,8}|~~~) {0,4}(?:diff|patch)\b")
_PROSE: Final = re.compile(
    r"(?:.{0,200}?[\s(])?(?:[^\W\d_]{2,20}[ ,]{1,2}(?:[^\W\d_] |[\u2014-] )?){3}[^\W\d_]{2,20}|"
    r".{0,200}[\u3040-\u9fff]{6}|"
    r".{0,200}[\uac00-\ud7a3]{2,} [\uac00-\ud7a3]{2,} [\uac00-\ud7a3]{2,}|\s*#{1,6} \S"
)
_IDEOGRAPHS: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
_LONG: Final = 30
_INTRODUCES: Final = re.compile(
    r"\W{0,4}[A-Za-z][\w ,'`()-]{3,80}:\W{0,4}$|\W{0,4}[Ee]\.g\.\W{0,3}$"
)
_PRINTED: Final = re.compile(
    r".{0,200}(?:\d:\d\d:\d\d|\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL|CRITICAL)\b|\w(?:Error|Warning"
    r"|Exception)\b|[\w/.-]{1,80}\.(?:py|cc|cpp|c|h|go|rs):\d|"
    r"\bpid=\d|most recent call)|\s*(?:#\d|File \"|at \S{1,200}\(|==\d|\(\w{1,40}\) |\[|--- SIG|"
    r"Thread \d{1,6} \"|Program (?:received|terminated) )"
)
"""A program's own advice, in a line that it printed."""
_HANDLERS_OWN: Final = re.compile(
    r"(?i).{0,80}(?:because you hit a bug|you can use the following information|bug report|"
    r"asynchronously reported|"
    r"if you (?:see no messages|get repeated|would like to)|encountered a bug|"
    r"you can try to increase|"
    r"you can (?:ignore|suppress|set|pass|disable)|consider passing)"
)
"""What crash handlers print besides."""


_RAISED: Final = re.compile(r"(?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception): ?")
"""An exception whose message begins below it."""
_MESSAGE: Final = 40
_RULER: Final = re.compile(r"[*!]{20,200}|-{60,200}")
"""torchrun's and Open MPI's; a document's are shorter."""
_BANNER: Final = 24
_PLAIN: Final = re.compile(r"[A-Za-z]+(?: [A-Za-z]+){0,5}[.!]?")
_FORM: Final = re.compile(r"What steps will reproduce the problem\?")
"""A tracker that moved put all that its reporters wrote into fences."""
_QUESTION: Final = re.compile(
    r"(?i)\W{0,8}(?:what happen(?:ed|s)|actual (?:behaviou?r|results?)|describe the bug|"
    r"description|observed(?: behaviou?r)?|current behaviou?r|"
    r"problem(?: description)?|issue|summary)\W{0,6}"
)
"""What a bug report's form asks."""


class Page:
    """The lines of a text, of which each knows the fence that it stands in."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Look through them once."""
        self.lines: Final = lines
        self.head: Final = lines[:_HEAD]
        """They show what kind the text is."""
        self._opened: Final = _opened(lines)
        for at, begin in (*_messages(lines), *_banners(lines)):
            self._opened[at] = begin if self._opened[at] is None else self._opened[at]

    def is_fenced(self, at: int) -> bool:
        """Does the line stand in a fence, or is it the mark of one?"""
        return self._opened[at] is not None

    def fence_of(self, at: int) -> str | None:
        """The mark of the fence in which a line stands; none outside, or where it was cut off."""
        opened = self._opened[at]
        return self.lines[opened] if opened is not None and opened >= 0 else None

    def is_of_patch(self, at: int) -> bool:
        """Does it stand in a fence that is marked as a change of source code?"""
        fence = self._opened[at]
        return fence not in {None, _CUT_OFF} and _PATCH.match(self.lines[fence]) is not None

    def block_above(self, at: int) -> Sequence[str]:
        """The lines above within the same fence, and of what is in none the nearest."""
        fence = self._opened[at]
        begin = max(0, at - _ABOVE) if fence is None else max(0, fence + 1)
        return self.lines[begin:at]

    def written(self) -> list[str]:
        """Of the head, what a person wrote around what he pasted."""
        return [line for at, line in enumerate(self.head) if not self.is_fenced(at)]

    def paragraph_above(self, at: int) -> str:
        """The nearest that a person wrote above a line, or above the fence that it stands in."""
        lines, fence = self.lines, self._opened[at]
        begin = at if fence in {None, _CUT_OFF} else fence
        for end in range(begin - 1, max(-1, begin - _ABOVE), -1):
            if is_prose(lines[end]) or _introduces(lines[end]):
                start = end
                while start > max(0, end - _PARAGRAPH) and is_prose(lines[start - 1]):
                    start -= 1
                return " ".join(lines[start : end + 1])
        return ""


def is_answer(page: Page, at: int) -> bool:
    """Is the line what somebody answered to a form's question, in words of his own?"""
    if page.is_fenced(at) or _PLAIN.fullmatch(page.lines[at]) is None:
        return False
    above = next(filter(None, map(str.strip, reversed(page.lines[max(0, at - 3) : at]))), "")
    return _QUESTION.fullmatch(above) is not None


def is_fence(line: str) -> bool:
    """Does a fence open or close in the line? It may be quoted, or moved to the right.

    What is ended in the same line is no fence.
    """
    mark = line.lstrip("> \t")
    return mark.startswith(("```", "~~~")) and "`" not in mark.lstrip("`")


def is_prose(line: str) -> bool:
    """Did a person write the line, and no program?"""
    if is_printed(line):
        return len(_IDEOGRAPHS.findall(line)) >= _LONG  # no program prints so much of it
    return _PROSE.match(line) is not None


def is_printed(line: str) -> bool:
    """Did a program write the line, by its form or by what crash handlers say?"""
    return _PRINTED.match(line) is not None or _HANDLERS_OWN.match(line) is not None


def _introduces(line: str) -> bool:
    """Does it end with a colon, as what stands above something pasted?"""
    return _INTRODUCES.match(line) is not None


def _opened(lines: Sequence[str]) -> list[int | None]:
    """Of each line where its fence opens; that of a fence's own marks, and of none outside."""
    marks = [at for at, line in enumerate(lines) if is_fence(line)]
    if len(marks) % 2:
        if _closes(lines, marks[0]):
            marks.insert(0, _CUT_OFF)
        else:
            marks.append(len(lines) - 1)
    opened: list[int | None] = [None] * len(lines)
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        if any(_FORM.match(line) is not None for line in lines[max(0, begin) : end + 1]):
            continue
        for at in range(max(0, begin), end + 1):
            opened[at] = begin
    return opened


def _messages(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The lines that are an exception's own words, as many as it takes, each with its heading's.

    Multiprocessing explains to its reader how to begin; that is no lesson of who pasted it.
    """
    for begin, line in enumerate(lines):
        if _RAISED.fullmatch(line) is None:
            continue
        for at in range(begin + 1, min(len(lines), begin + _MESSAGE)):
            if lines[at].strip() and not lines[at].startswith(("    ", "\t")):
                break
            yield at, begin


def _banners(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """What a program put between two rulers, each line with the first: advice for its user."""
    rulers = [at for at, line in enumerate(lines) if _RULER.fullmatch(line) is not None]
    for begin, end in pairwise(rulers):
        if 1 < end - begin <= _BANNER and lines[begin] == lines[end]:
            yield from ((at, begin) for at in range(begin, end + 1))


def _closes(lines: Sequence[str], mark: int) -> bool:
    """Is a text's first mark, of an odd number, the end of a fence that opens above the text?"""
    if lines[mark].strip("> \t`~"):
        return False
    above = lines[:mark]
    return not any(line.startswith("#") or is_prose(line) or _introduces(line) for line in above)
