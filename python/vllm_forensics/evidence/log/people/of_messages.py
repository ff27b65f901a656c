"""Texts about what is told of deaths: a handler, a parser, a message, a status that is shown.

Who changes how a death is told, or wishes that it were told, shows how it looks. Nobody died in
that, unless he says so (`Recent example:`, `we saw this today`) or shows what he typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.doubt import MEND
from vllm_forensics.evidence.log.people.lessons import is_example
from vllm_forensics.evidence.log.people.page import Page
from vllm_forensics.evidence.log.people.works import (
    body_of,
    is_labelled_a_wish,
    is_of_work,
    opens_with_work,
)
from vllm_forensics.model.incident import Clue

_TOP: Final = 3
_NEAR: Final = 4
_TELLS: Final = (
    r"(?:print|show|display|report|surfac|log|expos|output|emit|dump|mention|indicat|notic|detect|"
    r"recogni[sz]|understand|pars|symboli[sz]|symbolicat|decod|demangl|captur|collect|classif|trap|"
    r"intercept|document|explain|describ|translat|warn|notif|alert|distinguish|propagat|monitor|track|record|count)(?:e|y)?"
)
"""What is done with the words about a death."""
_TOLD: Final = (
    r"(?:messag(?:es?|ing)|log(?:s|ging|ged)?|outputs?|report(?:s|er|ers|ing)|"
    r"(?:exit|return|error|status) ?(?:codes?|status|reasons?)|"
    r"(?:termination )?(?:status|reasons?)|"
    r"signal (?:handl\w{1,4}|names?|numbers?|info\w{0,8})|handlers?|"
    r"(?:stack|back)[ -]?trac(?:es?|ing)|tracebacks?|call ?stacks?|pars(?:er|ers|ing)|formats?|"
    r"symbolicat\w{1,4}|detect(?:ion|ors?)|alerts?|alarms?|rules?|metrics?|hints?|tips?|warnings?|"
    r"regex(?:e[sp]|ps?)?|patterns?|"
    r"docs?|documentation|faq|guide|descriptions?|tombstones?|mini-?dumps?|crash dumps?|summary|"
    r"(?:crash|core[ -]?dump)[ -](?:handl|report|info|log|catch|support|collect)\w{0,8}|"
    r"fixtures?|runbooks?|wording|labels?)"
)
"""The words about a death."""
_OPENS: Final = lazily(rf"(?i)\W{{0,4}}{_TELLS}\b(?![.(:/])")
_OBJECT: Final = lazily(rf"(?i)(?<![\w/.-])(?:{_TOLD}(?![\w(/]|\.\w))")
_CRASH: Final = lazily(
    r"(?i)\b(?:seg(?:mentation)?[ -]?faults?|crash(?:es|ed|ing)?|signals?|SIG[A-Z]{3,4}|panics?|"
    r"aborts?|OOM(?:[ -]?kill\w{0,3})?s?|kill(?:s|ed)?|out[ -]of[ -]memory|core[ -]?dumps?|"
    r"access violations?|exceptions?|terminat\w{1,4}|deaths?|dies|died|deadlocks?|hangs?|"
    r"double free|overflow|leak)\b"
)
_MENDS: Final = lazily(rf"(?i)\W{{0,4}}{MEND}")
_ENDS: Final = lazily(
    r"(?i)\b(?:fail(?:s|ed|ing|ures?)?|crash(?:es|ed|ing)|exit(?:s|ed)?|dies|died|aborts|aborted|"
    r"segfaults|hangs|killed|terminated|errors?|core[ -]?dump(?:s|ed)?) (?:with|due to|because)\b|"
    r"\bbug\b|\bfailed\W*$"
)
"""The title says how it ended, and not how that is to be told."""
_FAILS: Final = lazily(
    rf"(?i)\b(?:(?:does|do|did|is|are|was|were)(?: not|n['\u2019]t)(?: \w{{2,12}})?|never|"
    rf"fails? to|unable to|cannot|can['\u2019]?t|missing|not|won['\u2019]t) "
    rf"(?:{_TELLS}(?:s|d|ed|ped|ted|ged)?|caught)\b|"
    rf"\b(?:differences?|inconsistenc\w{{1,3}}|mismatch\w{{0,2}}) (?:\w{{2,12}} ){{0,5}}{_TOLD}\b|"
    r"\b(?:missing|misleading|unhelpful|confusing|unclear|wrong|incorrect|better|no) "
    rf"(?:\w{{2,12}} ){{0,2}}{_TOLD}\b"
)
"""What is wrong is how a death is told."""
_SEEN: Final = lazily(
    r"(?i)\b(?:(?:recent|real|actual|latest|last|live|another|concrete) (?:\w{2,12} )?"
    r"(?:examples?|cases?|incidents?|crash(?:es)?|occurrences?|runs?|failures?)|"
    r"(?:today|yesterday|this morning|last (?:night|week))|"
    r"(?:I|we)(?:['\u2019](?:m|re|ve)| am| are| have| had| just| now| still| also){0,4} "
    r"(?:g[eo]t|getting|saw|see|seen|seeing|hit|hitting|ran into|running into|encounter\w{0,3}|"
    r"experienc\w{1,3}|noticed|faced|facing|found)|"
    r"(?:happened|occurred|reproduced|crashed|segfaulted|died|failed|fails|crashes|dies|segfaults|aborts|hangs|"
    r"keeps?|started)\b|in (?:production|our CI|the wild|prod)\b)"
)
_SUPPOSED: Final = lazily(
    r"(?i)\b(?:if|when(?:ever)?|once|(?:before|after)(?:,| (?:this|the) (?:change|patch|pr|fix))|"
    r"samples?|with this|now|new|should|would|will|could|might|may|e\.g(?=\.)|looks? like|"
    r"something like|similar|"
    r"(?<!recent )(?<!real )(?<!actual )(?<!another )examples?\b(?! app))\b"
)
_ANNOUNCES: Final = lazily(
    r"(?i)\W{0,6}(?:examples?|samples?)(?: \S{1,20}){0,4} (?:outputs?|logs?|messages?|"
    r"reports?|traces?|lines?)\b.{0,40}:.{0,40}$"
)
_PROMPT: Final = lazily(r"\s{0,8}(?:[$%] ?[\w./]|.{0,60}\w@[\w.-]{1,60}[^#$%]{0,60}[#$%] ?[\w./])")
_LEFT_OUT: Final = lazily(r"<[a-z][\w -]{1,30}>")


def is_wish_or_change(title: str) -> bool:
    """Does it open with what is to be done, and tell of no end?"""
    return opens_with_work(body_of(title)) and _ENDS.search(title) is None


class Telling:
    """A text by its title: is it about how deaths are told, and what does it show of them?"""

    def __init__(self, title: str, lines: Sequence[str], *, is_change: bool) -> None:
        """Look at the title, and at the marks of a wish around it."""
        self._title: Final = title
        self._fails: Final = _FAILS.search(title) is not None
        is_wish = self._fails and any(map(is_labelled_a_wish, lines[:_TOP]))
        self._tells: Final = is_wish or _is_about_telling(title, is_change=is_change)

    def without_samples(self, clues: Sequence[Clue], page: Page) -> list[Clue]:
        """The clues without those of examples that such a text shows."""
        if not (self._tells or self._fails):
            return list(clues)
        return [one for one in clues if not self._is_sample(page, one)]

    def _is_sample(self, page: Page, clue: Clue) -> bool:
        at = clue.line - 1
        if clue.source == "somebody" or at >= len(page.lines):
            return False
        if not self._tells:
            right_above = next(filter(str.strip, reversed(page.lines[max(0, at - _NEAR) : at])), "")
            return is_example(page, at) or _ANNOUNCES.match(right_above) is not None
        above = page.paragraph_above(at)
        if self._title:  # it does not announce anything
            above = above.rpartition(self._title)[2]
        return bool(above) and _is_shown(above, page.block_above(at))


def _is_about_telling(title: str, *, is_change: bool) -> bool:
    """Is it the title of a change or a wish that is about how deaths are told, handled or read?"""
    clause = body_of(title)
    opens = _OPENS.match(clause)
    is_work = is_change or opens is not None or is_of_work(title)
    if _ENDS.search(title) is not None or not is_work:
        return False
    if opens is not None:
        return any(one.search(clause, opens.end()) is not None for one in (_OBJECT, _CRASH))
    if not opens_with_work(clause):
        return False
    if _MENDS.match(clause) is not None and _CRASH.search(_OBJECT.sub("", clause)) is not None:
        return False
    return _OBJECT.search(clause) is not None


def _is_shown(above: str, block: Sequence[str]) -> bool:
    """Is something pasted an example, by the sentence above it and the lines before in its block?

    Who says that he saw it did, and so does whoever shows the commands that he typed.
    """
    seen, supposed = _SEEN.search(above), _SUPPOSED.search(above)
    if seen is not None and (supposed is None or supposed.start() > seen.start()):
        return False
    return supposed is not None or not any(map(_is_typed, block))


def _is_typed(line: str) -> bool:
    """Is it a command behind a prompt, with nothing left for its reader to fill in?"""
    return _PROMPT.match(line) is not None and _LEFT_OUT.search(line) is None
