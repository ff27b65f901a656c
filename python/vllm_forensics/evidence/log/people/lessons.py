"""Texts that teach: what is told in them of deaths may happen, and did not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from vllm_forensics.evidence.log.people.grammar import persons_in
from vllm_forensics.evidence.log.people.layout import (
    explains_its_title,
    invented_in,
    is_invented,
    is_section,
    shows_output,
    weight_of_layout,
    weight_of_listing,
)
from vllm_forensics.evidence.log.people.page import Page, is_prose

_LESSON: Final = re.compile(
    r"(?i)\b(?:in this (?:article|guide|tutorial|post|section|chapter|blog|lesson|lab|video)|"
    r"this (?:article|guide|tutorial|post|page|document|section|chapter|error|message|signal|code) "
    r"(?:explains|shows|describes|covers|walks|means|indicates|occurs|happens|usually|typically|"
    r"is (?:usually|typically|often))|we(?:'ll| will) (?:cover|look|explore|see|discuss|learn)|"
    r"key takeaways|further reading|frequently asked|"
    r"the following (?:example|program) (?:demonstrates|shows)|"
    r"let'?s (?:dig|look|take|see|compile|run|try|start|analy[sz]e)|here(?:'s| is) an example|"
    r"an example of|consider the following|(?:common|possible|typical) (?:causes?|reasons?)|"
    r"(?:indicates|signals) that|(?:occurs|happens|is (?:sent|raised|thrown)) when|"
    r"if you(?:'re| are| see| get| encounter)|error (?:may|might|can) occur|"
    r"exit code (?:will|would) be|"
    r"(?<!can )(?<!do )(?<!did )you (?:can|should|may|might|will|need|get|see|find|notice)|"
    r"best practices?|stands for|refers to|what it means|128 ?\+ ?(?:\d{1,2}|[Nn])|"
    r"(?:often|mostly|generally) (?:due to|caused by)|"
    r"your (?:machine|system|program|code|application|server|container|terminal|computer|pod))\b"
)
"""Who teaches speaks of what there is. For other languages than English, grammar must do."""
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
    r"troubleshooting\b|getting (?:help|started)\b|(?:an? )?alternative).{0,60}$"
)
_ENTRY: Final = re.compile(
    r"(?P<entry>\*\*.{0,60}[\"\u201c`].{4,80}[\"\u201d`].{0,60}:\W{0,3}$)|"
    r"(?P<message>#{3,6} (?:\w{1,12}: )?[\"\u201c`'].{4,120}[\"\u201d`']$)|"
    r"\s*\W{0,5}(?:(?P<symptom>symptoms?|\u75c7\u72b6|\u73b0\u8c61)|"
    r"(?P<cause>(?:possible |common |likely )?causes?)|"
    r"(?P<solution>solutions?|\u89e3\u51b3(?:\u65b9\u6848|\u529e\u6cd5|\u65b9\u6cd5)|remed(?:y|ies)|workarounds?))\W{0,5}(?:[:\uff1a]|$)|"
    r"\W{0,4}Q\d{0,2}(?P<question>[.:] )|\W{0,4}A\d{0,2}(?P<answer>[.:] )",
    re.IGNORECASE,
)
"""The parts of an entry of a list of known problems."""
_TERM: Final = re.compile(
    r"\|? {0,3}`[^`|]{4,120}` {0,60}\| \S|"
    r"\s*(?:[-*+] |\d{1,3}[.)] )\*{0,2}[`\"\u201c].{4,120}?[`\"\u201d]\*{0,2} "
    r"(?:is|are|means?|indicates?|signals?)\b"
)
"""An item of a list that says what a message is."""
_DEFINED: Final = re.compile(
    r"(?i)\W{0,6}(?:exit|return|status|error) code \d{1,3}\W{1,5}(?:what|used|sent|usually|"
    r"typically|means(?! SIG[A-Z]{2,5} (?:Illegal memory|Killed either|Abort\.))|indicates|refers|"
    r"stands|returned (?:when|if)|(?:occurs|happens) )\b"
)
"""An entry of a glossary, and not what .NET's test runs print."""
_COMMANDED: Final = re.compile(
    r".{0,40}\b(?:kubectl|docker|journalctl|systemctl|kill|gdb|strace|py-spy|jstack)\b.{0,80}"
    r"<[a-z][\w -]{1,30}>"
)
"""A command with a place for what the reader has."""
_WITNESS: Final = re.compile(
    r"\b(?:(?<![Ii]f )[Ii](?:'m|'ve|\u2019m| am| have| had| get| got| was| tried| try| run| ran|"
    r" use| used| see| saw| installed| compiled| built| think| don't| can't| cannot|"
    r" do not| could| need| want| expect(?:ed)?)|"
    r"(?:[Ww]hen(?:ever)?|[Ee]very time|[Ee]ach time|[Aa]s soon as|[Aa]fter|[Oo]nce) (?:I|we)\b|"
    r"[Mm]y(?= [a-zA-Z])|[Ww]e(?:(?: are|['\u2019]re) (?:seeing|getting|"
    r"running|using|facing|hitting|having|experiencing)|['\u2019]ve| see| saw| have| get| got|"
    r" run| ran| use)|[Hh]as any(?:one|body)|"
    r"[Aa]ny (?:help|idea|suggestion|advice)s?|[Tt]hanks in advance|[Pp]lease help|"
    r"[Cc]an (?:you|some(?:one|body)|any(?:one|body)) (?:please )?(?:help|fix|tell|explain)|"
    r"[Oo]n (?:one|some|all) of (?:our|my))\b|"
    r"(?i:describe the (?:bug|issue|problem)|what (?:did|do) you expect|"
    r"\breproduc(?:e[sd]?|ible|tion|ing)\b(?!,? (?:and|or) )|"
    r"\bour (?:case|side|setup|server)|"
    r"let me know|\bfor \(?me\)?\b|\bre-?open\b|"
    r"\b(?:today|yesterday|last night|this morning)\b|"
    r"(?:after|since) (?:upgrad|updat)ing|expected behaviou?r|"
    r"actual (?:behaviou?r|result)|your current environment|environment info|"
    r"collecting environment|minimal example|issue type|system info|\[bug\]|^\W{0,8}what happened|"
    r"(?:os|python|gcc|version|pytorch|torch) version ?:|opened this issue|"
    r"the text was updated successfully|"
    r"\u00b7 (?:description|comment) \u00b7 \d{4}-|\bcommented (?:on|\d{1,2} \w{3,8} ago)\b)"
)
_SPEECH: Final = re.compile(
    r"(?:\u201c|(?<!\S)\")(?=[^\u201c\u201d\"]{0,200}?\b(?:I['\u2019]?[a-z]{0,2}|[Mm]y) )"
    r"[^\u201c\u201d\"]{1,200}[\u201d\"]"
)
_ADVICE: Final = re.compile(
    r"\*\*\* |=   |This typically refers to a problem with your application|"
    r"Please see the FAQ page for debugging|[A-Z][A-Z ,.:'!]{11,}$"
)
"""What glog, MPICH and whoever shouts say to their reader."""
_THREAD: Final = re.compile(r"[\w.-]{1,60} \u00b7 description \u00b7 \d{4}-")
"""What a tracker puts above the first words of somebody's report."""
_THREADS: Final = 2
"""So many words of a witness it is worth."""
_PROVOKES: Final = re.compile(
    r".{0,120}[$#%>] (?:.{0,200}?\b)?"
    r"(?:os\.kill\(os\.getpid\(\)|os\.abort\(\)|ctypes\.string_at\((?:0|None)\)|"
    r"faulthandler\._(?:sigsegv|sigabrt|sigfpe|fatal_error|stack_overflow|read_null)|"
    r"kill -(?:s )?(?:SIG)?(?:SEGV|ABRT|BUS|ILL|FPE|4|6|7|8|11) )"
)
"""What somebody types at a prompt to let a process die on purpose."""
_RAISES: Final = re.compile(r"\s{2,}raise [A-Z]\w{1,60}\(")
_LISTED: Final = re.compile(r"\s*(?:async )?def \w{1,60}\(.{0,80}\).{0,40}:$")
"""A function that does nothing but raise is an example's."""
_RAISED: Final = 4
"""So near above an exception stands the line that raised it."""
_BELOW: Final = 12
"""So far below it stands what came of it."""
_HOME: Final = re.compile(
    r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)(?!(?:user|username|you|your|me|name|ubuntu|runner|test)\b)"
    r"[\w.-]{2,40}[/\\]"
)
"""Somebody's own folder: what was printed there happened to him."""
_ILLUSTRATES: Final = re.compile(
    r"(?i)\b(?:(?:if|when|whenever) you (?:see|get|encounter|run|have|try|receive)|"
    r"you (?:could|might|may) have seen|"
    r"you(?:'ll| will| may| might| can| could| should| would) (?:\w{2,10} )?(?:see|get|encounter|"
    r"find|notice|receive)|"
    r"(?:something|output|error|message)s? (?:now )?(?:looks? )?(?:like|similar to)|"
    r"an? (?:example|sample)|(?:example|sample)s? (?:of|output|log|snippet)|"
    r"(?:(?<=[.!?:] )|(?<!.))(?:example|sample)s? (?:\S{2,15} ){1,3}?"
    r"(?:output|log|message|trace|line)|"
    r"(?:symptoms?|errors?|messages?) (?:may|might|can) (?:include|look)|"
    r"(?:would|will) (?:now )?(?:see|give|produce|print|look|show)|"
    r"expected (?:\w{2,10} )?output|if (?:the|an?|your|this|it)\b.{0,40}? (?:fails?|dies|"
    r"crash(?:es)?|exits?|stops?|does not|doesn't))\b|\bexamples?:(?!:)|"
    r"#{2,6} (?:.{0,40} )?(?-i:Examples?)\b|"
    r"(?:\u4f8b\u5982|\u6bd4\u5982|\u793a\u4f8b|\u4e00\u822c|"
    r"\u4f60(?:\u4f1a|\u53ef\u80fd|\u5c06)\u770b\u5230)"
)
"""What is shown below such a sentence is an example."""
_EXPECTED: Final = re.compile(r"(?i)\W{0,6}expected (?:\w{2,10} )?output\b")
_PROVIDED: Final = re.compile(
    r"(?i).{0,200}\bprovides? (?:the |an? |this )?(?:following |below |same )?"
    r"(?:explanation|description|hint|help)s?\b[^.]{0,60}[.:]?\W{0,3}$"
)
"""What a program says of every death of the kind."""
_SOUGHT: Final = re.compile(
    r"(?i)\b(?:look|search|watch|scan|grep|wait)(?:s|es|ing)? (?:out )?for (?:\S{1,20} ){0,6}?"
    r"(?:like|such as)(?: this| these)?\W{0,3}$"
)
"""`looking for messages like:` is what a program is to find."""
_TO_READER: Final = re.compile(
    r"(?i)(?!.{0,90}\b(?:between|within|inside) the )"  # so asks a report's form
    r"\W{0,6}(?:please )?(?:copy|paste|post|send|attach|provide|share|upload|look for|find) "
    r"(?:and paste |me |us )?(?:the|your|any|that|this) (?:\S{1,20} ){0,4}?"
    r"(?:text|logs?|output|events?|reports?|lines?|entr(?:y|ies)|record)\b"
)
"""What is shown below is of the kind that its reader is asked for."""
_WAS_PRINTED: Final = re.compile(
    r"(?i)\W{0,6}(?:previously|before|formerly|until now|now|after(?:wards)?)\b.{0,60}"
    r"\b(?:would|will) (?:now )?(?:show|print|look|read|say|report|be)\b"
)
"""What a change is about: how something was printed, and how it will be."""
_WISH: Final = re.compile(r"(?i)\W{0,6}(?:expected|desired)(?: \w{2,12})?\W{0,3}:\W{0,3} ")
_POSSIBLE: Final = re.compile(
    r"(?i)\b(?:may|might|could|can) (?:\w{2,10} ){0,2}(?:cause|lead|result|produce|trigger|crash|"
    r"fail|die|end|show)\b|\bit looks like (?:this|so)\b"
)
"""What is shown below such a sentence may have been seen, or not."""
_WISHED: Final = re.compile(
    r"(?i)\b(?:should|must|shall|will) (?:[\w-]{2,15} ){1,3}?(?:if|when|whenever)\b|"
    r"\b(?:output|log|message|error)s? (?:may|might|could|would|should|will) (?:\w+ )?looks?\b|"
    r"\b(?:will|would) be (?:something |similar )(?:like|to)\b|"
    r"(?:\be\. ?g\.|\bfor (?:example|instance)|\bsuch as)\W{0,3}$"
)
"""What a program is to do about it: somebody wishes for a change."""
_BARE: Final = re.compile(r"#{3,6} [A-Za-z ]{4,40}\(core dumped\)\W{0,4}$")
"""A section's title, and nobody's message."""
_OTHER: Final = re.compile(
    r"(?i)\b(?:other|another|different|earlier|previous|older?|unlike|not the same)\b.{0,40}"
    r"\b(?:issue|report|crash|bug|thread|problem|case|ticket)\b"
)
_LESSON_WEIGHS: Final = 7
"""The marks of a lesson that no report had of which its writer does not speak as of his own."""
_SOME_WEIGHS: Final = 4
_WRITTEN: Final = 0.05
"""So small a part of a text that people wrote, beside what was printed, is no lesson."""
_TOP: Final = 3
_NAME: Final = re.compile(r"#{0,2} ?[A-Za-z]+(?: [A-Za-z]+){0,3}\W{0,4}")
_BEGINS_OUTPUT: Final = re.compile(
    r"(?:\S{1,40} )?(?:Traceback \(most recent call last\):|Fatal Python error: )|"
    r"\W{0,2}\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\w{3} [ \d]\d \d\d:\d\d:\d\d |\(\w{1,40} pid=\d"
)
"""How nothing begins but a log."""
_BEGINNING: Final = 10
_EXPLAINED: Final = 3
"""So many lines of prose explain what stands between them."""


class Lessons(Enum):
    """How much of a text teaches."""

    NONE = auto()
    SOME = auto()
    """It teaches and nobody says that it happened to him; what it shows may have happened."""
    ALL = auto()


def lessons_in(page: Page) -> Lessons:
    """How much the text teaches, and whether it does nothing else."""
    if _is_output(page.head):
        return Lessons.NONE
    head = page.written()
    quoted = sum(line.startswith(">") for line in head)
    if 2 * quoted < sum(map(bool, head)):  # somebody else's words
        head = [line for line in head if not line.startswith(">")]
    # a log says the same again and again, and a lesson does not
    head = [line for line in dict.fromkeys(head) if _ADVICE.match(line) is None]
    prose = [line for line in head if is_prose(line) or _HEADING.match(line) is not None]
    taught = sum(len(_LESSON.findall(line)) for line in prose)
    taught += sum(_PAGE.match(line) is not None for line in head)
    entries = (_ENTRY.match(line) for line in head)
    taught += 2 * len({entry.lastgroup for entry in entries if entry is not None} - {"cause"})
    taught += 2 * any(_COMMANDED.match(line) is not None for line in page.head)
    titles = sum(_HEADING.match(line) is not None for line in prose)
    spoken = [line for line in prose if is_prose(line)]
    persons = persons_in(spoken)
    taught += persons.general + min(1, persons.reader, persons.supposed)
    seen = count_of_witnesses(head)
    if not seen and explains_its_title(head, spoken):
        return Lessons.ALL
    is_at_home = any(_HOME.search(line) is not None for line in page.head)
    seen += _THREADS * any(_THREAD.match(line) is not None for line in page.head)
    weight = persons.reader + persons.supposed + weight_of_layout(head, spoken)
    weight += invented_in(page.head) + weight_of_listing(page.head)
    all_of_it = Lessons.SOME if shows_output(page.head) else Lessons.ALL
    share = len(prose) / max(1, sum(map(bool, head)))
    if share >= _WRITTEN and weight >= _LESSON_WEIGHS and weight > 4 * (seen + is_at_home):
        return all_of_it
    if taught and taught + titles >= 3 and taught + titles > 4 * (seen + is_at_home):
        return all_of_it
    if seen or (not taught and (weight < _SOME_WEIGHS or share < _WRITTEN)):
        return Lessons.NONE
    return all_of_it if taught >= 2 and not is_at_home and share >= 0.25 else Lessons.SOME


def _is_output(head: Sequence[str]) -> bool:
    """Does a text begin with what a program printed, and go on so? Nobody's lesson does."""
    filled = [line for line in head if line.strip()][:_BEGINNING]
    if not filled or _BEGINS_OUTPUT.match(filled[0]) is None:
        return False
    return 2 * sum(is_prose(line) for line in filled) < len(filled)


def without_speech(line: str) -> str:
    """The line without what it quotes that somebody may say of himself: `“My program crashes”`."""
    return _SPEECH.sub("", line)


def count_of_witnesses(lines: Sequence[str], *, of_thread: bool = True) -> int:
    """How often somebody says that something happened to him, or fills in a bug report's form.

    Of a thread that describes a change its heading says nothing.
    """
    if not of_thread:
        lines = [line for line in lines if _THREAD.match(line) is None]
    lines = list(map(without_speech, lines))
    return sum(map(_witnesses, lines)) + persons_in(list(filter(is_prose, lines))).first


@lru_cache(maxsize=1024)
def _witnesses(line: str) -> int:
    """Asked twice of most lines of a text."""
    return len(_WITNESS.findall(line))


def is_name(page: Page, at: int) -> bool:
    """Is it a name and nothing else, on top of a text, as of what the text is about?"""
    return at < _TOP and _NAME.fullmatch(page.lines[at]) is not None


def is_of_a_lesson(page: Page, at: int) -> bool:
    """Where nobody speaks of himself: is the line an example, a section's title, or made up?"""
    if is_example(page, at) or is_section(page.lines[at]):
        return True
    return is_invented(page.lines[at]) and sum(map(is_prose, page.written())) >= _EXPLAINED


def is_example(page: Page, at: int) -> bool:
    """Does the sentence above say that what follows is an example?"""
    return _ILLUSTRATES.search(page.paragraph_above(at)) is not None


def is_expected(page: Page, at: int) -> bool:
    """Does the line stand where a form asks what should be printed, or begin with that itself?"""
    if _WISH.match(page.lines[at]) is not None:
        return True
    if _WAS_PRINTED.match(page.paragraph_above(at)) is not None:
        return True
    above = page.paragraph_above(at)
    return any(one.match(above) for one in (_EXPECTED, _PROVIDED, _TO_READER)) or bool(
        _SOUGHT.search(above)
    )


def is_possible(page: Page, at: int) -> bool:
    """Does the sentence above say that what follows may happen?"""
    return _POSSIBLE.search(page.paragraph_above(at)) is not None


def is_wished(page: Page, at: int) -> bool:
    """Does the sentence above say what is to be done when that what follows happens?"""
    return _WISHED.search(page.paragraph_above(at)) is not None


def is_provoked(page: Page, at: int) -> bool:
    """Did a command right above ask for the death, or the text's own listing raise it?"""
    above = page.lines[max(0, at - _BELOW) : at + 1]
    if any(_PROVOKES.match(line) is not None for line in above):
        return True
    raised = next((line.strip() for line in reversed(above[-_RAISED:]) if _RAISES.match(line)), "")
    listed = (near for near, line in enumerate(page.lines) if raised and line.strip() == raised)
    return any(_LISTED.match(page.lines[near - 1]) is not None for near in listed if near)


def is_of_another_report(lines: Sequence[str], at: int) -> bool:
    """Is the line quoted, below a sentence that calls what is quoted another case?"""
    if not lines[at].startswith(">"):
        return False
    begin = next((near for near in range(at, -1, -1) if not lines[near].startswith(">")), -1)
    own = [line for line in lines[max(0, begin - 1) : begin + 1] if line.strip()]
    return any(_OTHER.search(line) is not None for line in own)


def is_term(line: str) -> bool:
    """Does the line say what a message is that it quotes, or begin a section about it?"""
    return any(one.match(line) is not None for one in (_TERM, _BARE, _DEFINED))
