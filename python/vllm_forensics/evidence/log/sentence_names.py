"""What a sentence about a crash names: the process that died, the function or the library."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.model.incident import NativeCall

_LIBRARY: Final = r"[\w.+-]{1,80}?\.(?:so(?:\.\d{1,6}){0,3}|dll|dylib|pyd)\b"
_FUNCTION: Final = (
    r"(?:[A-Za-z_~]\w{0,60}(?:<[\w:, ]{1,60}>)?::){1,6}~?\w{1,80}|"  # ns::take
    r"(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Za-z_]\w{0,80}(?=\(\))|"  # pool.take()
    r"(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Za-z_]\w{0,80}(?=\([\w=\"'., \[\]]{0,80}\))|"  # take(3)
    r"_{1,2}[A-Za-z]\w{2,80}(?![\w.])|"  # _take
    r"(?-i:[a-z]{1,20}(?:[A-Z][a-z0-9]{1,20}){2,8})(?![\w./-])|"  # takeBlockFast
    r"[A-Za-z][A-Za-z0-9]{0,30}(?:_[A-Za-z0-9]{1,30}){1,8}(?![\w./-])|"  # take_block
    r"[A-Za-z]\w{2,60}(?= (?:function|method)\b)|"
    r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){1,6}(?![\w.])"  # pool.take
)
_FILE: Final = lazily(
    r"(?:[\w./-]{1,120}\.(?:c|cc|cpp|cxx|h|hpp|py|rs|go|js|ts|java|md|txt|cu|sh|yml|yaml|json|toml|"
    r"gguf|bin|exe|com|org|net|io)|v?\d[\w.]{0,20}|(?:i|e)\.\w\.?|(?:vs|No)\.)$"
)
_NAMED: Final = lazily(rf"[`\"']?(?:(?P<library>{_LIBRARY})|(?P<function>{_FUNCTION}))")
_PLACE: Final = lazily(
    r"(?i)\b(?:in|at|inside|within|during|when|calling|call(?:s|ed)? to|from|of|by|using|executing|"
    r"with|running|function|method|module|on(?! \w*(?:x86|arm|linux|win))) "
    r"(?:the |an? |function |method |module )?"
)
"""Behind such a word of the same sentence the place stands."""
_BEHIND: Final = lazily(r"[^.;\n]{0,80}(?:\.(?=\w)[^.;\n]{0,40}){0,3}")
_PROCESS: Final = (
    r"(?:EngineCore|engine core|workers?|actors?|scheduler|API ?server)(?:_[A-Z]{1,3}\d{1,4}){0,4}"
)
_WHO: Final = lazily(rf"(?i)\b(?P<name>{_PROCESS})\b[^.;:]{{0,40}}$")
_WITHIN: Final = lazily(rf"(?i)[^.;:]{{0,20}}? in (?:the |an? )?[`\"']?(?P<name>{_PROCESS})\b")
"""Behind the crash's name."""
_IS_PROCESS: Final = lazily(rf"(?i){_PROCESS}")
_VICTIM: Final = lazily(r"(?i)(?<=killed) (?:my|our) [`\"']?(?P<name>[\w.+-]{2,40})")
"""`celery killed my worker`: who died is named behind."""
_PATH: Final = lazily(r"(?:\./|/)(?:[\w.+-]{1,60}/){0,10}(?P<name>[\w.+-]{1,60})\W{0,3}$")
_DIES: Final = lazily(
    r"(?i) (?:fails?|failed|exit(?:s|ed)?|die[sd]?|crash(?:es|ed)?|terminate[sd]?|end(?:s|ed)?|"
    r"aborts?|aborted|(?:is |was |gets )?killed|stop(?:s|ped)|quits?|throws|gives|raises) "
    r"(?:\w{1,12} ){0,2}?(?:with|by|after|due to|because of|on|in|from)? ?(?:an? )?[\"'`(]?$"
)
"""What a process did, before the name of its death."""
_OBJECT: Final = lazily(
    r"(?i)\b(?:(?:terminat|kill|crash)(?:e?s|e?d|ing) (?P<ended>NAME)(?= (?:with|by) )|"
    r"(?:caus|forc)(?:es|ed|ing) (?P<forced>NAME)(?= to )|(?:makes?|making|made) (?P<made>NAME))"
    r"(?: \w{1,4}){0,2} $".replace("NAME", r"(?:the |my |our )?[`\"']?[\w.+-]{2,40}[`\"']?")
)
"""`import pool kills python with SIGSEGV`: who is said to have been ended, before the death."""
_SUBJECT: Final = lazily(
    r"(?P<name>[A-Za-z][\w.+/-]{1,40})[`\"']?"
    r"(?P<number> v?\d[\w.]{0,12})? ?(?:process|proc|server|program|app)?"
    r"(?: (?:just|always|still|also|now|then|keeps?|randomly|suddenly|unexpectedly|immediately|"
    r"sometimes|instantly|is|has|will|on|was|gets?|got))*\W{0,2}$",
    re.IGNORECASE,
)
_PROGRAM: Final = lazily(
    r"(?i)(?:python\d?|engine|worker|actor|scheduler|raylet|server|vllm|sglang|ollama|kernel|client|"
    r"daemon|interpreter|(?:my)?sqld|containerd|dockerd|"
    r"crond|[\w-]{1,30}(?:server|-cli|[bcfghkmpqstvwxz]d|-\w{1,20}d))$"
)
"""Before a noun (`python crash`) only such a word is who died, and no adjective."""
_NOBODY: Final = lazily(
    r"(?i)(?:it|this|that|which|they|he|she|and|or|but|then|so|code|program|process|app|script|game|"
    r"application|example|system|everything|all|the|an?|to|of|for|in|on|at|by|when|while|also|"
    r"causes?|is|was|bug|issue|error|with|from|into|after|before|during|as|via|per|crash\w*|core|segfault\w*|now|here|there|who|what|tests?|"
    r"random|not|never|job|task|actor|container|pod|step|build|target|child|parent|thread|run|session|shell|script|exit|status|\w+ly|\w+ing|software|computer|machine|file|function|call|command|\w+\(\))$"
)


_STARTED: Final = lazily(
    r"(?i)\b(?:start|launch)ing (?:up )?(?:the )?[`\"']?(?P<name>[a-z][\w+-]{2,40})"
    r"(?=[`\"']?(?: v?\d| [-(]|[,:]|\W{0,3}$))"
)
"""`Segfault when starting python`: what was started is who died."""
_CALLED: Final = lazily(
    r"[`\"']?[\w.:~<>]{1,200}(?:\([\w=\"'., \[\]]{0,80}\))?[`\"']? (?:\w{1,12} )?$"
)
_GERUND: Final = lazily(r"\W{0,4}(?:\[\w{1,12}\]:? )?[A-Z]?[a-z]{2,12}ing \S")
"""`Calling take(3) crashes`: what somebody did, and not who died."""


def place_named(text: str, start: int, end: int) -> NativeCall | None:
    """The function or library that a sentence says the crash between start and end was in."""
    behind = _BEHIND.match(text, end)
    stop = behind.end() if behind is not None else end
    found = [_NAMED.match(text, one.end()) for one in _PLACE.finditer(text, end, stop)]
    subject = _CALLED.search(text[:start])
    if subject is not None:
        found.append(_NAMED.match(text[:start], subject.start()))
    for match in filter(None, found):
        library, function = match["library"], match["function"]
        if function is None or (_FILE.match(function) or _IS_PROCESS.fullmatch(function)) is None:
            return NativeCall(function=function, module=library)
    return None


def process_named(crash: re.Match[str], *, is_verb: bool) -> str | None:
    """Who a sentence says died: the subject of the verb that is the crash's name, or before it."""
    text, start = crash.string, crash.start()
    before = text[:start]
    if (victim := _VICTIM.match(text, crash.end())) is not None:
        return _somebody(victim["name"])
    who = (
        _WHO.search(text, 0, start)
        or _WITHIN.match(text, crash.end())
        or _PATH.search(text, 0, start)
    )
    if who is not None:
        return who["name"]
    if (ended := _OBJECT.search(before)) is not None:
        words = ended["ended"] or ended["forced"] or ended["made"]
        return _somebody(words.rpartition(" ")[2].strip("`\"'"))
    started = _STARTED.search(text)
    name = _somebody(started["name"]) if started is not None else None
    return name or _subject_of(text, before, is_verb=is_verb)


def _somebody(name: str) -> str | None:
    return name if _NOBODY.match(name) is None else None


def _subject_of(text: str, before: str, *, is_verb: bool) -> str | None:
    """The subject of the verb at the end of what stands before a crash's name, or of the crash."""
    dies = _DIES.search(before)
    if dies is not None:
        before, is_verb = text[: dies.start() + 1], True
    subject = _SUBJECT.search(before)
    if subject is None or _GERUND.match(text) is not None:
        return None
    name = _somebody(subject["name"])
    return name if name is not None and (is_verb or _PROGRAM.match(name)) else None
