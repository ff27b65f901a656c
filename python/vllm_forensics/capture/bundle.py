"""Bundles: a tar of a core and its modules, compressed with Zstandard; written here and read back.

A bundle from elsewhere is hostile: only plain ustar headers are understood (POSIX.1-1988), names
must be those that we write and never become paths, counts and sizes are bounded.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vllm_forensics.capture.compressed import PIECE, Source
from vllm_forensics.capture.sparse_copy import copy_sparse
from vllm_forensics.errors import EvidenceError, UsageError
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.bundle import Member
from vllm_forensics.model.symbols import PlacedFile

if TYPE_CHECKING:
    from tarfile import TarInfo

MANIFEST: Final = "manifest.json"
CORE: Final = "core"
LARGEST_BUNDLE: Final = 8 << 30
"""What is in one, expanded: also the largest size that a ustar header holds."""
_BLOCK: Final = 512
_MAX_MEMBERS: Final = 4096
_MAX_MANIFEST: Final = 4 << 20
_LEVEL: Final = 9
_FILE: Final = re.compile(
    rb"modules/[0-9a-f]{8,64}/(?P<leaf>\w[\w.+-]{0,79})|debug/[0-9a-f]{8,64}\.debug", re.ASCII
)
_UNSAFE: Final = re.compile(r"[^\w.+-]", re.ASCII)
_REMEDY: Final = "is it whole? fetch it again, or make it once more: forensics bundle CORE"


class Unpacked(NamedTuple):
    """A bundle's contents, each in a file of our own naming."""

    core: str
    files: tuple[PlacedFile, ...]
    gap: Gap | None
    """What was lost at a damage behind the core."""


def module_name(build_id: str, path: str) -> str:
    """What a module is called in a bundle."""
    leaf = _UNSAFE.sub("_", path.rsplit("/", 1)[-1])[-79:]
    return f"modules/{build_id}/{leaf if leaf[:1] not in {'', '.', '-', '+'} else '_' + leaf}"


def debug_name(build_id: str) -> str:
    """What the debug information of a module is called in a bundle."""
    return f"debug/{build_id}.debug"


def is_bundle(head: bytes) -> bool:
    """Is this how a bundle begins, once expanded?"""
    return head.startswith(MANIFEST.encode() + b"\0")


def write_bundle(target: Path, manifest: bytes, members: Sequence[Member]) -> int:
    """Write the bundle and return its size; the same contents give the same bytes.

    It appears under its name only when it is whole, readable for its user alone.

    Raises:
        UsageError: it cannot be written, or a file could not be read to its end.

    """
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    import tarfile  # a triage only reads bundles, and reads them without it

    try:
        with contextlib.ExitStack() as stack:
            descriptor = os.open(
                partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
            stack.callback(partial.unlink, missing_ok=True)
            raw = stack.enter_context(os.fdopen(descriptor, "wb"))
            with (
                _compressed(raw) as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
            ):
                archive.addfile(_entry(MANIFEST, len(manifest)), io.BytesIO(manifest))
                for member in members:
                    with Path(member.source).open("rb") as source:
                        archive.addfile(_entry(member.name, member.size_bytes), source)
            raw.flush()
            partial.replace(target)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror or error}",
            remedy="df -h; or give another --output FILE",
        ) from error
    return target.stat().st_size


def _compressed(raw: io.BufferedWriter) -> contextlib.AbstractContextManager[io.BufferedIOBase]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    parameter = zstd.CompressionParameter
    options = {int(parameter.compression_level): _LEVEL, int(parameter.checksum_flag): 1}
    return zstd.ZstdFile(raw, "w", options=options)


def _entry(name: str, size: int) -> TarInfo:
    from tarfile import TarInfo

    entry = TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


def unpack_bundle(pieces: Iterator[bytes], folder: Path) -> Unpacked:
    """Unpack an expanded bundle into files in `folder`, an empty one.

    Raises:
        EvidenceError: it is no bundle of ours, beyond all bounds, or damaged before its core ends;
            or there is no room.

    """
    source = Source(pieces)
    files: list[PlacedFile] = []
    core = gap = None
    total = 0
    try:
        for number in range(_MAX_MEMBERS + 1):
            header = _header(source)
            if header is None:
                break
            name, size = header
            total += size
            if total > LARGEST_BUNDLE or number == _MAX_MEMBERS:
                raise _refused("holds more than any bundle of ours")
            path = _place(folder, number, name)
            if number == 0:
                _skip_manifest(source, name, size)
            elif name == CORE.encode() and core is None:
                core = str(path)
                _copy(source, size, path, keep=True)
            elif _FILE.fullmatch(name):
                _copy(source, size, path, keep=False)
                files.append(PlacedFile(name=name.decode("ascii", "replace"), path=str(path)))
            else:
                raise _refused("holds what no bundle of ours does")
    except EvidenceError as error:
        if core is None or isinstance(error, _RefusedError) or not Path(core).stat().st_size:
            raise
        gap = Gap(what=f"{error.message}; {len(files)} modules were unpacked", remedy=error.remedy)
    if core is None:
        raise _refused("holds no core")
    return Unpacked(core=core, files=tuple(files), gap=gap)


def _place(folder: Path, number: int, name: bytes) -> Path:
    known = _FILE.fullmatch(name)
    if known is None or known["leaf"] is None:
        return folder / f"{number}.file"
    own = folder / str(number)
    own.mkdir()
    return own / known["leaf"].decode("ascii")


class _RefusedError(EvidenceError):
    """Nothing of it is used."""


def _refused(why: str) -> _RefusedError:
    return _RefusedError(f"{why}: it is not read", remedy=_REMEDY)


def _header(source: Source) -> tuple[bytes, int] | None:
    """A member's name and size; None at the end of the archive."""
    block = b"".join(_exactly(source, _BLOCK))
    if block.count(0) == _BLOCK:
        return None
    named, _, rest = block[:100].partition(b"\0")
    plain = block[156:157] in {b"0", b"\0"} and not rest.strip(b"\0") and not block[345]
    number = re.fullmatch(rb"([0-7]{11})[\0 ]", block[124:136])
    if block[257:262] != b"ustar" or not plain or number is None or not _sums_up(block):
        raise _refused("is no plain tar archive")
    return named, int(number[1], 8)


def _sums_up(block: bytes) -> bool:
    """The checksum is the sum of the header's bytes, its own eight taken for blanks."""
    written = re.match(rb" *([0-7]{1,7})[\0 ]", block[148:156])
    return written is not None and int(written[1], 8) == (
        sum(block) - sum(block[148:156]) + 8 * ord(" ")
    )


def _skip_manifest(source: Source, name: bytes, size: int) -> None:
    if name != MANIFEST.encode() or size > _MAX_MANIFEST:
        raise _refused("has no manifest of ours")
    for _ in _padded(source, size):
        pass


def _copy(source: Source, size: int, path: Path, *, keep: bool) -> None:
    """Write a member; of a core that is cut off (`keep`) the part that is there is of use."""
    with path.open("xb") as target:
        damage = copy_sparse(_padded(source, size), target.fileno()).damage
    if damage is not None:
        if not keep:
            path.unlink()
        raise damage


def _padded(source: Source, size: int) -> Iterator[bytes]:
    """A member's bytes; what fills its last block is taken too."""
    yield from _exactly(source, size)
    for _ in _exactly(source, -size % _BLOCK):
        pass


def _exactly(source: Source, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = source.take(min(size, PIECE))
        if not piece:
            raise EvidenceError("could not be read to its end: it is cut off", remedy=_REMEDY)
        size -= len(piece)
        yield piece
