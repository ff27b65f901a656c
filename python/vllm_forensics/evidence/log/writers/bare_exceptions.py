"""Exceptions without their traceback: the last line of one, which is all that people paste.

Logs hold such lines of errors that were survived as well. So they are read only where nothing but
people's words tells of a death.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.lines import LogLine, log_lines
from vllm_forensics.evidence.log.people.crash_names import EXCEPTION
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.evidence.log.stacks.below import with_stack_below
from vllm_forensics.evidence.log.stacks.python_traceback import is_echo_of_another
from vllm_forensics.model.incident import Clue, ClueKind

_BEFORE: Final = lazily(
    r"(?:\W{0,6}|E {2,12}|\W{0,4}(?:[Ee]rror|ERROR|[Ee]xception)\W{1,4}|"
    r"(?!.{0,120}\b(?:if|when(?:ever)? you|may|might|could|would)\b).{0,120}\b"
    r"(?:(?i:error|exception|message|traceback|says|shows|output)\b[^.;:]{0,30}"
    r": ?[\"'`\u201c]{1,3}|"
    r"(?:I|[Ww]e)(?:['\u2019](?:m|re)| am| are| keep)? (?:always |just |now |still )?"
    r"(?:get|got|see|saw|hit|receiv|encounter|experienc|fac|r[au]n into|end up with)"
    r"(?:ing|ting|ed|e|s)? (?:an? |the |this |following |error |message |exception ){0,4}"
    r"[:\"'`\u201c ]{0,4}))"
)
"""The mark of a quotation or of pytest's, a label, or what somebody says that he got."""
_OF_GROUP: Final = lazily(r"[\s|]*\+-[+-]-{6,40} \d{1,3} -{6,40}$")
"""Above a member of a group: one that was never raised has no traceback."""
_JAVAS: Final = ("java.", "javax.", "kotlin.", "scala.")
"""How exceptions begin that are none of Python's."""
_AT: Final = lazily(r"\s{1,8}at \S.{0,300}:\d{1,9}\)?$")
"""A call of Java's or of JavaScript's."""
_WARNED: Final = lazily(r".{0,80}(?<![A-Z_])WARN(?:ING)?\b(?! *$)")
"""Who tells of it as a warning went on."""
_MIN_MESSAGE: Final = 8
_MAX: Final = 4


def bare_exceptions(lines: Sequence[str]) -> list[Clue]:
    """The exceptions that begin a line of a text, with their messages."""
    found: list[Clue] = []
    for number, text in enumerate(lines, start=1):
        if "Error: " not in text and "Exception: " not in text:
            continue
        if _WARNED.match(text) is not None:
            continue
        is_member = number > 1 and _OF_GROUP.match(lines[number - 2]) is not None
        below = lines[number] if number < len(lines) else ""
        bare, least = (text.lstrip(" |"), 1) if is_member else (text, _MIN_MESSAGE)
        told = (_clue(line, least, below) for line in log_lines(bare.encode(), number))
        found += [with_stack_below(clue, lines, number) for clue in told if clue is not None]
        if len(found) >= _MAX:
            break
    return found[:_MAX]


def _clue(line: LogLine, least: int, below: str) -> Clue | None:
    match = EXCEPTION.search(line.text)
    if match is None or _BEFORE.fullmatch(line.text, 0, match.start()) is None:
        return None
    name, _, message = match[0].partition(": ")
    if len(message) < least:
        return None
    if name.startswith(_JAVAS) or _AT.match(below) is not None:
        return clue_at(line, ClueKind.ABORT, "a language runtime", detail=match[0], is_told=True)
    is_echo = is_echo_of_another(name.rpartition(".")[2], message)
    kind = ClueKind.ECHO if is_echo else ClueKind.EXCEPTION
    return clue_at(line, kind, "python", detail=match[0], is_told=True)
