"""What people call a crash: by a signal, by what was damaged, or only by its end."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.people.ends_abroad import ENDS, NOUNS, SIGNALS
from vllm_forensics.evidence.log.people.killers import KILLER
from vllm_forensics.evidence.log.phrases import ended_by, signal_in
from vllm_forensics.evidence.log.writers.shells import WORDS

_FAULT: Final = r"f(?=[a-z]{0,3}u)(?=[a-z]{0,4}t)[alut]{3,5}"
"""`fault`, and how it is mistyped."""
_STATUS: Final = r"139|13[2456]"
_KILLED: Final = (
    r"killed(?! (?:by (?!(?:(?:the )?(?:linux |kernel )?oom)|the kernel)|"
    r"(?:it|the|my|an?|all|off|some|any|other|several|"
    r"many|its|their|your|our)\b|process))"
)
"""Was, and not: killed another."""
_KILLED_MINE: Final = r"killed(?= (?:my|our)\b)"
"""By another than who writes."""
_ABROAD: Final = SIGNALS | {
    word.lower(): signal for word, signal in WORDS if word.replace(" ", "").isalpha()
}
DEATH: Final = re.compile(
    rf"(?ia)(?:(?<![\w.-])(?:se[gq](?:\w{{2,12}})?\.?[ _-]?{_FAULT}(?:s|ed|ing)?|"
    r"segmentation fail|segment(?:ation)? (?:violation|error)s?|error of segmentation|"
    r"(?<!raise\()(?<!\(\), )SIG(?:SEGV|BUS|ILL|FPE|ABRT)(?:['\u2019]?s)?"
    r"(?!, ?SIG_|\W? (?:path|disposition)\b)|"
    r"(?<!recover from )(?<!recover from Python )(?:stack[ -]|(?:with|an?) stack)"
    r"overflows?(?: (?:error|exception)s?)?(?! vulnerab)|"
    r"(?:access|segment) violations?|"
    r"(?:invalid memory address or )?n(?:ull|il)[ -]pointer dereferenc(?:e|es|ing)|"
    r"bus[ -]errors?(?: 10)?|abort trap(?::? 6)?|"
    r"(?<!cuda )(?<!hip )(?<!gpu )illegal (?:hardware )?instructions?|"
    r"EXC_BAD_ACCESS|KERN_INVALID_ADDRESS|(?:STATUS|EXCEPTION)_(?:ILLEGAL_INSTRUCTION|ACCESS_VIOLATION|STACK_OVERFLOW)|"
    r"floating[ -]point exceptions?|signal \(?11\)?|signal=(?:SEGV|BUS|ILL|FPE|ABRT)|"
    rf"aborted(?=\W{{1,3}}core)|"
    rf"(?:oom[ -]?|(?:is|was|be|been|being|were|are|gets?|got|getting) )?{_KILLED}|"
    r"(?:dies|died|exits|exited|crash(?:es|ed)|fail(?:s|ed)|end(?:s|ed)|terminate[sd]|receive[sd]|"
    r"gets|got) (?:with |of |by |from |due to )?(?:an? )?(?:signal )?SIGKILL|"
    rf"oom[ -]?{_KILLED_MINE}|oom[ -]?kill(?:s|ing)|{KILLER}|"
    r"(?:is|was|been|being|were|are|gets?|got|getting) oom['\u2019]?e?d|"
    r"(?:exit|status|error|return)[ -](?:code|status)?\W{0,3}"
    rf"(?P<code>{_STATUS}|-1?[146]|-[78])\W?|"
    rf"(?P<status>{_STATUS}) (?:exit|error|status)(?: code)?)(?![\w-])|"
    rf"(?<![\w.-])(?:{'|'.join(_ABROAD)}))"
    r"(?:\W{0,3}core[ -]dump(?:ed)?\b\W?\)?)?"
)
"""A fatal signal, by its name or status, or in somebody's words."""
_SEGMENTS: Final = {"se", "er"}
HEAP: Final = re.compile(
    r"(?ia)(?<![\w.-])(?:dou?ble[ -]free(?: (?:or )?corruption)?|"
    r"invalid pointer(?= (?:error|abort|trace|message|when|on|at|in|after|while|during)\b|"
    r"\W*(?m:$))|"
    r"heap[ -](?:corruption|(?:buffer[ -])?overflow|"
    r"use[ -]after[ -]free)|memory corruption|use[ -]after[ -]free|stack[ -]smashing|"
    r"corrupted (?:size|double)|(?:free|malloc|realloc)\(\): [a-z])"
)
"""A damaged heap, by the words of whoever noticed it."""
HANG: Final = re.compile(
    r"(?ia)(?<![\w.-])(?:hangs|hanging|hung|freezes|froze|deadlock(?:s|ed)|"
    r"(?<!have )(?<!has )(?<!been )frozen(?! (?:app|exe|binar|bundle|python|under|with|by)\w*)|"
    r"hang(?= (?:in|on|at|when|while|during|after)\b|[^\w\n]{0,3}(?m:$))|"
    r"(?:is|gets?|got|getting) stucks?|"
    r"stuck(?= (?:at|in|on|when|while|during|after)\b)|"
    r"(?:start(?:s|ed)?|begins?|began|seem(?:s|ed)?|appears?) (?:to )?(?:be )?hang)(?![\w-])|"
    r"stop(?:s|ped) responding|(?:be|became|becomes|goes|went) unresponsive|"
    r"\u5361(?:\u4f4f|\u6b7b)|\u6b7b\u9501"
)
"""A wait without an end."""
CRASH: Final = re.compile(
    r"(?ia)(?<![\w.=-])(?:(?:hard-)?crash(?:e?s|ed|ing)?|"
    r"core[ -]?dump(?:s|ed|ing)?(?! (?:\w{2,6} )?(?:not|missing|empty|unavailable)\b)|"
    r"dump(?:s|ed|ing) core|"
    rf"dies|died|dying|die(?= (?:after|on|when|while|with|during|at|again|every)\b)|"
    rf"{_KILLED}|(?<!\bI )(?<!\bwe ){_KILLED_MINE}|"
    r"(?-i:R)[ -]?sessions? (?:(?:is|was|gets|got|keeps|always|randomly) ){0,2}"
    r"(?:abort(?:s|ed|ing|ion)?|terminate[sd]|crash(?:es|ed)?)|(?-i:R) encountered a fatal error|"
    r"encounter(?:e?d|s) an? (?:unexpected )?fatal error|"
    r"unhandled exceptions?(?= (?:in|at) [\w.+-]{1,60}\.(?:dll|exe)\b)|"
    r"panics|panicked|(?<=causes a )kernel panics?|PanicExceptions?|"
    r"assertion failures?|fatal python errors?|"
    r"(?:quits?|quitted|terminate[sd]|exit(?:s|ed)|die[sd]|clos(?:es|ed)|stop(?:s|ped)|end(?:s|ed)|"
    r"shuts? down) unexpectedly|"
    r"abort(?:s|ed)?(?= (?:on|when|while|with|at|in|after|during|if)\b|[^\w\n]{0,3}(?m:$))|"
    r"(?<=\.exe has )stopped working|"
    r"stopped working(?=[\"'\u201d`]| (?:error|dialog|message|window|pop))|"
    r"(?:quits?|quitted|terminate[sd]|exit(?:s|ed)|closed) unexpected(?= with\b)|"
    r"exit(?:s|ed)? with (?:(?:exit|error|return|status) )?(?:code|status):? ?\(?-?"
    r"(?:\d{8,10}|0x[0-9a-f]{8})\)?|"
    r"(?:(?:is|are|was|were|keeps?|kept|been|now|pods?) )?(?:in (?:an? )?)?"
    r"crash[ -]?loop(?:s|ed|ing)?(?:[ -]?backoff)?|"
    r"unexpectedly (?:quits?|closes|closed|exits|exited|ends|ended|terminates|terminated)|"
    r"(?:force[ -]|suddenly )clos(?:es|ed)|clos(?:es|ed) (?:itself|suddenly)|"
    r"(?:exit|exits|exited|quits?|clos(?:es|ed)|terminate[sd]|ends|ended|disappears?|vanish(?:es|ed))"
    r"(?: \w{2,12}){0,3}? without (?:an? |any |any other )?(?:error|message|warning|notice|output|"
    r"trace|reason|explanation|word|exception|log)s?\b(?: reports?\b| messages?\b)?|"
    r"(?:silently|instantly|immediately) (?:exit|quit|close)(?:s|ed)?|"
    r"(?:randomly|spontaneously) (?:terminate[sd]?|quits?|clos(?:es?|ed|ing)|exit(?:s|ed)?|"
    r"shuts? down|disappears?)(?! (?:all|any|some|my|other|the (?!app|program|game))\b)|"
    r"(?:terminate[sd]?|quits?|clos(?:es?|ed|ing)|exit(?:s|ed)?|disappears?) "
    r"(?:the (?:app|application|program|game) )?(?:randomly|spontaneously|by itself|on its own)|"
    r"(?:keeps? (?:on )?|(?:random|constant|continuous|continual|unexpected|spontaneous)ly )"
    r"(?:re)?(?:start|boot|stopp)(?:s|ing)|"
    r"(?:always |often )?stops"
    r"(?= (?:after|every|by itself|itself|on its own)\b|[^\w\n]{0,3}(?m:$))|"
    r"keeps? (?:on )?closing(?= (?:on|by|all|every|after|when|itself|unexp)\b|\W{0,2}(?m:$))|"
    r"stop(?:s|ped) running(?= (?:after|without|when|at|during|in)\b)|"
    r"(?:exits|exited|exiting|quits|closes|closed) (?:silently|instantly|immediately)(?! with))"
    r"(?!\w|-(?!on-))|"
    rf"{ENDS}|{NOUNS}"
)
"""An end, and not of what."""
MEMORY: Final = re.compile(
    r"(?ia)(?<![\w.=-])(?:out[ -]?of[ -]?memory(?: \(OOM\))?(?: error)?|"
    r"OOM(?:'?ed|ing|s)?(?: error)?)(?![\w-]| errors\b)"
)
"""A lack of memory, of which a title does not say whose it was, or whether anybody died of it."""
EXCEPTION: Final = re.compile(
    r"(?<![A-Za-z0-9_.])(?:[a-z_]\w{0,40}\.){0,6}[A-Z][A-Za-z]{2,50}(?:Error|Exception)\b"
    r"(?:: .{1,160})?"
)
"""The class of an exception, with its message if that is told."""
_VERB: Final = re.compile(
    r"(?i)(?:R.*(?:session|encounter).*|encounter.*|hangs?|hanging|hung|freezes|froze|frozen|deadlocked|stucks?|faults|faulted|faulting|"
    r"SEGV'?s|ILL'?s|crash(?:e?s|ed|ing)|dumps|dumped|core|dies?|died|"
    rf"dying|killed|abort(?:s|ed)?|panic\w+|.*unexpectedly.*|.*clos.*|.*SIGKILL|.*without.*|.*randomly.*|"
    r".*spontaneously.*|.*(?:itself|own)|exit.* with .*|.*unexpected|in .*loop\w*|"
    r".*loop(?:s|ed|ing)|"
    r".*(?:start|boot|stop)p?(?:s|ing)|stopped working|"
    rf"stop\w+ running|{ENDS})$"
)
_INFINITIVE: Final = re.compile(
    r"(?i)\b(?:(?<!due )(?<!prior )(?<!leads )(?<!lead )(?<!led )(?<!leading )(?<!up )"
    r"(?<!in )(?<!related )(?<!similar )(?<!response )(?<!access )(?<!thanks )to|"
    r"will|would|can|could|does|did|may|might|must|shall|don['\u2019]t|doesn['\u2019]t|"
    r"makes? [`\"']?(?:the |my |our )?[\w.-]{2,30}[`\"']?)(?: (?:not|just|always|also|still|even|"
    r"\w{3,14}ly)){0,2} $"
)
"""Before it: `it will crash`, `makes it segfault`."""


def may_name_a_crash(text: str) -> bool:
    """Does it hold a crash's name, whatever it says of it?"""
    return any(name.search(text) is not None for name in (DEATH, HEAP, HANG, CRASH))


def signal_of(death: re.Match[str]) -> str | None:
    """The signal that a death's name stands for, mistyped or not."""
    status = status_of(death)
    if status is not None:
        return ended_by(status)[0]
    name = death[0].removeprefix("signal=").removesuffix("s").replace("-", " ")
    abroad = next((_ABROAD[word] for word in _ABROAD if name.lower().startswith(word)), None)
    if abroad is not None:
        return abroad
    if "oom" in name.lower() or "kill" in name.lower():
        return "SIGKILL"
    return signal_in(name) or ("SIGSEGV" if name[:2].lower() in _SEGMENTS else None)


def status_of(death: re.Match[str]) -> int | None:
    """The exit status that stands for the signal."""
    told = [death[name] for name in ("code", "status") if name in death.re.groupindex]
    return next((int(code) for code in told if code is not None), None)


def is_verb(crash: re.Match[str]) -> bool:
    """Is the crash's name a verb, or its plural?"""
    if _VERB.search(crash[0]) is not None:
        return True
    return _INFINITIVE.search(crash.string, 0, crash.start()) is not None
