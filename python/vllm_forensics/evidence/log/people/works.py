"""Texts of work: the titles and marks of changes, wishes and lessons, in which nobody died."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.doubt import MEND

DEALING: Final = (
    rf"{MEND}|handl|address(?! not\b)|solv|catch|ignor|patch|remov|guard|protect|debug|"
    r"troubleshoot|detect|document|trap|surviv|recover|reproduc|understand|explain|investigat|"
    r"simulat|inject|intercept|identif|diagnos|monitor|analy[sz]|track|cop|deal"
)
"""The beginnings of verbs: what is done with crashes."""
CHANGING: Final = (
    rf"(?:{DEALING}|add|allow|implement|support|improv|introduc|harden|refactor|replac|revert|skip|"
    r"ensur|expos|enabl|disabl|correct|clarif|bump|clean|provid|register|symboli[sz]|"
    r"do(?:es)?n['\u2019]t|do not|unbreak|validat|verif|merg|reduc|restor|rework|rewrit|tolerat|"
    r"treat|forward|emit|enhanc|extend|narrow|simplif|surfac|collect|publish|gather|upload|submit|includ|consider|wish|want|retry|(?:auto-?)?restart|better|automatic|optional|let)"
)
"""What is done in changes."""
_WORK: Final = (
    r"(?:mak|mov|report|install|generat|dump|print|show|display|log|trac|turn|convert|set|stop|test|"
    r"check|return|rais|updat|upgrad|us(?!e[ -]after)|chang|creat|drop|call|hook|perform|always|"
    r"never|run|tri)"
)
"""Verbs of changes that are nouns as well: `Update to 2.0 crashes`."""
FORM: Final = r"(?:e|y|s|es|ies|ed|d|ied|ing|ping|ting|ging|er|ers|or)?(?![\w.(:-])"
"""How such a verb ends."""
_OF_WORK: Final = lazily(
    r"(?i)^(?:(?:bug|hot)?fix\w{0,3}|feat\w{0,5}|docs?(?: rfc)?|documentation|"
    r"test\w{0,3}|chore|refactor|ci|"
    r"build|perf|style|rfc|proposal|enhancement|idea|add|change|wip|feature[ -]request|fr|"
    r"patch\w{0,5}|how[ -]?to|tutorial|guide|release|tracking|task|CVE-\d{4}-\d{3,8}|"
    r"(?:scenario|case|example)s?(?: \d{1,3})?)(?:\([^)]{1,30}\))?!?$"
)
"""The mark before a title: of a change, a wish, a lesson."""
_COMMITS: Final = lazily(
    r"(?:feat|fix|chore|docs|refactor|perf|test|build|ci|style|revert)(?:\([^)]{1,40}\))?!?: \S"
)
_MARK: Final = lazily(
    r"[^\w\[(`<\"'./~_]{0,6}(?:\[(?P<square>[^\]]{1,40})\]|\((?P<round>[^)]{1,20})\)|"
    r"(?![\w.]{0,40}(?:Error|Exception|[Pp]anic):)"
    r"(?P<word>[\w/.-]{1,30}(?:\([^)]{1,30}\))?!?(?: [\w/.-]{1,20}){0,2}):(?=\s)|"
    r"#?\d{1,7}[.:)]?(?=\s))[\s:-]{0,4}"
)
_PRINTED: Final = lazily(
    r"[\w./-]{2,40}: (?:error|fatal|critical|alert|panic): (?=\w)", re.IGNORECASE
)
"""A program's own words: `poold: error: Detected …`."""
_WORKS: Final = lazily(
    rf"(?i)\W{{0,4}}(?:please,? (?!{MEND}))?(?!restarting\b)(?:(?P<mends>(?:re-?)?{CHANGING}{FORM}|"
    rf"(?:the )?(?:ability|possibility) to (?=\w))|{_WORK}{FORM})"
)
_NOUN_TOO: Final = lazily(
    r"(?i)\W{0,4}(?:debug|patch|support|monitor|guard|trap|track|report|document|address|merge|"
    r"restart|test|clean|catch|extend|register|emit|bump|skip) "
    r"(?!(?:an?|the|all|any|our|my|for|on|of|when|if|after|to|how|why)\b)(?:[\w-]{2,20} ){1,4}"
    r"(?:crashes|crashed|segfaults|hangs|freezes|dies|aborts)\b|"
    r"\W{0,4}(?!better|recover|register|consider|gather|monitor|discover|trigger)"
    r"[a-z]{4,14}[eo]rs? "
    r"(?:(?!(?:for|of|on|in|to|with|and|about|after|from|when|if|that)\b)[\w-]{2,20} ){0,4}"
    r"(?:crash(?:e?s|ed)?|segfaults?|hangs|freezes|dies|aborts)\b(?! handl| report| dump| analy)"
)
"""`Debug view crashes it`, `Solver crashes`: a noun, and the sentence has a verb of its own."""
_STATES: Final = lazily(
    r"(?i).{1,80}\bbut\b|"
    r"\w{2,20}ed .{1,60}\band (?:now )?(?:[\"'`\u201c]|got|get|it|still|crash|segf)|"
    r"(?:\w{2,20}ing |\w\S{0,40} (?:\S{1,60} ){1,12}?)(?:causes?|caused|leads? to|"
    r"results? in|triggers|gives|throws|ends in|makes|is|was|(?<!to )gets?|got|segfaults|crashes|"
    r"aborts|dies|fails)\b"
)
"""The clause has a verb of its own, so that its first word is none."""
_IS_SO: Final = lazily(
    r"(?i)(?:ci|tests?|build): (?:\S{1,60} ){1,5}(?:is|are|was|were) (?!now\b|no\b|not\b)\w|"
    r"(?:ci|tests?|build): (?:fail(?:ed|s|ing)? to|unable to|cannot|can't) \w|"
    r"\W{0,4}\[(?:ci|tests?|build)\] (?:\S{1,60} ){0,6}?(?:errors?|failures?|faults?|segfaults?|"
    r"crash(?:es)?|aborts?) (?:in|at|on|with|when|during) |"
    r"\W{0,4}\[(?:ci|tests?|build)\] (?:\S{1,60} ){1,8}?"
    r"(?:fails|crashes|hangs|segfaults|aborts|dies)\b"
)
"""Of the part that breaks: a mark that changes have too."""
_HANGS: Final = lazily(r"(?i)\b(?:that|which|where|when|if|while|for|on)\b")
_TEACHES: Final = lazily(
    r"(?i)\W{0,4}(?:how|what(?:['\u2019]?s)?|understanding|debugging|troubleshooting|investigating|dealing|"
    r"best way|(?:an? |our |the |my )?(?:guide|tutorial|introduction)|should|could|"
    r"can(?!['\u2019]t)|is it|"
    r"when (?:does|do)|why (?:do|does|is) (?:an? |the )?(?:program|process|seg|bus|illegal))\b"
)
_ABOUT: Final = lazily(
    r"(?i)\b(?:feature request|proposal|release notes|change ?log|changes in|fixes since|faq|"
    r"(?:overflow|fault|violation|segfault|signal)s? (?:concept|explained|explanation|overview)s?|"
    r"death[ -]?tests?|(?:expect|assert)_(?:debug_)?death|"  # who dies in them is meant to
    r"version history|what's new|user guide|cheat ?sheet|"
    r"(?:causes?|reasons?|symptoms?|meaning)(?:,| and| &|, and) (?:how to )?"
    r"(?:fix(?:es)?|solutions?|remed(?:y|ies)|resolutions?|troubleshooting|prevention)|"
    r"(?:crash|segfault|signal|SIG[A-Z]{3,4}) handling(?! (?:is|has|does|fail|crash|cause)))\b"
)
_MAINTAINS: Final = lazily(
    r"(?i)(?:(?<!in )\b(?:this|my)|^\W{0,4}the) "
    r"(?:pr|patch|commit|changeset|change|pull request|mr|merge request)\b|"
    r"^\W{0,4}(?:(?:(?:also|partially) )?(?:fix|fixes|closes|resolves|addresses|implements)\b:? "
    r"(?:\S{0,100}#\d|https?:|an?\b|the\b)|fixed an? (?:minor|small|tiny|typo|broken)\b|"
    r"signed-off-by:|"
    rf"(?:trying|attempt(?:s|ing)?|aims?|tries) (?:to|at) (?:{MEND}|address)\w{{0,3}} )|"
    r"goal of the pr\b|"
    r"^(?:[\w.-]{1,60}/[\w.-]{1,80} \u00b7 )?(?:pull|merge) request [#!]\d"
)
"""Who describes his own change."""
_LABELS: Final = lazily(
    r"(?i)labels?: (?!.*\b(?:bug|crash|defect|segfault|regression|panic)).*"
    r"\b(?:enhancement|feature|wishlist|proposal|improvement|rfc|documentation|docs)\b"
)
"""How a tracker's page marks a wish."""


def is_labelled_a_wish(line: str) -> bool:
    """Is it the line of a tracker's page that marks the issue as a wish, and as no bug?"""
    return _LABELS.match(line) is not None


_ASKS: Final = lazily(
    r"(?i)\W{0,4}(?:(?:should|could|shall|can) we (?:also |maybe |perhaps |not )?"
    r"(?:support|add|provide|offer|implement|allow|enable|have|generate|include|make|consider|get)\b|"
    r"would it be (?:possible|nice|good|useful|helpful|feasible|worth)\b|"
    r"it (?:would|could) be (?:nice|good|great|useful|helpful) (?:to|if)\b)"
)
"""A wish: nobody says that anything happened."""


def asks_for_more(line: str) -> bool:
    """Does somebody ask in it for what is not there yet?"""
    return _ASKS.match(line) is not None


def opens_with_a_noun(clause: str) -> bool:
    """Is its first word one of work and yet none, for the sentence has a verb of its own?"""
    return _NOUN_TOO.match(clause) is not None


def is_commits(title: str) -> bool:
    """Is it the subject of a commit, with a mark of what kind of change it is: `feat(pool): `?"""
    return _COMMITS.match(title) is not None and _IS_SO.match(title) is None


def is_marked(line: str) -> bool:
    """Does the mark before a line say that it is about a change, a wish or a lesson?"""
    return any(_OF_WORK.match(mark.strip()) is not None for mark in _marks_and_body(line)[0])


def _marks_and_body(title: str) -> tuple[list[str], str]:
    """The marks before a title, and what stands behind them."""
    at, marks = 0, []
    while (match := _MARK.match(title, at)) is not None and match.end() > at:
        marks.append(match["square"] or match["round"] or match["word"] or "")
        at = match.end()
    return marks, title[at:]


def body_of(title: str) -> str:
    """A title without the marks before it."""
    return _marks_and_body(title)[1]


def opens_with_work(clause: str) -> bool:
    """Is its first word a verb of changes alone, and no noun there?"""
    opens = _WORKS.match(clause)
    return opens is not None and opens["mends"] is not None and not opens_with_a_noun(clause)


def is_of_work(title: str) -> bool:
    """Is it the title of a change, a wish or a lesson?"""
    if _PRINTED.match(title) is not None:
        return False
    clause = _marks_and_body(title)[1]
    opens = _WORKS.match(clause)
    if is_marked(title) and (opens is not None or _IS_SO.match(title) is None):
        return True
    if is_list_of_news(clause) or _TEACHES.match(clause) is not None:
        return True
    if opens is None or opens_with_a_noun(clause):
        return False
    if opens["mends"] is not None or opens.end() == len(clause):
        return opens["mends"] is not None  # `Update`: a noun
    states = _STATES.match(clause)
    return states is None or _HANGS.search(states[0]) is not None


def is_lesson(line: str) -> bool:
    """Is it the heading of a lesson, and nobody's question?"""
    return _TEACHES.match(line) is not None and not line.rstrip().endswith("?")


def is_list_of_news(line: str) -> bool:
    """Is it the heading of a list of what was mended, of a wish or of a lesson?"""
    return _ABOUT.search(line) is not None


def is_maintainers(line: str) -> bool:
    """Does somebody describe his own change?"""
    return _MAINTAINS.search(line) is not None
