"""From many sources to one incident: who died first, and what each source says of whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vllm_forensics.diagnosis.agreement import accords_of, contradictions_of
from vllm_forensics.diagnosis.incident import explain_incidents
from vllm_forensics.diagnosis.incident_first import is_death
from vllm_forensics.diagnosis.joining import (
    Ordered,
    ordered,
    same_lives,
    with_one_pid_a_process,
    with_owners,
)
from vllm_forensics.diagnosis.lives import Lives, lives_apart
from vllm_forensics.diagnosis.statement import Statement
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import (
    CauseClass,
    ClueKind,
    Death,
    Echo,
    Incident,
    IncidentProcess,
    IncidentReading,
    ProcessRole,
)
from vllm_forensics.model.joined import (
    Contradiction,
    Fact,
    JoinedProcess,
    JoinedReport,
    SourcedEcho,
    SourceKind,
)
from vllm_forensics.model.report import Crash
from vllm_forensics.model.stack import FrameKind

_MAX_FACTS: Final = 40
_MAX_UNATTACHED: Final = 60
_LAST: Final = re.compile(r" ?The last error in the text \(line \d+\) is an echo of it[^.]*\.")
_ORDER: Final = (
    SourceKind.CORE,
    SourceKind.SUPERVISOR,
    SourceKind.SANITIZER,
    SourceKind.STRACE,
    SourceKind.LOG,
    SourceKind.SANDBOX,
)
"""The nearer to the processor, the earlier it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What was concluded from the statements alone."""

    incident: Incident | None
    processes: tuple[JoinedProcess, ...]
    echoes: tuple[SourcedEcho, ...]
    unattached: tuple[Fact, ...]
    explanation: str


def join(
    told: Sequence[Statement], logs: Mapping[str, IncidentReading], loose: Sequence[Fact] = ()
) -> Joined:
    """One incident out of everything that was said.

    `logs` are the readings that the statements of logs are from, by their sources; `loose` are
    facts of sources that name no process.
    """
    apart = lives_apart(told, logs)
    told = list(apart.told)
    told, kernels = with_one_pid_a_process(told)
    told = with_owners(told)
    told, other_lives = same_lives(told)
    order = ordered(told, apart.logs.values())
    incidents = explain_incidents(order.reading, "") if order.reading.clues else ()
    incident = next((one for one in incidents if _has_core(one, order)), None)
    incident = incident or next(iter(incidents), None)
    of_first = _of_first(incident, order, told)
    incident = _without_doubtful_echoes(incident, order)
    echoes = tuple(_echoes(incident, order))
    processes = _processes(incident, told, of_first, kernels)
    processes += tuple(_other_life(one) for one in other_lives)
    left = _unattached(told, of_first, incident, order)
    words = _explanation(incident, of_first, order) + _others(len(incidents))
    return Joined(
        incident=_shown_incident(incident, apart),
        processes=tuple(_shown(one, apart) for one in processes),
        echoes=tuple(replace(echo, of=apart.shown(echo.of)) for echo in echoes),
        unattached=(*left[:_MAX_UNATTACHED], *loose),
        explanation=apart.shown_in(words),
    )


def _shown_incident(incident: Incident | None, apart: Lives) -> Incident | None:
    if incident is None:
        return None
    death = incident.first_death
    return replace(incident, first_death=replace(death, pid=apart.shown(death.pid)))


def _shown(process: JoinedProcess, apart: Lives) -> JoinedProcess:
    """With the process's own number, and why it is not another one's."""
    why = apart.reasons.get(process.pid) if process.pid is not None else None
    told = tuple(
        replace(one, sentence=apart.shown_in(one.sentence)) for one in process.contradictions
    )
    if why is not None:
        told += (Contradiction(sentence=why, sources=_sources(process)),)
    return replace(
        process,
        pid=apart.shown(process.pid),
        parent=apart.shown(process.parent),
        contradictions=told,
    )


def _sources(process: JoinedProcess) -> tuple[str, ...]:
    """Who speaks of it, each once."""
    return tuple(dict.fromkeys(fact.source for fact in process.facts))


def death_with(death: Death, crashes: Sequence[Crash], of_first: Sequence[str]) -> Death:
    """The first death, with the place that its core gives: it is nearer than a log's stack."""
    crash = next((one for one in crashes if one.core in of_first), None)
    culprit = crash.culprit if crash is not None else None
    death = replace(death, evidence=())
    if culprit is None:
        return death
    if culprit.kind is FrameKind.PYTHON:
        return replace(death, python_function=culprit.function or death.python_function)
    named = culprit.function is not None and culprit.names_trusted
    return replace(
        death,
        function=plain_name(culprit.function) if named and culprit.function else death.function,
        module=culprit.module.rsplit("/", 1)[-1] if culprit.module else death.module,
    )


def _without_doubtful_echoes(incident: Incident | None, order: Ordered) -> Incident | None:
    """Another process's own death is no echo where no clock says that it came later."""
    if incident is None or order.is_certain:
        return incident
    first = incident.first_death.pid

    def is_doubtful(echo: Echo) -> bool:
        one = order.at_line.get(echo.line)
        return one is not None and one.clue is not None and one.pid != first and is_death(one.clue)

    kept = tuple(echo for echo in incident.echoes if not is_doubtful(echo))
    if len(kept) == len(incident.echoes):
        return incident
    is_last = bool(kept) and kept[-1] is incident.echoes[-1]
    return replace(
        incident,
        echoes=kept,
        visible_error_is_echo=incident.visible_error_is_echo and is_last,
        explanation=incident.explanation if is_last else _LAST.sub("", incident.explanation),
    )


def _has_core(incident: Incident, order: Ordered) -> bool:
    lines = [one.line for one in incident.first_death.evidence]
    return any(
        line in order.at_line and order.at_line[line].kind is SourceKind.CORE for line in lines
    )


def _others(incidents: int) -> str:
    if incidents < 2:
        return ""
    return f" The logs tell of {incidents} incidents, one for each start: see forensics log."


def _of_first(
    incident: Incident | None, order: Ordered, told: Sequence[Statement]
) -> list[Statement]:
    """All that speaks of the process that died first."""
    if incident is None:
        return []
    death = incident.first_death
    evidence = [order.at_line[one.line] for one in death.evidence if one.line in order.at_line]
    taken = set(map(id, evidence))
    same = [one for one in told if death.pid is not None and one.pid == death.pid]
    echoes = {id(order.at_line[one.line]) for one in incident.echoes if one.line in order.at_line}
    same = [one for one in same if id(one) not in taken and id(one) not in echoes]
    return [*evidence, *same]


def _echoes(incident: Incident | None, order: Ordered) -> Iterator[SourcedEcho]:
    if incident is None:
        return
    for echo in incident.echoes:
        one = order.at_line.get(echo.line)
        if one is not None and one.kind is SourceKind.LOG:
            yield SourcedEcho(fact=_fact(one), of=echo.of, why=echo.why)


def _processes(
    incident: Incident | None,
    told: Sequence[Statement],
    of_first: Sequence[Statement],
    kernels: dict[int, int],
) -> tuple[JoinedProcess, ...]:
    known = list(incident.processes) if incident is not None else []
    pids = {one.pid for one in known}
    for one in told:
        if one.pid is not None and one.pid not in pids:
            pids.add(one.pid)
            known.append(_unnamed(one))
    found = []
    for number, process in enumerate(known):
        first = incident is not None and number == 0
        about = (
            list(of_first)
            if first
            else [one for one in told if process.pid is not None and one.pid == process.pid]
        )
        found.append(_joined(process, about, first=first, kernels=kernels))
    return tuple(found)


def _joined(
    process: IncidentProcess,
    about: Sequence[Statement],
    *,
    first: bool,
    kernels: dict[int, int],
) -> JoinedProcess:
    contradictions = contradictions_of(about)
    number = kernels.get(process.pid or -1)
    if number is not None:
        contradictions += (
            Contradiction(
                sentence=f"the kernel's log calls it {number}, the core {process.pid}: the same "
                "instruction and stack, so one process in a container, seen from outside",
                sources=tuple(dict.fromkeys(one.source for one in about if one.pc is not None)),
                is_explained=True,
            ),
        )
    end = process.end
    if end is None:
        end = next((_end(one) for one in about if one.ends), None)
    return JoinedProcess(
        pid=process.pid,
        host=next((one.host for one in about if one.host is not None), None),
        name=process.name or next((one.program for one in about if one.program), None),
        role=process.role,
        parent=process.parent,
        last_seen=process.last_seen,
        end=end,
        died_first=first,
        facts=_facts(about),
        accords=accords_of(about),
        contradictions=contradictions,
        cores=tuple(one.source for one in about if one.kind is SourceKind.CORE),
    )


def _end(one: Statement) -> str | None:
    return one.signal or (f"exit {one.exit}" if one.exit is not None else None)


def _unnamed(one: Statement) -> IncidentProcess:
    return IncidentProcess(
        pid=one.pid,
        name=one.program,
        role=ProcessRole.UNKNOWN,
        parent=None,
        last_seen=None,
        end=one.signal,
    )


def _other_life(core: Statement) -> JoinedProcess:
    return JoinedProcess(
        pid=core.pid,
        host=core.host,
        name=core.program,
        role=ProcessRole.UNKNOWN,
        parent=None,
        last_seen=core.time,
        end=core.signal,
        died_first=False,
        facts=_facts([core]),
        contradictions=(
            Contradiction(
                sentence=f"{core.source} is of another process {core.pid}: the number was used "
                "again, or it is another machine's",
                sources=(core.source,),
            ),
        ),
        cores=(core.source,),
    )


def _unattached(
    told: Sequence[Statement],
    of_first: Sequence[Statement],
    incident: Incident | None,
    order: Ordered,
) -> tuple[Fact, ...]:
    taken = set(map(id, of_first))
    if incident is not None:
        lines = [echo.line for echo in incident.echoes]
        taken |= {id(order.at_line[line]) for line in lines if line in order.at_line}
    return tuple(
        _fact(one)
        for one in told
        if one.pid is None
        and id(one) not in taken
        and (one.clue is None or one.clue.kind is not ClueKind.START)
    )


def _facts(about: Sequence[Statement]) -> tuple[Fact, ...]:
    """Each line once; a sanitizer's report is told by its reader and not by the log's again."""
    reported = {(one.source, one.line) for one in about if one.kind is SourceKind.SANITIZER}
    shown = [
        one
        for one in about
        if one.kind is not SourceKind.LOG or (one.source, one.line) not in reported
    ]
    shown.sort(key=lambda one: (_ORDER.index(one.kind), one.source, one.time_s or float("inf")))
    return tuple(dict.fromkeys(map(_fact, shown)))[:_MAX_FACTS]


def _fact(one: Statement) -> Fact:
    return Fact(source=one.source, line=one.line, text=one.text, time=one.time)


def _explanation(incident: Incident | None, of_first: Sequence[Statement], order: Ordered) -> str:
    if incident is None:
        return "No source tells of a death."
    death = incident.first_death
    words = [_without_lines(incident, order)]
    crash = next((one.crash for one in of_first if one.crash is not None), None)
    report = next((one for one in of_first if one.report is not None), None)
    if report is not None and report.report is not None:
        words.append(f"The sanitizer ({report.place}): {report.report.explanation}")
    elif crash is not None:
        words.append(f"Its core: {crash.explanation}")
    elif death.cause.kind is CauseClass.UNKNOWN or death.cause.certainty is Certainty.UNKNOWN:
        words.append("No core of it is among the sources.")
    if not order.is_certain:
        words.append(
            "Several sources tell of deaths, and no common clock says which came first: the order "
            "is that of the files."
        )
    return " ".join(words)


def _without_lines(incident: Incident, order: Ordered) -> str:
    """Line numbers of the joined reading are nobody's: the source and its own line instead."""
    text = incident.explanation
    for echo in incident.echoes[-1:]:
        one = order.at_line.get(echo.line)
        if one is not None:
            text = text.replace(f"(line {echo.line})", f"({one.place})")
    return text


def report_of(joined: Joined, rest: JoinedReport) -> JoinedReport:
    """The answer: what was joined, beside the sources, crashes and failures in `rest`."""
    incident = joined.incident
    of_first = joined.processes[0].cores if incident is not None and joined.processes else ()
    death = (
        death_with(incident.first_death, rest.crashes, of_first) if incident is not None else None
    )
    crash = next((one for one in rest.crashes if one.core in of_first), None)
    steps = list(crash.next_steps) if crash is not None else []
    if incident is not None:
        has_core = crash is not None
        steps += [
            step
            for step in incident.next_steps
            if not (has_core and step.startswith(("forensics core", "forensics run -- ")))
        ]
    return replace(
        rest,
        first_death=death,
        visible_error_is_echo=incident is not None and incident.visible_error_is_echo,
        explanation=joined.explanation,
        processes=joined.processes,
        echoes=joined.echoes,
        unattached=joined.unattached,
        next_steps=tuple(dict.fromkeys(steps)),
        cores_of_first=of_first,
    )
