"""What people call a crash: by a signal, by what was damaged, or only by its end."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.phrases import ended_by, signal_in

_FAULT: Final = r"f(?=[a-z]{0,3}u)(?=[a-z]{0,4}t)[alut]{3,5}"
"""`fault`, and how it is mistyped."""
_STATUS: Final = r"139|13[2456]"
DEATH: Final = re.compile(
    rf"(?ia)(?<![\w.-])(?:se[gq](?:\w{{2,12}})?\.?[ _-]?{_FAULT}(?:s|ed|ing)?|"
    r"segmentation violations?|\u6bb5\u9519\u8bef|SIG(?:SEGV|BUS|ILL|FPE|ABRT)(?:['\u2019]?s)?|"
    r"(?:access|segment) violations?|bus[ -]errors?(?: 10)?|illegal (?:hardware )?instructions?|"
    r"(?:STATUS|EXCEPTION)_(?:ILLEGAL_INSTRUCTION|ACCESS_VIOLATION|STACK_OVERFLOW)|"
    r"floating[ -]point exceptions?|signal \(?11\)?|"
    r"(?:exit|status|error|return)[ -](?:code|status)?\W{0,3}"
    rf"(?P<code>{_STATUS}|-1?[146]|-[78])\W?|"
    rf"(?P<status>{_STATUS}) (?:exit|error|status)(?: code)?)(?![\w-])"
    r"(?:\W{0,3}core[ -]dump(?:ed)?\b\)?)?"
)
"""A fatal signal, by its name or status, or in somebody's words."""
_SEGMENTS: Final = {"se", "\u6bb5\u9519"}
HEAP: Final = re.compile(
    r"(?ia)(?<![\w.-])(?:dou?ble[ -]free|heap[ -](?:corruption|(?:buffer[ -])?overflow|"
    r"use[ -]after[ -]free)|memory corruption|use[ -]after[ -]free|stack[ -]smashing|"
    r"corrupted (?:size|double)|(?:free|malloc|realloc)\(\): [a-z])"
)
"""A damaged heap, by the words of whoever noticed it."""
CRASH: Final = re.compile(
    r"(?ia)(?<![\w.-])(?:crash(?:e[sd]|ing)?|core[ -]?dump(?:s|ed|ing)?|dumps core|"
    r"dies|died|dying|(?:is|was|gets|got|being) killed|aborts|aborted|panics|panicked)(?![\w-])|"
    "\u5d29\u6e83|\u95ea\u9000|\u6838\u5fc3\u5df2\u8f6c\u50a8|\u30af\u30e9\u30c3\u30b7\u30e5|\ud06c\ub798\uc2dc"
)
"""An end, and not of what."""
_VERB: Final = re.compile(
    r"(?i)(?:faults|faulted|faulting|SEGV'?s|ILL'?s|crash(?:es|ed|ing)|dumps|dumped|core|dies|died|"
    r"dying|killed|aborts|aborted|panic\w+)$"
)


def signal_of(death: re.Match[str]) -> str | None:
    """The signal that a death's name stands for, mistyped or not."""
    status = status_of(death)
    if status is not None:
        return ended_by(status)[0]
    name = death[0].removesuffix("s").replace("-", " ")
    return signal_in(name) or ("SIGSEGV" if name[:2].lower() in _SEGMENTS else None)


def status_of(death: re.Match[str]) -> int | None:
    """The exit status that stands for the signal."""
    told = death["code"] or death["status"]
    return int(told) if told is not None else None


def is_verb(crash: re.Match[str]) -> bool:
    """Is the crash's name a verb, or its plural?"""
    return _VERB.search(crash[0]) is not None
