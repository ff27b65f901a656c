"""Who speaks in a title or a sentence that names a crash: a reporter, a maintainer, a teacher.

A reporter says that it happened: the crash is what his clause is about. For all others it hangs on
another word: on what was done about it (`fix the segfault`), on what deals with it (`segfault
handler`), on an occasion (`a stack on each segfault`) or on a doubt (`may crash`).
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.crash_names import is_verb
from vllm_forensics.evidence.log.prose import Voice, voice_of

_DEALING: Final = (
    r"(?:bug|hot)?-?fix|avoid|prevent|handl|address|resolv|solv|catch|ignor|mitigat|patch|remov|"
    r"guard|protect|debug|troubleshoot|detect|document|trap|surviv|recover|reproduc|understand|"
    r"explain|investigat|simulat|inject|work(?:ed|ing)? ?around|monitor|analy[sz]|track|cop|deal"
)
"""The beginnings of verbs: what is done with crashes."""
_MENDS: Final = (
    rf"(?:{_DEALING}|add|allow|implement|support|improv|introduc|harden|refactor|replac|revert|skip|"
    r"ensur|expos|enabl|disabl|correct|clarif|bump|clean|provid|register|symboli[sz]|"
    r"do(?:es)?n['\u2019]t|do not|unbreak|validat|verif|merg|reduc|restor|rework|rewrit|tolerat|"
    r"treat|forward|emit|wish|want|retry|(?:auto-?)?restart|better|automatic|optional|let)"
)
_WORK: Final = (
    r"(?:mak|mov|report|install|generat|dump|print|show|display|log|trac|turn|convert|set|stop|test|"
    r"check|return|rais|updat|upgrad|us|chang|creat|drop|call|hook|perform|always|never|run|tri)"
)
"""Verbs of changes that are nouns as well: `Update to 2.0 crashes`."""
_FORM: Final = r"(?:e|y|s|es|ies|ed|d|ied|ing|ping|ting|ging|er|ers|or)?(?![\w.(:-])"
_GAP: Final = (
    r"(?: (?!causes?|caused|leads?|results?|triggers|makes|gives|throws|gets?|got|and|then|but|now|"
    r"still|so)[\w'/-]{1,20}){0,5} \W{0,3}$"
)
"""Between a verb and the crash that is its object stands no other verb."""
_MENDING: Final = lazily(rf"(?i)\b(?:{_DEALING}|(?<!\bit )report){_FORM}{_GAP}")
"""What is done with a crash, right before its name."""
_MAKING: Final = lazily(
    rf"(?i)\b(?:{_MENDS}|let|mak|generat|creat|collect|captur|writ|updat|support|get|take|need|want|"
    rf"should|us){_FORM}{_GAP}"
)
"""What is done so that there are core dumps."""
_DEALS: Final = lazily(
    rf"(?i)[ -](?:(?:{_DEALING}|report(?!ed)|test|trac|log(?=s|ging|ger|\b)|print|hook|support|"
    r"unit|auto|restart|safe|guide|tutorial|faq|dialog|page|counter|rate|frame|opcode|encoding|"
    r"instruction)\w{0,6}\b(?! (?:case|run|suite|this|the)\b)|"
    r"(?!error|after|over|under|never|server|worker)[a-z]{2,12}[eo]r\W*$)"
)
"""What deals with a crash, right behind its name."""
_OF_WORK: Final = lazily(
    r"(?i)^(?:(?:bug|hot)?fix\w{0,3}|feat\w{0,5}|docs?|documentation|test\w{0,3}|chore|refactor|ci|"
    r"build|perf|style|rfc|proposal|enhancement|idea|add|change|wip|feature[ -]request|fr|"
    r"patch\w{0,5}|how[ -]?to|tutorial|guide|release|tracking|task)(?:\([^)]{1,30}\))?!?$"
)
"""The mark before a title: of a change, a wish, a lesson."""
_MARK: Final = lazily(
    r"[^\w\[(`<\"'./~_]{0,6}(?:\[(?P<square>[^\]]{1,40})\]|\((?P<round>[^)]{1,20})\)|"
    r"(?P<word>[\w/.-]{1,30}(?:\([^)]{1,30}\))?!?(?: [\w/.-]{1,20}){0,2}):(?=\s)|"
    r"#?\d{1,7}[.:)]?(?=\s))[\s:-]{0,4}"
)
_WORKS: Final = lazily(rf"(?i)\W{{0,4}}(?:(?P<mends>(?:re-?)?{_MENDS}{_FORM})|{_WORK}{_FORM})")
_STATES: Final = lazily(
    r"(?i)\w\S{0,40} (?:\S{1,60} ){1,12}?(?:causes?|caused|leads? to|results? in|triggers|gives|"
    r"throws|ends in|makes|is|was|gets|got|segfaults|crashes|aborts|dies|fails)\b"
)
"""The clause has a verb of its own, so that its first word is none."""
_HANGS: Final = lazily(r"(?i)\b(?:that|which|where|when|if|while|for|on)\b")
_TEACHES: Final = lazily(
    r"(?i)\W{0,4}(?:how|what|understanding|debugging|troubleshooting|investigating|dealing|"
    r"best way|(?:an? |our |the |my )?(?:guide|tutorial|introduction)|should|could|can|is it|"
    r"when (?:does|do)|why (?:do|does|is) (?:an? |the )?(?:program|process|seg|bus|illegal))\b"
)
_ABOUT: Final = lazily(
    r"(?i)\b(?:feature request|proposal|release notes|change ?log|changes in|fixes since|faq|"
    r"version history|what's new|user guide|cheat ?sheet)\b"
)
_DOUBT: Final = lazily(
    r"(?i)\b(?:may|might|could|can|would|should|potential(?:ly)?|possib(?:le|ly|ility)|likely|"
    r"if (?:you|your|a|an|one)|unless|whether|e\.g\.|such as|like (?:an?|the)|either|instead of|"
    r"rather than|no longer|no more|without|cannot|can't|rarely|usually|typically|often|means?|"
    r"seem(?:s|ed)? to (?:cause|lead|result)|"
    r"when(?:ever)? (?:you|your|an?|one|programs|processes)|reasons?|causes:|"
    r"(?:any|every|each|(?<!\w )an?) \w{1,20} (?:that|which|who)|ever|chance|risk|avoid\w{0,3}|"
    r"prevent\w{0,3})\b(?![-:])"
)
_NOT: Final = lazily(r"(?i)(?:\b(?:no|not|never|any|nor)|n['\u2019]t)\b(?: [\w'-]{1,20}){0,3}\s$")
_OCCASION: Final = lazily(
    r"(?i)\b(?:on|upon|for|as|or|about|against|in case of|when(?:ever)?|if|than|how|why|"
    r"(?<!lots )(?<!lot )(?<!because )(?<!kind )(?<!number )(?<!bunch )(?<!couple )of)"
    r"(?: (?:an?|the|any|each|every|such|some|there is an?|[a-z]{2,20}(?:al|ed|ic|ous|ent|ant|om)|"
    r"program|process|\w{3,12} (?:of|or|and))){0,4} \W{0,3}$|"
    r"\S \b(?:when(?:ever)?|if|in case)(?: [\w'-]{1,20}){1,3} $"
)
"""The crash is when something else takes place, or should."""
_CONDITION: Final = lazily(r"(?i)\b(?:when(?:ever)?|if)\b")
_MAY: Final = lazily(
    r"(?i)\b(?:may|might) (?!have\b)(?:\w{2,10} ){0,2}(?:(?:with|in|by) )?(?:an? |the )?\W{0,3}$"
)
"""Whoever says so, it has not."""
_MAINTAINS: Final = lazily(
    r"(?i)\b(?:this|the|my) (?:pr|patch|commit|changeset|change|pull request|mr|merge request)\b|"
    r"^\W{0,4}(?:(?:(?:also|partially) )?(?:fix|fixes|closes|resolves|addresses|implements)\b:? "
    r"(?:\S{0,100}#\d|https?:|an?\b|the\b)|signed-off-by:)|goal of the pr\b|"
    r"^(?:[\w.-]{1,60}/[\w.-]{1,80} \u00b7 )?(?:pull|merge) request [#!]\d"
)
"""Who describes his own change."""
_WITNESS: Final = lazily(r"\b(?:I|I'm|I've|[Ww]e|[Mm]y|[Oo]ur)\b")
_CLAUSE: Final = lazily(r"[.!?;\u3002\uff01\uff1f\uff0c]+\s|[\u3002\uff01\uff1f\uff0c]|\n")
_CJK: Final = r"\u3040-\u9fff\uac00-\ud7a3"
_CJK_BESIDE: Final = lazily(rf"[{_CJK}][\s\"'`:\uff1a]{{0,3}}$")
_CJK_BEHIND: Final = lazily(rf"[\s\"'`:\uff1a]{{0,3}}[{_CJK}]")
_CJK_DOUBT: Final = lazily(
    r"\u5982\u679c|\u82e5|\u53ef\u80fd|\u4f1a\u5bfc\u81f4|\u5982\u4f55|\u600e\u4e48|\u907f\u514d|"
    r"\u4fee\u590d|\u89e3\u51b3|\u9632\u6b62|\u4ec0\u4e48\u662f|\u4fee\u6b63|\u5bf9\u7b56|\u5bfe\u7b56|\u5e0c\u671b"
)
"""In Chinese: if, may, how, avoid, mend, what is."""
_OPENS: Final = lazily(
    r"(?i)\W{0,6}(?:(?:an?|the|another|this|random|again|still|just|immediate|instant|sudden|"
    r"error|result|output|status|bug|issue|problem|got|get|gets|getting|and|then|now|but|so|it)"
    r"\W{1,3}){0,4}$"
)
"""Nothing stands before it in its clause."""
_SAW: Final = lazily(
    r"(?i)\b(?:got|gets?|getting|hit(?:s|ting)?|sees?|seeing|saw|seen|encounter(?:ed|ing|s)?|"
    r"experienc(?:e|ed|ing)|observ(?:e|ed|ing)|fac(?:e|ed|ing)|r[au]n(?:ning)? into|throw(?:s|n)?|"
    r"raise[sd]?|outputs?|produces?|gives?|gave|received?|causes?|caused|causing|leads? to|led to|"
    r"results? in|resulted in|there (?:is|are|was|were)|it'?s|this is|"
    r"due to|because of|triggers?|triggered|shows?|says?|said|prints?|printed|reports?|reported|"
    r"do(?:es)?|did|"
    r"(?:end(?:s|ed)?|die[sd]?|dying|crash(?:es|ed|ing)?|fail(?:s|ed|ing)?|exit(?:s|ed)?|abort(?:s|ed)?)"
    r"(?: \w+)? (?:with|in|of|by|due to|because of))\b[^.;:]{0,40}$|"
    r"\bha(?:ve|s|d|ving) (?:[\w-]{1,15} ){0,2}$"
)
"""Stands before the crash's name where somebody saw it."""
_SUBJECT: Final = lazily(
    r"(?i)(?:\b(?:it|which|and|then|that|\w*(?:server|python|script|program|process|engine|core|"
    r"worker|llm|llama|kernel|code))|`)(?: (?:is|just|always|still|randomly|immediately|now|then|"
    r"also))? $"
)
"""Before a verb: who did."""
_HAPPENED: Final = lazily(
    r"(?i)[^.;:]{0,20}? (?:(?:is|was|are|were|gets|got) (?:raised|thrown|reported|triggered|seen)|"
    r"occurred|happened|happens|occurs)\b"
)
_ALTERNATIVE: Final = lazily(r"(?i)[^.;:]{0,40}?\bor (?:other|another|an?|external)\b")
"""One of several things that there may have been."""
_EXPLAINED: Final = lazily(
    r"(?i)\W{0,4}(?:\([^()]{1,40}\) )?(?:(?:can|could|may|might|would|will) |also known|means?\b|"
    r"(?:is|are)\b(?! (?:raised|thrown|reported|triggered|seen|happening|occurring|still|back|"
    r"produced|due|in|at|not|reproducible|caused by (?:the|my|this)))|"
    r"(?:occurs?|happens?) when (?!I|we|my)|refers|stands for|denotes|indicates|signif|"
    r"- (?:an?|the)\b)|: (?:an?|the) "
)


def body_of(title: str) -> str:
    """A title without the marks before it."""
    at = 0
    while (match := _MARK.match(title, at)) is not None and match.end() > at:
        at = match.end()
    return title[at:]


def is_marked(line: str) -> bool:
    """Does the mark before a line say that it is about a change, a wish or a lesson?"""
    at = 0
    while (match := _MARK.match(line, at)) is not None and match.end() > at:
        mark = match["square"] or match["round"] or match["word"]
        if mark is not None and _OF_WORK.match(mark.strip()) is not None:
            return True
        at = match.end()
    return False


def is_of_work(title: str) -> bool:
    """Is it the title of a change, a wish or a lesson?"""
    clause = body_of(title)
    if is_marked(title) or is_list_of_news(clause) or _TEACHES.match(clause) is not None:
        return True
    opens = _WORKS.match(clause)
    if opens is None or opens["mends"] is not None:
        return opens is not None
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


class Form(Enum):
    """How people write: the shorter, the less is said of who saw what."""

    TITLE = auto()
    MESSAGE = auto()
    """A sentence of a text that somebody wrote about what he saw, and of little else."""
    SENTENCE = auto()


def is_reported(crash: re.Match[str], form: Form) -> bool:
    """Does a title or sentence say that the crash that it names took place?"""
    text, start, end = crash.string, crash.start(), crash.end()
    begin = max((m.end() for m in _CLAUSE.finditer(text, 0, start)), default=0)
    before, after = text[begin:start], text[end:]
    if _CJK_DOUBT.search(text) is not None:
        return False
    if form is not Form.TITLE and voice_of(text, start, end) is Voice.SHOWN:
        return False
    if _is_object(crash, before, after) or _is_doubtful(text, before, after, form):
        return False
    if form is Form.TITLE or _SAW.search(before) or _HAPPENED.match(after):
        return True
    if form is Form.SENTENCE:
        return is_verb(crash) and _SUBJECT.search(before) is not None
    return is_verb(crash) or _OPENS.fullmatch(before) is not None or _is_beside_cjk(before, after)


def _is_beside_cjk(before: str, after: str) -> bool:
    return _CJK_BESIDE.search(before) is not None or _CJK_BEHIND.match(after) is not None


def _is_object(crash: re.Match[str], before: str, after: str) -> bool:
    """Does the crash hang on a word beside it: one that deals with it, denies it or awaits it?"""
    if any(one.search(before) is not None for one in (_MENDING, _OCCASION, _NOT, _MAY)):
        return True
    if crash[0][:4].lower() == "core" and _MAKING.search(before) is not None:
        return True
    return not is_verb(crash) and _DEALS.match(after) is not None


def _is_doubtful(text: str, before: str, after: str, form: Form) -> bool:
    """May it have happened, or when something else does, or is it explained?"""
    if _WITNESS.search(text) is None and _EXPLAINED.match(after) is not None:
        return True
    if _WITNESS.search(before) is not None:
        return False
    if _DOUBT.search(before) is not None or _ALTERNATIVE.match(after) is not None:
        return True
    return form is not Form.TITLE and _CONDITION.search(before) is not None
