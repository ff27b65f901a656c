"""What was seen before: crashes by signature, over all triages of this user."""

from __future__ import annotations

from vllm_forensics.model.record import dataclass
from vllm_forensics.model.signature import SignaturePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was known of a signature before a triage."""

    count: int
    """How many cores, each once however often it was triaged; 0: it is new."""
    first_s: float | None = None
    """When the first of them was written, in seconds since the epoch."""
    last_s: float | None = None
    note: str = ""
    """What the user wrote down about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBuild:
    """One build of a module of the user's own, by its build-id."""

    module: str
    build_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One core of one bug, ready to be recorded. Strings are cleaned."""

    core: str
    """A key of the crash itself, the same for every copy of its core, compressed or not."""
    signature: str
    parts: tuple[SignaturePart, ...]
    path: str
    host: str
    seen_s: float
    """When the core was written, in seconds since the epoch."""
    depth: int
    """How deep it was looked into; a shallower look changes nothing of what is kept."""
    builds: tuple[ModuleBuild, ...] = ()
    example: str = ""
    """The crash as JSON, bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCore:
    """A core that was counted."""

    path: str
    host: str
    seen_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is kept of one signature."""

    signature: str
    count: int
    first_s: float | None
    last_s: float | None
    note: str
    parts: tuple[SignaturePart, ...] = ()
    hosts: tuple[str, ...] = ()
    builds: tuple[ModuleBuild, ...] = ()
    cores: tuple[CaseCore, ...] = ()
    """The latest first."""
    example: str = ""
    """One crash as JSON; empty where none was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseListing:
    """Cases, and the store that they are from."""

    store: str
    cases: tuple[Case, ...]
