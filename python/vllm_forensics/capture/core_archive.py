"""Cores inside of a .tar or .zip, as CI systems and `kubectl cp` hand them over, or of a journal.

Each is named `ARCHIVE!/MEMBER`. An archive is read as a stream, and no name in it becomes a path.
The core in a record of an exported journal is `core.PID@OFFSET+SIZE`, where its bytes stand, or
`core.PID[OFFSET+SIZE`, where JSON has them as an array of numbers; of journald's own files it is
`core.PID@CURSOR`.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from vllm_forensics.capture.compressed import PIECE, Source, expand
from vllm_forensics.capture.files import is_regular_file
from vllm_forensics.capture.journal_core import is_record, journal_core
from vllm_forensics.capture.log_archive import (
    ZIP_MAGICS,
    Member,
    is_tar,
    tar_members,
    zip_members,
)
from vllm_forensics.errors import EvidenceError

HEAD: Final = 512
"""What must be seen of a file to know a tar."""
_SEPARATOR: Final = "!/"
_MAX_CORES: Final = 256
_PART: Final = re.compile(r"core\.\d{1,20}([@\[])(\d{1,15})\+(\d{1,15})")


def is_core_archive(head: bytes) -> bool:
    """Is this, expanded, how an archive begins?"""
    return head.startswith(ZIP_MAGICS) or is_tar(head)


def archived_core(path: str) -> tuple[str, str] | None:
    """The archive and the member that `path` names; None for a path of another kind."""
    at = path.find(_SEPARATOR)
    while at >= 0:
        archive, member = path[:at], path[at + len(_SEPARATOR) :]
        if is_regular_file(archive) or is_record(member):
            return archive, member
        at = path.find(_SEPARATOR, at + 1)
    return None


def in_archive(archive: str, member: str) -> str:
    """The path of a member."""
    return f"{archive}{_SEPARATOR}{member}"


def cores_in_archive(
    path: str, pieces: Iterator[bytes], is_core_head: Callable[[bytes], bool]
) -> list[str]:
    """The members that are cores by their first bytes, which are shown expanded.

    Raises:
        EvidenceError: the archive is damaged, or none of its members is a core.

    """
    found: list[str] = []
    count = 0
    for member in _members(path, pieces):
        count += 1
        if is_core_head(_head(member)) and len(found) < _MAX_CORES:
            found.append(in_archive(path, member.name))
    if not found:
        raise EvidenceError(
            f"is an archive of {count} files, none of which is a core that can be read in it",
            remedy="unpack it, and give the core    # tar -xf, unzip",
        )
    return found


def member_pieces(path: str, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of one member, as they are in the archive.

    Raises:
        EvidenceError: it is not there, or damaged.

    """
    if is_record(name):
        yield from journal_core(path, name)
        return
    part = _PART.fullmatch(name)
    if part is not None:
        source = Source(expand(pieces))
        if not is_core_archive(source.peek(HEAD)):
            yield from _part_of(source, part)
            return
        pieces = source.rest()
    for member in _members(path, pieces):
        if member.name == name:
            yield from member.pieces
            return
    raise EvidenceError(
        f"is not in {path}", remedy=f"tar -tf {shlex.quote(str(path))}    # or unzip -l"
    )


def _members(path: str, pieces: Iterator[bytes]) -> Iterator[Member]:
    source = Source(expand(pieces))
    if is_tar(source.peek(HEAD)):
        yield from tar_members(source)
        return
    with Path(path).open("rb") as stream:
        yield from zip_members(stream)


def _head(member: Member) -> bytes:
    try:
        return b"".join(itertools.islice(expand(member.pieces), 1))[:HEAD]
    except EvidenceError:
        return b""


def _part_of(source: Source, part: re.Match[str]) -> Iterator[bytes]:
    """So many bytes from an offset on, or what the numbers of an array there stand for.

    Raises:
        EvidenceError: they are not there.

    """
    left = int(part[2])
    while left and (piece := source.take(min(left, PIECE))):
        left -= len(piece)
    left, begun, is_array = int(part[3]), b"", part[1] == "["
    while left and (piece := source.take(min(left, PIECE))):
        left -= len(piece)
        *whole, begun = (begun + piece).split(b",") if is_array else (piece,)
        yield _from_numbers(whole) if is_array else begun
    if left:
        raise EvidenceError("ends before the core in it does", remedy="export the journal again")
    if is_array:
        yield _from_numbers([begun])


def _from_numbers(numbers: list[bytes]) -> bytes:
    try:
        return bytes(map(int, numbers))
    except ValueError as error:
        raise EvidenceError(
            "holds an array that is no core", remedy="export the journal again"
        ) from error
