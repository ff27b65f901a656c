"""Incidents out of many sources, for a person at a terminal: the first death, then its story."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.incident import ProcessRole
from vllm_forensics.model.joined import Fact, JoinedProcess, JoinedReport
from vllm_forensics.model.report import Crash
from vllm_forensics.render.incident import labelled, next_steps, one_line, title
from vllm_forensics.render.joined_bugs import again, counted, files, index_of, of_number, sections
from vllm_forensics.render.joined_stack import crash_of_first, quoted, stack_of_first
from vllm_forensics.render.process_tree import as_tree
from vllm_forensics.render.rows import Rows, advice, command
from vllm_forensics.render.sanitizer_locations import symbolization_in_text
from vllm_forensics.render.terminal import Detail, TerminalStyle, render_parts

_MAX_PROCESSES: Final = 6
_MAX_FACTS: Final = 8
_MAX_ECHOES: Final = 3
_MAX_LOOSE: Final = 5
_MAX_GAPS: Final = 2
_MAX_SOURCES: Final = 12
_END: Final = 48
_SOURCE_WIDTH: Final = 30


def render_joined(
    report: JoinedReport, style: TerminalStyle, own_frames: frozenset[tuple[str, int]]
) -> str:
    """The whole answer as text. Every string must have been cleaned.

    `own_frames` names the frames, as (core, index), that are the user's own code.
    """
    return render_parts(_Writer(report, style, own_frames).parts(), style)


def common_folder(report: JoinedReport) -> str:
    """What all paths begin with, to be left out where they are shown; empty for one file."""
    paths = [source.path for source in report.sources]
    paths += [failure.path for failure in report.failures]
    folders = [path.rpartition("/")[0] for path in paths]
    if not folders or not all(folders):
        return ""
    try:
        shared = os.path.commonpath(folders)
    except ValueError:  # absolute and relative ones
        return ""
    return shared.rstrip("/") + "/"


class _Writer:
    def __init__(
        self,
        report: JoinedReport,
        style: TerminalStyle,
        own_frames: frozenset[tuple[str, int]],
    ) -> None:
        self._report = report
        self._style = style
        self._own = own_frames
        self._folder = common_folder(report)

    def parts(self) -> Iterator[RenderableType]:
        """All that is shown, in order."""
        report = self._report
        yield Text(self._counts(), style="quiet", overflow="fold")
        yield Text()
        yield from index_of(report)
        has_others = len(report.bugs) > 1
        if report.first_death is not None:
            yield title(report.first_death, 1 if has_others else None)
            yield Text()
        yield labelled("", self._short(report.explanation))
        if len(report.incidents) > 1 and report.bugs:
            parts = of_number(report.bugs[0].told, report).parts
            yield labelled("Files", files(parts, self._short), indented=True)
        if self._style.detail is Detail.SENTENCE:
            return
        yield from stack_of_first(report, self._folder, self._style, self._own)
        crash = crash_of_first(report)
        if crash is not None:
            yield from self._gaps(crash)
        if report.first_death is not None and report.processes:
            yield from self._story(report.processes[0])
        yield from self._others()
        yield from self._echoes()
        for bug in report.bugs[:1]:
            yield from again(bug, report, self._short)
        if has_others:
            yield from self._next()
            yield from sections(report, self._short)
        yield from self._loose()
        if report.symbolization is not None:
            yield Text()
            yield symbolization_in_text(report.symbolization)
        yield from self._failures()
        if not has_others:
            yield from self._next()

    def _counts(self) -> str:
        kinds: dict[str, int] = {}
        for source in self._report.sources:
            kinds[source.kind.value] = kinds.get(source.kind.value, 0) + 1
        shown = " · ".join(f"{count} {_PLURALS[kind][count != 1]}" for kind, count in kinds.items())
        several = counted(self._report)
        if several:
            return " · ".join(filter(None, (several, shown)))
        count = len(self._report.sources)
        return f"{count:,} source{'' if count == 1 else 's'}" + (f": {shown}" if shown else "")

    def _gaps(self, crash: Crash) -> Iterator[RenderableType]:
        """What its core does not hold: the stack above is read with that in mind."""
        if crash.gaps:
            yield Text()
        for number, gap in enumerate(crash.gaps[:_MAX_GAPS]):
            yield labelled("Gaps" if number == 0 else "", self._short(gap.what), indented=True)
        left = len(crash.gaps) - _MAX_GAPS
        if left > 0:
            more = f"         {left} more (forensics core {quoted(crash.core)})"
            yield command(more, style="quiet")

    def _story(self, process: JoinedProcess) -> Iterator[RenderableType]:
        yield Text()
        who = _who(process) if process.name or process.pid is not None else "it"
        yield Text(f"What each source says of {who}", style="head")
        yield self._facts(process.facts[:_MAX_FACTS])
        left = len(process.facts) - _MAX_FACTS
        if left > 0:
            yield Text(f"  and {left} more (--format json)", style="quiet")
        yield from self._agreement(process)

    def _agreement(self, process: JoinedProcess) -> Iterator[RenderableType]:
        if process.accords or process.contradictions:
            yield Text()
        alike: dict[tuple[str, ...], list[str]] = {}
        for accord in process.accords:
            alike.setdefault(accord.sources, []).append(f"{accord.aspect.value} {accord.value}")
        for number, (sources, values) in enumerate(alike.items()):
            named = ", ".join(map(self._short, sources[:_MAX_FACTS]))
            left = len(sources) - _MAX_FACTS
            said = f"{' · '.join(values)}: {named}" + (f" and {left:,} more" if left > 0 else "")
            yield labelled("Agree" if number == 0 else "", said, indented=True)
        for differs in process.contradictions:
            label = "Differ" if differs.is_explained else "Against"
            yield labelled(label, self._short(differs.sentence), indented=True)

    def _others(self) -> Iterator[RenderableType]:
        """Who else there was: the dead with their own words, the others in a line."""
        told = of_number(self._report.told, self._report) if self._report.told else None
        others = told.processes[1:] if told is not None else self._report.processes
        if not others:
            return
        first = told.processes[0] if told is not None else None
        shown = sorted(others, key=_is_aside)[:_MAX_PROCESSES]
        tree = _tree(([first] if first is not None else []) + shown)
        if not any(branch for branch, _ in tree):  # nobody is known to have started another
            tree = [(branch, one) for branch, one in tree if one is not first]
        is_whole = told is None or len(tree) > len(shown)
        yield Text()
        yield Text("Processes" if is_whole else "Other processes", style="head")
        for branch, process in tree:
            line = Text("  ✖ " if process is first else "    " if first and is_whole else "  ")
            line.append(f"{branch}{one_line(_who(process))}")
            line.append(f"  {process.role.value}", style="quiet")
            yield line.append(f"  {_cut(one_line(process.end), _END)}" if process.end else "")
            if process is first:
                continue
            if process.cores or told is None:
                yield self._facts(process.facts[:2], indent=4)
            for differs in process.contradictions:
                yield labelled("Against", self._short(differs.sentence), indented=True)
        if len(others) > _MAX_PROCESSES:
            yield Text(f"  and {len(others) - _MAX_PROCESSES} more (--format json)", style="quiet")

    def _echoes(self) -> Iterator[RenderableType]:
        echoes = self._report.echoes
        if not echoes:
            return
        only = "the visible error is one of them" if self._report.visible_error_is_echo else ""
        yield Text()
        yield Text(f"Only echoes   {only}".rstrip(), style="head")
        shown = echoes
        if len(echoes) > _MAX_ECHOES:
            shown = (*echoes[: _MAX_ECHOES - 1], echoes[-1])
        yield self._facts([echo.fact for echo in shown])
        if len(echoes) > len(shown):
            yield Text(f"  and {len(echoes) - len(shown)} more (--format json)", style="quiet")

    def _loose(self) -> Iterator[RenderableType]:
        loose = self._report.unattached
        if not loose:
            return
        yield Text()
        yield Text("Belongs to no process that is known", style="head")
        yield self._facts(loose[:_MAX_LOOSE])
        if len(loose) > _MAX_LOOSE:
            yield Text(f"  and {len(loose) - _MAX_LOOSE} more (--format json)", style="quiet")

    def _failures(self) -> Iterator[RenderableType]:
        if not self._report.failures:
            return
        yield Text()
        yield Text("Not read, or not whole", style="head")
        table = Rows(gap=1)
        shown = self._report.failures[:_MAX_SOURCES]
        for failure in shown:
            table.add_row(Text(f"  {self._short(failure.path)}"), Text(failure.error))
        for remedy in dict.fromkeys(failure.remedy for failure in shown):  # each once
            table.add_row("", advice(one_line(remedy), style="quiet"))
        yield table
        left = len(self._report.failures) - _MAX_SOURCES
        if left > 0:
            yield Text(f"  and {left} more (--format json)", style="quiet")

    def _next(self) -> Iterator[RenderableType]:
        if self._report.next_steps:
            yield Text()
            yield next_steps(self._report.next_steps)

    def _facts(self, facts: Sequence[Fact], indent: int = 2) -> Rows:
        table = Rows(gap=1)
        for fact in facts:
            place = self._short(fact.source) + (f":{fact.line}" if fact.line is not None else "")
            shown = _tail(place, _SOURCE_WIDTH - indent)
            table.add_row(Text(" " * indent + shown, style="quiet"), Text(fact.text))
        return table

    def _short(self, text: str) -> str:
        """Without what all paths begin with; a newline in a file's name begins no line."""
        text = text.replace(self._folder, "") if self._folder not in {"", "/"} else text
        return one_line(text)


_PLURALS: Final = {
    "core": ("core", "cores"),
    "log": ("log", "logs"),
    "sanitizer": ("sanitizer log", "sanitizer logs"),
    "strace": ("strace trace", "strace traces"),
    "supervisor": ("supervisor log", "supervisor logs"),
    "sandbox": ("sandbox trace", "sandbox traces"),
}


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _tail(path: str, width: int) -> str:
    """The end of a path, which tells more than its beginning."""
    return path if len(path) <= width else f"…{path[1 - width :]}"


def _is_aside(process: JoinedProcess) -> tuple[bool, bool]:
    """Those with a story of their own first, then those that a log names."""
    return not (process.contradictions or process.cores), process.role is ProcessRole.UNKNOWN


def _tree(processes: Sequence[JoinedProcess]) -> list[tuple[str, JoinedProcess]]:
    return as_tree(processes, [one.host for one in processes])


def _who(process: JoinedProcess) -> str:
    pid = f" {process.pid}" if process.pid is not None else ""
    host = f" on {process.host}" if process.host else ""
    return f"{process.name or 'process'}{pid}{host}"
