"""What sources agree on about one process, and what cannot be true of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from vllm_forensics.diagnosis.joined.clocks import span_text, utc_text
from vllm_forensics.diagnosis.joined.lives import APART_S
from vllm_forensics.diagnosis.joined.statement import Statement
from vllm_forensics.model.incident import ClueKind
from vllm_forensics.model.joined import Accord, Aspect, Contradiction, SourceKind
from vllm_forensics.model.report import Crash
from vllm_forensics.model.signals import signal_name
from vllm_forensics.model.stack import FrameKind

_HALF_HOUR_S: Final = 1_800.0
_MOST_HALF_HOURS: Final = 28
"""No time zone is further from UTC than 14 hours."""
_SAME_S: Final = 30.0

Rule = Callable[[Sequence[Statement]], Iterator[Contradiction]]


def accords_of(told: Sequence[Statement]) -> tuple[Accord, ...]:
    """Each thing that two sources or more say alike."""
    asked: tuple[tuple[Aspect, Callable[[Statement], str | None]], ...] = (
        (Aspect.SIGNAL, lambda one: one.signal),
        (Aspect.ADDRESS, lambda one: f"{one.address:#x}" if one.address is not None else None),
        (Aspect.FUNCTION, lambda one: one.function),
        (Aspect.MODULE, lambda one: one.module),
        (Aspect.PROGRAM, lambda one: one.program),
    )
    found: list[Accord] = []
    for aspect, value_of in asked:
        said: dict[str, dict[str, None]] = {}
        for one in told:
            value = value_of(one)
            if value is not None:
                said.setdefault(value, {})[one.source] = None
        found += [
            Accord(aspect=aspect, value=value, sources=tuple(sources))
            for value, sources in said.items()
            if len(sources) > 1
        ]
    return tuple(found)


def contradictions_of(told: Sequence[Statement]) -> tuple[Contradiction, ...]:
    """What cannot be true at once, and the reason where it is known."""
    found: dict[tuple[int, tuple[str, ...]], Contradiction] = {}
    for number, rule in enumerate(RULES):
        for one in rule(told):
            found.setdefault((number, one.sources), one)
    return tuple(found.values())


def is_kill(one: Statement) -> bool:
    """Does it say that SIGKILL ended a process, or the out-of-memory killer?"""
    is_memory = one.clue is not None and one.clue.kind is ClueKind.MEMORY
    return one.crash is None and (one.signal == "SIGKILL" or is_memory)


def nameless_kills(
    told: Sequence[Statement], about: Sequence[Statement]
) -> tuple[Contradiction, ...]:
    """Somebody was killed, by a source that does not say who, and the process left a core."""
    core = next((one for one in about if one.crash is not None and one.signal != "SIGKILL"), None)
    kill = next((one for one in told if one.pid is None and is_kill(one)), None)
    if core is None or kill is None:
        return ()
    return (
        Contradiction(
            sentence=f"{kill.place} says that a process was killed, and not which; {core.place} is "
            f"of one that {core.signal} ended. SIGKILL, and so the out-of-memory killer, leaves no "
            "core: it speaks of another process, or of another life",
            sources=(kill.source, core.source),
        ),
    )


def _signals(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A log says SIGABRT, the core SIGSEGV: a handler had sent another signal."""
    core = next((one for one in told if one.crash is not None), None)
    said = [one for one in told if one.signal is not None and one.crash is None]
    if core is not None and core.crash is not None:
        yield from _against_core(said, core, core.crash)
        return
    for one in said:
        other = next((two for two in said if two.signal != one.signal), None)
        if other is not None and other.source > one.source:
            yield Contradiction(
                sentence=f"{one.place} says {one.signal} and {other.place} says {other.signal}: "
                "one is the first fault and the other how the process ended, or they speak of two "
                "processes",
                sources=(one.source, other.source),
            )
            return


def _against_core(
    said: Sequence[Statement], core: Statement, crash: Crash
) -> Iterator[Contradiction]:
    first, last = signal_name(crash.signal.number), signal_name(crash.delivered.number)
    late = [one for one in said if one.signal == last and last != first]
    if late:
        places = ", ".join(dict.fromkeys(one.place for one in late))
        by = f"{crash.reraised_by} sent {last} after it" if crash.reraised_by else f"then {last}"
        yield Contradiction(
            sentence=f"{places}: {last}, and {core.place}: {first}. {first} came first, {by}, and "
            "that ended the process",
            sources=tuple(dict.fromkeys([*(one.source for one in late), core.source])),
            is_explained=True,
        )
    for one in said:
        if is_kill(one) and "SIGKILL" not in {first, last}:
            yield Contradiction(
                sentence=f"{one.place} says that process {one.pid} was killed, and {core.place} "
                f"is of one that {first} ended. SIGKILL, and so the out-of-memory killer, leaves "
                "no core: one of them is of another process, or of another life of number "
                f"{core.pid}",
                sources=(one.source, core.source),
            )
        elif one.signal not in {first, last}:
            yield Contradiction(
                sentence=f"{one.place} says {one.signal}, and {core.place} is of a process that "
                f"{first} ended: one of them is of another process, or of another life of number "
                f"{core.pid}",
                sources=(one.source, core.source),
            )


def _ends(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A trace says that it exited, a core that a signal ended it: the number was used again."""
    died = next((one for one in told if one.kind is SourceKind.CORE), None)
    for one in told:
        ends_itself = one.ends and one.signal is None and one.exit is not None
        if died is not None and ends_itself and one.pid is not None:
            yield Contradiction(
                sentence=f"{one.place} says that process {one.pid} exited with status {one.exit}, "
                f"and {died.place} that a signal ended it: the number was used twice",
                sources=(one.source, died.source),
            )


def _programs(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """Two programs under one number."""
    named = [one for one in told if one.program is not None]
    for one in named[1:]:
        first = named[0]
        if one.source != first.source and not _may_be_one(first.program, one.program):
            yield Contradiction(
                sentence=f"{first.place} is of {first.program}, {one.place} of {one.program}: the "
                f"number {one.pid} was used twice, or one program started the other",
                sources=(first.source, one.source),
            )
            return


def _may_be_one(one: str | None, other: str | None) -> bool:
    """`python` may be `python3.11`, and a link to it."""
    return one is None or other is None or one.startswith(other) or other.startswith(one)


def _times(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A core from before the log's words, or two clocks hours apart."""
    dated = [one for one in told if one.time_s is not None]
    core = next((one for one in dated if one.kind is SourceKind.CORE), None)
    clocks = [one for one in dated if one.kind is not SourceKind.CORE]
    if core is not None and core.time_s is not None:
        late = next((one for one in clocks if (one.time_s or 0) - core.time_s > APART_S), None)
        if late is not None:
            yield Contradiction(
                sentence=f"{core.place} was written {span_text((late.time_s or 0) - core.time_s)} "
                f"before what {late.place} tells: the number {core.pid} was used again since, or a "
                "clock is wrong",
                sources=(core.source, late.source),
            )


def _zones(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A log's clock names no zone, and is whole half hours away from the core's."""
    core = next((one for one in told if one.kind is SourceKind.CORE), None)
    written = core.clock_s if core is not None else None
    if core is None or written is None:
        return
    for one in told:
        at = one.clock_s if one.kind is SourceKind.LOG and one.time_s is None else None
        half_hours = round((at - written) / _HALF_HOUR_S) if at is not None else 0
        if at is None or not half_hours or abs(half_hours) > _MOST_HALF_HOURS:
            continue
        if abs(at - written - half_hours * _HALF_HOUR_S) <= _SAME_S:
            yield Contradiction(
                sentence=f"{one.place} is dated {one.time}, and {core.place} was written at "
                f"{utc_text(core.time_s or 0)}: most likely one moment, in the time zone "
                f"UTC{half_hours / 2:+g}",
                sources=(one.source, core.source),
                is_explained=True,
            )
            return


def _addresses(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """The kernel's line says 0x18, the core 0x48: two deaths."""
    named = [one for one in told if one.address is not None]
    for one in named[1:]:
        first = named[0]
        if one.source != first.source and one.address != first.address:
            yield Contradiction(
                sentence=f"{first.place} tells of address {first.address:#x}, {one.place} of "
                f"{one.address:#x}: two faults of one process, or of two",
                sources=(first.source, one.source),
            )
            return


def _modules(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A log blames a library that the crashing thread of the core was never in."""
    core = next((one for one in told if one.crash is not None), None)
    if core is None or core.crash is None or not core.crash.threads:
        return
    frames = core.crash.threads[0].stack.frames
    inside = {frame.module.rsplit("/", 1)[-1] for frame in frames if frame.module}
    for one in told:
        if one.module is not None and inside and not any(_is_it(one.module, at) for at in inside):
            yield Contradiction(
                sentence=f"{one.place} names {one.module}, which is not on the stack of "
                f"{core.place}: it speaks of another fault, or of another process",
                sources=(one.source, core.source),
            )
            return


def _python(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A dump of Python's stack that shares no function with the core's."""
    core = next((one for one in told if one.crash is not None), None)
    if core is None or core.crash is None or not core.crash.threads:
        return
    frames = core.crash.threads[0].stack.frames
    inside = {frame.function for frame in frames if frame.kind is FrameKind.PYTHON}
    for one in told:
        calls = one.clue.python if one.clue is not None and one.crash is None else ()
        if inside and calls and inside.isdisjoint(call.function for call in calls):
            yield Contradiction(
                sentence=f"{one.place} was in Python's {calls[0].function}, which is not on the "
                f"stack of {core.place}: it speaks of another thread, or of another process",
                sources=(one.source, core.source),
            )
            return


def _is_it(printed: str, name: str) -> bool:
    """The kernel prints the file; a log may print a link, `libfoo.so` for `libfoo.so.1.2`."""
    return name.startswith(printed) or printed.startswith(name)


def _builds(told: Sequence[Statement]) -> Iterator[Contradiction]:
    """A log and the core name different builds of one module."""
    core = next((one for one in told if one.crash is not None), None)
    if core is None or core.crash is None:
        return
    ids = {
        module.path.rsplit("/", 1)[-1]: module.build_id
        for module in core.crash.modules
        if module.build_id
    }
    for one in told:
        for frame in _frames(one):
            name = (frame[0] or "").rsplit("/", 1)[-1]
            known = ids.get(name)
            if known is not None and frame[1] is not None and frame[1].lower() != known:
                yield Contradiction(
                    sentence=f"{one.place} has {name} with BuildId {frame[1]}, {core.place} with "
                    f"{known}: two builds, so two runs",
                    sources=(one.source, core.source),
                )
                return


def _frames(one: Statement) -> Iterator[tuple[str | None, str | None]]:
    if one.report is not None:
        for event in one.report.printed.chain:
            for frame in event.frames:
                yield frame.module, frame.build_id
    if one.clue is not None and one.crash is None:
        for call in one.clue.native:
            yield call.module, call.build_id


RULES: Final[tuple[Rule, ...]] = (
    _signals, _ends, _programs, _addresses, _modules, _python, _builds, _times, _zones,
)  # fmt: skip
