"""One incident out of the parts that tell of it: who died first, and what each source says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vllm_forensics.diagnosis.incident.clues import is_death
from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.diagnosis.incident.words import place_of_death
from vllm_forensics.diagnosis.joined.agreement import (
    accords_of,
    contradictions_of,
    is_kill,
    nameless_kills,
)
from vllm_forensics.diagnosis.joined.copies import copies_in
from vllm_forensics.diagnosis.joined.joining import Ordered, is_own_word, ordered, with_owners
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import (
    CauseClass,
    Clue,
    ClueKind,
    Death,
    Echo,
    Incident,
    IncidentProcess,
    IncidentReading,
    ProcessRole,
)
from vllm_forensics.model.joined import Contradiction, Fact, JoinedProcess, SourcedEcho, SourceKind

_MAX_FACTS: Final = 40
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
class Told:
    """What was concluded from the statements alone."""

    incident: Incident | None
    processes: tuple[JoinedProcess, ...]
    echoes: tuple[SourcedEcho, ...]
    unattached: tuple[Fact, ...]
    explanation: str
    of_first: tuple[Statement, ...]
    """All that speaks of the process that died first."""


def told_of(told: Sequence[Statement], logs: Mapping[str, IncidentReading]) -> Told:
    """The incident that all of the statements are about.

    `logs` are the readings that the statements of logs are from, by their sources.
    """
    told = _with_statuses(with_owners(told, told))
    copies = copies_in(told)
    own = [one for one in told if id(one) not in copies]
    order = ordered(_without_kills(own), logs.values())
    incident = explain_incident(order.reading, "") if order.reading.clues else None
    of_first = _of_first(incident, order, own)
    incident = _without_doubtful_echoes(incident, order)
    kept = set(map(id, of_first))
    of_first += [one for one in told if id(copies.get(id(one))) in kept]
    return Told(
        incident=incident,
        processes=_processes(incident, told, of_first),
        echoes=tuple(_echoes(incident, order, told, copies)),
        unattached=_unattached(told, of_first, incident, order, copies),
        explanation=_explanation(
            incident, of_first, order, is_in_order=_is_in_order(order, of_first)
        ),
        of_first=tuple(of_first),
    )


def _with_statuses(told: Sequence[Statement]) -> list[Statement]:
    """What a parent noticed of a child's end, with the status 0 that a tracer saw it leave with.

    So nothing killed it: somebody called exit in it, and its parent was not told.
    """
    left = {one.pid for one in told if one.is_orderly_end and one.pid is not None}

    def is_unknown(clue: Clue) -> bool:
        is_child = clue.kind is ClueKind.CHILD and clue.of_another
        return is_child and clue.exit is None and clue.signal is None

    return [
        replace(one, clue=replace(one.clue, exit=0))
        if one.clue is not None and one.pid in left and is_unknown(one.clue)
        else one
        for one in told
    ]


def _without_kills(told: Sequence[Statement]) -> list[Statement]:
    """Without what says that a process was killed which left a core: SIGKILL leaves none."""
    cored = {one.pid for one in told if one.crash is not None}
    return [one for one in told if not (one.pid in cored and is_kill(one))]


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


def _echoes(
    incident: Incident | None,
    order: Ordered,
    told: Sequence[Statement],
    copies: Mapping[int, Statement],
) -> Iterator[SourcedEcho]:
    if incident is None:
        return
    of_line = {id(one): line for line, one in order.at_line.items()}
    repeats: dict[int, list[Statement]] = {}
    for one in told:
        if id(one) in copies:
            repeats.setdefault(of_line.get(id(copies[id(one)]), 0), []).append(one)
    for echo in incident.echoes:
        own = order.at_line.get(echo.line)
        if own is not None and own.kind is SourceKind.LOG:
            for one in (own, *repeats.get(echo.line, ())):
                yield SourcedEcho(fact=fact_of(one), of=echo.of, why=echo.why)


def _processes(
    incident: Incident | None,
    told: Sequence[Statement],
    of_first: Sequence[Statement],
) -> tuple[JoinedProcess, ...]:
    known = list(incident.processes) if incident is not None else []
    pids = {one.pid for one in known}
    for one in told:
        if one.pid is not None and one.pid not in pids and not one.is_orderly_end:
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
        joined = _joined(process, about, first=first)
        if first:
            against = (*joined.contradictions, *nameless_kills(told, about))
            joined = replace(joined, contradictions=against)
        found.append(joined)
    return tuple(found)


def _joined(process: IncidentProcess, about: Sequence[Statement], *, first: bool) -> JoinedProcess:
    contradictions = contradictions_of(about)
    number = next((one.kernels_pid for one in about if one.kernels_pid is not None), None)
    if number is not None:
        contradictions += (
            Contradiction(
                sentence=_other_number(number, process.pid, about),
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
        parent=process.parent
        or next((one.parent for one in about if one.parent is not None), None),
        last_seen=process.last_seen,
        end=end,
        died_first=first,
        facts=_facts(about),
        accords=accords_of(about),
        contradictions=contradictions,
        cores=tuple(one.source for one in about if one.kind is SourceKind.CORE),
    )


def _other_number(number: int, pid: int | None, about: Sequence[Statement]) -> str:
    """Why the kernel's log and the core of one process do not agree in its number."""
    calls = f"the kernel's log calls it {number}, the core {pid}: the same instruction and stack, "
    crashes = (one.crash for one in about if one.crash is not None)
    if any(thread.tid == number for crash in crashes for thread in crash.threads):
        return calls + "which are those of its thread of that number"
    return calls + "so one process in a container, seen from outside"


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


def _unattached(
    told: Sequence[Statement],
    of_first: Sequence[Statement],
    incident: Incident | None,
    order: Ordered,
    copies: Mapping[int, Statement],
) -> tuple[Fact, ...]:
    taken = set(map(id, of_first))
    reported = [(one.source, *one.report.printed.lines) for one in told if one.report is not None]
    if incident is not None:
        lines = [echo.line for echo in incident.echoes]
        taken |= {id(order.at_line[line]) for line in lines if line in order.at_line}
    taken |= {id(one) for one in told if id(copies.get(id(one))) in taken}
    return tuple(
        fact_of(one)
        for one in told
        if one.pid is None
        and id(one) not in taken
        and is_worth(one)
        and not any(
            one.source == source and one.line is not None and first <= one.line <= last
            for source, first, last in reported
        )
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
    return tuple(dict.fromkeys(map(fact_of, shown)))[:_MAX_FACTS]


def is_worth(one: Statement) -> bool:
    """Is it worth a line? That something began is not."""
    return one.clue is None or one.clue.kind is not ClueKind.START


def fact_of(one: Statement) -> Fact:
    """As it is shown."""
    return Fact(source=one.source, line=one.line, text=one.text, time=one.time)


def _is_in_order(order: Ordered, of_first: Sequence[Statement]) -> bool:
    """Is it known which death was the first, or is there no other?"""
    first = set(map(id, of_first))
    return order.is_certain or not any(
        is_own_word(one) and id(one) not in first for one in order.at_line.values()
    )


def _explanation(
    incident: Incident | None, of_first: Sequence[Statement], order: Ordered, *, is_in_order: bool
) -> str:
    if incident is None:
        return "No source tells of a death."
    death = incident.first_death
    words = [_without_lines(incident, order)]
    crash = next((one.crash for one in of_first if one.crash is not None), None)
    report = next((one for one in of_first if one.report is not None), None)
    if report is not None and report.report is not None:
        words.append(f"The sanitizer ({report.place}): {report.report.explanation}")
    elif crash is not None:
        for place in place_of_death(death) if _names(crash.explanation, death) else ():
            words[0] = words[0].replace(f" {place}", "", 1)  # once is enough
        words.append(f"Its core: {crash.explanation}")
    elif death.cause.kind is CauseClass.UNKNOWN or death.cause.certainty is Certainty.UNKNOWN:
        words.append("No core of it is among the sources.")
    if not is_in_order:
        words.append(
            "Several sources tell of deaths, and no common clock says which came first: the order "
            "is that of the files."
        )
    return " ".join(words)


def _names(explanation: str, death: Death) -> bool:
    """Does the core's explanation tell the place as well?"""
    return death.function is not None and f"{death.function} (" in explanation


def _without_lines(incident: Incident, order: Ordered) -> str:
    """Line numbers of the joined reading are nobody's: the source and its own line instead."""
    text = incident.explanation
    for echo in incident.echoes:
        one = order.at_line.get(echo.line)
        if one is not None:
            text = text.replace(f"(line {echo.line})", f"({one.place})")
    return text
