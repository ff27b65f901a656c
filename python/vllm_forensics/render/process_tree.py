"""Processes below the ones that started them, with the lines of a tree before their names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol, TypeVar

_DEEPEST: Final = 6
"""Levels that are drawn; what is deeper stands at that depth."""


class Kin(Protocol):
    """What a tree needs of a process."""

    @property
    def pid(self) -> int | None:
        """Its number, where that is known."""

    @property
    def parent(self) -> int | None:
        """The number of the process that started it."""


Process = TypeVar("Process", bound=Kin)


def as_tree(
    processes: Sequence[Process], places: Sequence[Hashable] = ()
) -> list[tuple[str, Process]]:
    """Each process once, children below their parent, each with the branches to print before it.

    Brothers keep their order. `places` says of each process where its number counts, as a host;
    empty: all in one place. Parents in a circle, which only damaged or made-up evidence has, and
    parents that are not there, begin a tree.
    """
    where = list(places) or [None] * len(processes)
    first_of: dict[tuple[Hashable, int], int] = {}
    for at, one in enumerate(processes):
        if one.pid is not None:
            first_of.setdefault((where[at], one.pid), at)
    parents = [
        None if one.parent is None else first_of.get((where[at], one.parent))
        for at, one in enumerate(processes)
    ]
    below: dict[int | None, list[int]] = {}
    for at, parent in enumerate(parents):
        below.setdefault(None if _is_in_circle(at, parents) else parent, []).append(at)
    found: list[tuple[str, Process]] = []
    waiting = [(at, "", "", 0) for at in reversed(below.get(None, []))]
    while waiting:
        at, branch, stem, depth = waiting.pop()
        found.append((branch, processes[at]))
        children = below.get(at, [])
        drawn = stem if depth < _DEEPEST else stem[:-2]
        for child in reversed(children):
            is_last = child == children[-1]
            mark, under = ("└ ", "  ") if is_last else ("├ ", "│ ")
            waiting.append((child, drawn + mark, drawn + under, min(depth + 1, _DEEPEST)))
    return found


def _is_in_circle(start: int, parents: Sequence[int | None]) -> bool:
    """Does the way up from this one come back to it?"""
    seen: set[int] = set()
    at = parents[start]
    while at is not None and at not in seen:
        if at == start:
            return True
        seen.add(at)
        at = parents[at]
    return False
