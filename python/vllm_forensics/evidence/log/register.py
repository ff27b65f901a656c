"""What kind of text tells of deaths and holds none: lessons, manuals and lists of changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_READ: Final = 400
"""So many lines of a text show what kind it is."""
_NEAR: Final = 200
_LESSON: Final = re.compile(
    r"(?i)\b(?:in this (?:article|guide|tutorial|post|section|chapter|blog|lesson|lab|video)|"
    r"this (?:article|guide|tutorial|post|page|section|chapter|error|message|signal|code) "
    r"(?:explains|shows|describes|covers|walks|means|indicates|occurs|happens|usually|typically|"
    r"is (?:usually|typically|often))|we(?:'ll| will) (?:cover|look|explore|see|discuss|learn)|"
    r"key takeaways|further reading|frequently asked|"
    r"let'?s (?:look|take|see|compile|run|try|start|analy[sz]e)|here(?:'s| is) an example|"
    r"an example of|consider the following|(?:common|possible|typical) (?:causes?|reasons?)|"
    r"(?:means|indicates|signals) that|(?:occurs|happens|is (?:sent|raised|thrown)) when|"
    r"you (?:can|should|may|might|will|need|get|see)|typically|usually|commonly|for example|"
    r"best practices?|stands for|refers to|"
    r"vous (?:pouvez|obtenez|entrez|verrez|devez)|tapez|par exemple|"
    r"por ejemplo|por exemplo|puedes|podemos|voc\u00ea pode|significa|geralmente|generalmente|"
    r"zum beispiel|bedeutet|normalerweise|k\u00f6nnen sie|"
    r"\u043d\u0430\u043f\u0440\u0438\u043c\u0435\u0440|\u043e\u0437\u043d\u0430\u0447\u0430\u0435\u0442|\u043e\u0431\u044b\u0447\u043d\u043e|\u043c\u043e\u0436\u043d\u043e)\b|"
    r"\u901a\u5e38|\u8868\u793a|\u610f\u5473\u7740|\u8fd9(?:\u53ef\u80fd)?\u662f|\u672c\u6587|\u6307\u7684\u662f|\u4e00\u822c|\u4f8b\u5982|\u5982\u4e0b|\u5c31\u4f1a|\u6211\u4eec\u53ef\u4ee5|"
    r"\u4f8b\u3048\u3070|\u5834\u5408\u304c\u3042\u308a\u307e\u3059|\uc608\ub97c \ub4e4\uc5b4"
)
"""Who teaches speaks of what there is; French, Spanish, German, Russian and Chinese alike."""
_PAGE: Final = re.compile(
    r"(?i)\W{0,4}(?:skip to content|table of contents|\d{1,3} min(?:ute)?s? read|"
    r"written by\b.{0,60}|(?:last )?updated\b.{0,40}|published\b.{0,40}|"
    r"related (?:articles|posts)|quick answer)\W{0,4}$"
)
"""What stands around an article."""
_HEADING: Final = re.compile(
    r"(?i)\s*(?:#{1,6} |\d{1,2}[.)] |\W{1,3} )?(?:what (?:is|does|are|causes|it)\b|"
    r"why (?:this|does|do|it)\b.{0,40}happen|how to\b|common causes?\b|symptoms?\b|diagnos|"
    r"prevention\b|overview\b|introduction\b|examples?\b|conclusion\b|prerequisites?\b|"
    r"troubleshooting\b|(?:an? )?alternative).{0,60}$"
)
_WITNESS: Final = re.compile(
    r"\b(?:I(?:'m|'ve|\u2019m| am| have| had| get| got| was| tried| try| run| ran| use| used| see|"
    r" saw| installed| compiled| built| think| don't| can't| cannot| do not| could| need| want)|"
    r"[Mm]y (?:code|program|machine|system|model|script|setup|server|computer|laptop|app|"
    r"environment|project|pc|PC|build|test|os|OS)|[Ww]e (?:are (?:seeing|getting|running|using)|"
    r"see|saw|have|get|got|run|ran|use)|[Hh]as any(?:one|body)|"
    r"[Aa]ny (?:help|idea|suggestion|advice)s?|[Tt]hanks in advance|[Pp]lease help|"
    r"[Jj]'ai|[Mm]on programme|[Ii]ch habe|[Mm]ein|[Tt]engo|[Mm]i programa)\b|"
    r"(?i:describe the bug|\breproduc(?:e[sd]?|ible|tion|ing)\b|\bour (?:case|side|setup|server)|"
    r"let me know|(?:after|since) (?:upgrad|updat)ing|expected behaviou?r|"
    r"actual (?:behaviou?r|result)|your current environment|environment info|"
    r"collecting environment|minimal example|issue type|system info|\[bug\]|what happened|"
    r"(?:os|python|gcc|version|pytorch|torch) version ?:|opened this issue)|"
    r"\u6211(?!\u4eec)|\u8bf7\u95ee|\u6c42\u52a9|\u0443 \u043c\u0435\u043d\u044f|\u79c1"
)
_ILLUSTRATES: Final = re.compile(
    r"(?i)\b(?:(?:if|when|whenever) you (?:see|get|encounter|run|have|try|receive)|"
    r"you(?:'ll| will| may| might| can| could| should| would) (?:\w{2,10} )?(?:see|get|encounter|"
    r"find|notice|receive)|(?:something|output|error|message)s? (?:like|similar to)|"
    r"an? (?:example|sample)|(?:example|sample)s? (?:of|output|log|snippet)|"
    r"would (?:see|give|produce|print|look|show))\b|\bexamples?:(?!:)|"
    r"(?:\u4f8b\u5982|\u6bd4\u5982|\u793a\u4f8b|\u4e00\u822c)"
)
"""What is shown below such a sentence is an example."""
_POSSIBLE: Final = re.compile(
    r"(?i)\b(?:may|might|could|can) (?:\w{2,10} ){0,2}(?:cause|lead|result|produce|trigger|crash|"
    r"fail|die|end|show)\b"
)
"""What is shown below such a sentence may have been seen, or not."""
_PROSE: Final = re.compile(
    r"(?:.{0,200}?[\s(])?(?:[^\W\d_]{2,20}[ ,]{1,2}){3}[^\W\d_]{2,20}|.{0,200}[\u3040-\u9fff]{6}|"
    r".{0,200}[\uac00-\ud7a3]{2,} [\uac00-\ud7a3]{2,} [\uac00-\ud7a3]{2,}|\s*#{1,6} \S"
)
_PRINTED: Final = re.compile(
    r".{0,200}(?:\d:\d\d:\d\d|\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL|CRITICAL)\b|\w(?:Error|Warning"
    r"|Exception)\b|[\w/.-]{1,80}\.(?:py|cc|cpp|c|h|go|rs):\d|"
    r"\bpid=\d|most recent call)|\s*(?:#\d|File \"|at \S+\()"
)
"""A program's own advice, in a line that it printed."""
_MANUAL: Final = re.compile(r"\.(?:TH|SH|Dd|Sh|PP|TP|IP)\b")
_DIRECTIVE: Final = re.compile(r"\s*\.\. [\w-]+::(?: |$)|.*:[a-z]{2,8}(?::[a-z]{2,9})?:`")
_RULE: Final = re.compile(r"(?P<mark>[=~^*-])(?P=mark){3,}$")
_HEADER: Final = re.compile(
    r"(?P<git>commit [0-9a-f]{7,40}\b)|(?P<debian>[\w.+-]+ \([\w.+~:-]+\) [\w-]+; urgency=)|"
    r"(?P<gnu>\d{4}-\d\d-\d\d  \S.{0,120}<\S{1,80}>$)|(?P<patch>@@ -\d|diff --git )|"
    r"(?P<version>(?:#{1,4} |[*=]{1,4} ?|Version |Changes in |Release |v|\[)"
    r".{0,40}?\bv?\d{1,4}\.\d{1,4}(?:\.\d{1,6})?\b.{0,60}$)"
)
_ITEM: Final = re.compile(r"\s*(?:[-*+\u2022o] |\d{1,7}[,:] |#\d{1,7}[:, ])")
_BODY: Final = re.compile(
    r"$|[ \t+*-]|(?:Author|Date|Merge|AuthorDate|Commit|CommitDate|Signed-off-by|Reviewed-by): |"
    + _ITEM.pattern
)
_COMMITS: Final = 3
_ABOVE: Final = 14
_PARAGRAPH: Final = 3


def is_lesson(lines: Sequence[str]) -> bool:
    """Does the text explain what there is, and nobody in it say that it happened to him?"""
    head = lines[:_READ]
    if sum(_MANUAL.match(line) is not None for line in head) >= 3:
        return True
    if any(map(_DIRECTIVE.match, head)) and any(map(_RULE.match, head)):
        return True
    prose = [line for line in head if is_prose(line) or _HEADING.match(line) is not None]
    taught = sum(len(_LESSON.findall(line)) for line in prose)
    taught += sum(_PAGE.match(line) is not None for line in head)
    titles = sum(_HEADING.match(line) is not None for line in prose)
    seen = count_of_witnesses(head)
    if taught and taught + titles >= 3:
        return taught + titles > 4 * seen
    return taught >= 2 and not seen and 4 * len(prose) >= sum(map(bool, head))


def is_prose(line: str) -> bool:
    """Did a person write the line, and no program?"""
    return _PROSE.match(line) is not None and _PRINTED.match(line) is None


def count_of_witnesses(lines: Sequence[str]) -> int:
    """How often somebody says that something happened to him, or fills in a bug report's form."""
    return sum(len(_WITNESS.findall(line)) for line in lines[:_READ])


def is_example(lines: Sequence[str], at: int) -> bool:
    """Does the sentence above say that what follows is an example?"""
    return any(_ILLUSTRATES.search(one) for one in _paragraph_above(lines, at))


def is_possible(lines: Sequence[str], at: int) -> bool:
    """Does the sentence above say that what follows may happen?"""
    return any(_POSSIBLE.search(one) for one in _paragraph_above(lines, at))


def _paragraph_above(lines: Sequence[str], at: int) -> Iterator[str]:
    """The nearest that a person wrote above a line."""
    for end in range(at - 1, max(-1, at - _ABOVE), -1):
        if is_prose(lines[end]):
            start = end
            while start > max(0, end - _PARAGRAPH) and is_prose(lines[start - 1]):
                start -= 1
            yield " ".join(lines[start : end + 1])
            return


def is_all_changes(lines: Sequence[str]) -> bool:
    """Is the whole text a log of commits, or a list of changes?"""
    headers = (_HEADER.match(line) for line in lines)
    kinds = [header.lastgroup for header in headers if header is not None]
    known = sum(kind in {"git", "debian", "gnu"} for kind in kinds)
    return known >= _COMMITS and any(map(_HEADER.match, lines[:_PARAGRAPH]))


def is_list_of_changes(lines: Sequence[str], at: int) -> bool:
    """Is the line an entry of a log of commits, a list of changes or a patch?"""
    line = lines[at]
    is_item = False
    for above in range(at, max(-1, at - _NEAR), -1):
        text = lines[above]
        is_item = is_item or _ITEM.match(text) is not None
        header = _HEADER.match(text) if above < at else None
        if header is not None:
            kind = header.lastgroup
            if kind == "git":
                return line.startswith("    ")
            if kind in {"debian", "gnu"}:
                return line.startswith(("  ", "\t"))
            if kind == "patch":
                return line.startswith(("+", "-", " "))
            return is_item
        if above < at and _BODY.match(text) is None:
            return False
    return False
