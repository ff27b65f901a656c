"""What people's words about a crash add to a death whose cause nothing else tells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from vllm_forensics.diagnosis.incident.called import name_of
from vllm_forensics.model.incident import OOPS, Clue, ClueKind, IncidentReading, NativeCall

_OF_OTHERS: Final = {ClueKind.CHILD, ClueKind.ECHO}
_FAULTS: Final = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGTRAP", "SIGFPE"})
_DUMPS: Final = "faulthandler"
_BACKTRACE: Final = "backtrace()"
_TITLE: Final = 3
"""A text's title stands on one of so many lines."""


def hearsay_of(first: Clue, account: Sequence[Clue], clues: Sequence[Clue]) -> tuple[Clue, ...]:
    """What somebody says of a death of which neither signal nor status is told.

    For a stack that stands alone, or that a crash handler printed without its heading, the mere
    word is enough: it says why the stack was printed. Where people are all who tell of it, they are
    heard together.
    """
    told = (first, *account)
    if first.kind is ClueKind.HEARSAY or (first.is_told and not account):
        heard = (clue for clue in clues if clue.kind is ClueKind.HEARSAY and clue is not first)
        agree = {None, first.signal}
        return tuple(clue for clue in heard if first.signal is None or clue.signal in agree)
    if any(one.signal is not None or one.exit is not None for one in told):
        return ()
    is_stack = _is_native(first) or (first.kind is ClueKind.SIGNAL and first.source != OOPS)
    if not is_stack and first.kind not in _OF_OTHERS and not _is_unfinished(first):
        return ()
    kinds = {ClueKind.HEARSAY, ClueKind.MENTION} if is_stack else {ClueKind.HEARSAY}
    return tuple(clue for clue in clues if clue.kind in kinds)[:1]


def is_asked_for(first: Clue) -> bool:
    """Was the stack, for all that is known, printed by a healthy process that was asked to?"""
    is_dump = first.source in {_DUMPS, _BACKTRACE}
    return first.kind is ClueKind.STACK and is_dump and first.signal is None


def name_titled(first: Clue, reading: IncidentReading) -> str | None:
    """Who died as the title says, where the log tells the same death and not whose it was."""
    if first.kind is ClueKind.MEMORY and not reading.processes:
        # the kernel's line may tell only who asked for more
        heard = (one for one in reading.clues if one.kind is ClueKind.HEARSAY)
        named = (name_of(one) for one in heard if one.signal == first.signal)
        return next(filter(None, named), None)
    title = _title(first, reading, _FAULTS)
    return name_of(title) if title is not None else None


def place_titled(first: Clue, reading: IncidentReading) -> NativeCall | None:
    """Where it died as the title says: in a library, or in what can only be a function."""
    title = _title(first, reading)
    place = next(iter(title.native), None) if title is not None else None
    if title is None or place is None:
        return None
    name = place.function
    called = f"{name.rpartition('.')[2]}(" if name is not None else ""
    is_sure = name is None or "::" in name or called in title.text or f"`{name}`" in title.text
    return place if is_sure else None


def _title(
    first: Clue, reading: IncidentReading, alike: Collection[str] = frozenset()
) -> Clue | None:
    """Somebody's title of the same death, where the text is of one process.

    Signals that are alike people call by each other's names.
    """
    title = next((clue for clue in reading.clues if clue.kind is ClueKind.HEARSAY), None)
    if title is None or title.line > _TITLE or len(reading.processes) > 0:
        return None
    is_alike = title.signal in alike and first.signal in alike
    return title if is_alike or title.signal in {None, first.signal} else None


def _is_unfinished(first: Clue) -> bool:
    """Is it a traceback whose last line, which says why, was cut off?"""
    return first.kind is ClueKind.STACK and first.source == "python"


def _is_native(first: Clue) -> bool:
    return first.kind is ClueKind.STACK and first.source not in {"python", "the GPU runtime"}
