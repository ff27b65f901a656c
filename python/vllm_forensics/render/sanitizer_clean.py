"""Cleans an answer report by report: one look at all text of a report says that nothing is unsafe.

Where something is found, every string is cleaned by itself, and each different line once: the same
lines stand in thousands of reports, and in `raw` again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, lru_cache
from operator import attrgetter
from typing import Final

from vllm_forensics.model.sanitizer import ExplainedReport, PrintedFrame, SanitizerAnswer
from vllm_forensics.render.clean import clean, is_clean, map_strings

_CACHE: Final = 1 << 15
_NUMBERS: Final = frozenset({"own", "lines"})
"""Fields with nothing but numbers, which need not be looked through."""
_TEXT_OF_FRAME: Final = attrgetter("function", "file", "module")
"""All that a log chose: the other fields of a frame are digits, as their readers make sure."""


def clean_answer(answer: SanitizerAnswer, *, include_secrets: bool) -> SanitizerAnswer:
    """A copy with every string escaped, and masked unless told otherwise."""

    @lru_cache(_CACHE)
    def line(text: str) -> str:
        return clean(text, include_secrets=include_secrets)

    def lines(text: str) -> str:
        # Line by line: no secret of a report goes over a line's end.
        return "\n".join(map(line, text.split("\n"))) if "\n" in text else line(text)

    def report(explained: ExplainedReport) -> ExplainedReport:
        if is_clean("\n".join(_strings(explained))):
            return explained
        return map_strings(explained, lines)

    logs = tuple(
        replace(log, path=line(log.path), reports=tuple(map(report, log.reports)))
        for log in answer.logs
    )
    rest = clean(replace(answer, logs=()), include_secrets=include_secrets)
    return replace(rest, logs=logs)


def _strings(report: ExplainedReport) -> set[str]:
    """Every string of a report that a log had a say in."""
    found: set[str] = set()
    _gather((report,), found)
    return found


def _gather(values: Iterable[object], found: set[str]) -> None:
    for value in values:
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, PrintedFrame):
            found.update(filter(None, _TEXT_OF_FRAME(value)))
        elif isinstance(value, tuple):
            _gather(value, found)
        elif value is not None:
            fields_of = _reader(type(value))  # type: ignore[arg-type]  # a class can be hashed
            if fields_of is not None:
                _gather(fields_of(value), found)


@cache
def _reader(kind: type) -> Callable[[object], Iterable[object]] | None:
    """Gets the fields of a model, all at once; None where the type is no model's."""
    names = [name for name in getattr(kind, "__dataclass_fields__", ()) if name not in _NUMBERS]
    if len(names) < 2:
        return (lambda value: [getattr(value, name) for name in names]) if names else None
    return attrgetter(*names)
