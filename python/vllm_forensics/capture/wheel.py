"""Reads a wheel within bounds, and writes it anew: same input, same bytes."""

from __future__ import annotations

import contextlib
import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from vllm_forensics.capture.archive import Archive, escapes, opened_archive
from vllm_forensics.capture.symbol_files import LISTING
from vllm_forensics.errors import EvidenceError, UsageError

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MAX_RECORD: Final = 64 << 20
_ELF: Final = b"\x7fELF"


class Wheel:
    """An opened wheel: its archive, its RECORD, and which of its entries are ELF files."""

    def __init__(self, archive: Archive) -> None:
        """Check that the archive is a wheel that can be rewritten.

        Raises:
            EvidenceError: it is not.

        """
        self.archive = archive
        names = [entry.filename for entry in archive.entries]
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        outside = next((name for name in names if escapes(name)), None)
        if twice is not None or outside is not None:
            what = f"holds {twice} twice" if twice else f"names a path outside of itself: {outside}"
            raise EvidenceError(f"{archive.path} {what}", remedy="build the wheel again")
        records = [
            entry
            for entry in archive.entries
            if entry.filename.endswith(".dist-info/RECORD") and entry.filename.count("/") == 1
        ]
        if len(records) != 1:
            raise EvidenceError(
                f"{archive.path} is no wheel: it holds {len(records)} RECORD files, not one",
                remedy="give a .whl as pip or build made it",
            )
        self.record_entry = records[0]
        self.record = archive.head(self.record_entry, _MAX_RECORD).decode("utf-8", "replace")
        folder = self.record_entry.filename.removesuffix("RECORD")
        if {f"{folder}RECORD.jws", f"{folder}RECORD.p7s"} & set(names):
            raise EvidenceError(
                f"{archive.path} is signed: its signature would not hold any more",
                remedy="split the wheel first, then sign it",
            )
        self.elf_entries = [e for e in archive.entries if archive.head(e, 4) == _ELF]

    def write(self, target: Path, changed: Mapping[str, Path], record: str) -> None:
        """Write the wheel with other contents for some entries, and a new RECORD.

        Order, names, times, modes and compression of the entries stay.
        """
        with zipfile.ZipFile(target, "w") as output:
            for entry in self.archive.entries:
                info = _like(entry)
                if entry is self.record_entry:
                    output.writestr(info, record)
                    continue
                path = changed.get(entry.filename)
                size = entry.file_size if path is None else path.stat().st_size
                with output.open(info, "w", force_zip64=size >= zipfile.ZIP64_LIMIT) as stream:
                    if path is None:
                        self.archive.copy(entry, stream)
                    else:
                        with path.open("rb") as source:
                            shutil.copyfileobj(source, stream)


@contextlib.contextmanager
def opened_wheel(path: str) -> Iterator[Wheel]:
    """A wheel, checked.

    Raises:
        EvidenceError: missing, damaged, no wheel, or one that cannot be rewritten.
        UsageError: the file's name is not a wheel's.

    """
    if not path.endswith(".whl"):
        raise UsageError(f"{path} is not named .whl", remedy="give a wheel as pip or build made it")
    with opened_archive(path) as archive:
        yield Wheel(archive)


def write_symbol_archive(target: Path, debug_files: Mapping[str, Path], listing: str) -> None:
    """Write debug files by build-id as .build-id/ab/cdef.debug, and the list of their modules."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as output:
        output.writestr(_plain(LISTING), listing)
        for build_id, path in sorted(debug_files.items()):
            info = _plain(f".build-id/{build_id[:2]}/{build_id[2:]}.debug")
            large = path.stat().st_size >= zipfile.ZIP64_LIMIT
            with (
                output.open(info, "w", force_zip64=large) as stream,
                path.open("rb") as source,
            ):
                shutil.copyfileobj(source, stream)


@contextlib.contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path beside `target` that takes its place at the end of the block, or is removed.

    Raises:
        UsageError: it cannot be written there.

    """
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(target)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}", remedy="give another --output DIR"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _like(entry: zipfile.ZipInfo) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(entry.filename, entry.date_time)
    info.compress_type = entry.compress_type
    info.create_system = entry.create_system
    info.external_attr = entry.external_attr
    info.internal_attr = entry.internal_attr
    info.comment = entry.comment
    return info


def _plain(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o100644 << 16
    return info
