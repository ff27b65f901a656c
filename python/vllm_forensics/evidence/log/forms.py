"""Crash reports that are forms: fields with labels, which only together tell of a death.

Crash reporters are many, and each has its own heading; people edit it or leave it out. What stays
is a cause by name or code (`Exception class: EAccessViolation`, `Signal: 11`) among fields that
tell a program, a place or a machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vllm_forensics.evidence.log.form_values import (
    CAUSES,
    MAY_BE_PLACES,
    PIDS,
    PLACES,
    WHO,
    Ending,
    ending_of,
    name_of,
    number_of,
    place_of,
)
from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.evidence.log.stacks.below import with_stack_below
from vllm_forensics.model.incident import BUGCHECK, UNNAMED, Clue, ClueKind, NativeCall

_FIELD: Final = re.compile(
    r"[\s>*#+|/=-]{0,12}(?:\d{1,2}(?:\.\d{1,2})?\.? {1,3})?[*_`]{0,3}"
    r"(?P<label>[A-Z_a-z][\w /-]{1,40}?)[*_`]{0,3}\s{0,30}:[ \t*_]{0,40}"
    r"(?P<value>\S.{0,300})?$"
)
_CHECK: Final = re.compile(r"(?P<value>[A-Z][A-Z0-9]{2,30}_[A-Z0-9_]{3,60} \([0-9a-f]{1,8}\))\s*$")
"""The name of a check of Windows' kernel, below which WinDbg lists what it was given."""
_OF_JAVA: Final = {"jreversion", "javavm"}
_SPACE: Final = re.compile(r"[\W_]+")
_GAP: Final = 6
"""So many lines without a field may stand within a form."""
_MAX: Final = 60
_FEW: Final = 3
"""A form has as many fields at least."""
_TELLS: Final = {
    ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.MEMORY, ClueKind.GPU,
    ClueKind.ENVIRONMENT, ClueKind.EXCEPTION, ClueKind.CHILD,
}  # fmt: skip
_BESIDE: Final = 2
_MANY: Final = 8
"""A text that tells of more deaths is a log, and no report."""


class _Field(NamedTuple):
    line: int
    """Counted from nought."""
    key: str
    value: str


class _Form(NamedTuple):
    first: int
    last: int
    fields: tuple[_Field, ...]


def with_forms(clues: Sequence[Clue], lines: Callable[[], Sequence[str]]) -> list[Clue]:
    """The clues, with what a form tells that nobody else does: a death, or its place."""
    tells = [clue for clue in clues if _is_strong(clue)]
    if any(clue.native for clue in tells) or len(tells) > _MANY:
        return list(clues)
    text = lines()
    forms = list(_forms(text))
    if tells:
        return [_placed(clue, forms) if _is_strong(clue) else clue for clue in clues]
    deaths = [(form, told) for form in forms if (told := _death(form, text)) is not None]
    if not deaths:
        return list(clues)
    form, told = max(deaths, key=lambda one: bool(one[1].native))
    others = [clue for clue in clues if clue.source != UNNAMED or not _is_in(clue, form)]
    return [*others, told]


def _is_strong(clue: Clue) -> bool:
    """Does a line tell a death in words that are its writer's own?"""
    return clue.kind in _TELLS and not clue.is_told and clue.source != UNNAMED


def _is_in(clue: Clue, form: _Form) -> bool:
    return form.first - _BESIDE <= clue.line - 1 <= form.last + _BESIDE


def _forms(lines: Sequence[str]) -> Iterator[_Form]:
    """Runs of lines with labels."""
    run: list[_Field] = []
    for at, line in enumerate(lines):
        field = _field(at, line)
        if field is None:
            continue
        if run and (at - run[-1].line > _GAP or len(run) >= _MAX):
            yield _Form(run[0].line, run[-1].line, tuple(run))
            run = []
        run.append(field)
    if run:
        yield _Form(run[0].line, run[-1].line, tuple(run))


def _field(at: int, line: str) -> _Field | None:
    check = _CHECK.match(line)
    if check is not None:
        return _Field(at, "bugcheck", check["value"])
    match = _FIELD.match(line)
    if match is None or match["value"] is None or match["label"] == "labels":
        return None
    return _Field(at, _SPACE.sub("", match["label"]).lower(), match["value"].strip())


def _death(form: _Form, lines: Sequence[str]) -> Clue | None:
    """The death that a form tells, with the stack below it; of few fields only with a stack."""
    is_form = len(form.fields) >= _FEW
    found = next(filter(None, map(_ending, form.fields)), None)
    if found is None:
        return _unsigned(form, lines) if is_form else None
    field, ending = found
    name, pid = _who(form), _pid(form)
    native = _native(form, field)
    is_check = field.key.startswith("bugcheck")
    if name is None and pid is None and not native and not ending.has_code and not is_check:
        return None
    source = BUGCHECK if is_check else "a crash report" if ending.has_code else UNNAMED
    clue = replace(
        clue_at(LogLine(field.line + 1, "", lines[field.line]), ending.kind, source),
        name=name,
        pid=pid,
        signal=ending.signal,
        detail=ending.detail,
        of_another=True,
    )
    told = with_stack_below(clue, lines, form.last + 1)
    if not is_form and not (told.native and ending.has_code):
        return None
    return told if told.native else replace(told, native=native)


def _unsigned(form: _Form, lines: Sequence[str]) -> Clue | None:
    """What apport's report tells of which somebody left out the signal: that it crashed."""
    head = next((one for one in form.fields if one == (one.line, "problemtype", "Crash")), None)
    name = _who(form)
    if head is None or name is None:
        return None
    line = LogLine(head.line + 1, "", lines[head.line])
    return clue_at(line, ClueKind.CHILD, "a crash report", name=name, of_another=True)


def _ending(field: _Field) -> tuple[_Field, Ending] | None:
    ending = ending_of(field.key, field.value) if field.key in CAUSES else None
    return (field, ending) if ending is not None else None


def _who(form: _Form) -> str | None:
    """The program, as the field says it that is surest."""
    ranked = sorted(
        (field for field in form.fields if field.key in WHO), key=lambda field: WHO[field.key]
    )
    is_javas = any(field.key in _OF_JAVA for field in form.fields)
    names = (name_of(field.key, field.value) for field in ranked)
    return next(filter(None, names), "java" if is_javas else None)


def _pid(form: _Form) -> int | None:
    told = (number_of(field.value, is_alone=True) for field in form.fields if field.key in PIDS)
    beside = (number_of(field.value, is_alone=False) for field in form.fields if field.key in WHO)
    return next(filter(None, (*told, *beside)), None)


def _native(form: _Form, cause: _Field) -> tuple[NativeCall, ...]:
    """The place: a field of its own, or what stands in the message."""
    fields = [field for field in form.fields if field.key in PLACES]
    fields.sort(key=lambda field: PLACES[field.key])
    told = [field for field in (cause, *form.fields) if field.key in MAY_BE_PLACES]
    calls = [place_of(field.key, field.value) for field in (*fields, *told)]
    found = [call for call in calls if call is not None]
    best = next((call for call in found if call.function), next(iter(found), None))
    return (best,) if best is not None else ()


def _placed(clue: Clue, forms: Sequence[_Form]) -> Clue:
    """The clue with the place of the form that it is a field of."""
    if clue.kind not in {ClueKind.SIGNAL, ClueKind.HEAP, ClueKind.ABORT, ClueKind.CHILD}:
        return clue
    form = next((one for one in forms if len(one.fields) >= _FEW and _is_in(clue, one)), None)
    if form is None:
        return clue
    return replace(clue, native=_native(form, _Field(-1, "", "")))
