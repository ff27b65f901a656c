"""The words that take a death back: it may happen, is explained, was mended, or is denied.

What a program prints and what a person calls a crash are asked the same questions about the words
before and behind. Each such word has one place, here; `prose.py` and `reports.py` only ask.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.lazily import lazily

_MAY: Final = r"may|might|could|would"
_HABIT: Final = (
    r"often|frequently|generally|mostly|(?:almost|nearly) always|typically|usually|commonly|rarely"
)
_MEANS: Final = r"means?|indicates?|signif(?:y|ies)|denotes?|stands for|refers to|known as"
_INSTEAD: Final = r"e\.g\.|i\.e\.|such as|for example|instead of|rather than"
_WHEN: Final = (
    r"(?:occurs?|happens?) when(?! (?:I|we|my|(?:us|runn|load|serv|call|start|launch)ing)\b)"
)
_ANYBODY: Final = r"(?:if|when(?:ever)?) (?:your?|an?|one|programs|processes)"
_CHINESE: Final = (
    r"\u5982\u679c|\u5982\u9047|\u82e5|\u53ef\u80fd|\u4f1a\u5bfc\u81f4|\u5982\u4f55|\u600e\u4e48|\u907f\u514d|"
    r"\u4fee\u590d|\u89e3\u51b3|\u9632\u6b62|\u4ec0\u4e48\u662f|\u4fee\u6b63|\u5bf9\u7b56|\u5bfe\u7b56|\u5e0c\u671b|\u7c7b\u4f3c|"
    r"\u672c\u6587|[\u4f60\u60a8][^,.\uff0c\u3002]{0,12}\u4f1a"
)
"""If, may, how, avoid, mend, what is, wish, similar, this article, you will."""
MEND: Final = r"(?:(?:(?:bug|hot)[- ]?)?fix|avoid|prevent|resolv|mitigat|work(?:s|ed|ing)? ?around)"
"""The beginnings of verbs: what is done so that it happens no more."""
_FORM: Final = r"(?:e|es|ed|ing|s)?"

_WITNESS: Final = lazily(
    r"\b(?:(?:I|[Ww]e)(?! (?:should|could|might|need to|want to)\b)|[Mm]y|"
    r"[Oo]ur(?! (?:guide|tutorial|article|docs?|documentation)\b)|"
    r"i['\u2019]?(?:m|ve)|"
    r"i(?= (?:am|was|have|had|got|get|see|saw|tried|try|ran|run|use|found)\b))\b"
)
"""Who speaks of himself tells what he saw, and not what there is to be seen."""
_DOUBT: Final = lazily(
    rf"(?i)(?<![\w-])(?:{_MAY}|can|should|{_MEANS}|{_INSTEAD}|{_ANYBODY}|potential(?:ly)?|"
    r"possib(?:le|ly|ility)|likely|probably|perhaps|presumably|maybe|chance|risk|ever|unless|"
    r"whether|how to|handl(?:e[sd]?|ing)|"
    r"claim(?:s|ed)?|(?:false|wrong|incorrect|mistaken)ly|"
    r"like (?:an?|the)|either|without|no longer|no more|cannot|can't|causes:|"
    r"(?<!\bno )(?<!apparent )(?<!obvious )reasons?|"
    r"seem(?:s|ed)? to (?:cause|lead|result)|"
    rf"(?:any|every|each|(?<!\w )an?) \w{{1,20}} (?:that|which|who)|{MEND}{_FORM})(?![\w:-])"
)
_GENERAL: Final = lazily(
    rf"(?i)\b(?:(?:if|when(?:ever)?)(?! (?:I|we|my)\b| \w{{2,20}}ing\b)|{_HABIT})(?!\w)"
)
_OF_ANY: Final = lazily(r"(?i)\b(?:of|for|by|from|if|when) an? (?:[\w-]{2,15} ){1,2}$")
"""`the status of a process killed`: whichever it is."""
_POSSIBLE: Final = lazily(
    rf"(?i)\b(?:{_MAY}|can|will(?! always\b)|should) (?:\w{{1,12}} ){{0,2}}(?:lead|result|"
    r"cause|trigger|produce|give|end|print|say|report|see|crash|abort|fail|be|get|occur|die|show)\b|"
    rf"\b(?:{_INSTEAD}|known as|{_ANYBODY}|if (?:it|the|this|that)|"
    r"(?:any|every|each) (?:\w{1,15} ){1,5}(?:is|are|gets?)|leads? to|"
    r"looks? (?:something )?like)\b|128 ?\+ ?\d{1,2} {0,3}=|"
    r"(?:^|\W)(?:si|wenn|falls|lorsque|cuando|\u0435\u0441\u043b\u0438)\s|" + _CHINESE
)
"""Unlike a word of doubt, none of these stands before a message that a program printed."""
_TAUGHT: Final = lazily(
    rf"(?i)\b(?:{_MAY}|{_HABIT}|{_MEANS}|such as|{_ANYBODY}|understand(?:ing)?|decoding|"
    r"demystif\w{1,6}|explain(?:ed|ing)?|guide|tutorial|dreaded|infamous|notorious|cryptic)\b"
)
"""Unlike a word of doubt, none of these stands in what somebody saw: `crash when importing`."""
_DOUBT_IN_CHINESE: Final = lazily(_CHINESE)
_SUPPOSES: Final = lazily(
    r"(?i)\bif (?:we|i|you|they|one|it) (?:ever |still )?(?:notice|see|get|find|hit|receive)s? "
    r"(?:an? |the )?[`\"'\u201c]?$|"
    r"\b(?:look|search|grep|watch|check)(?:e?s|ing)?\b.{0,60} for (?:an? |the )?\W{0,3}$|"
    r"^for $"  # the verb stands in the line above
)
"""Whoever says so, he has not seen it yet, or does so whenever something happens."""
_ASKS: Final = lazily(
    r"\W{0,8}(?:[Dd]o(?:es)?|[Dd]id|[Ii]s|[Aa]re|[Hh]a(?:s|ve)|[Cc]an|[Cc]ould) "
    r"(?:you|it|they|anybody|anyone)\b.{1,600}\?\s*$"
)
"""Who asks whether something is seen has not seen it."""
_DENIED: Final = lazily(
    r"(?i)(?:\b(?:no|not|never|any|none|nor)|n['\u2019]t|let alone)\b(?: [\w'-]{1,20}){0,3}\s$|"
    r"\b(?:no|nothing|not|never|n['\u2019]t)\b[^.;:!?]{0,60}? "
    r"(?:suggest|indicat|show|prov|evidence|sign|believe|think)\w{0,4}(?: \w{1,12}){0,4} $"
)
_EXPLAINED: Final = lazily(
    rf"(?i)\W{{0,4}}(?:\([^()]{{1,40}}\) )?(?:always|never|{_MEANS}|{_WHEN})\b|"
    r"[\"'`*\u201d]{1,4} (?:is|are) (?:an?|the|what|when)\b|"
    r" is (?:an? |the )?[`\"']?SIG[A-Z]{3,5}\b|"
    r"\. (?:This|That|It) (?:[\w()]{1,20} ){0,5}(?:means?|indicates?|usually|typically|denotes?)\b|"
    r"\. The default action\b"
)
"""Behind a death's name: somebody explains it."""
_EXPLAINED_AT_ALL: Final = lazily(
    rf"(?i)\W{{0,4}}(?:\([^()]{{1,40}}\) )?(?:(?:{_MAY}|can|will) |"
    rf"(?:{_HABIT}) (?:occur|happen|result|arise|come|stem|mean|indicate)\b|"
    rf"also known|n\.|{_MEANS}|{_WHEN}|"
    r"(?:#?\d{3,12} )?(?:is|are)\b(?! (?:raised|thrown|reported|triggered|seen|happening|"
    r"occurring|still|back|produced|due|in|at|not|reproducible|caused by (?:the|my|this)))|"
    r"- (?:an?|the)\b)|"
    r": (?:an?|the) "
)
_REFUTED: Final = lazily(
    r"[^.;]{0,60}[\"'`\u201d.,]{1,4} (?:which|this|that) (?:is|was) "
    r"(?:not (?:the case|true|right|so)|wrong|false)\b"
)
"""Behind what somebody or something said: it is not so."""
_MENDS: Final = lazily(
    rf"(?i)(?<!not )(?<!n't )(?<![\w-])(?:{MEND}{_FORM}|no longer|regression test)\b|"
    r"\bcloses:? \W?(?:\w{1,20}#|#\d|https?:)"
)
_TIME: Final = lazily(r"\b\d\d:\d\d:\d\d\b")
_MENDED: Final = lazily(
    r"(?i).{0,80}?\b(?:(?:has been|have been|was|were|is|are|is now|got|should be) (?:now )?"
    r"(?:fixed|resolved|gone)|fixed\W*$)"
)
"""What was mended is told in the past, as in a list of changes."""


_AT_MINE: Final = lazily(
    r"(?i)\b(?:on|at|in) (?:my|our) (?:end|side|(?:\w{2,12} )?(?:machine|system|laptop|mac|pc|box|"
    r"computer|setup|case|environment))\b|\bfor me\b"
)
"""Behind what somebody saw, however he says it."""


def is_seen_here(after: str) -> bool:
    """Is it said behind a death's name that it happens to the writer?"""
    return _AT_MINE.search(after) is not None


def is_witnessed(text: str) -> bool:
    """Does somebody speak of himself?"""
    return _WITNESS.search(text) is not None


def is_doubted(before: str) -> bool:
    """Does any word of doubt stand before a crash's name?"""
    return _DOUBT.search(before) is not None


def is_doubted_in_chinese(text: str) -> bool:
    """Does any word of doubt stand in a text, on whichever side?"""
    return _DOUBT_IN_CHINESE.search(text) is not None


def is_general(before: str) -> bool:
    """Is it said before that it is usually so, or if and when?"""
    return _GENERAL.search(before) is not None


def is_of_any(before: str) -> bool:
    """Are words right before a participle about whichever thing it befalls?"""
    return _OF_ANY.search(before) is not None


def is_denied(before: str) -> bool:
    """Does a word right before say that there is none?"""
    return _DENIED.search(before) is not None


def is_supposed(before: str) -> bool:
    """Does even who speaks of himself only suppose or await it?"""
    return _SUPPOSES.search(before) is not None


def is_possible(before: str) -> bool:
    """Is a message, that may have been printed, said to be possible?"""
    return _POSSIBLE.search(before) is not None


def is_taught(before: str) -> bool:
    """Do words before a quoted message teach?"""
    return _TAUGHT.search(before) is not None


def is_asked(text: str) -> bool:
    """Does a sentence ask whether it is seen?"""
    return _ASKS.match(text) is not None


def is_explained(after: str, *, of_message: bool) -> bool:
    """Do the words behind say what it is? Less is certain behind a message that was printed."""
    return (_EXPLAINED if of_message else _EXPLAINED_AT_ALL).match(after) is not None


def is_refuted(after: str) -> bool:
    """Is it said behind that it is not so?"""
    return _REFUTED.match(after) is not None


def is_mended(before: str, after: str) -> bool:
    """Is it said to have been mended? Behind a time the log's own line stands."""
    match = _MENDS.search(before)
    if match is not None and _TIME.search(before, match.end()) is None:
        return True
    return not is_witnessed(after) and _MENDED.match(after) is not None
