"""Which incidents are the same bug: by signature, else by what logs tell alike of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from vllm_forensics.diagnosis.joined.one_incident import Told
from vllm_forensics.diagnosis.joined.parts import Part
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.incident import CauseClass, Death
from vllm_forensics.model.joined import Bug, JoinedIncident, SameBug

_ORDER: Final = (SameBug.SIGNATURE, SameBug.WORDS, SameBug.ALIKE)
_SILENT: Final = {CauseClass.UNKNOWN, CauseClass.HANG}


@dataclass(frozen=True, slots=True)
class _Word:
    """How a log tells a death."""

    what: tuple[str | None, ...]
    is_placed: bool
    """Does it tell where?"""


Words = frozenset[_Word]


@dataclass(slots=True)
class _Growing:
    """A bug, while its incidents are gathered."""

    incidents: list[JoinedIncident]
    signature: str | None
    words: set[_Word] = field(default_factory=set)
    same: SameBug = SameBug.SIGNATURE


def words_of(parts: Sequence[Part], told: Told) -> Words:
    """How each log, alone, tells the death: what is the same in every life of a bug.

    Where none names a place, deaths are alike, and may be of several bugs.
    """
    found = [
        _word(one.incident.first_death, one.told)
        for one in parts
        if one.incident is not None and one.incident.first_death.cause.kind not in _SILENT
    ]
    if told.incident is not None and not any(one.crash or one.report for one in told.of_first):
        found.append(_word(told.incident.first_death, told.of_first))
    return frozenset(found)


def bugs_of(
    incidents: Sequence[JoinedIncident], words: Sequence[Words]
) -> tuple[tuple[JoinedIncident, ...], tuple[Bug, ...]]:
    """The incidents with the numbers of their bugs, and the bugs in the order of their first."""
    found: list[_Growing] = []
    for incident, said in zip(incidents, words, strict=True):
        bug, same = _of(incident, said, found)
        if bug is None:
            found.append(_Growing([incident], incident.signature, set(said)))
            continue
        bug.same = max(bug.same, same, key=_ORDER.index)
        bug.incidents.append(incident)
        bug.signature = bug.signature or incident.signature
        bug.words |= said
    bugs = tuple(_bug(number, one) for number, one in enumerate(found, start=1))
    number_of = {number: bug.number for bug in bugs for number in bug.incidents}
    return tuple(replace(one, bug=number_of[one.number]) for one in incidents), bugs


def _of(
    incident: JoinedIncident, words: Words, bugs: Sequence[_Growing]
) -> tuple[_Growing | None, SameBug]:
    """The bug that it is of, and why; the surest reason counts."""
    placed = frozenset(word for word in words if word.is_placed)
    own = incident.signature
    for bug in bugs:
        if own is not None and bug.signature == own:
            return bug, SameBug.SIGNATURE
    for bug in bugs:
        if None in {own, bug.signature} and bug.words & placed:
            return bug, SameBug.WORDS
    for bug in bugs:
        if own is None and bug.signature is None and bug.words & words:
            return bug, SameBug.ALIKE
    return None, SameBug.SIGNATURE


def _bug(number: int, one: _Growing) -> Bug:
    best = max(one.incidents, key=_knowledge)
    return Bug(
        number=number,
        signature=one.signature,
        incidents=tuple(incident.number for incident in one.incidents),
        told=best.number,
        same=one.same if len(one.incidents) > 1 else None,
    )


def _knowledge(incident: JoinedIncident) -> tuple[bool, bool, int]:
    """What a core says is more than what a log does; the first of equals."""
    return bool(incident.cores), incident.signature is not None, -incident.number


def _word(death: Death, told: Sequence[Statement]) -> _Word:
    """A library alone is no place: many bugs end in the C library."""
    calls = [call for one in told if one.clue is not None for call in one.clue.native]
    offset = next((call.offset for call in calls if call.module == death.module), None)
    where = (death.function, None if death.function else offset, death.python_function)
    what = (death.signal, death.cause.kind.value, death.module, *where)
    is_placed = any(where)
    return _Word(what if is_placed else (death.role.value, *what), is_placed)
