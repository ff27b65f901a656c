"""A crash as systemd's journal tells it, whether or not its core still exists."""

from __future__ import annotations

from enum import StrEnum

from vllm_forensics.model.process import Address, Architecture, Mapping
from vllm_forensics.model.record import dataclass


class CoreState(StrEnum):
    """What became of the core, as far as the journal knows."""

    FILE = "file"
    """It was written to a file, which may be gone by now."""
    JOURNAL = "journal"
    """It lies in the journal itself: Storage=journal."""
    NONE = "none"
    """It was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFrame:
    """One call as systemd-coredump wrote it."""

    pc: Address
    function: str | None
    """As in the symbol table: C++ names are mangled."""
    module: str | None
    """The file's own name, or its path."""
    offset: int | None
    """Of `pc` in the module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalThread:
    """One thread's calls, innermost first."""

    tid: int
    frames: tuple[JournalFrame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalCrash:
    """One record of systemd-coredump."""

    pid: int
    signal: int | None
    """Its number; None where the record does not say."""
    seconds: float | None
    """When, since the epoch."""
    state: CoreState
    core: str | None
    """Where the core was written, on the machine that crashed."""
    member: str | None
    """What a core in an exported journal is called as a part of that: `core.PID@OFFSET+SIZE`."""
    truncated: bool
    """The core was larger than what is kept, or than what is looked into."""
    core_limit: int | None
    """The process's RLIMIT_CORE in bytes."""
    architecture: Architecture | None
    facts: tuple[tuple[str, str], ...]
    """Executable, command, user, unit, host, container and so on."""
    threads: tuple[JournalThread, ...] = ()
    """The one that took the signal first."""
    mappings: tuple[Mapping, ...] = ()
    builds: tuple[tuple[str, str], ...] = ()
    """Build-ids by module, the file's own name or its path."""

    def fact(self, name: str) -> str | None:
        """One of the facts."""
        return dict(self.facts).get(name)
