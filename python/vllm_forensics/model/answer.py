"""What an image answers: a value and the tier that it is from, or the reason why there is none."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from vllm_forensics.model.record import dataclass

T_co = TypeVar("T_co", covariant=True)


class Tier(StrEnum):
    """Which reader supplied a fact; see docs/adr/0002-three-tiers.md."""

    NOTES = "notes"
    LIBDW = "libdw"
    GDB = "gdb"
    PYSTACK = "pystack"
    JOURNAL = "journal"
    """What systemd-coredump wrote down of a core that is gone."""


class Depth(StrEnum):
    """How many tiers are asked."""

    NOTES = "notes"
    """The core alone: where it died, no calls."""
    STACK = "stack"
    """Unwind tables and symbols too: calls, functions, lines."""
    FULL = "full"
    """And gdb: arguments, locals, objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Generic[T_co]):
    """A fact, and who told us."""

    value: T_co
    tier: Tier = Tier.NOTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that could not be learned: what, and what would close the gap (may be empty)."""

    what: str
    remedy: str = ""
    tier: Tier = Tier.NOTES


Answer = Known[T_co] | Gap
