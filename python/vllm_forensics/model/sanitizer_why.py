"""Two reports or crashes held against each other: one bug or two, and by which parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WhySide:
    """One of the two."""

    asked: str
    """As it was named: LOG, LOG:N, a core or a signature."""
    signature: str
    core: str | None = None
    log: str | None = None
    number: int | None = None
    """Which report of the log, from 1."""
    line: int | None = None
    """Where the report begins, from 1."""
    reports: int | None = None
    """How many the log holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One thing in both; None: that side has none."""

    name: str
    one: str | None
    other: str | None

    @property
    def agrees(self) -> bool:
        """Is it the same in both?"""
        return self.one == self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why two reports or crashes are one bug, or two."""

    one: WhySide
    other: WhySide
    same: bool
    parts: tuple[Compared, ...]
    """What counts."""
    dropped: tuple[Compared, ...]
    """What differs and does not count."""
    explanation: str
