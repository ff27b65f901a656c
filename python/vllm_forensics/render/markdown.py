"""Markdown for a merge request or an issue: a table, then each bug folded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vllm_forensics.model.sanitizer import SanitizerAnswer
from vllm_forensics.render.entries import Entry, entries
from vllm_forensics.render.sanitizer_words import counted

_MAX_TOLD: Final = 20
_MAX_ROWS: Final = 100
_MAX_RAW: Final = 6_000
_SPECIAL: Final = re.compile(r"([\\`*_\[\]#|~@<>&$]|^\s*[-+=>]|^\s*\d+[.)])")
_HTML: Final = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}


def render_markdown(answer: SanitizerAnswer, root: str | None) -> str:
    """The answer as GitHub's and GitLab's Markdown. Strings must have been cleaned."""
    return "\n".join(_lines(answer, root)) + "\n"


def _lines(answer: SanitizerAnswer, root: str | None) -> Iterator[str]:
    found = entries(answer, root)
    lines = sum(log.lines for log in answer.logs)
    new = "new " if answer.baseline is not None else ""
    yield f"## {counted(len(found), new + 'bug')} in {counted(lines, 'line')} of sanitizer logs"
    yield from _left_out(answer)
    if found:
        yield ""
        yield "| | seen | severity | kind | function | place |"
        yield "|--:|--:|---|---|---|---|"
    for number, entry in enumerate(found[:_MAX_ROWS], start=1):
        place = f"{entry.place.path}:{entry.place.line}"
        yield (
            f"| {number} | {entry.count} | {entry.severity.value} "
            f"| {plain_text(entry.report.printed.kind)} | {_cell(entry.function or '')} "
            f"| {_cell(place)} |"
        )
    if len(found) > _MAX_ROWS:
        yield f"\n… and {len(found) - _MAX_ROWS:,} more"
    for number, entry in enumerate(found[:_MAX_TOLD], start=1):
        yield from _told(number, entry)
    if answer.failures:
        yield ""
        yield "### Not read"
        yield ""
    for failure in answer.failures:
        said = f"{plain_text(failure.path)} {plain_text(failure.error)}"
        yield f"- {said}: {plain_text(failure.remedy or '')}"


def _left_out(answer: SanitizerAnswer) -> Iterator[str]:
    if answer.baseline is not None:
        known = counted(answer.baseline.known, "known report")
        yield f"\n{known} left out, {len(answer.baseline.gone):,} of the baseline not seen."
    hidden = [count for count in answer.suppressed if count.reports or count.leaks]
    for count in hidden:
        amount = f"{count.reports:,} reports and {count.leaks:,} leak records"
        yield f"\n{amount} suppressed by {code_span(count.suppression.text)}."


def _told(number: int, entry: Entry) -> Iterator[str]:
    report = entry.report
    cwe = f" · {report.cwe}" if report.cwe else ""
    summary = f"{number}. {entry.title} · {entry.severity.value}{cwe}"
    yield ""
    yield f"<details{' open' if number == 1 else ''}><summary>{_html(summary)}</summary>"
    yield ""
    yield plain_text(entry.text)
    yield ""
    yield from _chain(entry)
    if report.next_steps:
        yield ""
        yield "**Next**"
        yield ""
    for advice in report.next_steps:
        yield f"- {plain_text(advice)}"
    yield ""
    yield code_block(report.printed.raw[:_MAX_RAW])
    yield ""
    yield f"Signature {code_span(entry.signature)}"
    yield "</details>"


def _chain(entry: Entry) -> Iterator[str]:
    """One line an event: its place, then who called it, innermost first."""
    callers: list[str] = []
    for step in entry.steps:
        place = f"{step.place.path}:{step.place.line}"
        if not step.is_event:
            callers.insert(0, f"{plain_text(step.text)} {code_span(place)}")
            continue
        called = f", {', '.join(callers)}" if callers else ""
        yield f"- {plain_text(step.text)} {code_span(place)}{called}"
        callers = []


def plain_text(text: str) -> str:
    """Plain text: no markup, no HTML, no mention of anybody."""
    flat = " ".join(text.split("\n"))
    return _SPECIAL.sub(lambda match: _HTML.get(match[1], _escaped(match[1])), flat)


def _escaped(found: str) -> str:
    """A backslash before the last sign, as in a list's `1.`."""
    return f"{found[:-1]}\\{found[-1]}"


def _html(text: str) -> str:
    return re.sub("[<>&@]", lambda match: _HTML[match[0]], text).replace("\n", " ")


def code_block(text: str) -> str:
    """Lines as they are, whatever backticks are in them."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def code_span(text: str) -> str:
    """A code span, whatever backticks are in the text."""
    text = text.replace("\n", " ")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{edge}{text}{edge}{fence}" if text else ""


def _cell(text: str) -> str:
    return code_span(text).replace("|", "\\|")
