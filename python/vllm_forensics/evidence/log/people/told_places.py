"""Where it died, where no record shows it: a title, a sentence or a statement names it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.crash_names import CRASH, DEATH, HEAP
from vllm_forensics.evidence.log.people.doubt import is_doubted_in_chinese
from vllm_forensics.evidence.log.people.known_libraries import libraries_of
from vllm_forensics.evidence.log.people.named_places import place_at, places_in
from vllm_forensics.evidence.log.people.no_names import is_kind_of_end, somebody
from vllm_forensics.evidence.log.people.page import Page, is_prose
from vllm_forensics.evidence.log.people.reports import Form, is_mine, is_reported
from vllm_forensics.evidence.log.people.sentence_names import names_a_process
from vllm_forensics.evidence.log.people.statements import (
    import_of,
    is_import,
    place_in,
    shown_beside,
    typed_above,
)
from vllm_forensics.evidence.log.people.titles import title_of
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall, PythonCall

_Place = NativeCall | PythonCall
HEAD: Final = 80
"""So many lines of a text are read for it."""
_END: Final = lazily(r"[;\n]|[.!?](?=\s|$)")
_FAR: Final = 200
_LONGEST: Final = 1_000
_MOST: Final = 4
"""So many crashes are told of in a line."""
_ASSERTED: Final = lazily(
    r"(?<![\w.:/-])(?P<function>(?:[A-Za-z_~]\w{0,60}::){1,6}[A-Za-z_~]\w{2,80}|"
    r"[A-Za-z_]\w{0,40}[_A-Z0-9]\w{1,60}|\w{2,80}(?=\(\)))(?:\(\))?: "
    r"[Aa]ssertion\b"
)
"""`poold pool_take: Assertion …`"""
_SUMMARY: Final = lazily(
    r"(?P<file>[\w./+-]{1,200}\.\w{1,4}):(?P<line>\d{1,6})(?::\d{1,5})? in "
    r"(?P<function>[A-Za-z_~][\w:~<>]{1,200})"
)
"""What a sanitizer's last line tells of its innermost frame."""
_MARKED: Final = lazily(
    r"(?:\[[Bb]ug\]:? ?|BUG: ?|Bug: ?)?(?:\[(?P<tag>NAME)\]|(?P<name>NAME): )".replace(
        "NAME",
        r"(?!(?i:mac ?os|git(?:hub|lab)|\w+bsd|open ?suse|nixos|devops|\w{0,8}ci|app ?image|"
        r"\w+sanitizer)\b|"
        r"[\w.:]{1,60}(?:Error|Exception)\b)"
        r"(?:(?:[A-Za-z_]\w{0,40}(?:\.|::)){1,5}[A-Za-z_]\w{1,60}|[a-z]+(?:_[a-z0-9]+){1,8}|"
        r"[A-Z][a-z0-9]{1,20}(?:[A-Z][a-z0-9]{1,20}){1,8})(?:\(\))?",
    )
)
"""`[PoolView] crashes`, `pool.take: segfault`: what a title's mark names, by a name's form."""
_OF_MODULE: Final = lazily(
    r"\W{0,4}(?P<module>[\w+-]{1,60}\.(?:dll|exe|bpl|so|dylib|ocx)) - "
    r"(?:Read|Write|Execution) of address"
)
"""What a dialog says of a fault, in a line of its own."""
_SUBJECT: Final = lazily(
    r"(?<![\w./-])(?P<name>[`\"']?[A-Za-z_~][\w.:~<>-]{1,80}(?:\([^()]{0,80}\))?[`\"']?)"
    r"(?: (?:extension|module|library|package|plug-?in|function|method|call|import))?"
    r"(?: (?:[a-z]{2,12}ly|always|just|now|still|is|gets?|can|will)){0,2}"
    r" (?:(?:that )?(?:caus(?:es?|ed|ing)|triggers?|triggered|triggering|leads? to|leading to|"
    r"results? in|resulting in|produc(?:es?|ed|ing)|giv(?:es?|ing)|throw(?:s|ing)?|"
    r"fails with|crashes with|dies with|hits?) (?:an? |the )?(?:\w{1,12} ){0,2})?[`\"']?$"
)
"""Before the crash: what causes it, or does it itself."""
_IMPORTS: Final = lazily(
    r"(?i)\b(?:on|at|upon|during|after|when|while|by|from|the|via) (?:\w{2,10} )?"
    r"import(?:s|ed|ing)?\b|"
    r"\bimport(?:ing|ed)? (?:it|the)\b"
)
"""An import, of what is not said right there."""
_HAPPENS: Final = lazily(
    r"(?i)\b(?:happen(?:s|ed|ing)?|occurs?|occurred|occurring|locate[sd]?|comes?|coming|originat\w{1,4}|"
    r"lies|points?|pointed|narrowed|trace[sd]?|caused|due|crash(?:es|ed|ing)|fail(?:s|ed|ing)|thrown|"
    r"triggered|related|reproduced?|issued|introduced|is|seems|appears|suspect\w{0,3}|culprit|problem)"
    r"\b"
)
_ABOUT: Final = lazily(
    r"(?i)\b(?:it|this|that|the (?:\w{2,12} )?"
    r"(?:crash|segfault|fault|error|problem|issue|bug|abort|exception|failure|line|culprit)|crash|error|segfault|which)(?:es|s)?\b"
)
_LINE: Final = lazily(
    r"(?i)(?:.{0,160}\b(?:at|in|here|line|from|by|is|with|on|call(?:ing)?|reproduce\w?)\b"
    r"(?: the| this| my)?(?: (?:function|line|call|method|procedure))? ?[:.]?|"
    r"\W{0,3}here ?:?)\s*$"
)
"""Behind such a sentence stands the line of code."""


_HERE_IT_IS: Final = lazily(r"(?i)\W{0,4}(?:it )?(?:\w{4,12} )?here ?:\W{0,4}$")
_NOTED: Final = lazily(
    r"(?P<code>\s{0,40}\S.{3,200}?)\s{0,40}(?:#|//|<-|<=|\u2190|/\*)(?P<note>.{1,120})$"
)
"""`pool.take(3)  # crashes`"""
_SHORT: Final = lazily(r"[A-Z][a-z]{1,12}(?: \w{1,12}){1,5} ?:\s*")
"""`The notebook dies:`"""
_AT_WORD: Final = lazily(
    r"(?i)s?(?: (?:happens|occurs|happening|caused))? "
    r"(?:in|on|at|when calling|when using|with|by|from) "
    r"(?:the )?[`\"']?(?P<name>[A-Za-z_]\w{2,40})\b"
)
_WORD: Final = lazily(
    r"(?:^|[\]:.!?] )[`\"']?(?P<name>[A-Za-z_]\w{2,40})[`\"']? "
    r"(?:(?:function|method|call|causes|causing|gives|leads to|results in|triggers) (?:an? )?)?$"
)
_SHORTEST: Final = 5
"""Of so many letters a function's name is no other word by chance."""
_IDEOGRAPHS: Final = lazily(r"[\u4e00-\u9fff]{2}")
_WIDE: Final = 400
_INTERPRETER: Final = lazily(
    r"(?:python|pypy|ipython|ruby|node|perl|php|lua|Rscript|julia)[\d.]{0,5}"
)
_PLAIN: Final = lazily(
    r"(?!(?:python|pypy|ruby|node|perl|php|lua|julia|kernel|script|notebook|jupyter)\b)"
    r"[a-z_]\w{2,40}(?:\.(?!py$|sh$|rb$|js$|exe$)[A-Za-z_]\w{1,40}){0,4}"
)
"""A function, a module or a class, and no program with its extension."""


def told_place(clues: Sequence[Clue], lines: Sequence[str]) -> _Place | None:
    """Where people, or the statements that they show, say that it died.

    A function that is on the stack of who noticed the death is none of the dead one's.
    """
    lines = lines[:HEAD]
    libraries = libraries_of(lines)
    others = {call.function for clue in clues if clue.of_another for call in clue.python}
    told = _told(clues, lines, libraries)
    return next((one for one in told if one is not None and one.function not in others), None)


def _told(
    clues: Sequence[Clue], lines: Sequence[str], libraries: Mapping[str, str]
) -> Iterator[_Place | None]:
    page = Page(lines)
    title = title_of(lines)
    if title.is_marked:
        yield _of_title(title.text[:_LONGEST], libraries)
    sentences = [
        at
        for at, line in enumerate(lines)
        if at + 1 != title.number and not page.is_fenced(at) and _is_sentence(line)
    ]
    for at in sentences:
        for crash in _crashes(lines[at]):
            if _is_told(crash):
                yield _beside(crash, libraries)
    ends = {clue.line - 1 for clue in clues if clue.kind is not ClueKind.STACK}
    ends |= {at for at, line in enumerate(lines) if _crashes(line)}
    yield from (typed_above(lines, at) for at in sorted(ends) if 0 < at < len(lines))
    for at in sentences:
        yield _happens(lines, at, libraries)
    yield from (_marked(lines, at) for at in range(len(lines)))
    dialogs = filter(None, map(_OF_MODULE.match, lines))
    yield from (NativeCall(function=None, module=dialog["module"]) for dialog in dialogs)
    told = [at for at in sentences if any(_crashes(lines[at]))]
    yield from (shown_beside(lines, at) for at in told)
    if title.is_marked:
        yield _called(title.text[:_LONGEST], lines)
        yield _of_mark(title.text[:_LONGEST])
    if title.is_marked and any(_crashes(title.text)) and _IMPORTS.search(title.text) is not None:
        yield _imported(lines, libraries)
    yield _of_interpreter(clues, title.number)


def _of_interpreter(clues: Sequence[Clue], at: int) -> _Place | None:
    """What a title says crashed, where an interpreter's own record tells that it was the one."""
    own = [one.name for one in clues if not one.is_told and one.name is not None]
    if not own or any(_INTERPRETER.fullmatch(name) is None for name in own):
        return None
    said = (one.name for one in clues if one.kind is ClueKind.HEARSAY and one.line == at)
    plain = (name for name in said if name is not None and _PLAIN.fullmatch(name) is not None)
    name = next((name for name in plain if somebody(name) and not names_a_process(name)), None)
    return NativeCall(function=name, module=None) if name is not None else None


def _is_told(crash: re.Match[str]) -> bool:
    """Does a sentence tell of a crash, in English or in Chinese?"""
    if is_reported(crash, Form.MESSAGE) or is_mine(crash.string):
        return True
    is_abroad = _IDEOGRAPHS.search(crash.string) is not None
    return is_abroad and not is_doubted_in_chinese(crash.string)


def _is_sentence(line: str) -> bool:
    """Did somebody write it? What ends with a colon stands above what he shows."""
    return is_prose(line) or _SHORT.fullmatch(line) is not None


def _crashes(line: str) -> list[re.Match[str]]:
    names = (DEATH, HEAP, CRASH)
    return [one for name in names for one in islice(name.finditer(line[:_LONGEST]), _MOST)]


def _of_title(title: str, libraries: Mapping[str, str]) -> _Place | None:
    summary = _SUMMARY.search(title)
    if summary is not None:
        return NativeCall(
            function=summary["function"],
            module=None,
            file=summary["file"],
            line=int(summary["line"]),
        )
    asserted = _ASSERTED.search(title)
    if asserted is not None:
        return NativeCall(function=asserted["function"], module=None)
    crashes = _crashes(title)
    for crash in crashes:
        found = _beside(crash, libraries)
        if found is not None:
            return found
    if not crashes:
        return None
    words = {word.lower() for word in re.findall(r"[A-Za-z][\w-]{1,50}", title)}
    named = [name for key, name in libraries.items() if key in words]
    return NativeCall(function=None, module=named[0]) if len(named) == 1 else None


def _of_mark(title: str) -> _Place | None:
    """What the mark before a title names."""
    mark = _MARKED.match(title) if _crashes(title) else None
    if mark is None:
        return None
    return NativeCall(function=(mark["tag"] or mark["name"]).removesuffix("()"), module=None)


def _called(title: str, lines: Sequence[str]) -> _Place | None:
    """What a title names by a plain word that the text calls as a function."""
    for crash in _crashes(title):
        behind, before = _AT_WORD.match(title, crash.end()), _WORD.search(title[: crash.start()])
        for match in (before, behind):
            word = match["name"] if match is not None else ""
            if len(word) < _SHORTEST or is_kind_of_end(word) or somebody(word) is None:
                continue
            call = re.compile(
                rf"(?<![\w])(?P<call>(?:\w{{1,40}}(?:\.|::)){{0,5}}{re.escape(word)})\("
            )
            found = next(filter(None, map(call.search, lines)), None)
            if found is not None:
                return NativeCall(function=found["call"], module=None)
    return None


def _beside(crash: re.Match[str], libraries: Mapping[str, str]) -> _Place | None:
    """What stands behind a crash's name at a word of place, is its subject, or is done before."""
    text, start, end = crash.string, crash.start(), crash.end()
    ends = _END.search(text, end)
    behind = text[end : min(end + _FAR, ends.start() if ends is not None else len(text))]
    found = list(places_in(behind, libraries))
    sure = [place for place, is_sure in found if is_sure]
    if sure:
        return _together(sure)
    before = text[max(0, start - _FAR) : start]
    begin = max((one.end() for one in _END.finditer(before)), default=0)
    before = before[begin:]
    subject = _SUBJECT.search(before)
    place = None
    if subject is not None:
        place = place_at(before, subject.start(), libraries)
    if place is None and found:
        return found[0][0]
    if place is None:
        place = next((one for one, is_sure in places_in(before, libraries) if is_sure), None)
    return place


def _together(places: Sequence[NativeCall]) -> NativeCall:
    """The first; of a library the function as well that the same clause names."""
    first = places[0]
    if first.function is not None or first.module is None:
        return first
    function = next((place.function for place in places if place.function is not None), None)
    return replace(first, function=function)


def _happens(lines: Sequence[str], at: int, libraries: Mapping[str, str]) -> _Place | None:
    """What a sentence says of where it happens, or the code that stands below."""
    line = lines[at][:_LONGEST]
    begin, happens = 0, None
    for end in (*(one.end() for one in _END.finditer(line)), len(line)):
        about = _ABOUT.search(line, begin, end)
        happens = _HAPPENS.search(line, about.end(), end) if about is not None else None
        clause = line[happens.start() : end] if happens is not None else ""
        place = next((one for one, is_sure in places_in(clause, libraries) if is_sure), None)
        if place is not None:
            return place
        begin = end
    is_open = happens is not None or any(_crashes(line))
    if not is_open or _LINE.match(line) is None:
        return None
    below = next((one for one in lines[at + 1 : at + 4] if one.strip()), "")
    return place_in(below) if not is_prose(below) else None


def _marked(lines: Sequence[str], at: int) -> _Place | None:
    """The statement beside which, or above which, somebody wrote that it ends there."""
    line = lines[at][:_WIDE]
    if _HERE_IT_IS.match(line) is not None:
        below = next((one for one in lines[at + 1 : at + 4] if one.strip()), "")
        return place_in(below)
    noted = _NOTED.match(line)
    if noted is None or not any(_crashes(noted["note"])) or is_prose(noted["code"]):
        return None
    return place_in(noted["code"])


def _imported(lines: Sequence[str], libraries: Mapping[str, str]) -> _Place | None:
    """The only library that is imported, or the last of a short program's."""
    if len(libraries) == 1:
        return import_of(next(iter(libraries.values())))
    imports = [line for line in lines if is_import(line)]
    return place_in(imports[-1]) if 0 < len(imports) <= 4 else None
