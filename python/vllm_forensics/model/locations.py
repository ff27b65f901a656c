"""Where code is from: the function, file and line of an offset in a module, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from vllm_forensics.model.record import dataclass


class Certainty(StrEnum):
    """How sure it is that the file looked into is the one that ran; values are JSON's."""

    PROVED = "proved"
    """Its build-id is the one that the crashed process named."""
    LIKELY = "likely"
    """It lies where the module lay, and no build-id was named to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOffsets:
    """What is asked of one module. Offsets are addresses in the file's own terms, unbiased.

    Of a caller the offset must lie in the call, not behind it: one less than the return address.
    """

    module: str
    """Its path or name as the crashed process had it."""
    build_id: str | None
    offsets: tuple[int, ...]
    calls: frozenset[int] = frozenset()
    """Those of the offsets at which a call must stand if the file is the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """One function at an offset, and the place in its source."""

    function: str | None
    file: str | None = None
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModule:
    """What a module's file says about the offsets."""

    file: str
    """The file that was read: the module, or its separate debug information."""
    certainty: Certainty
    locations: Mapping[int, tuple[Location, ...]]
    """The innermost first: what was inlined, then the function that it was inlined into."""
    unnamed: Mapping[int, str] = field(default_factory=dict)
    """Why the other offsets have no location."""
    doubtful: frozenset[int] = frozenset()
    """Offsets whose locations are from a symbolizer that can name the wrong file."""
    signal_returns: frozenset[int] = frozenset()
    """Offsets at which the C library returns from a signal's handler."""

    def certainty_of(self, offset: int) -> Certainty:
        """How sure the locations of one offset are."""
        return Certainty.LIKELY if offset in self.doubtful else self.certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftModule:
    """Frames of one module that stay without a name, and why."""

    module: str | None
    frames: int
    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbolization:
    """How many frames were looked up, and what came of it."""

    asked: int
    """Frames that had no name, and those that had one and got a place in the source."""
    proved: int
    likely: int
    left: tuple[LeftModule, ...] = ()
    symbolizers: tuple[str, ...] = ()
    """The programs that answered."""
