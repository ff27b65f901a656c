"""Binary search among versions, some of which cannot be driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Judge = Callable[[str], bool | None]
"""Whether a version behaves otherwise than the first one; None: it cannot be driven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where the change is."""

    before: str | None = None
    changed_in: str | None = None
    between: tuple[str, ...] = ()


def search(versions: tuple[str, ...], judge: Judge) -> Found:
    """The first of the versions that behaves otherwise, by as few trials as there must be.

    The first version that can be driven sets the behaviour. If there are several changes, one of
    them is found: the ends must differ.
    """
    low = next((place for place, name in enumerate(versions) if judge(name) is not None), None)
    if low is None:
        return Found()
    high = _last_driven(versions, low, judge)
    if high is None or not judge(versions[high]):
        return Found()
    while True:
        middle = _driven_between(versions, low, high, judge)
        if middle is None:
            return Found(
                before=versions[low], changed_in=versions[high], between=versions[low + 1 : high]
            )
        if judge(versions[middle]):
            high = middle
        else:
            low = middle


def _last_driven(versions: tuple[str, ...], low: int, judge: Judge) -> int | None:
    return next(
        (at for at in range(len(versions) - 1, low, -1) if judge(versions[at]) is not None), None
    )


def _driven_between(versions: tuple[str, ...], low: int, high: int, judge: Judge) -> int | None:
    """The version nearest to the middle that can be driven."""
    middle = (low + high) // 2
    inside = sorted(range(low + 1, high), key=lambda place: abs(place - middle))
    return next((place for place in inside if judge(versions[place]) is not None), None)
