"""The place that an assertion or a failed check names itself: its source, line and function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

_EXTENSION: Final = (
    r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hip|inl|m|mm|metal|rs|go|swift|d|zig|ml|hs|C|H|"
    r"php|p[lm]|rb|lua|f\d{0,2}|tcl|exs?|[jt]sx?|[cm]js)"
)
_SOURCE: Final = re.compile(
    rf"(?<![\w./\\+-])(?<!source=)(?<!caller=)(?<!caller\":\")(?P<file>(?:[A-Za-z]:)?[\w./\\+-]{{1,240}}{_EXTENSION})[\"'>]?"
    r"(?: ?[:(] ?|\+|[,;:]? {0,2}(?:at |on )?[Ll]ine[ :#=<]{1,3}|\] \[Line: |, Line: |, | )"
    r"(?P<line>\d{1,7})\b"
)
_NAMED: Final = r"(?!(?:file|line|at|in)\b)[A-Za-z_~][\w:~]{0,120}"
_BEHIND: Final = (
    # glibc's assert() puts the function between the line and its condition
    re.compile(r": ?(?P<function>[^`'\"]{1,600}?): ?Assertion [`']"),
    # the same in other languages
    re.compile(
        rf": ?(?P<function>{_NAMED}): (?:la )?[\w'\u2019]{{2,20}} [\"'`\u00ab\u201c\u201e(]"
    ),
    # `12[:3], in function 'ns::Pool *ns::Pools::take(int)'`
    re.compile(
        r"(?:\[:\d{1,5}\])?[,.]? {0,2}in function '(?P<function>[^'\n]{1,400}?)"
        r"(?:\([^'()\n]{0,300}\))?'"
    ),
    # `line 12, function take()`, `(line 12), in function "take"`, `12[:3], in function 'take'`
    re.compile(
        r"(?:\[:\d{1,5}\])?[)\]]?[:,.]? {0,2}(?:in )?(?:[Ff]unction|func)[:=]? ?[`'\"]?"
        rf"(?P<function>(?:[\w&*]{{1,40}} ){{0,2}}{_NAMED})"
    ),
    # /src/pool.c:12:take: assertion failed
    re.compile(rf":(?P<function>{_NAMED}): {{1,3}}(?i:assertion)"),
    # OpenCV's words behind the source
    re.compile(r"[^\n]{0,400}\bin function [`'](?P<function>[\w:~]{1,120})'"),
    # /src/pool.c:12 in take(), /src/pool.c:12:take(), /src/pool.c(12) : void ns::take()
    re.compile(
        r"\)?(?: in |: ?| : |, | )(?![A-Z_]{4,40}\()(?:(?!in |at )[\w&*]{1,40} ){0,2}"
        rf"(?P<function>{_NAMED})\([^()]{{0,200}}\)"
    ),
    re.compile(rf"\)? \((?P<function>{_NAMED})(?:\(\))?\)"),
)
_IN_FILE: Final = re.compile(
    r"\bin (?P<function>[\w:~]{1,120}), file (?P<file>[^,\n]{1,240}), line (?P<line>\d{1,7})\b"
)
"""`Error: Assertion failed (m.dims >= 2) in Mat, file C:\\src\\matrix.cpp, line 751`: OpenCV's."""
_THROWERS: Final = (
    # `Error in void ns::Pool::take(int) at pool.cpp:12`: a checks' macro puts the function first
    re.compile(
        r"\bin (?P<function>(?:[\w&*<>]{1,60} ){0,4}[\w~:<>, ]{1,160}::[\w~]{1,80})"
        r"\([^\n]{0,400}? at $"
    ),
    # `in take(), pool.c line 88`
    re.compile(rf"\bin (?P<function>{_NAMED})(?:\(\))?[,:]? (?:at |file )?$"),
    # `function take, file pool.c, line 88`
    re.compile(r"\bfunction (?P<function>[^\s,][^,\n]{0,200}), file $"),
    # `assert failed: take pool.c:88`
    re.compile(rf"(?i:assert(?:ion)?) failed: (?P<function>{_NAMED}) $"),
)
_EMPHASIS: Final = re.compile(r"^_(?=\.{0,2}/)")
"""Of a page that shows it slanted."""
_FRAME: Final = re.compile(r"\s{0,8}#\d{1,3} ")
_MEMBER: Final = re.compile(r"[\w~:<>]{1,160}$")
_TEMPLATE: Final = re.compile(r"<[^<>]{0,200}>")


def asserted_place(told: Sequence[Clue]) -> NativeCall | None:
    """Where the words of who gave up say that it did; None where they do not."""
    return next(_places(told), None)


def _places(told: Sequence[Clue]) -> Iterator[NativeCall]:
    for clue in told:
        words = _words(clue) if clue.kind is ClueKind.ABORT else ""
        match = _IN_FILE.search(words) or _SOURCE.search(words)
        if match is not None:
            told_there = match.groupdict().get("function")
            yield NativeCall(
                function=told_there or _behind(words, match.end()) or _before(words, match),
                module=None,
                file=_EMPHASIS.sub("", match["file"]),
                line=int(match["line"]),
            )


def _words(clue: Clue) -> str:
    """What it said; the source in a debugger's frame is that of the function which ended it."""
    line = "" if _FRAME.match(clue.text) is not None else f"{clue.text}\n"
    return f"{line}{clue.detail or ''}"


def _behind(words: str, end: int) -> str | None:
    """The function that stands behind the source."""
    found = next(filter(None, (form.match(words, end) for form in _BEHIND)), None)
    name = found["function"] if found is not None else None
    return _bare(name) if name is not None and "'" + name in words else name


def _before(words: str, source: re.Match[str]) -> str | None:
    """The function that stands before it."""
    before = words[: source.start()]
    found = next(filter(None, (form.search(before) for form in _THROWERS)), None)
    if found is None:
        return None
    return _bare(found["function"])


def _bare(name: str) -> str | None:
    """Without arguments of templates, and what it returns."""
    while (bare := _TEMPLATE.sub("", name)) != name:  # its arguments hold blanks
        name = bare
    member = _MEMBER.search(name)
    return member[0] if member is not None else name.strip() or None
