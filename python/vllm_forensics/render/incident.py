"""Incidents for a person at a terminal: who died first, of what, where, what is only echo."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import (
    MOST_LIVES,
    CauseClass,
    Death,
    Incident,
    IncidentAnswer,
    IncidentProcess,
    ProcessRole,
)
from vllm_forensics.model.python_source import TOP_LEVEL
from vllm_forensics.render import rows
from vllm_forensics.render.incident_stack import stack_of
from vllm_forensics.render.process_tree import as_tree
from vllm_forensics.render.rows import Cell, Rows, command, paragraph, path
from vllm_forensics.render.sanitizer_locations import symbolization_in_text
from vllm_forensics.render.short_names import short_name
from vllm_forensics.render.terminal import Detail, TerminalStyle, render_parts

_MAX_PROCESSES: Final = 12
_MAX_ECHOES: Final = 6
_MAX_ALIKE: Final = 8
_FILE: Final = re.compile(r"[/\\](?!__(?:init|main)__\.py)")
"""Between folders and a file's name; many packages have files of these names."""
_WIDEST: Final = 100
_ENDS_WIDTH: Final = 26
"""How a process ended, and the gaps before it, take so much at least: else times are left out."""
_ROOMY: Final = 72
"""Columns from which on a process's role, last sign of life and end stand beside each other."""
LABEL_WIDTH: Final = 8
_KINDS: Final = {"child", "worker", "task", "rank", "server"}
"""What a parent calls all of its children."""
_NAMELESS: Final = {ProcessRole.MAIN: "program", ProcessRole.UNKNOWN: "a process"}
"""Roles that say nothing about who a process was."""


def render_incidents(answer: IncidentAnswer, style: TerminalStyle) -> str:
    """The whole answer as text. Every string must have been cleaned."""
    return render_parts(_answer(answer, style), style)


def _answer(answer: IncidentAnswer, style: TerminalStyle) -> Iterator[RenderableType]:
    count = len(answer.incidents)
    kinds = [list(alike) for _, alike in groupby(answer.incidents, _kind)]
    least = "at least " if any(len(alike) >= MOST_LIVES for alike in kinds) else ""
    deaths = f"{least}{count:,} incident{'' if count == 1 else 's'}" if count else "no death"
    lines = f"{answer.lines:,} line{'' if answer.lines == 1 else 's'}"
    yield Text(f"{deaths} in {lines}", style="quiet")
    above: set[str] = set()
    for incident, *others in kinds:
        yield Text()
        yield from _incident(incident, style, with_log=count > 1)
        if style.detail is not Detail.SENTENCE:
            yield Text()
            yield next_steps(_new(incident.next_steps, above))
        above.update(incident.next_steps)
        if others:
            yield Text()
            yield labelled("", _more(others))
    if answer.symbolization is not None:
        yield Text()
        yield symbolization_in_text(answer.symbolization)
    for failure in answer.failures:
        yield Text()
        said = path(_log_name(failure.path)) + Text(f" {failure.error}")
        yield labelled("not read" if answer.incidents else "", said)
        yield next_steps([failure.remedy])


def _log_name(path: str) -> str:
    return "standard input" if path == "-" else path


def _kind(incident: Incident) -> tuple[str | None, ...]:
    """What lives that a supervisor started one after the other may die of alike."""
    death = incident.first_death
    place = (death.module, death.function, death.python_function)
    return (incident.log, death.name, death.role, death.signal, death.cause.kind, *place)


def _more(others: Sequence[Incident]) -> str:
    lines = [f"line {one.first_death.evidence[0].line}" for one in others[:_MAX_ALIKE]]
    left = ", …" if len(others) > _MAX_ALIKE else ""
    least = "at least " if len(others) + 1 >= MOST_LIVES else ""
    times = "once more" if len(others) == 1 else f"{least}{len(others):,} times more"
    return f"It was started again and died alike {times}: {', '.join(lines)}{left}."


def _incident(
    incident: Incident, style: TerminalStyle, *, with_log: bool
) -> Iterator[RenderableType]:
    death = incident.first_death
    yield title(death)
    if with_log:
        yield command(incident.log, style="quiet")
    yield Text()
    yield labelled("", incident.explanation)
    if style.detail is Detail.SENTENCE:
        return
    yield Text()
    proofs: dict[str, list[str]] = {}
    for one in death.evidence:
        proofs.setdefault(one.text, []).append(str(one.line))
    label = "Proof"
    for text, lines in proofs.items():
        where = f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}"
        yield labelled(label, f"{where}  {text}", indented=True)
        label = ""
    yield from stack_of(death, LABEL_WIDTH)
    yield from _processes(incident, style)
    yield from _echoes(incident)


def _new(steps: Sequence[str], above: Collection[str]) -> list[str]:
    """The steps without those that stand below an incident further up."""
    new = [step for step in steps if step not in above]
    return new if len(new) == len(steps) else [*new, "and as above" if new else "as above"]


def one_line(text: str) -> str:
    """A name that somebody chose begins no line of its own."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def title(death: Death, number: int | None = None) -> Rows:
    """The headline, on as many lines as it takes: its end says how sure all of it is."""
    line = headline(death)
    text = line if number is None else f"━━ {number} {line}"
    return paragraph(Text(text, style="title"), len(text))


def called(death: Death) -> str:
    """The dead process by its name, or as what it was."""
    if death.name is not None and death.name.isupper() and death.name.lower() in _KINDS:
        return death.name.lower()  # `WORKER TIMEOUT` shouts
    return death.name or _NAMELESS.get(death.role, death.role.value)


def headline(death: Death) -> str:
    """Who died first, of what, where, and how sure that is."""
    who = f"probably {called(death)}" if death.is_name_guessed else called(death)
    pid = f" {death.pid}" if death.pid is not None else ""
    cause = death.cause
    is_sent = cause.kind is CauseClass.UNKNOWN and cause.certainty is not Certainty.UNKNOWN
    what = "ended from outside" if is_sent else cause.kind.value.replace("-", " ")
    parts = [f"{who}{pid} died first", what]
    if death.signal is not None:
        parts.append(death.signal)
    elif death.exit is not None:
        parts.append(f"exit {death.exit}")
    place = death.function or death.module or death.python_function
    if place in {None, TOP_LEVEL} and death.file is not None:
        place = f"{_FILE.split(death.file)[-1]}:{death.line}"
    if place is not None:
        is_guess = death.is_place_guessed
        parts.append(f"likely {short_name(place)}" if is_guess else short_name(place))
    parts.append(
        {Certainty.UNKNOWN: "not known of what"}.get(
            death.cause.certainty, death.cause.certainty.value
        )
    )
    return "━━ " + " · ".join(parts) + " ━━"


def _processes(incident: Incident, style: TerminalStyle) -> Iterator[RenderableType]:
    processes = _told_apart(incident)
    if len(processes) < 2:
        return
    yield Text()
    shown = _most_telling(processes)
    dead = processes[0]
    is_dead = dead.pid == incident.first_death.pid
    is_roomy = style.width >= _ROOMY
    rows = []
    for branch, one in as_tree(shown):
        mark = "✖" if one is dead and is_dead else " "
        name = f"  {mark} {branch}{one_line(one.name or '?')} {one.pid or ''}".rstrip()
        seen = f"seen {one_line(one.last_seen)}" if one.last_seen else ""
        rows.append((one, (name, one.role.value, seen)))
    widths = [max(len(cells[column]) for _, cells in rows) for column in range(3)]
    are_timed = is_roomy and widths[2] > 0 and sum(widths) + _ENDS_WIDTH <= style.width
    yield Text("Processes", style="head")
    table = Rows(gap=2)
    for one, (name, role, seen) in rows:
        cells = [Text(name), Text(role, style="quiet")]
        if are_timed:
            cells.append(Text(seen, style="quiet"))
        if is_roomy:
            table.add_row(*cells, one_line(one.end or ""))
            continue
        table.add_row(Text("  ").join(cells))
        if one.end:
            table.add_row(f"        {one_line(one.end)}")
    yield table
    left = len(processes) - _MAX_PROCESSES
    if left > 0:
        yield Text(f"    and {left} more (--format json)", style="quiet")


def _told_apart(incident: Incident) -> Sequence[IncidentProcess]:
    """The processes without the many that died alike: the explanation counts them."""
    dead, *others = incident.processes
    death = incident.first_death
    if death.signal is None:
        return incident.processes
    apart = [one for one in others if (one.name, one.end) != (death.name, death.signal)]
    return [dead, *apart] if len(others) - len(apart) > _MAX_ALIKE else incident.processes


def _most_telling(processes: Sequence[IncidentProcess]) -> list[IncidentProcess]:
    """As many as are shown: those that started the first one are not left out of its tree."""
    first_of = {one.pid: one for one in reversed(processes)}
    line = [processes[0]]
    while (parent := line[-1].parent) is not None:
        above = first_of.get(parent)
        if above is None or above in line:
            break
        line.append(above)
    kept = [*line, *(one for one in processes if one not in line)][:_MAX_PROCESSES]
    return [one for one in processes if one in kept]


def _echoes(incident: Incident) -> Iterator[RenderableType]:
    if not incident.echoes:
        return
    yield Text()
    only = "the visible error is one of them" if incident.visible_error_is_echo else ""
    yield Text(f"Only echoes   {only}".rstrip(), style="head")
    alike: dict[tuple[str, str], list[int]] = {}
    for echo in incident.echoes:
        alike.setdefault((echo.text, echo.why), []).append(echo.line)
    shown = list(alike.items())
    left = len(shown) - _MAX_ECHOES
    if left > 0:
        shown = [*shown[: _MAX_ECHOES - 1], shown[-1]]
    table = Rows(gap=1)
    digits = max(len(str(first)) for _, (first, *_) in shown)
    for (text, why), (first, *more) in shown:
        table.add_row(f"  line {first:>{digits}}", text)
        table.add_row("", Text(f"{why}{_again(more)}", style="quiet"))
    yield table
    if left > 0:
        yield Text(f"  and {left} more (--format json)", style="quiet")


def _again(lines: Sequence[int]) -> str:
    """Where else the same was said."""
    if not lines:
        return ""
    kept = ", ".join(map(str, lines[:_MAX_ALIKE]))
    left = len(lines) - _MAX_ALIKE
    more = f" and {left:,} more" if left > 0 else ""
    return f"; again in line{'s' if len(lines) > 1 else ''} {kept}{more}"


def labelled(label: str, text: Cell, *, indented: bool = False) -> Rows:
    """A paragraph, with a label before its first line or at the place of one."""
    if not label and not indented:
        return paragraph(text, _WIDEST)
    return rows.labelled(label, [text], LABEL_WIDTH, gap=1, widest=_WIDEST + LABEL_WIDTH + 1)


def next_steps(texts: Iterable[str]) -> Rows:
    """What to type next, beside such paragraphs."""
    return rows.steps(texts, LABEL_WIDTH, gap=1)
