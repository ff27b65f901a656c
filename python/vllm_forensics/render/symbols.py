"""What places hold of debug information, and what a wheel was split into."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from vllm_forensics.model.symbols import SplitWheel, SymbolFile, SymbolListing
from vllm_forensics.render.json_text import json_text


class SymbolFileWire(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is found by its build-id."""

    build_id: str
    module: str
    place: str
    lines: bool
    symbols: bool
    code: bool
    bytes: int


class UnusedWire(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is of no use here, or that stayed as it was."""

    module: str
    place: str
    why: str
    remedy: str | None


class SplitWire(msgspec.Struct, frozen=True, kw_only=True):
    """Where a wheel's two halves are; sizes in bytes."""

    source: str
    source_bytes: int
    wheel: str
    wheel_bytes: int
    archive: str
    archive_bytes: int


class SymbolsWire(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `forensics symbols list` and `split` with `--format json`."""

    schema: Literal["forensics.symbols/1"]
    files: list[SymbolFileWire]
    unused: list[UnusedWire]
    split: SplitWire | None


def render_listing(listing: SymbolListing) -> str:
    """Two lines a file; what cannot be used below, with the reason. Nothing is cut or wrapped."""
    places = dict.fromkeys(_places(listing))
    if not places:
        return "no ELF files\n"
    lines = []
    for place in places:
        lines += [place, *_lines(listing, place)]
    return "\n".join(lines) + "\n"


def render_split(split: SplitWheel) -> str:
    """Both halves with their sizes, the libraries, and how to use what was split off."""
    sizes = f"{_megabytes(split.wheel_bytes)}, was {_megabytes(split.source_bytes)}"
    places = dict.fromkeys(_places(split.listing))
    lines = [
        f"wheel    {split.wheel}   {sizes}",
        f"symbols  {split.archive}   {_megabytes(split.archive_bytes)}",
        *(line for place in places for line in _lines(split.listing, place)),
        "",
        "Publish the wheel, keep the symbols. For a core of it:",
        f"  forensics core --symbols {shlex.quote(split.archive)} CORE",
    ]
    return "\n".join(lines) + "\n"


def _places(listing: SymbolListing) -> Iterator[str]:
    yield from (file.place for file in listing.files)
    yield from (file.place for file in listing.unused)


def _lines(listing: SymbolListing, place: str) -> list[str]:
    lines = []
    for file in listing.files:
        if file.place == place:
            size = _megabytes(file.size_bytes)
            lines += [f"  {file.module}", f"    {_has(file)}   {size}   {file.build_id}"]
    for unused in listing.unused:
        if unused.place == place:
            lines += [f"  {unused.module}", f"    not used: {unused.why}"]
            lines += [f"    → {unused.remedy}"] if unused.remedy else []
    return lines


def _has(file: SymbolFile) -> str:
    if file.has_lines:
        return "lines"
    return "names, no lines" if file.has_symbols else "neither lines nor names"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f} MB"


def render_listing_json(listing: SymbolListing) -> str:
    """The listing as JSON, ending in a newline."""
    return json_text(_wire(listing, None))


def render_split_json(split: SplitWheel) -> str:
    """The split as JSON, ending in a newline."""
    halves = SplitWire(
        source=split.source,
        source_bytes=split.source_bytes,
        wheel=split.wheel,
        wheel_bytes=split.wheel_bytes,
        archive=split.archive,
        archive_bytes=split.archive_bytes,
    )
    return json_text(_wire(split.listing, halves))


def _wire(listing: SymbolListing, split: SplitWire | None) -> SymbolsWire:
    return SymbolsWire(
        schema="forensics.symbols/1",
        files=[
            SymbolFileWire(
                build_id=file.build_id,
                module=file.module,
                place=file.place,
                lines=file.has_lines,
                symbols=file.has_symbols,
                code=file.has_code,
                bytes=file.size_bytes,
            )
            for file in listing.files
        ],
        unused=[
            UnusedWire(module=file.module, place=file.place, why=file.why, remedy=file.remedy)
            for file in listing.unused
        ],
        split=split,
    )


def schema() -> dict[str, Any]:
    """The JSON schema of both answers."""
    return msgspec.json.schema(SymbolsWire)
