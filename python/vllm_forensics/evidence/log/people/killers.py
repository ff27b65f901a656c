"""Whom the kernel killed, as people tell it: `the OOM killer killed our MySQL server`."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.no_names import KINDS

KILLER: Final = (
    r"(?:oom[ -]?killer|kernel)(?: [\w-]{1,15}){0,4}?(?<! was)(?<! were)(?<! been)(?<! got) "
    r"(?:kill(?:ed|ing)(?= \w)(?! (?:off )?by\b)|kills(?= (?:my|our)\b))"
)
"""Who ended another, and that he did."""
_KILLED: Final = lazily(rf"(?i){KILLER}")
_COUNTED: Final = lazily(r"(?i)killed (?:one|two)\b")
"""Who counts means others: nobody is killed one."""
_VICTIM: Final = lazily(
    r"(?i) (?:off )?(?:(?:my|our|one|two|several|the|an?|its|this|that) )?(?:of (?:my|our|the) )?"
    r"(?P<words>[`\"']?[\w.+/-]{1,40}[\w+/-][`\"']?(?: [`\"']?[\w.+/-]{1,40}[\w+/-][`\"']?){0,4}?)"
    r"(?= ?[^\s\w.+/-]|[.,]?\s*$|[.] | (?:-|and|or|but|which|that|who|with|within|in|on|at|by|from|"
    r"for|of|to|as|so|if|due|because|when|while|after|before|during|since|every|again|without|is|"
    r"was|has|had|then|instead|even|several|twice|once)\b)"
)
"""Behind the verb, up to the next word of grammar."""
_ADJECTIVE: Final = lazily(
    r"(?i)(?:main|child|same|whole|big|own|other|new|old|wrong|single|random|build|test|"
    r"background|\w+(?:est|ing|ed|al|ive|ary|er))$"
)
_KIND: Final = lazily(rf"(?i)(?:{KINDS}|job|task)(?:e?s)?$")
"""Before such a word stands which one."""


def has_killer(crash: re.Match[str]) -> bool:
    """Does a crash's name begin with who ended another?"""
    return _KILLED.match(crash.string, crash.start(), crash.end() + 4) is not None


def victim_of(crash: re.Match[str]) -> str | None:
    """Who is said to have been killed: `MySQL` of `killed MySQL server`."""
    if not has_killer(crash) and _COUNTED.match(crash.string, crash.start()) is None:
        return None
    victim = _VICTIM.match(crash.string, crash.end())
    if victim is None:
        return None
    *before, last = (word.strip("`\"'") for word in victim["words"].split(" "))
    if before and _KIND.match(last) is not None and _ADJECTIVE.match(before[-1]) is None:
        return before[-1]
    return last
