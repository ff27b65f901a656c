"""Incidents out of many sources as Markdown, to be put into an issue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from vllm_forensics.model.joined import Fact, JoinedReport
from vllm_forensics.render.incident import headline
from vllm_forensics.render.joined import common_folder
from vllm_forensics.render.joined_bugs import counted, files, moment, of_number, shortened, told_of
from vllm_forensics.render.joined_stack import stack_of_first
from vllm_forensics.render.markdown import code_block, code_span, plain_text
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_MAX: Final = 30
_STYLE: Final = TerminalStyle(width=100)


def render_joined_markdown(report: JoinedReport, own_frames: frozenset[tuple[str, int]]) -> str:
    """The answer as GitHub's and GitLab's Markdown. Strings must have been cleaned.

    `own_frames` names the frames, as (core, index), that are the user's own code.
    """
    return "\n".join(_lines(report, own_frames)) + "\n"


def _lines(report: JoinedReport, own: frozenset[tuple[str, int]]) -> Iterator[str]:
    folder = common_folder(report)
    title = headline(report.first_death) if report.first_death is not None else "No death was found"
    yield f"## {plain_text(title.strip('━ '))}"
    yield ""
    yield plain_text(report.explanation.replace(folder, "") if folder else report.explanation)
    stack = render_parts(stack_of_first(report, folder, _STYLE, own), _STYLE).strip("\n")
    if stack:
        yield f"\n{code_block(stack)}"
    if report.first_death is not None and report.processes:
        first = report.processes[0]
        yield from _table("What each source says of it", first.facts, folder)
        if first.accords or first.contradictions:
            yield ""
        for accord in first.accords:
            sources = ", ".join(code_span(path.removeprefix(folder)) for path in accord.sources)
            yield f"- agree on the {accord.aspect.value} {code_span(accord.value)}: {sources}"
        for differs in first.contradictions:
            sentence = differs.sentence.replace(folder, "") if folder else differs.sentence
            yield f"- **{'differ' if differs.is_explained else 'against'}**: {plain_text(sentence)}"
    yield from _table("Only echoes", [echo.fact for echo in report.echoes], folder)
    yield from _several(report, folder)
    yield from _table("Belongs to no process that is known", report.unattached, folder)
    if report.failures:
        yield "\n### Not read, or not whole\n"
        for failure in report.failures[:_MAX]:
            yield f"- {code_span(failure.path.removeprefix(folder))} {plain_text(failure.error)}"
    if report.next_steps:
        yield "\n### Next\n"
        for step in report.next_steps:
            yield f"- {code_span(step)}"


def _several(report: JoinedReport, folder: str) -> Iterator[str]:
    """Every incident in a line; those of one bug under one heading."""
    if len(report.incidents) < 2:
        return

    def short(path: str) -> str:
        return path.removeprefix(folder)

    yield f"\n### {counted(report)}"
    for bug in report.bugs[:_MAX]:
        best = told_of(bug, report)
        yield f"\n{bug.number}. **{plain_text(headline(best.first_death).strip('━ '))}**"
        if bug.number > 1:
            explanation = best.explanation.replace(folder, "") if folder else best.explanation
            yield f"   {plain_text(shortened(explanation))}"
        for number in bug.incidents[:_MAX]:
            one = of_number(number, report)
            pid = one.first_death.pid
            who = f" process {pid}," if pid is not None else ""
            yield f"   - {plain_text(moment(one))},{who} {code_span(files(one.parts, short))}"


def _table(title: str, facts: Sequence[Fact], folder: str) -> Iterator[str]:
    if not facts:
        return
    yield f"\n### {title}\n"
    yield "| source | says |"
    yield "|---|---|"
    for fact in facts[:_MAX]:
        place = fact.source.removeprefix(folder)
        place += f":{fact.line}" if fact.line is not None else ""
        yield f"| {_cell(place)} | {_cell(fact.text)} |"
    if len(facts) > _MAX:
        yield f"\n… and {len(facts) - _MAX:,} more"


def _cell(text: str) -> str:
    return code_span(text).replace("|", "\\|")
