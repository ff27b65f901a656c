"""Unpacks a source distribution or another tar of sources, within bounds."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Final

from vllm_forensics.errors import ToolError, UsageError

_MAX_MEMBERS: Final = 200_000
_MAX_BYTES: Final = 4 << 30
_DAMAGE: Final = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)
_ENDINGS: Final = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar")


def unpack_sources(archive: Path, folder: Path) -> Path:
    """Unpack into a folder of its own in `folder`; returns the tree's top.

    An archive that lies there already is not unpacked again, so that a second build is a quick one.
    No link and no name can lead out of the folder (PEP 706, filter "data").

    Raises:
        UsageError: not a tar, damaged, or larger than any sources are.
        ToolError: it cannot be written.

    """
    if not hasattr(tarfile, "data_filter"):  # before 3.11.4
        raise UsageError(
            "this Python cannot unpack what strangers packed",
            remedy=f"tar -xf {archive}, and give the folder; or a Python from 3.11.4 on",
        )
    target = folder / _stem(archive.name)
    marker = folder / f"{target.name}.unpacked"
    try:
        facts = archive.stat()
        identity = f"{archive.resolve()} {facts.st_size} {facts.st_mtime_ns}"
        if not (marker.is_file() and marker.read_text("utf-8") == identity):
            shutil.rmtree(target, ignore_errors=True)
            marker.unlink(missing_ok=True)
            target.mkdir(parents=True)
            _extract(archive, target)
            marker.write_text(identity, encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"{error.filename or target}: {error.strerror or error}",
            remedy="free some room, or unpack it yourself and give the folder",
        ) from error
    entries = list(target.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else target


def _extract(archive: Path, target: Path) -> None:
    size_bytes = 0
    try:
        with tarfile.open(archive) as tar:
            for count, member in enumerate(tar):
                size_bytes += member.size
                if count >= _MAX_MEMBERS or size_bytes > _MAX_BYTES:
                    raise UsageError(
                        f"{archive} holds more than sources do: over {_MAX_MEMBERS} files or "
                        f"{_MAX_BYTES >> 30} GiB",
                        remedy="if it is right: unpack it yourself and give the folder",
                    )
                tar.extract(member, target, filter="data")
    except _DAMAGE as error:
        # tarfile goes on with a line for each compression that it tried.
        [said, *_] = str(error).rstrip(":").splitlines() or [type(error).__name__]
        raise UsageError(
            f"{archive} cannot be unpacked: {said.rstrip(':')}",
            remedy=f"give a folder of sources, or one of {', '.join(_ENDINGS)}",
        ) from error


def _stem(name: str) -> str:
    for ending in _ENDINGS:
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending)
    return f"{name}.d"
