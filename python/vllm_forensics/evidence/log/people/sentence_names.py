"""Who died, as a sentence about a crash names him.

Who died is the subject of the verb that is the crash's name, its object (`crashes the server`), or
stands beside it (`segfault in EngineCore`). A subject is a name where it is all of its clause's
beginning, or has the form of a name; what has an article before it is only called by its kind.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.killers import victim_of
from vllm_forensics.evidence.log.people.no_names import (
    LIKE_ADJECTIVE,
    is_how_often,
    is_kind_of_end,
    somebody,
)
from vllm_forensics.evidence.log.people.objects import object_of
from vllm_forensics.evidence.log.people.works import is_marked
from vllm_forensics.evidence.log.prompts import program_of_command

_PROCESS: Final = (
    r"(?:EngineCore|engine core|workers?|actors?|scheduler|API ?server|detokenizer|"
    r"(?:llama|ollama)[ -](?:runner|server)|[a-z]{3,20}(?<!api)(?<!web)server(?= |$))"
    r"(?:_[A-Z]{1,3}\d{1,4}){0,4}"
)
_PROGRAMS: Final = "containerd|dockerd|interpreter|kernel|ollama|raylet|server|sglang|vllm"
"""Such a word is a program's, as a subject and as an object."""
_WHO: Final = lazily(
    # behind a comma another may be the subject
    rf"(?i)(?<![\w-])(?P<name>{_PROCESS})\b(?:(?!, (?:all |both )?(?:the|my|our|an?|its|every|each|"
    r"some)\b)[^.;:]){0,40}:? ?$"
)
_INTERPRETER: Final = lazily(
    r"(?i)\b(?P<language>python[\d.]{0,4}|ruby|perl|php|lua) interpreter\b"
)
"""Whose: its program is called like its language."""
_WITHIN: Final = lazily(
    rf"(?i)[^.;:]{{0,20}}? (?:in|on) (?:the |an? )?(?:\w{{2,12}} )?[`\"']?"
    rf"(?P<name>{_PROCESS}|(?<=on the )(?:server|client))\b"
)
"""Behind the crash's name."""
_DAEMON: Final = lazily(
    r"[^.;:]{0,20}? (?:in|on|of) (?:the )?[`\"']?"
    r"(?P<name>(?!kernel|client|\w{0,12}server\b|worker|engine|actor|\w{0,8}[bs]sd\b)[a-z][a-z-]{3,40})"
    r"[`\"']?(?=[.,;:)]|$| (?:when|while|on|with|after|during|if|at|and|since|every|running)\b)"
)
"""So too, where the word's form is that of a program alone."""
_IS_PROCESS: Final = lazily(rf"(?i){_PROCESS}")
_VICTIM: Final = lazily(
    r"(?i)(?<=killed|rashes|rashed| kills|freeze|reezes| froze) "
    r"(?:(?:my|our|the|this|its)(?: entire| whole)?|entire|whole) [`\"']?(?P<name>[\w+-]{2,40})|"
    r"(?-i:(?<= crash|rashes|rashed|ashing) (?P<proper>[A-Z][a-z][\w+-]{1,30})(?= [a-z]|[.,;]|$)"
    r"(?<!On)(?<!At)(?<!In)(?<!When)(?<!With)(?<!After)(?<!While)(?<!During)(?<!Windows))|"
    rf"(?<=rashes|rashed| kills) (?P<bare>{_PROGRAMS}|python|supervisord|systemd|httpd|mysqld|"
    r"mongod|etcd|sshd|kubelet|nginx|postgres|redis|gunicorn|uwsgi|celery)\b"
)
"""`celery killed my worker`, `take() crashes Python`: who died is named behind."""
_PATH: Final = lazily(
    r"(?<![\w.-])(?:\.{0,3}|~|sh [\w.-]{1,40})/(?:[\w.+-]{1,60}/){0,10}"
    r"(?P<name>[\w.+-]{1,60})\W{0,3}$"
)
_DIES: Final = lazily(
    r"(?i) (?:fails?|failed|exit(?:s|ed)?|die[sd]?|crash(?:es|ed)?|terminate[sd]?|end(?:s|ed)?|"
    r"aborts?|aborted|(?:is |was |gets )?(?:killed|hit|interrupted)|"
    r"(?:is |are |was |were |gets? |got )?restart(?:s|ed)|stop(?:s|ped)|quits?|throws|gives|raises|"
    r"receive[sd]|caught|results in|gets?|got|hits?|triggers?|triggered|produce[sd]?|"
    r"generate[sd]?):? "
    r"(?:(?:\w{1,12} ){0,2}?(?:with|by|after|due to|because of|on|in|from)? ?(?:an? )?[\"'`(\[]?|"
    r"(?:with|due to|because of) (?:an? )?[\[(]?(?:[\w:]{1,12} ){0,5}[\"'`(]?)$"
)
"""What a process did, before the name of its death."""
_FAILS: Final = lazily(
    r"(?i) (?:fail(?:s|ed)? to|(?:is |was )?(?:unable|not able) to|cannot|can['\u2019]?t|can not|"
    r"wo(?:n['\u2019]?t|uld not)|will not|do(?:es)?(?: not|n['\u2019]?t)|did(?: not|n['\u2019]?t)|"
    r"refuses to|stopped|not|never)"
    r" (?:start|launch|load|boot|run|open|work|come|finish|complete|respond|initiali[sz]e)"
    r"(?:s|ed|ing)?(?![\w-])[^.;:()]{0,60}?(?:[(:,\u2013]| -) ?"
    r"(?:(?:error|exits?|with|due to|status|signal|just|then|it|an?|only):? ){0,3}[\"'`]?$"
)
"""What a process would not do: behind it stands why, apart."""
_DOING: Final = lazily(
    r"\b(?:in|to|with) (?:the )?[`\"']?(?P<name>[A-Z][\w.+-]{1,40})[`\"']? "
    r"(?i:crash|hang|freez|segfault|dy|abort|exit|clos)(?i:ing)$"
)
"""`results in Blender crashing`."""
_CAUSES: Final = lazily(
    r"(?i)(?P<name>[\w.+-]{2,40})[`\"']? (?:caus(?:es|ed|ing)|trigger(?:s|ed)?|produce[sd]?) "
    r"(?:an? )?(?:[\w-]{2,12} )?[`\"']?$"
)
"""A library or a call ends others; a program does so only to itself."""
_OBJECT: Final = lazily(
    r"(?i)\b(?:(?:terminat|kill|crash)(?:e?s|e?d|ing) (?P<ended>NAME)(?= (?:with|by) )|"
    r"(?:caus|forc)(?:es?|ed|ing) (?P<forced>NAME)(?= to | $)|"
    r"(?:makes?|making|made) (?P<made>NAME))"
    r"(?: \w{1,4}){0,2} $".replace("NAME", r"(?:the |my |our )?[`\"']?[\w.+-]{2,40}[`\"']?")
)
"""`import pool kills python with SIGSEGV`: who is said to have been ended, before the death."""
_UNIT: Final = lazily(
    r"(?i)(?<![\w./-])(?P<name>[a-z][\w-]{2,40}) (?:container|pod|process|daemon)s?\b[^.;:]{0,20} "
    r"(?:was|is|were|are|been|being|gets?|got|getting) (?:\w{2,12} )?terminated\b"
)
"""`the pool container was terminated with Exit Code 139`."""
_SPEAKER: Final = lazily(r"\W{0,4}(?P<name>[A-Za-z][\w.+-]{1,40}): ")
_FAR: Final = 200
"""No subject stands further from its verb."""
_BETWEEN: Final = lazily(
    r"(?:[\s\"'`*]{0,4}\b(?:just|always|still|also|now|then|keeps?|kept|often|sometimes|never|hard|"
    r"is|are|has|have|had|was|were|been|being|will|did|does|gets?|got|getting|"
    r"(?:seem|appear|start|continue|begin|began|tend)(?:s|e?d)? to|"
    r"\w{2,15}ly)){0,6}[\s\"'`*]{0,4}$",
    re.IGNORECASE,
)
"""Between a subject and its verb."""
_SUBJECT: Final = lazily(
    r"(?P<before>(?:^|[^\w\s]|\S{1,40})\s{0,2})(?P<quote>[`\"'*]{0,3})(?<![\w./-])"
    r"(?P<name>[A-Za-z][\w.+/-]{1,80})[`\"'*]{0,3}"
    r"(?P<number> v?\d{1,4}(?:\.\w{1,8}){0,4}(?:-\w{1,12})?)?"
    r"(?: (?:(?P<kind>process(?: group)?|proc|server|daemon|program|app|children)|"
    r"(?P<unit>pod|container|service|job|task|run|session|instance|deployment|cluster)s?))?"
    r"(?P<mark> ?:)?$",
    re.IGNORECASE,
)
_PROGRAM: Final = lazily(
    r"(?i)(?!\w{1,20}-(?:thread|bas|relat|enabl|compil|optimiz|accelerat|host|power)ed$)"
    rf"(?:{_PROGRAMS}|python\d?|engine|worker|actor|scheduler|client|daemon|(?:my)?sqld|"
    r"crond|[\w-]{1,30}(?:server|-cli|\.exe|[bcfghkmpqstvwxz]d|-\w{1,20}d))$"
)
"""Such a word is who died, whatever stands before it; before a noun (`python crash`) no other."""
_OPENS: Final = lazily(
    r"(?i)(?:^|[^\w\s`'\"]|\b(?:and|or|but|then|so|because|that|when(?:ever)?|while|if|as|where|"
    r"which|since|after|before|until|once|why|says?|said|like|now|today))\s{0,2}$"
)
"""A clause begins behind it."""
_STARTED: Final = lazily(
    r"(?i)\b(?:(?:start|launch)ing|(?:trying|tr(?:y|ies|ied)|attempt(?:s|ed|ing)?|unable|fail(?:s|ed|ing)?|"
    r"(?:when|if|whenever|as soon as|after) (?:I|we)) (?:to )?(?:start|launch)) "
    r"(?:up )?(?:the )?[`\"']?(?P<name>[a-z][\w+-]{2,40})"
    r"(?=[`\"']?(?: v?\d| [-(]|[,:]|\W{0,3}$| (?:results?|causes?|gives?|leads?|fails?)\b))|"
    r"\b(?:runn|execut)ing (?:the |my |our |any |an? )?[`\"']?(?P<program>[\w.+-]{2,40}"
    r"(?:[`\"']? (?:program|binary|executable|command)\b|(?<=\.(?:py|sh))[`\"']?(?= )))|"
    r"\b(?:runn|execut|invok)ing (?:\w{1,12} )?(?P<quote>[`\"'])"
    r"(?P<command>(?:(?!(?P=quote)).){1,120} (?:(?!(?P=quote)).){1,120})(?P=quote)"
)
"""`Segfault when starting python`: what was started is who died."""
_FIRST: Final = lazily(r"(?:^|[\]:.] )(?P<first>[A-Z][a-z]\w{1,20}) $")
"""Of a name of two words, at the beginning of a sentence that is not written all in capitals."""
_PROPER: Final = lazily(
    r"(?:^|[\]:.#] )(?:Docker )?(?P<words>[A-Z][\w.+-]{1,20}"
    r"(?: (?:[A-Z][\w.+-]{1,20}|\d[\d.]{0,8})){1,4}) $"
)
"""A name of several words that a sentence begins with."""
_APPOSED: Final = lazily(r"(?<![\w./:-])(?P<name>[A-Za-z][\w.+-]{0,60}[_-]\w{1,40}) [(\[]$")
"""`pool_test (SEGFAULT)`, as who runs tests writes."""
_PAIR: Final = lazily(r"(?:^|[\]:.!?] )(?P<first>[A-Z][\w.+-]{1,40}) ?(?:/|&|\+|and) ?$")
"""Of two that are said to have died the first is named."""
_OWNER: Final = lazily(
    r"(?:^|\s)[`\"]?(?P<name>[A-Z][\w.+-]{1,40})[`\"]?['\u2019]s (?:\w{2,20} ){0,2}$"
)
"""`Poolview's window freezes`."""
_INFINITIVES: Final = lazily(
    r"(?i) (?:my|our|the|this|its)(?: entire| whole)? [`\"']?"
    r"(?P<name>(?!same\b|way\b|next\b|moment\b|time\b)[\w+-]{2,40})"
)
"""Behind `will crash`."""
_ROLE: Final = lazily(
    r"(?:host|agent|runner|renderer|helper|launcher|manager|compositor|backend|frontend|player|"
    r"viewer|editor|process|service)$"
)
"""The last word of a name of two, without a capital: `Extension host`."""
_RANKED: Final = lazily(r"(?i)\b(?P<rank>rank \d{1,5}) $")
"""`rank 0 broker crashes`."""
_CAMEL: Final = lazily(r"[a-z][A-Z]")
_CAUSED_IN: Final = lazily(r"(?i)[\w`\"')] caus(?:es|ed|ing) (?:an? |the )?(?:\w{2,12} )?$")
_VICTIM_IN: Final = lazily(
    r" (?:in|of) (?:the )?(?:(?:console|terminal|graphical|latest|main|whole) )?"
    r"(?P<name>[A-Z][a-zA-Z]{2,20})(?![\w.:(]| (?:mode|class|function|builds?)\b)"
)
"""`Swoop causes crash in Emacs`."""
_STATUS_OF: Final = lazily(r"(?<![\w./-])(?P<name>[a-z][\w.+-]{2,40}) $")
_STATUS: Final = lazily(r"(?i)(?:exit|error|status|return) (?:code|status)")
_TAKES: Final = lazily(
    r"(?i)(?:returns?|gives?|gave|shows?|gets?|got|throws?|threw|reports?|has|had|sees?|saw|says?|"
    r"hits?|receives?|prints?|outputs?|means?|non-?zero|error|fatal|exit|worker|python)$"
)
"""What stands before a status and is not who left with it."""
_STARTS_IT: Final = lazily(
    r"(?i)\b(?:re)?(?:start|launch|run|boot|open|execut)(?:s|e[sd]?|t?ed|n?ing)? (?:up )?"
    r"(?:the |my |our |this )(?:\w{2,12} )?(?P<name>[\w.+-]{2,40}),? (?:and )?(?:then )?"
    r"it (?:(?:just|always|will|immediately|instantly|then|keeps?) ){0,2}$"
)
"""`when I start the server it crashes`: whom the pronoun stands for."""
_THEN: Final = lazily(
    r"(?i)[^.;:\n]{0,60}?(?:,? (?:and|then|so)|,) (?:then |the |my |our |whole |entire ){0,3}"
    r"(?P<name>[\w.+-]{2,40}) (?:(?:is|was|goes|went|gets|just|immediately|always|then) ){0,2}"
    r"(?:down|dies|died|dead|crash(?:es|ed)|exit(?:s|ed)|gone|killed|terminate[sd]|quits)"
    r"(?![\w-])"
)
"""`Signal 11 received and server down`: what came of the crash tells whose it was."""
_QUOTED: Final = lazily(r"`(?P<command>[a-z][\w.+-]{1,40} [^`]{1,120})`(?: \w{2,12}ly)?\s{0,2}$")
"""`pool -v` segfaults: what was typed."""
_GENERIC: Final = (
    r"docker|podman|lxc|kubernetes|k8s|linux|ubuntu|debian|alpine|windows|init|sidecar|app|web|"
    r"test|build|single"
)
_IS_GENERIC: Final = lazily(rf"(?i)(?:{_GENERIC})$")
_FIRST_WORD: Final = lazily(
    rf"\W{{0,4}}(?!(?:{_GENERIC}|the|an?|my|our|this|that|your|its|some|"
    r"all|any|every|each|many|most|new|old|same|other|another|multiple|several|random|running|when|"
    r"if|after|while|and|or|but|in|on|of|for|with|from|to|as|is|are)\b)"
    r"(?P<first>[a-z][\w.]{1,30}) ",
    re.IGNORECASE,
)
"""All that stands before the last word of a pod's or container's name."""
_OPENING: Final = lazily(
    r"\W{0,4}(?:(?:\[[^\]]{1,30}\]|(?:[A-Z]\w{1,12}\.? )?(?:[Bb]ug|BUG|[Ii]ssue)) ?:? ?){0,3}"
    r"(?P<name>[\w.+-]{2,40}) (?:(?:binary|process|executable) )?"
    r"(?:with|on|using|under|in|running|while|from) "
)
"""`llama-server with a large model segfaults`: before what is said of it stands who."""
_SCRIPT: Final = lazily(r"\W{0,4}\.{1,2}/(?:[\w.+-]{1,60}/){0,8}(?P<name>[\w.+-]{1,60}) \w")
"""`./train.sh results got aborted`: a path that can be run."""
_ADDRESS: Final = lazily(r"\w{2,10}://[^\s)\]>\"'`]{1,400}")
_GERUND: Final = lazily(r"\W{0,4}(?:\[\w{1,12}\]:? )?[A-Z]?[a-z]{2,12}ing \S")
"""`Calling take(3) crashes`: what somebody did, and not who died."""


def names_a_process(word: str) -> bool:
    """Is it what a part of an engine is called, and no function?"""
    return _IS_PROCESS.fullmatch(word) is not None


def speaker_of(title: str) -> str | None:
    """The program that a title names before what it quotes: `systemd-journald: …`."""
    speaker = _SPEAKER.match(title)
    name = speaker["name"] if speaker is not None else ""
    is_program = _PROGRAM.match(name) is not None or bool(set(name) & set("-_"))
    return name if is_program and not is_marked(title) else None


def process_named(crash: re.Match[str], *, is_verb: bool) -> str | None:
    """Who a sentence says died: the subject of the verb that is the crash's name, or before it.

    A word of an address on the net is nobody.
    """
    name = _named_in(crash, is_verb=is_verb)
    if name is not None and name.lower() == "interpreter":
        language = _INTERPRETER.search(crash.string)
        name = language["language"].lower() if language is not None else name
    if name is None or "://" not in crash.string:
        return name
    return name if name in _ADDRESS.sub(" ", crash.string) else None


def _named_by_words(crash: str) -> str | None:
    """Who a crash's own words name: `kernel panic`, `R session aborted`."""
    if crash.lower().startswith("kernel panic"):
        return "kernel"
    is_of_r = crash.startswith("R") and (" encountered " in crash or "ession" in crash)
    return "R" if is_of_r else None


def _named_in(crash: re.Match[str], *, is_verb: bool) -> str | None:
    text, start = crash.string, crash.start()
    before = text[:start]
    if (killed := victim_of(crash)) is not None:
        return somebody(killed)
    apposed = _APPOSED.search(text, 0, start)
    if apposed is not None and text[crash.end() : crash.end() + 1] in {")", "]"}:
        return apposed["name"]
    if (named := _named_by_words(crash[0])) is not None:
        return named
    if (victim := _VICTIM.match(text, crash.end())) is not None:
        return somebody(victim["name"] or victim["proper"] or victim["bare"])
    who = (
        _WHO.search(text, 0, start)
        or _WITHIN.match(text, crash.end())
        or _PATH.search(text, 0, start)
        or _daemon_behind(crash)
    )
    if who is not None:
        return who["name"]
    then = _THEN.match(text, crash.end())
    return (
        _ended_in(crash, is_verb=is_verb)
        or _begun_in(crash, is_verb=is_verb)
        or _subject_of(text, before, is_verb=is_verb)
        or (somebody(then["name"]) if then is not None else None)
        or object_of(crash)
    )


def _daemon_behind(crash: re.Match[str]) -> re.Match[str] | None:
    """A program by its form, in which the crash is said to be."""
    within = _DAEMON.match(crash.string, crash.end())
    return within if within is not None and _PROGRAM.match(within["name"]) is not None else None


def _ended_in(crash: re.Match[str], *, is_verb: bool) -> str | None:
    """Who is said to have been ended by something else: an object, before the verb or behind."""
    text, end = crash.string, crash.end()
    before = text[: crash.start()]
    if (doing := _DOING.search(text, 0, end)) is not None and somebody(doing["name"]):
        return doing["name"]
    if (ended := _OBJECT.search(before)) is not None:
        words = ended["ended"] or ended["forced"] or ended["made"]
        return somebody(words.rpartition(" ")[2].strip("`\"'"))
    victim = None
    if is_verb and crash[0].lower() == "crash":
        victim = _INFINITIVES.match(text, end)
    elif _CAUSED_IN.search(before) is not None:
        victim = _VICTIM_IN.match(text, end)
    return somebody(victim["name"]) if victim is not None else None


def _begun_in(crash: re.Match[str], *, is_verb: bool) -> str | None:
    """What was started, what a sentence begins with, or what caused its own end or left so."""
    text, before = crash.string, crash.string[: crash.start()]
    causes = _CAUSES.search(before)
    if causes is not None and _PROGRAM.match(causes["name"]) is not None:
        return causes["name"]
    is_said = is_verb or _DIES.search(before) is not None
    started = _STARTS_IT.search(before) if is_verb else None
    begun = somebody(started["name"]) if started is not None else None
    begun = begun or (_typed_in(before) if is_verb else None)
    begun = begun or _started_in(text) or (_opening_of(text) if is_said else None)
    left = _STATUS_OF.search(before) if _STATUS.match(crash[0]) is not None else None
    if begun is None and left is not None and _TAKES.match(left["name"]) is None:
        return somebody(left["name"])
    return begun


def _typed_in(before: str) -> str | None:
    """The program of a quoted command, which is the subject of what follows."""
    typed = _QUOTED.search(before)
    return program_of_command(typed["command"]) if typed is not None else None


def unit_named(text: str) -> str | None:
    """The container, or another unit, that a sentence says was terminated."""
    unit = _UNIT.search(text)
    return somebody(unit["name"]) if unit is not None else None


def _opening_of(text: str) -> str | None:
    """The program that a sentence begins with, whatever stands between it and its verb."""
    script = _SCRIPT.match(text)
    if script is not None:
        return script["name"]
    opening = _OPENING.match(text)
    is_program = opening is not None and _PROGRAM.match(opening["name"]) is not None
    return opening["name"] if opening is not None and is_program else None


def _started_in(text: str) -> str | None:
    """What somebody started, by name or by a whole command."""
    started = _STARTED.search(text)
    if started is None:
        return None
    if started["command"] is not None:
        return program_of_command(started["command"])
    return somebody((started["name"] or started["program"]).split(" ")[0])


def _of_two_words(before: str, name: str) -> str | None:
    """`event router pods crash`, and no `Docker container crashes`."""
    if not before.strip("#* "):  # `pool container dies`
        return somebody(name) if _IS_GENERIC.match(name) is None else None
    words = _FIRST_WORD.fullmatch(before)
    return f"{words['first']} {name}" if words is not None and somebody(name) else None


def _subject_of(text: str, before: str, *, is_verb: bool) -> str | None:
    """The subject of the verb at the end of what stands before a crash's name, or of the crash."""
    dies = _DIES.search(before) or _FAILS.search(before)
    if dies is not None:
        before, is_verb = text[: dies.start() + 1], True
    verb = text[len(before) : len(before) + 1]
    before = before[-_FAR:]
    between = _BETWEEN.search(before)
    subject = _SUBJECT.search(before[: between.start()] if between is not None else before)
    if subject is None or subject["before"].endswith("thread ") or _GERUND.match(text) is not None:
        return None
    name = subject["name"]
    if _PROGRAM.match(name) is not None:
        return name
    if is_verb and verb.islower() and (proper := _proper(before[: subject.end("name")])):
        return proper
    pair = _PAIR.search(before[: subject.start("name")])
    if pair is not None:
        return somebody(pair["first"]) if is_verb else None
    first = _FIRST.search(before[: subject.start("name")]) if is_verb else None
    is_word = (name[:1].isupper() and name.isalpha()) or _ROLE.match(name) is not None
    if first is not None and is_word and verb.islower() and somebody(first["first"]):
        is_part = somebody(name) is not None or LIKE_ADJECTIVE.match(name) is not None
        return somebody(f"{first['first']} {name}") if is_part else None
    return _named_by(subject, before[: subject.start("name")], is_verb=is_verb)


def _proper(before: str) -> str | None:
    """The name of several words that a sentence begins with, none of which is one of grammar."""
    proper = _PROPER.search(f"{before} ")
    if proper is None:
        return None
    *first, last = proper["words"].split(" ")
    is_name = somebody(first[0]) is not None and not is_kind_of_end(first[0])
    is_name = is_name and _IS_GENERIC.match(first[0]) is None and last.isalpha()
    return proper["words"] if is_name and (first[1:] or last.isupper()) else None


def _named_by(subject: re.Match[str], before: str, *, is_verb: bool) -> str | None:
    """The name of a subject of one word, before a verb or before the noun `crash`."""
    owner = _OWNER.search(before)
    if owner is not None and not is_kind_of_end(owner["name"]):
        return somebody(owner["name"])
    name, number = subject["name"], subject["number"] or ""
    ranked = _RANKED.search(before)
    if ranked is not None and is_verb and somebody(name) is not None:
        return f"{ranked['rank']} {name}"
    if subject["mark"] or (number.strip().isdecimal() and name.islower()):
        return None  # `Export: crashes`, `found 3 crashes`
    is_named = bool(subject["quote"]) or _OPENS.search(subject["before"]) is not None
    if not is_verb:
        is_named = (is_named or is_how_often(before)) and not is_kind_of_end(name)
        is_named = is_named or bool(number)
    is_units = bool(subject["unit"]) and not subject["quote"]
    if is_units and not (set(name) & set("-_") or _CAMEL.search(name) is not None):
        return _of_two_words(before, name)
    is_named = is_named or is_units  # `most of the cache-agent pods`
    kind = subject["kind"] if _PROGRAM.match(subject["kind"] or "") is not None else None
    return (somebody(name) if is_named else None) or kind
