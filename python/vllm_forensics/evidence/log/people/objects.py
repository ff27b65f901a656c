"""Who crashed, where a writer leaves the verb without a subject: `crash server manager`."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.no_names import KINDS

_BEHIND: Final = lazily(
    r"(?i) (?:(?:the|my|our) )?(?:"
    r"(?P<quote>[`\"'])(?P<quoted>[\w.+]{1,40}[_-][\w+-]{1,40})(?P=quote)|"
    rf"(?P<words>(?:[\w+-]{{2,20}} )?(?:{KINDS}|manager))\W{{0,3}}$)"
)
_OPENS: Final = lazily(r"(?i)(?:^|[^\w\s]|\b(?:day|week|hour|time|and|then)) {0,2}$")
"""Nothing that could have crashed stands before it in its clause."""
_WHICH: Final = lazily(
    r"(?i)(?:in|on|at|of|when|with|for|after|during|the|an?|every|by|from|to|reports?|dumps?|logs?|"
    r"handl\w{2,3}|recovery|detection|data|test) "
)


def object_of(crash: re.Match[str]) -> str | None:
    """What stands behind the word for the crash, as its object or all that there is of a clause."""
    text = crash.string
    if not crash[0].lower().startswith("crash") or _OPENS.search(text, 0, crash.start()) is None:
        return None
    behind = _BEHIND.match(text, crash.end())
    if behind is None or (behind["words"] and _WHICH.match(behind["words"]) is not None):
        return None
    return behind["quoted"] or behind["words"]
