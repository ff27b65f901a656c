"""Finds the files of a folder of evidence: bounded, without following links in circles."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from vllm_forensics.capture.compressed import Source, expand
from vllm_forensics.capture.core_sources import is_core
from vllm_forensics.capture.files import open_regular, unopened
from vllm_forensics.capture.logs import without_hole
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.report import Failure

_MAX_ENTRIES: Final = 20_000
_MAX_FILES: Final = 2_000
_MAX_DEPTH: Final = 12
_PIECE: Final = 1 << 16
_KINDS: Final = (
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """One regular file, and how it begins."""

    path: str
    size_bytes: int
    written_s: float
    """Seconds since the epoch."""
    is_core: bool
    head: bytes
    """Expanded, where it is compressed; empty for a core."""


@dataclass(slots=True)
class _Walk:
    """What was found so far."""

    paths: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    passed_over: dict[str, list[str]] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    entries: int = 0
    is_full: bool = False


def find_evidence(
    paths: Sequence[str], head_bytes: int
) -> tuple[list[EvidenceFile], list[Failure], list[Failure]]:
    """Every file below the paths, what could not be read, and what is no evidence by its nature.

    A file that two names lead to is taken once. Nothing but regular files is opened.
    """
    walk = _Walk()
    for path in paths:
        _take(walk, path, is_named=True)
    found: list[EvidenceFile] = []
    for path in walk.paths:
        try:
            found.append(_look_at(path, head_bytes))
        except EvidenceError as error:
            walk.failures.append(Failure(path=path, error=error.message, remedy=error.remedy))
    if walk.is_full:
        walk.failures.append(
            Failure(
                path=", ".join(paths),
                error=f"holds more than {_MAX_FILES:,} files, {_MAX_ENTRIES:,} entries or "
                f"{_MAX_DEPTH} folders in each other: the rest was not looked at",
                remedy="name the files that matter",
            )
        )
    noted = [
        Failure(
            path=places[0],
            error=f"is a {what}, not a file: not read"
            + (f", like {len(places) - 1} more" if len(places) > 1 else ""),
            remedy="save what it gives as a file",
        )
        for what, places in walk.passed_over.items()
    ]
    return found, walk.failures, noted


def _take(walk: _Walk, path: str, *, is_named: bool, depth: int = 0) -> None:
    try:
        status = os.stat(path)  # noqa: PTH116 - str with surrogates
    except (OSError, ValueError) as error:
        told = unopened(path, error)
        is_circle = getattr(error, "errno", None) == errno.ELOOP
        what = "is a link in a circle" if is_circle else told.message
        walk.failures.append(Failure(path=path, error=what, remedy=told.remedy))
        return
    mark = (status.st_dev, status.st_ino)
    if mark in walk.seen:
        return
    walk.seen.add(mark)
    if stat.S_ISDIR(status.st_mode):
        if depth < _MAX_DEPTH:
            _open_up(walk, path, depth)
        else:
            walk.is_full = True
    elif stat.S_ISREG(status.st_mode):
        if len(walk.paths) < _MAX_FILES:
            walk.paths.append(path)
        else:
            walk.is_full = True
    elif is_named:
        walk.failures.append(
            Failure(
                path=path,
                error=f"is a {_kind(status.st_mode)}, not a file",
                remedy=f"cat {shlex.quote(path)} > FILE; forensics report FILE",
            )
        )
    else:
        walk.passed_over.setdefault(_kind(status.st_mode), []).append(path)


def _open_up(walk: _Walk, folder: str, depth: int) -> None:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.path for entry in _counted(walk, entries))
    except OSError as error:
        walk.failures.append(
            Failure(
                path=folder,
                error=error.strerror or str(error),
                remedy=f"ls -ld {shlex.quote(folder)}",
            )
        )
        return
    for name in names:
        _take(walk, name, is_named=False, depth=depth + 1)


def _counted(walk: _Walk, entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
    for entry in entries:
        walk.entries += 1
        if walk.entries > _MAX_ENTRIES:
            walk.is_full = True
            return
        yield entry


def _look_at(path: str, head_bytes: int) -> EvidenceFile:
    with open_regular(path) as descriptor:
        status = os.fstat(descriptor)
        core = is_core(path)
        head = b"" if core else _head(descriptor, head_bytes)
    return EvidenceFile(
        path=path,
        size_bytes=status.st_size,
        written_s=status.st_mtime,
        is_core=core,
        head=head,
    )


def _head(descriptor: int, size: int) -> bytes:
    def pieces() -> Iterator[bytes]:
        try:
            while piece := os.read(descriptor, _PIECE):
                yield piece
        except OSError as error:
            raise EvidenceError(
                f"could not be read: {error.strerror}", remedy="copy it to another disk"
            ) from error

    return Source(without_hole(expand(pieces()))).peek(size)


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "special file")
