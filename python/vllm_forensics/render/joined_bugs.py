"""Several incidents at a glance: a line for each bug, and a short section for all but the first.

What is told of the first is in `joined`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.incident import Death
from vllm_forensics.model.joined import Bug, JoinedIncident, JoinedReport, SameBug, SourcePart
from vllm_forensics.render.incident import called, labelled, next_steps, title
from vllm_forensics.render.rows import Rows
from vllm_forensics.render.short_names import short_name

Short = Callable[[str], str]
"""Leaves out what all paths begin with."""

_MAX_BUGS: Final = 12
_MAX_AGAIN: Final = 5
_MAX_FILES: Final = 8
_SHORT: Final = 320
"""Letters of an explanation, up to the end of a sentence."""
_SENTENCE: Final = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_SAME: Final = {
    SameBug.SIGNATURE: ("The same bug", "the signature is the same"),
    SameBug.WORDS: ("The same bug", "the logs tell the same place"),
    SameBug.ALIKE: ("Died alike", "no log tells where: these may be several bugs"),
}
_SECOND: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)?[T ]?(\d\d-\d\d )?(\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:?\d\d)?"
)


def counted(report: JoinedReport) -> str:
    """`4 incidents · 3 bugs`; empty where there is one, or none."""
    incidents, bugs = len(report.incidents), len(report.bugs)
    if incidents < 2:
        return ""
    more = " or more" if any(bug.same is SameBug.ALIKE for bug in report.bugs) else ""
    return f"{incidents:,} incidents · {bugs:,} bug{'' if bugs == 1 else 's'}{more}"


def index_of(report: JoinedReport) -> Iterator[RenderableType]:
    """A line for each bug, where there are several incidents."""
    if len(report.incidents) < 2:
        return
    table = Rows(gap=2)
    on_several = len({one.host for one in report.incidents} - {None}) > 1
    for bug in report.bugs[:_MAX_BUGS]:
        best = told_of(bug, report)
        first = of_number(bug.incidents[0], report)
        count = len(bug.incidents)
        death = best.first_death
        table.add_row(
            Text(f"  {bug.number}", style="head"),
            Text(f"×{count}" if count > 1 else ""),
            Text(moment(first), style="quiet"),
            Text(death.signal or death.cause.kind.value.replace("-", " ")),
            Text(called(death) + (f" on {best.host}" if on_several else "")),
            Text(_place(death), style="culprit"),
        )
    yield table
    yield from _left_out(len(report.bugs) - _MAX_BUGS, "bugs")
    if not report.order_is_known:
        yield Text("  No common clock puts all of them in order.", style="quiet")
    yield Text()


def again(bug: Bug, report: JoinedReport, short: Short) -> Iterator[RenderableType]:
    """When else the same bug struck, and which files tell of it."""
    others = [one for one in report.incidents if one.bug == bug.number and one.number != bug.told]
    if not others:
        return
    yield Text()
    what, why = _SAME[bug.same or SameBug.SIGNATURE]
    yield Text(f"{what} {len(others):,}× more   {why}", style="head")
    table = Rows(gap=1)
    for one in others[:_MAX_AGAIN]:
        pid = one.first_death.pid
        who = f"{one.first_death.name or ''} {pid if pid is not None else ''}".strip()
        who += f" on {one.host}" if one.host is not None else ""
        table.add_row(
            Text(f"  {moment(one)}", style="quiet"), Text(who), Text(files(one.parts, short))
        )
    yield table
    yield from _left_out(len(others) - _MAX_AGAIN, "")


def section(bug: Bug, report: JoinedReport, short: Short) -> Iterator[RenderableType]:
    """A bug after the first: what it is, which files tell of it, what to type."""
    best = told_of(bug, report)
    yield Text()
    yield title(best.first_death, bug.number)
    yield labelled("", shortened(short(best.explanation)))
    yield labelled("Files", files(best.parts, short), indented=True)
    for differs in best.processes[0].contradictions if best.processes else ():
        label = "Differ" if differs.is_explained else "Against"
        yield labelled(label, short(differs.sentence), indented=True)
    yield next_steps(best.next_steps[:1])
    yield from again(bug, report, short)


def sections(report: JoinedReport, short: Short) -> Iterator[RenderableType]:
    """All bugs after the first."""
    for bug in report.bugs[1:_MAX_BUGS]:
        yield from section(bug, report, short)
    if len(report.bugs) > _MAX_BUGS:
        yield Text()
        yield from _left_out(len(report.bugs) - _MAX_BUGS, "bugs")


def files(parts: Sequence[SourcePart], short: Short) -> str:
    """`core.4242 · serve.log:17-32`."""
    shown = " · ".join(short(part.path) + _lines(part) for part in parts[:_MAX_FILES])
    left = len(parts) - _MAX_FILES
    return shown + (f" and {left:,} more" if left > 0 else "")


def shortened(text: str) -> str:
    """Whole sentences, as many as fit; at least one."""
    kept = ""
    for sentence in _SENTENCE.split(text):
        if kept and len(kept) + len(sentence) > _SHORT:
            break
        kept = f"{kept} {sentence}".lstrip()
    return kept


def moment(incident: JoinedIncident) -> str:
    """To the second, and as the source writes it."""
    found = _SECOND.match(incident.time or "")
    if found is None:
        return incident.time or "no time"
    *parts, zone = found.groups()
    return " ".join(part.strip() for part in parts if part) + (zone or "")


def told_of(bug: Bug, report: JoinedReport) -> JoinedIncident:
    """The incident of a bug that is known best."""
    return of_number(bug.told, report)


def of_number(number: int, report: JoinedReport) -> JoinedIncident:
    """The incident with that number."""
    return report.incidents[number - 1]


def _lines(part: SourcePart) -> str:
    if part.first_line is None:
        return ""
    is_one = part.last_line in {None, part.first_line}
    return f":{part.first_line}" + ("" if is_one else f"-{part.last_line}")


def _place(death: Death) -> str:
    return short_name(death.function or death.module or death.python_function or "")


def _left_out(count: int, what: str) -> Iterator[RenderableType]:
    if count > 0:
        yield Text(f"  and {count:,} more {what}".rstrip() + " (--format json)", style="quiet")
