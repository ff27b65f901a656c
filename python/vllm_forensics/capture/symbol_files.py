"""Finds ELF files in folders, wheels and zip archives that a user says hold debug information."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.archive import Archive, is_archive, opened_archive
from vllm_forensics.capture.files import is_regular_file, map_file, unopened
from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.symbols import PlacedFile, SymbolPlace

LISTING: Final = "modules.tsv"
"""Where an archive of ours says which module each build-id is of."""
_MAGIC: Final = b"\x7fELF"
_MAX_FILES: Final = 200_000
_MAX_LISTING: Final = 4 << 20
_REMEDY: Final = "give what `forensics symbols split` wrote, or a folder with unstripped libraries"


@contextlib.contextmanager
def symbol_places(places: Sequence[str]) -> Iterator[tuple[SymbolPlace, ...]]:
    """Open each place; what lies in archives can be opened until the end of the block.

    Raises:
        EvidenceError: a place is missing, damaged, or too large.

    """
    if not any(is_archive(place) for place in places):
        yield tuple(_open(place, None) for place in places)
        return
    with private_folder("forensics-symbols-") as folder:
        found = []
        for number, place in enumerate(places):
            own = folder / str(number)
            own.mkdir()
            found.append(_open(place, own))
        yield tuple(found)


def _open(place: str, folder: Path | None) -> SymbolPlace:
    if Path(place).is_dir():
        return _in_folder(place)
    if folder is not None and is_archive(place):
        with opened_archive(place) as archive:
            return _in_archive(archive, folder)
    try:
        head = bytes(map_file(place)[:4])
    except EvidenceError as error:
        raise EvidenceError(f"{place} {error.message}", remedy=_REMEDY) from error
    if head != _MAGIC:
        raise EvidenceError(
            f"{place} is neither a folder, a wheel or zip file, nor an ELF file", remedy=_REMEDY
        )
    return SymbolPlace(place=place, files=(PlacedFile(name=Path(place).name, path=place),))


def _in_folder(place: str) -> SymbolPlace:
    """All ELF files below a folder. Links to folders are not followed: they may lead in circles."""
    found = []
    seen = 0
    try:
        os.scandir(place).close()  # what cannot be listed below it is passed over
    except OSError as error:
        raise EvidenceError(f"{place} {unopened(place, error).message}", remedy=_REMEDY) from error
    for root, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            seen += 1
            if seen > _MAX_FILES:
                raise EvidenceError(
                    f"{place} holds more than {_MAX_FILES:,} files",
                    remedy="give the folder of the libraries themselves",
                )
            path = f"{root}/{name}"
            if _is_elf(path):
                found.append(PlacedFile(name=os.path.relpath(path, place), path=path))
    return SymbolPlace(place=place, files=tuple(found), listing=_read_listing(place))


def _is_elf(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(descriptor, 4) == _MAGIC and is_regular_file(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _read_listing(place: str) -> str:
    path = Path(place, LISTING)
    try:
        return bytes(map_file(path)[:_MAX_LISTING]).decode("utf-8", "replace")
    except EvidenceError:
        return ""


def _in_archive(archive: Archive, folder: Path) -> SymbolPlace:
    wanted = [entry for entry in archive.entries if archive.head(entry, 4) == _MAGIC]
    archive.require_room(wanted, folder)
    found = []
    for number, entry in enumerate(wanted):
        path = folder / f"{number}.elf"
        with path.open("wb") as target:
            archive.copy(entry, target)
        found.append(PlacedFile(name=entry.filename, path=str(path)))
    listing = next((entry for entry in archive.entries if entry.filename == LISTING), None)
    text = b"" if listing is None else archive.head(listing, _MAX_LISTING)
    return SymbolPlace(
        place=archive.path, files=tuple(found), listing=text.decode("utf-8", "replace")
    )
