"""What a module is made of, as its file on this machine says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleAudit:
    """One mapped ELF file, checked."""

    path: str
    problem: str | None = None
    """Why the file could not be used, if so; the rest is then empty."""
    needed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Needed libraries that the process had not mapped."""
    sanitizers: tuple[str, ...] = ()
    """Sanitizers whose runtime the code calls."""
    debug_info: bool = False
    symbol_table: bool = False
    runpath: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreAudit:
    """All modules of one core."""

    core: str
    modules: tuple[ModuleAudit, ...]
