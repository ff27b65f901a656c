"""Splits a wheel into one without debug information and an archive that has it, by build-id."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipfile import ZipInfo

from vllm_forensics.capture.debug_split import (
    write_debug_file,
    write_stripped,
    write_stripped_in_place,
)
from vllm_forensics.capture.files import map_file
from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.capture.wheel import Wheel, opened_wheel, write_symbol_archive, written_whole
from vllm_forensics.errors import EvidenceError, ToolError, UsageError
from vllm_forensics.evidence.modules import ModuleFile, parse_module
from vllm_forensics.evidence.stripping import loads_the_same
from vllm_forensics.evidence.wheel_record import (
    encode_hash,
    new_hash,
    recorded_hashes,
    rewrite_record,
)
from vllm_forensics.investigate.symbol_index import list_place
from vllm_forensics.model.symbols import (
    PlacedFile,
    SplitWheel,
    SymbolListing,
    SymbolPlace,
    Unused,
)

_CHUNK: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """One library in two."""

    name: str
    build_id: str
    stripped: Path
    debug: Path


def split_wheel(
    source: str, output: Path, on_progress: Callable[[int, int], None] | None = None
) -> SplitWheel:
    """Write the stripped wheel, under its own name, and NAME-symbols.zip into the folder `output`.

    `on_progress` is told how many of how many libraries are done.

    Raises:
        EvidenceError: no wheel, damaged, or a library cannot be told apart from other builds.
        ToolError: objcopy is missing, or damaged a library.
        UsageError: there is nothing to split, or no place to write.

    """
    wheel_path = output / Path(source).name
    archive_path = output / f"{Path(source).stem}-symbols.zip"
    if os.path.realpath(wheel_path) == os.path.realpath(source):  # links in a circle stay names
        raise UsageError(
            f"the stripped wheel would overwrite {source}", remedy="give another --output DIR"
        )
    with opened_wheel(source) as wheel, private_folder("forensics-split-") as folder:
        wheel.archive.require_room(list(wheel.archive.entries), folder)
        splits: list[_Split] = []
        unused: list[Unused] = []
        for number, entry in enumerate(wheel.elf_entries):
            result = _split(wheel, entry, folder, number)
            if isinstance(result, _Split):
                splits.append(result)
            else:
                unused.append(result)
            if on_progress is not None:
                on_progress(number + 1, len(wheel.elf_entries))
        if not splits:
            raise UsageError(f"{source} has nothing to split: {_nothing(unused)}", remedy=_BUILD)
        debug = {split.build_id: split.debug for split in reversed(splits)}
        record = _new_record(wheel, splits, source)
        with written_whole(wheel_path) as new_wheel, written_whole(archive_path) as new_archive:
            changed = {split.name: split.stripped for split in splits}
            wheel.write(new_wheel, changed, record)
            write_symbol_archive(new_archive, debug, _listing(splits))
        listing = list_place(
            SymbolPlace(
                place=str(archive_path),
                files=tuple(PlacedFile(name=s.name, path=str(s.debug)) for s in splits),
            )
        )
    return SplitWheel(
        source=source,
        source_bytes=Path(source).stat().st_size,
        wheel=str(wheel_path),
        wheel_bytes=wheel_path.stat().st_size,
        archive=str(archive_path),
        archive_bytes=archive_path.stat().st_size,
        listing=SymbolListing(files=listing.files, unused=tuple(unused)),
    )


_BUILD: Final = (
    "build it with CFLAGS=-g CXXFLAGS=-g, and do not let the build strip it "
    "(scikit-build-core: install.strip=false; meson-python: -Cinstall-args=--no-strip)"
)


def _split(wheel: Wheel, entry: ZipInfo, folder: Path, number: int) -> _Split | Unused:
    """Split one library, or say why it stays as it is."""
    whole = folder / f"{number}.elf"
    with whole.open("wb") as target:
        wheel.archive.copy(entry, target)
    _check_recorded(wheel, entry.filename, whole)
    name = entry.filename
    try:
        module = parse_module(map_file(whole))
    except EvidenceError as error:
        return Unused(module=name, place=wheel.archive.path, why=error.message)
    if not module.has_debug_info:
        return Unused(module=name, place=wheel.archive.path, why="it has no debug information")
    if module.build_id is None or len(module.build_id) < 4:
        raise EvidenceError(
            f"{name} has debug information but no build-id: nobody could tell which build it is of",
            remedy="link with -Wl,--build-id    # LDFLAGS=-Wl,--build-id pip wheel …",
        )
    stripped, debug = folder / f"{number}.stripped", folder / f"{number}.debug"
    write_debug_file(whole, debug)
    write_stripped(whole, stripped)
    if not _is_right(module, stripped, debug):
        stripped.unlink()
        write_stripped_in_place(whole, stripped)
    if not _is_right(module, stripped, debug):
        raise ToolError(
            f"neither objcopy nor eu-strip takes only the debug information out of {name}",
            remedy="split the wheel before auditwheel or patchelf rewrites it",
        )
    whole.unlink()
    return _Split(name=name, build_id=module.build_id, stripped=stripped, debug=debug)


def _is_right(whole: ModuleFile, stripped: Path, debug: Path) -> bool:
    """Look, do not hope: a library that was stripped wrongly is noticed by nobody but its users."""
    rest, apart = parse_module(map_file(stripped)), parse_module(map_file(debug))
    same_build = rest.build_id == apart.build_id == whole.build_id
    return same_build and apart.has_debug_info and loads_the_same(whole, rest)


def _check_recorded(wheel: Wheel, name: str, path: Path) -> None:
    """A wheel that was damaged before must not get a RECORD that says it is whole."""
    recorded = recorded_hashes(wheel.record).get(name, "")
    algorithm, digest = new_hash(recorded)
    data = map_file(path)
    for start in range(0, len(data), _CHUNK):
        digest.update(data[start : start + _CHUNK])
    if encode_hash(algorithm, digest.digest()) != recorded.rstrip("="):
        raise EvidenceError(
            f"{name} is not the file that the wheel's RECORD describes",
            remedy="it was changed after the wheel was made: build the wheel again",
        )


def _new_record(wheel: Wheel, splits: list[_Split], source: str) -> str:
    changed = {}
    for split in splits:
        algorithm, digest = new_hash("sha256=")
        data = map_file(split.stripped)
        for start in range(0, len(data), _CHUNK):
            digest.update(data[start : start + _CHUNK])
        changed[split.name] = (encode_hash(algorithm, digest.digest()), len(data))
    try:
        return rewrite_record(wheel.record, changed)
    except EvidenceError as error:
        raise EvidenceError(f"{source}: {error.message}", remedy=error.remedy) from error


def _listing(splits: list[_Split]) -> str:
    rows = sorted({split.build_id: split.name for split in reversed(splits)}.items())
    return "".join(f"{build_id}\t{name.translate(_ONE_LINE)}\n" for build_id, name in rows)


_ONE_LINE: Final = {ord(character): "?" for character in "\t\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"}


def _nothing(unused: list[Unused]) -> str:
    if not unused:
        return "no ELF file is in it"
    first = f"{unused[0].module}: {unused[0].why}"
    return first if len(unused) == 1 else f"{first}; so with {len(unused) - 1} more"
