"""Zip archives from strangers (wheels are zip files), opened within bounds.

Names inside of an archive never become paths here: what is taken out gets a name of our own. So an
entry called ../../etc/passwd, or one that is a symbolic link, is only text.
"""

from __future__ import annotations

import contextlib
import lzma
import shlex
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from vllm_forensics.capture.files import map_file
from vllm_forensics.errors import EvidenceError

_MAX_ENTRIES: Final = 100_000
_MAX_DIRECTORY: Final = 64 << 20
_MAX_TOTAL: Final = 32 << 30
_FREE_TOTAL: Final = 256 << 20
_MAX_RATIO: Final = 100
"""Debug information shrinks to a fifth; deflate could shrink a thousandfold."""
_CHUNK: Final = 1 << 20
_END: Final = b"PK\x05\x06"
_END64_LOCATOR: Final = b"PK\x06\x07"
_DAMAGE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError,
    ValueError, struct.error, OSError,
)  # fmt: skip
"""What zipfile raises for damaged (BadZipFile …), encrypted (RuntimeError) or unknown entries."""


class Archive:
    """A zip file whose entries can be read, each within what its directory promised."""

    def __init__(self, path: str, opened: zipfile.ZipFile) -> None:
        """`opened` stays the caller's to close."""
        self.path = path
        self._zip = opened
        self.entries = tuple(opened.infolist())

    def head(self, entry: zipfile.ZipInfo, size: int) -> bytes:
        """The first bytes of an entry.

        Raises:
            EvidenceError: they are damaged or encrypted.

        """
        with self._reading(entry) as stream:
            return stream.read(size)

    def copy(self, entry: zipfile.ZipInfo, target: IO[bytes]) -> None:
        """Write an entry's bytes to `target`, which are never more than its directory promised.

        Raises:
            EvidenceError: they are damaged, encrypted, or cannot be written.

        """
        with self._reading(entry) as stream:
            while chunk := stream.read(_CHUNK):
                target.write(chunk)

    def require_room(self, wanted: list[zipfile.ZipInfo], folder: Path) -> None:
        """Refuse what would fill the disk, or swells beyond what honest archives do.

        Raises:
            EvidenceError: too large.

        """
        total = sum(entry.file_size for entry in wanted)
        packed = Path(self.path).stat().st_size
        if total > min(_MAX_TOTAL, max(_FREE_TOTAL, packed * _MAX_RATIO)):
            raise EvidenceError(
                f"{self.path} of {packed / 1e6:.1f} MB claims to hold {total / 1e6:.0f} MB: "
                "a decompression bomb?",
                remedy="where it is to be trusted: unpack it, and give the folder",
            )
        if total > shutil.disk_usage(folder).free:
            raise EvidenceError(
                f"{self.path} holds {total / 1e6:.0f} MB, more than is free in {folder}",
                remedy="TMPDIR=/a/larger/disk forensics …",
            )

    @contextlib.contextmanager
    def _reading(self, entry: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        try:
            with self._zip.open(entry) as stream:
                yield stream
        except _DAMAGE as error:
            raise EvidenceError(
                f"{self.path}: {entry.filename} cannot be unpacked: {error}",
                remedy="is the archive whole? fetch it again",
            ) from error


@contextlib.contextmanager
def opened_archive(path: str) -> Iterator[Archive]:
    """A zip file, with its directory read.

    Raises:
        EvidenceError: missing, no zip file, damaged, or with a directory beyond all bounds.

    """
    try:
        _check_directory(map_file(path))
        opened = zipfile.ZipFile(path)
    except EvidenceError as error:
        raise EvidenceError(
            f"{path} {error.message}", remedy=f"ls -l {shlex.quote(str(path))}"
        ) from error
    except _DAMAGE as error:
        raise EvidenceError(
            f"{path} is no zip archive that can be read: {error}",
            remedy="is it whole? fetch it again",
        ) from error
    with opened:
        if len(opened.infolist()) > _MAX_ENTRIES:
            raise _too_many()
        yield Archive(path, opened)


def is_archive(path: str) -> bool:
    """Does the regular file start like a zip file?"""
    try:
        return bytes(map_file(path)[:4]) in {b"PK\x03\x04", _END}
    except EvidenceError:
        return False


def is_symlink(entry: zipfile.ZipInfo) -> bool:
    """Is the entry marked as a symbolic link?"""
    return stat.S_ISLNK(entry.external_attr >> 16)


def escapes(name: str) -> bool:
    """Would the entry's name lead out of the folder that it is unpacked into?"""
    parts = name.replace("\\", "/").split("/")
    return name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name


def _check_directory(data: memoryview) -> None:
    """Look at the directory's size before zipfile reads it all (APPNOTE.TXT 4.3.14 to 4.3.16)."""
    tail = bytes(data[-(22 + 65535) :])
    end = tail.rfind(_END)
    if end < 0 or end + 22 > len(tail):
        raise EvidenceError("is no zip archive, or is cut off", remedy="fetch it again")
    (size,) = struct.unpack_from("<I", tail, end + 12)
    locator = len(data) - len(tail) + end - 20
    if locator >= 0 and bytes(data[locator : locator + 4]) == _END64_LOCATOR:
        (where,) = struct.unpack_from("<Q", data, locator + 8)
        if where + 56 <= len(data):
            (size,) = struct.unpack_from("<Q", data, where + 40)
    if size > _MAX_DIRECTORY:
        raise _too_many()


def _too_many() -> EvidenceError:
    return EvidenceError(
        f"is an archive with more than {_MAX_ENTRIES:,} entries",
        remedy="where it is to be trusted: unpack it, and give the folder",
    )
