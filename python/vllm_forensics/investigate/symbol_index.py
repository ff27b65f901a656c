"""Debug information that a user gave, found by build-id: the one index for cores and for logs."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Sequence

from vllm_forensics.capture.files import map_file
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.evidence.modules import parse_module
from vllm_forensics.model.symbols import (
    PlacedFile,
    SymbolFile,
    SymbolListing,
    SymbolPlace,
    Unused,
)


class SymbolIndex:
    """Files by build-id. What has another build-id is never handed out, whatever it is called."""

    def __init__(self, files: Iterable[SymbolFile] = ()) -> None:
        """Of several files of one build, the richest counts."""
        self._debug: dict[str, SymbolFile] = {}
        self._code: dict[str, SymbolFile] = {}
        self.places: tuple[str, ...] = ()
        """What the user gave, in that order."""
        for file in files:
            if file.place not in self.places:
                self.places = (*self.places, file.place)
            if file.has_lines or file.has_symbols:
                known = self._debug.get(file.build_id)
                if known is None or _richness(file) > _richness(known):
                    self._debug[file.build_id] = file
            if file.has_code:
                self._code.setdefault(file.build_id, file)

    def joined(self, other: SymbolIndex) -> SymbolIndex:
        """Both together, this one first; the places stay this one's."""
        whole = SymbolIndex()
        whole._debug = other._debug | self._debug
        whole._code = other._code | self._code
        whole.places = self.places
        return whole

    def debug_file(self, build_id: str | None) -> str | None:
        """The path of a file with lines, or at least all symbols, of that very build."""
        found = self._debug.get(build_id or "")
        return found.path if found else None

    def debug_place(self, build_id: str | None) -> str | None:
        """The place that this debug information was given in, or the server that it came from."""
        found = self._debug.get(build_id or "")
        return found.place if found else None

    def module_file(self, build_id: str | None) -> str | None:
        """The path of the module itself, code and all, of that very build."""
        found = self._code.get(build_id or "")
        return found.path if found else None

    def named(self, name: str) -> tuple[SymbolFile, ...]:
        """One file of each build that a module of that name, without folders, was given in."""
        files = {file.build_id: file for file in (*self._debug.values(), *self._code.values())}
        return tuple(one for one in files.values() if one.module.rsplit("/", 1)[-1] == name)

    def __bool__(self) -> bool:
        """Is there anything in it?"""
        return bool(self._debug or self._code)


@contextlib.contextmanager
def open_symbols(places: Sequence[str]) -> Iterator[SymbolIndex]:
    """Index folders, wheels, zip archives and ELF files; their paths hold until the block's end.

    Raises:
        EvidenceError: a place is missing, damaged, or too large.
        UsageError: a place has nothing that could be of use.

    """
    if not places:
        yield SymbolIndex()
        return
    from vllm_forensics.capture.symbol_files import symbol_places  # brings zipfile

    with symbol_places(places) as opened:
        files: list[SymbolFile] = []
        for place in opened:
            listing = list_place(place)
            if not listing.files:
                raise UsageError(
                    f"{place.place} holds no ELF file with a build-id: nothing to match by",
                    remedy=f"forensics symbols list {shlex.quote(str(place.place))}    "
                    "# says what was found",
                )
            files += listing.files
        yield SymbolIndex(files)


def list_places(places: Sequence[str]) -> SymbolListing:
    """All ELF files of the places, and what each is good for; see `open_symbols` for errors."""
    from vllm_forensics.capture.symbol_files import symbol_places

    with symbol_places(places) as opened:
        listings = [list_place(place) for place in opened]
    return SymbolListing(
        files=tuple(file for listing in listings for file in listing.files),
        unused=tuple(file for listing in listings for file in listing.unused),
    )


def list_place(place: SymbolPlace) -> SymbolListing:
    """The files of one place. Only headers and notes are read, however large the files are."""
    names = _module_names(place.listing)
    files: list[SymbolFile] = []
    unused: list[Unused] = []
    for placed in place.files:
        try:
            files.append(_look_at(placed, place.place, names))
        except EvidenceError as error:
            unused.append(
                Unused(
                    module=placed.name, place=place.place, why=error.message, remedy=error.remedy
                )
            )
    return SymbolListing(files=tuple(files), unused=tuple(unused))


def _look_at(placed: PlacedFile, place: str, names: dict[str, str]) -> SymbolFile:
    data = map_file(placed.path)
    module = parse_module(data)
    if module.build_id is None:
        raise EvidenceError("it has no build-id to be found by", remedy="link with -Wl,--build-id")
    return SymbolFile(
        build_id=module.build_id,
        module=names.get(module.build_id, placed.name),
        place=place,
        path=placed.path,
        has_lines=module.has_lines,
        has_symbols=module.has_symbol_table,
        has_code=module.has_code,
        size_bytes=len(data),
    )


def _module_names(listing: str) -> dict[str, str]:
    rows = (line.split("\t") for line in listing.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def _richness(file: SymbolFile) -> tuple[bool, bool]:
    return file.has_lines, file.has_symbols
