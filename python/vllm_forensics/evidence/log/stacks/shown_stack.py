"""A stack that somebody shows in whatever form, where nothing else tells where it died.

Frames stand in lines below each other that are all alike: a name, and with it a library, a source,
an offset or its arguments. They need neither a number nor an address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.page import Page
from vllm_forensics.evidence.log.stacks.native_frame import call_of, frame_in, frame_of_anybody
from vllm_forensics.model.incident import NativeCall

_LEAD: Final = (
    r"[\s>*|-]{0,12}(?:frame )?(?P<number>[#\[(]{0,2}\d{1,3}[\]:.)#]{0,2}[\s]{1,8})?"
    r"(?:(?:0x)?[0-9a-fA-F`]{8,17}[\s:]{1,8}){0,3}"
    r"(?:(?:called|invoked) (?:from|by) |at |in |from |by )?"
)
_NAME: Final = (
    r"(?!(?:at|in|from|by|[Ll]ine)\b)(?:\(anonymous namespace\)::)?"
    r"[A-Za-z_~?$@][\w:~.$@]{1,200}(?:<[^()\n]{1,200}>)?"
)
_FUNCTION: Final = (
    rf"(?P<function>(?:[\w:<>*&]{{1,60}} )?{_NAME}(?:::~?\w{{1,80}})?)"
    r"(?: ?(?P<arguments>\([^()\n]{0,400}\))(?: const)?)?"
)
_SOURCE: Final = (
    r"(?P<file>(?:[A-Za-z]:)?[\w/\\.+-]{1,200}\.(?:c|cc|cpp|cxx|c\+\+|cu|cuh|h|hh|hpp|inl|m|mm|rs|go|swift|"
    r"f90|f|pas|zig|d|pyx|s|S|asm))"
)
_LIBRARY: Final = (
    r"(?P<module>[\w/\\.+-]{1,200}\.(?:so|dll|dylib|exe|pyd|node|bundle)[\d.]{0,12}(?![\w-]))"
)
_FORMS: Final = (
    # pool.dll!take(int) Line 12, pool!take+0x14, libpool.so`take+0x14
    lazily(
        rf"{_LEAD}(?P<module>[A-Za-z_][\w.+-]{{1,80}})[!`]{_FUNCTION}(?=\s|\+|$|\[)(?!\s*[-+*/=]=)"
    ),
    # take(int) Line 12
    lazily(rf"{_LEAD}{_FUNCTION} Line (?P<line>\d{{1,7}})\b"),
    # take (pool.c:88)
    lazily(rf"{_LEAD}{_FUNCTION} \({_SOURCE}(?::| line |, line )(?P<line>\d{{1,7}})"),
    # take at pool.c:88, take() in pool.c line 88, #0 take pool.c:88
    lazily(
        rf"{_LEAD}{_FUNCTION},? (?:(?:at|in|@|-) )?(?:\[|\()?{_SOURCE}(?::|\(| line |, line )"
        r"(?P<line>\d{1,7})\b[^=;{}]{0,20}$"
    ),
    # take in libpool.so, take [libpool.so], take (in libpool.dylib) + 12
    lazily(
        rf"{_LEAD}{_FUNCTION}(?:\+0x[0-9a-f]{{1,8}})? (?:\(?(?:in|from|at|-) )?[\[(]?{_LIBRARY}"
    ),
    # libpool.so take + 12, take+0x12, take+0x12/0x40 [pool]
    lazily(
        rf"{_LEAD}(?:{_LIBRARY}\s{{1,8}})?{_FUNCTION} ?\+ ?(?:0x[0-9a-f]{{1,8}}|\d{{1,6}})"
        r"(?:/0x[0-9a-f]{1,8})?(?: \[[\w-]{1,40}\])?\s*$"
    ),
    # libpool.so +0x12345 take
    lazily(rf"{_LEAD}{_LIBRARY} ?\+ ?0x[0-9a-f]{{1,12}} {_FUNCTION}\s*$"),
    # _ZN4pool4takeEv and what follows
    lazily(
        rf"{_LEAD}(?P<function>_Z[NKLSt\d]\w{{4,600}}|\?\w{{1,200}}@@\w{{1,80}})(?=\s|$|\()"
        rf"(?:[^\n]{{0,12}}?{_LIBRARY})?"
    ),
)
_KNOWN: Final = -1
_ANYBODYS: Final = -2
_ADDRESSED: Final = lazily(
    r"[\s>*|-]{0,12}(?:[#\[(]{0,2}\d{1,3}[\]:.)#]{0,2}\s{1,8})?(?:0x)?[0-9a-f]{8,16}\s"
)
"""The forms of known writers, and that of a line with an address and a name."""
_BARE: Final = lazily(
    r"[\s>*|-]{0,12}(?:[#\[(]{0,2}\d{1,3}[\]:.)#]{0,2}\s{1,8})?"
    rf"(?P<function>(?:[\w:<>*&]{{1,60}} )?{_NAME}(?:::~?\w{{1,80}})?)"
    r"(?P<arguments>\([^()\n]{0,400}\))?(?: const)?\s*$"
)
"""A list of names is a stack below a word that says so."""
_HEADING: Final = lazily(
    r"(?i)\b(?:(?:call|back|stack)[ -]?(?:stack|trace)s?|traceback|stack|bt|crashed thread|"
    r"frames)\b"
)
_ONE_LINE: Final = lazily(
    r"(?i).{0,80}\b(?:stack|back ?trace|call (?:path|chain|tree|stack)|called from|callers?|path)\b"
    r"[^<>\u2190\u2192-]{0,40}?(?P<chain>[A-Za-z_~][\w:~.]{1,80}(?:\(\))?"
    r"(?: {0,2}(?:<-+|-+>|\u2190|\u2192|<=) {0,2}[A-Za-z_~][\w:~.]{1,80}(?:\(\))?){2,30})"
)
"""`stack: take <- serve <- main`, and the other way round."""
_ARROW: Final = lazily(r" {0,2}(?:<-+|-+>|\u2190|\u2192|<=) {0,2}")
_BROKEN: Final = lazily(r"\s*#\d{1,3}\s.{0,200}\b(?:in|at|from)\s*$")
"""A frame that goes on in the next line."""
_CODE: Final = lazily(
    r"[> \t]{0,16}(?:`{3,8}|~~~) {0,4}(?:py|python|c|cpp|c\+\+|cxx|js|javascript|ts|typescript|"
    r"rust|rs|go|java|kotlin|diff|patch|json|ya?ml|xml|html|sql|toml|cmake|make|dockerfile)\s*$",
    re.IGNORECASE,
)
_NO_NAMES: Final = lazily(
    r"(?i)(?:error|warning|note|info|debug|fatal|the|an?|it|this|that|line|file|in|at|from|see|with|using|"
    r"and|or|if|for|while|return|version|linux|windows|ubuntu|build|cpu|gpu|driver|loaded|loading|"
    r"cannot|could|unable|failed|include|included|module|compiling|linking|checking|test|running|reading|writing)$"
)
_NUMBER: Final = lazily(r"[\s>*|-]{0,12}(?:frame )?[#\[(]{0,2}(?P<number>\d{1,3})(?:[\]:.)#]|\s)")
_FIRST: Final = 1
_EARLIER: Final = lazily(
    r"(?i)\b(?:allocated|freed|created|previously|located) (?:by|at|in|here)\b|"
    r"^Thread \d{1,4}:(?!.*Crashed)"
)
"""Above a stack of long before, or of another thread."""
_LONGEST: Final = 800
_MOST: Final = 200
_FRAMES: Final = 64


def shown_stack(lines: Sequence[str]) -> tuple[NativeCall, ...]:
    """The first stack in the text, innermost first; nothing where there is none."""
    page = Page(lines)
    joined = _joined(lines)
    at = 0
    while at < len(joined):
        calls, end = _run(joined, at)
        named = sum(call.function is not None for call in calls)
        if named > 1 and not _is_code(page, at):
            return calls
        at = max(end, at + 1)
    return next(filter(None, map(_in_one_line, lines)), ())


def _joined(lines: Sequence[str]) -> list[str]:
    """The lines, each whole where a frame was broken; the rest of a broken one is empty."""
    found = [line[:_LONGEST].rstrip() for line in lines[:_MOST]]
    for at, (line, below) in enumerate(pairwise(tuple(found))):
        if below and _BROKEN.match(line) is not None:
            found[at], found[at + 1] = f"{line} {below.strip()}", ""
    return found


def _run(lines: Sequence[str], begin: int) -> tuple[tuple[NativeCall, ...], int]:
    """The frames that stand below each other from a line on, of one form, and where they end."""
    form = _form_of(lines[begin])
    if form is None:
        return _bare(lines, begin)
    number = _NUMBER.match(lines[begin])
    is_cut = number is not None and int(number["number"]) > _FIRST
    calls: list[NativeCall] = []
    end = gap = 0
    for at in range(begin, min(len(lines), begin + _FRAMES)):
        call = _call(lines[at], form)
        gap = gap + 1 if call is None else 0
        if gap > 1:
            break
        if call is not None:
            calls.append(call)
            end = at + 1
    if is_cut or _is_of_another_time(lines, begin):
        return (), end
    return tuple(calls), begin + 1


def _is_of_another_time(lines: Sequence[str], begin: int) -> bool:
    """Does a stack show where something was made or freed, or another thread?"""
    return any(_EARLIER.search(line) is not None for line in lines[max(0, begin - 2) : begin])


def _bare(lines: Sequence[str], begin: int) -> tuple[tuple[NativeCall, ...], int]:
    """Names alone, below a word that says what they are."""
    if _HEADING.search(lines[begin]) is None or len(lines[begin]) > _FRAMES * 2:
        return (), begin + 1
    calls: list[NativeCall] = []
    for line in lines[begin + 1 : begin + 1 + _FRAMES]:
        match = _BARE.match(line)
        if match is None:
            if line.strip("`~ \t:") and not calls:
                return (), begin + 1
            if calls:
                break
            continue
        calls.append(call_of(match.groupdict()))
    named = [one for one in calls if "::" in (one.function or "") or "_" in (one.function or "")]
    return (tuple(calls) if named and len(calls) > 1 else ()), begin + 1


def _form_of(line: str) -> int | None:
    """Which form a line has: that of a known writer, or one of those below."""
    if not line.strip():
        return None
    if _call(line, _KNOWN) is not None:
        return _KNOWN
    found = next((at for at in range(len(_FORMS)) if _call(line, at) is not None), None)
    return _ANYBODYS if found is None and _call(line, _ANYBODYS) is not None else found


def _call(line: str, form: int) -> NativeCall | None:
    if form < 0:
        is_addressed = form == _ANYBODYS and _ADDRESSED.match(line) is not None
        frame = frame_of_anybody(line, "") if is_addressed else frame_in(line)
        name = frame.call.function if frame is not None else None
        is_word = name is not None and (
            name[:1] == "/" or name.endswith(":") or _NO_NAMES.match(name) is not None
        )
        return frame.call if frame is not None and not is_word else None
    match = _FORMS[form].match(line)
    name = match["function"] if match is not None else ""
    if match is None or name.endswith(":") or _NO_NAMES.match(name.split(" ")[0]) is not None:
        return None
    return call_of(match.groupdict())


def _is_code(page: Page, at: int) -> bool:
    """Does the line stand in a fence that is marked as source code?"""
    opened = page.fence_of(at)
    return opened is not None and _CODE.match(opened) is not None


def _in_one_line(line: str) -> tuple[NativeCall, ...]:
    """A chain of calls: the innermost is where the arrows begin that point to callers."""
    match = _ONE_LINE.match(line[:_LONGEST])
    if match is None:
        return ()
    names = [one.removesuffix("()") for one in _ARROW.split(match["chain"])]
    is_inwards = "->" in match["chain"] or "\u2192" in match["chain"]
    names = names[::-1] if is_inwards else names
    return tuple(NativeCall(function=name, module=None) for name in names)
