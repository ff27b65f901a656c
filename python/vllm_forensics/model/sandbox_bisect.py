"""Among released versions, the one in which a behaviour changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_forensics.model.sandbox_diff import Difference


class LookAt(StrEnum):
    """What of a run must be the same for its behaviour to be the same."""

    OUTCOME = "outcome"
    """How it ends: finished, raised (the type of the error), stalled; which rules it breaks."""
    DECISIONS = "decisions"
    """Every decision in every step, whatever the numbers of the blocks."""
    ORDER = "order"
    """The order of the free list too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One version that was tried."""

    version: str
    behaviour: str | None
    """In words; None: it could not be driven."""
    changed: bool = False
    """Whether it is another one than the first version's."""
    file: str | None = None
    """`vllm.__file__` of what was driven."""
    skipped: str | None = None
    """Why it could not be driven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """What a search among versions found."""

    look_at: LookAt
    versions: tuple[str, ...]
    """All in the range, the oldest first."""
    trials: tuple[Trial, ...]
    """In the order in which they were tried."""
    before: str | None = None
    """The last version that behaves as the first one; None: the ends do not differ."""
    changed_in: str | None = None
    """The first that does not, as far as versions could be driven."""
    between: tuple[str, ...] = ()
    """Versions between the two that could not be driven: the change may be in one of them."""
    difference: Difference | None = None
    """Where a run of `before` and one of `changed_in` part."""
