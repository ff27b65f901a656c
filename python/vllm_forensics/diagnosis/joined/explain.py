"""From many sources to incidents: which there are, what each is, and which are the same bug."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.steps import with_log
from vllm_forensics.diagnosis.joined.clocks import utc_text
from vllm_forensics.diagnosis.joined.incidents_apart import Group, incidents_of
from vllm_forensics.diagnosis.joined.joining import (
    with_one_pid_a_process,
    with_owners,
    with_threads_owned,
)
from vllm_forensics.diagnosis.joined.lives import SAME_DEATH_S, Lives, lives_apart
from vllm_forensics.diagnosis.joined.one_incident import Told, fact_of, is_worth, told_of
from vllm_forensics.diagnosis.joined.parts import Part, parts_of
from vllm_forensics.diagnosis.joined.same_bug import Words, bugs_of, words_of
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import Death, Incident, IncidentReading
from vllm_forensics.model.joined import (
    Bug,
    Contradiction,
    Fact,
    JoinedIncident,
    JoinedProcess,
    JoinedReport,
    SourceKind,
    SourcePart,
)
from vllm_forensics.model.record import dataclass
from vllm_forensics.model.report import Crash
from vllm_forensics.model.stack import FrameKind

_MAX_UNATTACHED: Final = 60
_NO_CORE_YET: Final = ("forensics core", "forensics report", "forensics run -", "dmesg ")
"""Steps that are of no use where there is a core."""
_NO_DEATH: Final = (
    "dmesg -T | tail -100    # does the kernel tell of a fault, or of a lack of memory?",
    "forensics report FOLDER    # with the dead process's own output too: its standard error",
)
_NO_ORDER: Final = (
    "Several sources tell of deaths, and no common clock says which came first: the order is that "
    "of the files."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What was concluded from the statements alone."""

    incidents: tuple[JoinedIncident, ...]
    bugs: tuple[Bug, ...]
    bystanders: tuple[JoinedProcess, ...]
    """Processes of no incident: nobody died."""
    unattached: tuple[Fact, ...]
    order_is_known: bool

    @property
    def told(self) -> JoinedIncident | None:
        """The incident to be told in full: of the first bug the one that is known best."""
        number = self.bugs[0].told if self.bugs else None
        return next((one for one in self.incidents if one.number == number), None)

    @property
    def processes(self) -> tuple[JoinedProcess, ...]:
        """Everybody, those of the incident that is told first."""
        told = self.told
        incidents = sorted(self.incidents, key=lambda one: one is not told)
        return (*(process for one in incidents for process in one.processes), *self.bystanders)


def join(
    told: Sequence[Statement], logs: Mapping[str, IncidentReading], loose: Sequence[Fact] = ()
) -> Joined:
    """The incidents that everything that was said adds up to.

    `logs` are the readings that the statements of logs are from, by their sources; `loose` are
    facts of sources that name no process.
    """
    told = with_threads_owned(with_one_pid_a_process(told), logs)
    apart = lives_apart(parts_of(told, logs))
    groups, left = incidents_of(_with_owners(apart.parts))
    groups, order_is_known = _in_order(groups)
    silent = [log for log in logs.values() if not log.clues]
    incidents: list[JoinedIncident] = []
    words: list[Words] = []
    bystanders: list[JoinedProcess] = []
    unattached = [fact_of(one) for part in left for one in part.told if is_worth(one)]
    for group in groups:
        one = told_of(_said(group), _logs(group, silent))
        unattached += one.unattached
        if one.incident is None:
            bystanders += [_shown(process, apart) for process in one.processes]
        else:
            incidents.append(_incident(one.incident, one, group, apart))
            words.append(words_of(group.parts, one))
    numbered = [replace(one, number=at) for at, one in enumerate(incidents, start=1)]
    found, bugs = bugs_of(numbered, words)
    return Joined(
        incidents=found,
        bugs=bugs,
        bystanders=tuple(bystanders),
        unattached=(*unattached[:_MAX_UNATTACHED], *loose),
        order_is_known=order_is_known,
    )


def _incident(incident: Incident, told: Told, group: Group, apart: Lives) -> JoinedIncident:
    crash = next((one.crash for one in told.of_first if one.crash is not None), None)
    report = next((one.report for one in told.of_first if one.report is not None), None)
    death = _death(incident.first_death, crash)
    steps = list(crash.next_steps) if crash is not None else []
    steps += [
        step for step in incident.next_steps if crash is None or not step.startswith(_NO_CORE_YET)
    ]
    logs = {part.source for part in group.parts if part.kind is SourceKind.LOG}
    steps = list(with_log(steps, *logs)) if len(logs) == 1 else steps
    signed = crash or report
    return JoinedIncident(
        number=0,
        first_death=replace(death, pid=apart.shown(death.pid)),
        visible_error_is_echo=incident.visible_error_is_echo,
        explanation=apart.shown_in(told.explanation),
        processes=tuple(_shown(one, apart) for one in told.processes),
        echoes=tuple(replace(echo, of=apart.shown(echo.of)) for echo in told.echoes),
        next_steps=tuple(dict.fromkeys(steps)),
        cores=tuple(one.source for one in told.of_first if one.crash is not None),
        parts=_source_parts(group),
        host=next((one.host for one in told.processes if one.host is not None), None),
        time=_time(death, group),
        signature=signed.signature if signed is not None else None,
        bug=0,
    )


def _death(death: Death, crash: Crash | None) -> Death:
    """The first death, with the place that its core gives: it is nearer than a log's stack."""
    death = replace(death, evidence=())
    culprit = crash.culprit if crash is not None else None
    if crash is not None:
        death = replace(death, frames=())  # the core has them all
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


def _source_parts(group: Group) -> tuple[SourcePart, ...]:
    """One for each source and life, in the order of the sources."""
    lines: dict[tuple[str, int], list[int]] = {}
    for part in sorted(group.parts, key=lambda one: one.number):
        lines.setdefault((part.source, part.life), []).extend(part.lines or ())
    return tuple(
        SourcePart(
            path=source,
            first_line=min(found, default=None),
            last_line=max(found, default=None),
        )
        for (source, _), found in lines.items()
    )


def _time(death: Death, group: Group) -> str | None:
    """As a source gives it; a core that nobody kept has the moment when it was written."""
    times = [one.time for part in group.parts for one in part.told if one.time is not None]
    written = [one.time_s for part in group.parts for one in part.told if one.time_s is not None]
    return death.time or next(iter(times), None) or (utc_text(min(written)) if written else None)


def _shown(process: JoinedProcess, apart: Lives) -> JoinedProcess:
    """With the process's own number, and why it is not another one's."""
    why = apart.reasons.get(process.pid) if process.pid is not None else None
    told = tuple(
        replace(one, sentence=apart.shown_in(one.sentence)) for one in process.contradictions
    )
    if why is not None:
        sources = tuple(dict.fromkeys(fact.source for fact in process.facts))
        told += (Contradiction(sentence=why, sources=sources),)
    return replace(
        process,
        pid=apart.shown(process.pid),
        parent=apart.shown(process.parent),
        contradictions=told,
    )


def report_of(joined: Joined, rest: JoinedReport) -> JoinedReport:
    """The answer: what was joined, beside the sources, crashes and failures in `rest`."""
    told = joined.told
    explanation = told.explanation if told is not None else "No source tells of a death."
    is_placed = joined.order_is_known or told is None or told.time is not None
    if not is_placed and _NO_ORDER not in explanation:
        explanation = f"{explanation} {_NO_ORDER}"
    return replace(
        rest,
        first_death=told.first_death if told is not None else None,
        visible_error_is_echo=told is not None and told.visible_error_is_echo,
        explanation=explanation,
        processes=joined.processes,
        echoes=told.echoes if told is not None else (),
        unattached=joined.unattached,
        next_steps=told.next_steps if told is not None else _NO_DEATH,
        cores_of_first=told.cores if told is not None else (),
        incidents=joined.incidents,
        bugs=joined.bugs,
        told=told.number if told is not None else None,
        order_is_known=joined.order_is_known,
    )


def _with_owners(parts: Sequence[Part]) -> list[Part]:
    """Parts that name no dead process, with the process of the one core that they fit.

    Where several lives of a log fit one core, it is of the nearest: else of the last, as a later
    core of the same name replaces an earlier one.
    """
    cores = [one for part in parts for one in part.told if one.crash is not None]
    claims: dict[int, list[tuple[tuple[bool, int], Part]]] = {}
    for part in parts:
        if part.reading is None or part.dead:
            continue
        told = tuple(with_owners(part.told, cores))
        owner = next(
            (new.pid for new, old in zip(told, part.told, strict=True) if new != old), None
        )
        if owner is not None:
            near = any(_are_near(one, core) for one in told for core in cores if core.pid == owner)
            claims.setdefault(owner, []).append(((near, part.number), replace(part, told=told)))
    owned = {}
    for of_core in claims.values():
        _, part = max(of_core, key=lambda claim: claim[0])
        owned[part.number] = part
    return [owned.get(part.number, part) for part in parts]


def _are_near(one: Statement, core: Statement) -> bool:
    at, written = one.clock_s, core.clock_s
    return at is not None and written is not None and abs(at - written) <= SAME_DEATH_S


def _in_order(groups: Sequence[Group]) -> tuple[list[Group], bool]:
    """By the moment of each, where a clock gives it; else those with a core first."""
    timed = [group for group in groups if group.began is not None]
    others = [group for group in groups if group.began is None]
    if all(group.moment_s is not None for group in timed):
        timed.sort(key=lambda group: group.moment_s or 0.0)
    else:
        timed.sort(key=lambda group: group.began or 0.0)
    others.sort(key=lambda group: not group.has_core)
    sources = {part.source for group in groups for part in group.parts}
    return [*timed, *others], len(groups) < 2 or not others or len(sources) == 1


def _said(group: Group) -> list[Statement]:
    """In the order of the sources, and of their lines."""
    parts = sorted(group.parts, key=lambda part: part.number)
    place = {source: at for at, source in enumerate(dict.fromkeys(one.source for one in parts))}
    told = [one for part in parts for one in part.told]
    return sorted(told, key=lambda one: (place[one.source], one.line or 0))


def _logs(group: Group, silent: Iterable[IncidentReading]) -> dict[str, IncidentReading]:
    """The lives of the logs; and of logs that tell of no death who they name."""
    found = {part.source: part.reading for part in group.parts if part.reading is not None}
    named = {pid for part in group.parts for pid in part.named | part.dead}
    for number, log in enumerate(silent):
        processes = tuple(one for one in log.processes if one.pid in named)
        if processes:
            found[f"silent {number}"] = replace(log, processes=processes)
    return found
