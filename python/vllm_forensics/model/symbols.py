"""Debug information that lies apart from the code: where it is, and of which build."""

from __future__ import annotations

from vllm_forensics.model.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """An ELF file in a folder or archive that was given."""

    name: str
    """Within the place that was given."""
    path: str
    """Where it can be opened now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolPlace:
    """A folder, wheel, archive or file that was given, with the ELF files in it."""

    place: str
    files: tuple[PlacedFile, ...]
    listing: str = ""
    """The text of its own list of modules, where it has one: build-id, tab, module's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolFile:
    """One ELF file that can be found by its build-id."""

    build_id: str
    module: str
    """What the code's own file is called, where that is known; else this file's name."""
    place: str
    path: str
    """Where it can be opened now."""
    has_lines: bool
    has_symbols: bool
    """A full symbol table, so that local functions have names."""
    has_code: bool
    """The module itself, not only what was taken out of it."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """An ELF file that is of no use, and why."""

    module: str
    place: str
    why: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolListing:
    """All that the given places hold."""

    files: tuple[SymbolFile, ...]
    unused: tuple[Unused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWheel:
    """What a wheel was split into. Sizes in bytes."""

    source: str
    source_bytes: int
    wheel: str
    wheel_bytes: int
    archive: str
    archive_bytes: int
    listing: SymbolListing
    """What the archive holds, and what stayed in the wheel as it was."""
