"""From clues to an incident: the first death, its cause, the processes and the echoes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vllm_forensics.diagnosis.incident.account import account_of
from vllm_forensics.diagnosis.incident.by_program import by_program
from vllm_forensics.diagnosis.incident.causes import cause_of
from vllm_forensics.diagnosis.incident.clues import MACHINES
from vllm_forensics.diagnosis.incident.echoes import echoes_of, is_a_parents_word
from vllm_forensics.diagnosis.incident.first import first_death, is_of_a_stop
from vllm_forensics.diagnosis.incident.hearsay import hearsay_of, is_asked_for
from vllm_forensics.diagnosis.incident.names import with_numbers
from vllm_forensics.diagnosis.incident.place import where_it_died, without_program
from vllm_forensics.diagnosis.incident.processes import processes_of
from vllm_forensics.diagnosis.incident.restarts import lives_of
from vllm_forensics.diagnosis.incident.stack import stack_of
from vllm_forensics.diagnosis.incident.steps import next_steps
from vllm_forensics.diagnosis.incident.strangers import without_strangers
from vllm_forensics.diagnosis.incident.survived import without_survived
from vllm_forensics.diagnosis.incident.threads import with_processes
from vllm_forensics.diagnosis.incident.who import who_died
from vllm_forensics.diagnosis.incident.words import explanation
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.function_name import plain_name
from vllm_forensics.model.incident import (
    Clue,
    ClueKind,
    Death,
    Echo,
    EvidenceLine,
    Incident,
    IncidentReading,
)

_MAX_EVIDENCE: Final = 12
_SURVIVED: Final = re.compile(
    r"thread '(?!main')[^']{1,120}' (?:\(\d{1,9}\) )?panicked|\w{3,40} while importing test module"
)
"""Rust ends the thread alone, unless it was built to abort; pytest goes on with other modules."""
_NOTICES: Final = {ClueKind.ECHO, ClueKind.CHILD, ClueKind.START, ClueKind.HEARSAY}


def explain_incidents(reading: IncidentReading, log: str) -> tuple[Incident, ...]:
    """The incidents that a log tells of, in its order: one for each life that ended badly."""
    own = without_survived(with_numbers(without_strangers(with_processes(reading))))
    lives = (life for program in by_program(own) for life in lives_of(program))
    found = (explain_incident(life, log) for life in lives)
    return tuple(incident for incident in found if incident is not None)


def explain_incident(reading: IncidentReading, log: str) -> Incident | None:
    """The first incident that a log tells of; None where nobody died in it."""
    clues = reading.clues
    first = first_death(clues)
    if first is None or is_of_a_stop(first, reading.stopped):
        return None
    if first.kind is ClueKind.EXCEPTION and reading.succeeded:
        return None  # it was handled
    account = account_of(first, clues)
    heard = hearsay_of(first, account, clues)
    if not heard and is_asked_for(first):
        return None
    account = (*account, *heard)
    death = _death(first, account, reading)
    may_live = death.signal is None and _SURVIVED.match(first.detail or "") is not None
    if (first.is_caught or may_live) and not _was_noticed(first, clues):
        death = replace(death, cause=replace(death.cause, certainty=Certainty.LIKELY))
    told = {id(clue) for clue in (first, *account) if not is_a_parents_word(clue, first)}
    echoes = echoes_of([clue for clue in clues if id(clue) not in told], first, death)
    # The kernel's own log is not what a user sees, wherever it was pasted; nor are cores.
    unseen = {clue.line for clue in clues if clue.source in MACHINES}
    seen = [clue.line for clue in clues if id(clue) in told and clue.line not in unseen]
    visible = tuple(echo for echo in echoes if echo.line not in unseen)
    is_echo = _visible_is_echo(first, max(seen, default=0), visible)
    processes = processes_of(reading, death, clues)
    return Incident(
        log=log,
        first_death=death,
        processes=processes,
        visible_error_is_echo=is_echo,
        echoes=echoes,
        explanation=explanation(
            death, visible, processes, is_echo=is_echo, teaches=reading.teaches
        ),
        next_steps=next_steps(death, (first, *account)),
    )


def _was_noticed(first: Clue, clues: Sequence[Clue]) -> bool:
    """Did anybody tell of an end below it? Else who logged an exception may have lived on."""
    return any(clue.line > first.line and clue.kind in _NOTICES for clue in clues)


def _visible_is_echo(first: Clue, last: int, echoes: Sequence[Echo]) -> bool:
    """Is what stands last in the log, or all that stands there, only an echo?"""
    if first.kind is ClueKind.ECHO or (first.kind is ClueKind.CHILD and first.signal is None):
        return True
    return any(echo.line > last for echo in echoes)


def _death(first: Clue, account: Sequence[Clue], reading: IncidentReading) -> Death:
    told = (first, *account)
    cause = cause_of(first, account)
    who = who_died(first, account, reading)
    where = where_it_died(first, account, cause, reading)
    where = without_program(where, who.name, reading)
    place = where.call
    signals = [clue.signal for clue in told if clue.signal is not None]
    # How a runtime gives up is known by its words; how that ended, by whoever waited for it.
    waited = [clue.signal for clue in account if clue.kind is ClueKind.CHILD and clue.signal]
    signals = [*waited, *signals] if first.kind is ClueKind.ABORT else signals
    death = Death(
        pid=who.pid,
        name=who.name,
        role=who.role,
        signal=next(iter(signals), None),
        exit=next((clue.exit for clue in told if clue.exit is not None), None),
        time=next((clue.time for clue in told if clue.time is not None), None),
        module=place.module if place else None,
        function=plain_name(place.function) if place and place.function else None,
        python_function=where.python,
        file=where.source.file if where.source else None,
        line=where.source.line if where.source else None,
        symbolized=place.symbolized if place else None,
        name_certainty=who.name_certainty,
        place_certainty=where.certainty,
        cause=cause,
        evidence=(),
        frames=stack_of(told, place, where.stack),
    )
    lines = sorted({clue.line: clue.text for clue in told}.items())[:_MAX_EVIDENCE]
    return replace(
        death, evidence=tuple(EvidenceLine(line=line, text=text) for line, text in lines)
    )
