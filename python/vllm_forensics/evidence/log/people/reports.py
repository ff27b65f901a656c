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
from vllm_forensics.evidence.log.people.crash_names import is_verb, status_of
from vllm_forensics.evidence.log.people.doubt import (
    is_denied,
    is_doubted,
    is_doubted_in_chinese,
    is_explained,
    is_general,
    is_of_any,
    is_refuted,
    is_witnessed,
)
from vllm_forensics.evidence.log.people.killers import has_killer
from vllm_forensics.evidence.log.people.no_names import KINDS
from vllm_forensics.evidence.log.people.prose import Voice, voice_of
from vllm_forensics.evidence.log.people.works import CHANGING, DEALING, FORM, opens_with_a_noun

_GAP: Final = (
    r"(?: (?!causes?|caused|leads?|results?|triggers|makes|gives|throws|gets?|got|and|then|but|now|"
    r"still|so)[\w'/-]{1,20}){0,5} \W{0,3}$"
)
"""Between a verb and the crash that is its object stands no other verb."""
_MENDING: Final = lazily(rf"(?i)(?<![\w-])(?:{DEALING}|(?<!\bit )report){FORM}{_GAP}")
"""What is done with a crash, right before its name."""
_MAKING: Final = lazily(
    rf"(?i)\b(?:{CHANGING}|let|mak|generat|creat|collect|captur|writ|updat|support|get|take|need|want|"
    rf"should|us|check|pars|read|process|produc){FORM}{_GAP}"
)
"""What is done so that there are core dumps, and with them."""
_MADE_ON: Final = lazily(
    r"(?i)s? (?:on|for|upon|at) (?:an? |any |every |each )?(?:segfault|crash|abort|SIG[A-Z]{3,4}\b|"
    r"fail|panic|fatal|assert)"
)
"""`Coredump on segfault`: of what is to be made then."""
_DEALS: Final = lazily(
    rf"(?i)[ -](?!detected\b)(?:(?:{DEALING}|report(?!ed)|test|trac|log(?=s|ging|ger|\b)|print|"
    r"hook|support|unit|auto|restart)\w{0,6}\b(?! (?:case|run|suite|this|the)\b)|"
    r"(?!error|after|over|under|never|server|worker)[a-z]{2,12}[eo]r\W*$)|"
    r"[ ]?(?:命令|工具|处理|日志|收集|监控|上报|捕获|分析|文件|报告|冲突)"
)
"""What deals with a crash, right behind its name."""
_UNTOLD: Final = lazily(
    r"(?i)[ -](?:(?:is|are|was|were) )?not (?:\w{2,12} )?(?:report|detect|show|display|surfac|"
    r"propagat|log|record|return|set|expos|captur|handl|reap|notic|count|retri|recogni[sz]|distinguish)"
    r"\w{0,4}\b"
)
"""Right behind its name: what somebody else makes of it is amiss."""
_RECORDED: Final = lazily(
    r"(?i)[\"'`]? (?:reason|event|alert|metric|detection|handling|notification|counter)s?\b"
)
"""What keeps count of ends like that: `OOMKilled events`."""
_WHICHEVER: Final = lazily(r"(?i)\b(?:an?|any|each|every) $")
"""`a crashed worker`: whichever it is."""
_DEFINES: Final = lazily(
    r"(?i)\W{0,4}(?!.{0,60}\b(?:result|outcome|effect|end|problem|issue|error|bug|this|that|it|there|"
    r"here|what|all|mine|cause|culprit|i|we|my|our)\b)"
    r"(?:an? |the )?[\w'-]{2,30}(?: [\w'-]{1,20}){0,3} (?:is|are) an? (?:[\w-]{2,20} ){0,3}$"
)
"""`A double free is a kind of memory corruption`."""
_SHOWN: Final = lazily(
    r"(?i) (?:dialog(?:ue)?|screen|prompt|pop-?up|page|window|message|notification|state|status)\b"
)
"""The `app crashed dialog` is shown whenever one does."""
_ATTRIBUTE: Final = lazily(
    r"[ -](?!\w{2,20}(?:ing|ed|ly)\b|(?:on|when|in|with|while|after|error|at|or|and|for|during|"
    r"issue|bug|crash|problem|exception|fault|failure|signal|message|attempt|loop|core|from|due|by|since|my|"
    r"down|out|off|up|as|if|upon|before|because|but|so|then|that|which|who|the|an|this|these|it|every|each|all|any|"
    r"only|just|still|again|also|even|not|now|here|there|today|inside|within|into|between|without|"
    r"through|over|under|near|via|per|to|of|unless|until|where|whenever|like|despite|twice|once|"
    r"avec|lors|quand|beim?|mit|nach|wenn|con|cuando|com|quando|"
    r"sometimes|always|never|quite|very|similar|is|are|was|were|has|had|does|did|will|"
    r"occurs|happens|appears|persists|keeps|comes|remains|makes|causes|kills|leads|results|breaks|"
    r"prevents|stops|caught|"
    r"(?:[a-z]{2,15} )?"
    r"(?:python|game|app|application|daemon|server|client|program|plugin|browser|engine|system|vm))"
    r"s?\b)[a-z]{3,20}(?![\w./(=-])"
)
"""Behind its name another noun, that the title is about: `crash dialog`, and no `crash on exit`.

A program is none: who writes `crash game` means that it does.
"""
_OF_ANY: Final = r" of(?! (?:the|this|that|my|our)\b)"
"""Behind `cause`: of crashes at all."""
_OCCASION: Final = lazily(
    r"(?i)\b(?:(?<!exit )(?<!exits )(?<!exited )(?<!died )(?<!dies )(?<!killed )(?<!crashed )"
    r"(?<!crashes )on|upon|for|as|(?<!ing )or|(?<=\w )about|against|in case of|when(?:ever)?|if|"
    r"than|how|why|"
    r"(?<!lots )(?<!lot )(?<!because )(?<!kind )(?<!number )(?<!bunch )(?<!couple )of)"
    r"(?: (?:an?|the|any|each|every|such|some|there is an?|[a-z]{2,20}(?:al|ed|ic|ous|ent|ant|om)|"
    r"program|process|\w{3,12} (?:of|or|and))){0,4} \W{0,3}$|"
    r"\S \b(?:when(?:ever)?|if|in case)(?: [\w'-]{1,20}){1,3} $|"
    r"\b(?:re(?:start|cover|connect|spawn|sum|launch)\w{0,4}|come (?:back|up)) "
    r"(?:[\w-]{2,20} ){0,2}(?:after|if|when)(?: [\w'-]{1,20}){1,3} $|"
    rf"\b(?:cause|reason|type)s?{_OF_ANY} (?:[\w-]{{1,20}} ){{0,3}}$"
)
"""The crash is when something else takes place, or should."""
_SUPPOSED: Final = lazily(
    r"(?i)\W{0,4}(?:(?:what )?(?:happens )?(?:when|if)(?: [\w'-]{1,20}){1,4} |"
    r"(?:[\w'-]{1,20} ){1,3}(?:that|which) )$"
)
"""All of a title but the crash: what is to be done then, or of which kind is what it is about?"""
_MANY: Final = lazily(r"(?i)^\W{0,4}(?:many|most|all|any|various|certain)(?: \w{2,15}){0,2} $")
"""Crashes as such: `Many program crashes remain unreported`."""
_LINK: Final = lazily(
    r"(?i)\b(?:connection|session|socket|stream|quer(?:y|ies)|transaction|request|tunnel|channel|"
    r"link|websocket|pipe|handshake|lock|"
    r"menu|drop-?down|modal|pop-?up|dialog|tab|panel|tooltip|side-?bar|drawer|keyboard|palette|"
    r"picker|overlay|issue|ticket|port|file|order|trade|position|door)s?"
    r"(?: (?:is|was|were|has|have|had|been|being|gets?|got)){0,2} $"
)
_OF_LINKS: Final = lazily(r"(?i).*(?:kill|clos|unexpected|abort|die|terminat|end|exit|without)")
"""`Connection was killed`, `menu closes randomly`: no process ended."""
_ABSENT: Final = lazily(
    r"(?i)\W{0,4}(?:bug: |\[bug\] )?(?:no|missing) (?:[\w-]{1,20} ){1,4}"
    r"(?:when(?:ever)?|if|after|on) "
)
"""A title about what is not there when it happens: `No core dump when the pool crashes`."""
_PROVOKED: Final = lazily(r"(?:^|[^\w\s] ?|\bto )[Mm]ake (?:[\w'`-]{1,30} ){1,4}$")
"""Somebody does it, or tells others to."""
_NOTICED: Final = lazily(
    r"\b(?:I|[Ww]e) (?:\w{2,10} )?(?:noticed?|saw|see|found|observed?|reali[sz]ed|"
    r"discovered) (?:that )?(?:when(?:ever)?|if|after|once) "
)
"""What somebody noticed when it happened did happen."""
_MAY: Final = lazily(
    r"(?i)\b(?:that (?:can|could|may|might) (?:make|cause) (?:[\w-]{2,20} ){1,3}(?:to )?|"
    r"(?:may|might) (?!have\b)(?:\w{2,10} ){0,2}(?:(?:with|in|by) )?(?:an? |the )?|"
    r"(?:must|ha(?:s|ve|d) to|needs? to) (?:get |then )?|"
    r"(?:ensure|make sure|want|wish|expect(?:ed|ing)?)s?\b(?: [\w'-]{1,15}){1,5} |"
    r"\bexpect, )\W{0,3}$"
)
"""Whoever says so, it has not, or somebody did it on purpose."""
_WILL: Final = lazily(r"(?i)\bwill (?:\w{2,15} )?$")
_CLAUSE: Final = lazily(r"[.!?;\u3002\uff01\uff1f\uff0c]+\s|[\u3002\uff01\uff1f\uff0c]|\n")
_CJK: Final = r"\u3040-\u9fff\uac00-\ud7a3"
_CJK_BESIDE: Final = lazily(rf"[{_CJK}][\s\"'`:\uff1a]{{0,3}}$")
_CJK_BEHIND: Final = lazily(rf"[\s\"'`:\uff1a]{{0,3}}[{_CJK}]")
_OPENS: Final = lazily(
    r"(?i)\W{0,6}(?:(?:an?|the|another|this|random|again|still|just|immediate|instant|sudden|"
    r"error|result|output|status|bug|issue|problem|got|get|gets|getting|and|then|now|but|so|it)"
    r"\W{1,3}){0,4}$"
)
"""Nothing stands before it in its clause."""
_ALONE: Final = lazily(
    r"(?i)\W{0,6}(?:(?:and|then|so|but|now) )?(?:the |my |our )(?:\w{2,12} )?"
    rf"(?:{KINDS}) $"
)
"""Who did, and nothing else, where the verb has lost its ending."""
_SAW: Final = lazily(
    r"(?i)\b(?:got|gets?|getting|hit(?:s|ting)?|sees?|seeing|saw|seen|encounter(?:ed|ing|s)?|"
    r"experienc(?:e|ed|ing)|observ(?:e|ed|ing)|fac(?:e|ed|ing)|r[au]n(?:ning)? into|throw(?:s|n)?|"
    r"raise[sd]?|outputs?|produces?|gives?|gave|received?|caused|causing|"
    rf"(?<!to )causes?(?!{_OF_ANY}\b)|"
    r"leads? to|led to|results? in|resulted in|there (?:is|are|was|were)|it['\u2019]s|"
    r"its(?= \W{0,3}$)|this is|turn(?:s|ed) out to be|"
    r"due to|because of|triggers?|triggered|shows?|says?|said|prints?|printed|reports?|reported|"
    r"do(?:es)?|did|\bit will|(?:seems?|seemed|appears|appeared|started|starts|keeps|kept) to|"
    r"(?:end(?:s|ed)?|die[sd]?|dying|crash(?:es|ed|ing)?|fail(?:s|ed|ing)?|exit(?:s|ed)?|"
    r"abort(?:s|ed)?|clos(?:es|ed))"
    r"(?:,| \w+)? (?:with|in|of|by|after|due to|because of))\b[^.;:]{0,40}$|"
    r"\bha(?:ve|s|d|ving) (?:[\w-]{1,15} ){0,2}$|"
    r"\b(?:g[eo]ts?|getting|saw|sees?|seeing|receive[sd]?|with|produces?|throws?|shows?|prints?|"
    r"gives?|gave|returns?) (?:[\w-]{1,15} ){0,3}?(?:errors?|messages?|outputs?|exceptions?)\b"
    r"[^.;\n]{0,60}:[\s`'\"*]{0,4}$"
)
"""Stands before the crash's name where somebody saw it."""
_MINE: Final = lazily(
    r"\b(?:I|[Ww]e)(?:['\u2019](?:m|re|ve)| am| are| have| keep)?(?: now| still| also| just)? "
    r"(?:get|seen?|hit|got|saw|encounter|experience|face|fac|r[au]n(?:ning)? in)"
    r"(?:s|ed|d|ing|ting|ting)?\b|"
    r"\b(?:[Mm]y|[Oo]ur) (?:\w{2,20} ){1,3}"
    r"(?:killed|crash(?:es|ed)|die[sd]|segfaults|aborts|hangs)\b|"
    r"\bwhen(?:ever)? (?:I|we) (?:try(?:ing)? to |tried to )?"
    r"(?:r[au]n|start|import|call|launch|open|execute|use)(?:ed|d)?\b|"
    r"\b(?:[Ss]ince|[Aa]fter) "
    r"(?:(?:the|this|my|our|last|latest|recent|newest|today['\u2019]s) ){1,3}"
    r"(?:[\w.]{1,12} )?(?:update|upgrade)\b"
)
_SUBJECT: Final = lazily(
    r"(?i)(?:\b(?:it|which|and|then|that|\w*(?:server|python|script|program|process|engine|core|"
    r"worker|llm|llama|kernel|code))|`)(?: (?:is|just|always|still|randomly|immediately|now|then|"
    r"also))? $"
)
"""Before a verb: who did."""
_HAPPENED: Final = lazily(
    r"(?i)[^.;:]{0,20}?(?<! that)(?<! which) (?:(?:is|was|are|were|gets|got) "
    r"(?:raised|thrown|reported|triggered|seen)|occurred|happened|happens|occurs)\b"
)
_QUOTES: Final = set("\"'`\u201c")
_ALTERNATIVE: Final = lazily(r"(?i)[^.;:]{0,40}?\bor (?:other|another|an?|external)\b")
"""One of several things that there may have been."""


def is_mine(line: str) -> bool:
    """Does somebody say that he gets it himself, whatever his title is about?"""
    return _MINE.search(line) is not None


_BUG: Final = lazily(r"(?i)\W{0,4}(?:[\[(][^\])]{0,20}bug[^\])]{0,20}[\])]|bug\b[^:]{0,20}:)")
"""The mark of a report: what follows is one, whatever it names."""


class Form(Enum):
    """How people write: the shorter, the less is said of who saw what."""

    TITLE = auto()
    MESSAGE = auto()
    """A sentence of a text that somebody wrote about what he saw, and of little else."""
    SENTENCE = auto()


def is_reported(crash: re.Match[str], form: Form, behind: int | None = None) -> bool:
    """Does a title or sentence say that the crash that it names took place?

    Other names of the same crash may stand between it and what is behind.
    """
    text, start = crash.string, crash.start()
    end = crash.end() if behind is None else behind
    end -= text[end - 1 : end] == " "  # behind a status
    begin = max((m.end() for m in _CLAUSE.finditer(text, 0, start)), default=0)
    before, after = text[begin:start], text[end:]
    if form is not Form.TITLE and voice_of(text, start, end) is Voice.SHOWN:
        return False
    if _is_object(crash, before, after) or _is_doubtful(text, before, after, form):
        return False
    if form is Form.TITLE:
        is_supposed = not after.strip(" ?!.") and _SUPPOSED.fullmatch(before) is not None
        is_attribute = _is_attribute(crash, after) and not has_killer(crash)
        return not (is_supposed or is_attribute)
    if _SAW.search(before) or _HAPPENED.match(after):
        return True
    if form is Form.SENTENCE:
        return has_killer(crash) or (is_verb(crash) and _SUBJECT.search(before) is not None)
    is_first = (_OPENS.fullmatch(before) or _ALONE.fullmatch(before)) is not None
    opens = is_first and not _is_term(crash)
    return opens or is_verb(crash) or _is_beside_cjk(before, after)


def _is_term(crash: re.Match[str]) -> bool:
    """Is a signal's name all that stands in the line, as above what it means?"""
    return crash[0].startswith("SIG") and crash.string.strip() == crash[0]


def _is_beside_cjk(before: str, after: str) -> bool:
    return _CJK_BESIDE.search(before) is not None or _CJK_BEHIND.match(after) is not None


def _is_object(crash: re.Match[str], before: str, after: str) -> bool:
    """Does the crash hang on a word beside it: one that deals with it, denies it or awaits it?"""
    if (
        is_denied(before)
        or is_refuted(after)
        or (_MENDING.search(before) is not None and not opens_with_a_noun(crash.string))
        or any(one.search(before) is not None for one in (_MAY, _PROVOKED))
        or (_LINK.search(before) is not None and _OF_LINKS.match(crash[0]) is not None)
        or _ABSENT.match(before) is not None
        or (_OCCASION.search(before) is not None and _NOTICED.search(before) is None)
    ):
        return True
    if _is_counted_or_made(crash, before, after):
        return True
    is_noun = not is_verb(crash) or crash[0].lower() == "crash"
    return is_noun and _DEALS.match(after) is not None


def _is_counted_or_made(crash: re.Match[str], before: str, after: str) -> bool:
    """Is it a dump that is made, a kind of end that is counted, of many, or a program's name?"""
    name = crash[0].lower()
    is_program = name == "crash" and before[-1:] in _QUOTES and after.startswith(": ")
    return (
        is_program
        or (name[:4] == "core" and _is_made(before, after))
        or any(one.match(after) is not None for one in (_RECORDED, _UNTOLD))
        or _DEFINES.fullmatch(before) is not None
        or (name.endswith("crashed") and _SHOWN.match(after) is not None)
        or (name == "killed" and is_of_any(before))
        or (name == "crashed" and _WHICHEVER.search(before) is not None and after[:1] == " ")
        or (name.endswith("s") and _MANY.search(before) is not None and not is_mine(before))
    )


def _is_made(before: str, after: str) -> bool:
    """Is a dump made, or to be made whenever there is a crash?"""
    return _MAKING.search(before) is not None or _MADE_ON.match(after) is not None


def _is_attribute(crash: re.Match[str], after: str) -> bool:
    """Is a title about another thing, that the crash is only said of?"""
    if is_verb(crash) or status_of(crash) is not None or "dump" in crash[0]:
        return False
    if _BUG.match(crash.string) is not None:
        return False
    return _ATTRIBUTE.match(after) is not None


def _is_doubtful(text: str, before: str, after: str, form: Form) -> bool:
    """May it have happened, or when something else does, or is it explained?"""
    if is_doubted_in_chinese(text):
        return True
    own = before + re.split(r"[.!?] ", after, maxsplit=1)[0]
    if not is_witnessed(own) and is_explained(after, of_message=False):
        return True
    if is_witnessed(before):
        return False
    if is_doubted(before) or _ALTERNATIVE.match(after) is not None:
        return True
    return is_general(before) and (form is not Form.TITLE or _WILL.search(before) is not None)
