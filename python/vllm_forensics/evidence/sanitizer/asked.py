"""What a server was asked, which its log repeats: of whatever that speaks, it is nobody's death."""

from __future__ import annotations

import re
from typing import Final

_ASKED: Final = re.compile(
    rb"(?:\b(?:\w{1,20}_)?prompts?[\"']?[:=] ?\[?|ReqInput\(.{0,400}?\btext=|"
    rb"[\"']role[\"']: ?[\"']\w{1,20}[\"'], ?[\"']content[\"']: ?|"
    rb"\bGenerated response \S{1,80}: output: )(?P<quote>[\"'])"
)
"""vLLM's logger of requests and answers, SGLang's, and whoever prints a chat as JSON or a dict."""
_WORDS: Final = (b"rompt", b"ReqInput(", b"content", b": output: ")
"""One of them stands in every such line."""
_SHORTEST: Final = 40
"""What is shorter is no question, but an option's value or a program's prompt."""


def without_requests(raw: bytes) -> bytes:
    """The line without what was asked in it, and answered."""
    if len(raw) < _SHORTEST or not any(word in raw for word in _WORDS):
        return raw
    kept: list[bytes] = []
    at = 0
    while (match := _ASKED.search(raw, at)) is not None:
        begin, end = match.end(), _closing(raw, match["quote"], match.end())
        kept.append(raw[at : begin if end - begin > _SHORTEST else end])
        at = end
    return b"".join((*kept, raw[at:]))


def _closing(raw: bytes, quote: bytes, at: int) -> int:
    """Where the literal ends that began there; at the line's end, if it was cut."""
    while (end := raw.find(quote, at)) >= 0:
        before = end
        while before > at and raw[before - 1 : before] == b"\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end
        at = end + 1
    return len(raw)
