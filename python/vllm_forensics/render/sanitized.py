"""Sanitizer reports of a run for a person: the chain, Python below it, the core, one conclusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.sanitized import PythonFrame, PythonThread, SanitizedReport, SanitizedRun
from vllm_forensics.render.rows import Rows, command, paragraph
from vllm_forensics.render.sanitizer_report import Telling, one_report
from vllm_forensics.render.terminal import TerminalStyle, render_parts

_MAX_SHOWN: Final = 10
_MAX_FRAMES: Final = 6
_MAX_PROCESSES: Final = 4
_LABEL: Final = 9


def render_sanitized(run: SanitizedRun, style: TerminalStyle) -> str:
    """All that the sanitizer said; equal reports once. Every string must have been cleaned."""
    return render_parts(_parts(run, style), style)


def _parts(run: SanitizedRun, style: TerminalStyle) -> Iterator[RenderableType]:
    groups: dict[str, list[SanitizedReport]] = {}
    for found in run.reports:
        groups.setdefault(found.report.signature, []).append(found)
    for members in list(groups.values())[:_MAX_SHOWN]:
        # The one of which most is known stands for its kind.
        best = max(members, key=lambda found: (found.core is not None, found.python is not None))
        count = sum(found.report.printed.occurrences for found in members)
        yield from one_report(best.report, Telling(count=count), style)
        yield _facts(best, members)
        yield Text()
    if len(groups) > _MAX_SHOWN:
        yield Text(f"{len(groups) - _MAX_SHOWN} more kinds are in --format json", style="caution")
    yield paragraph(Text(run.verdict + f" ({_HOW[run.plan.method.value]})", style="head"))
    for note in run.plan.notes:
        yield paragraph(Text(note, style="quiet"))


_HOW: Final = {
    "launcher": "linked into Python",
    "linked": "linked into the program",
    "preload": "preloaded",
    "preload-only": "preloaded into code that was not built for it",
    "valgrind": "every access emulated",
    "sample": "one allocation among many guarded",
}


def _facts(best: SanitizedReport, members: list[SanitizedReport]) -> Rows:
    table = Rows(label_width=_LABEL)
    if best.python is not None:
        main = best.python.thread is PythonThread.MAIN
        label = "Python"
        if main:
            words = "of the main thread; the thread of the report runs no Python"
            table.add_row(Text(label, style="head"), Text(words, style="quiet"))
            label = ""
        for index, frame in enumerate(best.python.frames[:_MAX_FRAMES]):
            table.add_row(Text(label if index == 0 else "", style="head"), _frame(frame, index))
        more = len(best.python.frames) - _MAX_FRAMES
        if more > 0:
            table.add_row("", Text(f"  {more} more calls (--format json)", style="quiet"))
    if best.core is not None:
        table.add_row(Text("Core", style="head"), command(best.core))
    pids = [str(found.pid) for found in members if found.pid is not None]
    if len(set(pids)) > 1:
        shown = ", ".join(dict.fromkeys(pids[:_MAX_PROCESSES]))
        more_pids = ", …" if len(pids) > _MAX_PROCESSES else ""
        table.add_row(Text("Also", style="head"), Text(f"in processes {shown}{more_pids}"))
    table.add_row(Text("So", style="head"), Text(best.conclusion))
    return table


def _frame(frame: PythonFrame, index: int) -> Text:
    place = f"   {frame.file}:{frame.line}" if frame.file is not None else ""
    if index == 0:
        return Text(frame.function, style="culprit").append(place, style="none")
    return Text(f"  ◂ {frame.function}{place}", style="quiet")
