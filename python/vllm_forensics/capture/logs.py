"""Opens logs: files, pipes, folders, patterns, log_path families; in pieces, once.

They may be compressed and lie in an archive, whatever they are called.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, NamedTuple

from vllm_forensics.capture.compressed import PIECE, Source, expand
from vllm_forensics.capture.files import unopened
from vllm_forensics.capture.log_archive import (
    ZIP_MAGICS,
    has_zip_directory,
    is_tar,
    streamed_zip_members,
    tar_members,
    zip_members,
)
from vllm_forensics.errors import EvidenceError

STANDARD_INPUT: Final = "-"
_MAX_ENTRIES: Final = 100_000
_FAMILY: Final = re.compile(r".*\.\d+$")
"""With log_path=asan a runtime writes asan.PID."""
_TAR_HEAD: Final = 512
_LARGEST_HOLE: Final = 1 << 30
"""/dev/zero has no end."""


class Log(NamedTuple):
    """One log, opened."""

    name: str
    pieces: Iterator[bytes]
    in_archive: bool


def find_logs(paths: Sequence[str]) -> list[str]:
    """Files as they are; folders, patterns and families opened up. What names nothing is kept."""
    found: list[str] = []
    for path in paths:
        if path == STANDARD_INPUT:
            found.append(path)
        elif os.path.isdir(path):  # noqa: PTH112 - str with surrogates
            found.extend(_regular_entries(path) or [path])
        elif not os.path.lexists(path):
            pattern = path if glob.has_magic(path) else glob.escape(path) + ".*"
            names = sorted(glob.glob(pattern))  # noqa: PTH207 - str with surrogates
            if not glob.has_magic(path):
                names = [name for name in names if _FAMILY.fullmatch(name)]
            found.extend(names or [path])
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def open_logs(path: str) -> Iterator[Log]:
    """The log, or where the file is a .zip or a .tar its members: named `archive!member`.

    Each must be read before the next is asked for. Compressed ones are expanded, members too, and
    `-` is standard input.

    Raises:
        EvidenceError: it cannot be opened, or an archive is damaged; while the pieces are read,
            that this log is: what could be read has been yielded by then.

    """
    with ExitStack() as opened:
        stream = _open(path, opened)
        source = Source(without_hole(expand(_raw(path, stream))))
        head = source.peek(_TAR_HEAD)
        if head.startswith(ZIP_MAGICS):
            position = stream.tell() if stream.seekable() else 0
            if has_zip_directory(stream):
                members = zip_members(stream)
            else:
                if stream.seekable():
                    stream.seek(position)
                members = streamed_zip_members(source)
        elif is_tar(head):
            members = tar_members(source)
        else:
            yield Log(path, source.rest(), in_archive=False)
            return
        for member in members:
            yield Log(f"{path}!{member.name}", expand(member.pieces), in_archive=True)


def read_log(path: str) -> Iterator[bytes]:
    """The log's bytes in pieces, expanded; `-` is standard input. An archive is not opened up.

    Raises:
        EvidenceError: it cannot be opened, or what is compressed is damaged; what could be read
            has been yielded by then.

    """
    with ExitStack() as opened:
        yield from without_hole(expand(_raw(path, _open(path, opened))))


def without_hole(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces without the zeros at their beginning, where a text follows.

    logrotate's copytruncate cuts a file while its writer goes on at the old offset: what was cut
    is a hole, which reads as zeros.
    """
    zeros = 0
    for piece in pieces:
        text = piece.lstrip(b"\0")
        zeros += len(piece) - len(text)
        if text or zeros > _LARGEST_HOLE:
            yield text or piece
            yield from pieces
            return
    while zeros:
        yield bytes(min(zeros, PIECE))
        zeros -= min(zeros, PIECE)


def _open(path: str, opened: ExitStack) -> IO[bytes]:
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None:
                raise EvidenceError(
                    "is closed: there is nothing to read", remedy="COMMAND 2>&1 | forensics log -"
                )
            # Unbuffered: what a pipe holds is read at once, however little it is.
            descriptor = os.dup(sys.stdin.fileno())
            return opened.enter_context(os.fdopen(descriptor, "rb", buffering=0))
        return opened.enter_context(Path(path).open("rb"))  # a pipe too: <(kubectl logs …)
    except (OSError, ValueError) as error:
        raise unopened(path, error) from error


def _raw(path: str, stream: IO[bytes]) -> Iterator[bytes]:
    # One read at a time: what a pipe has is taken as it comes.
    read = getattr(stream, "read1", stream.read)
    try:
        while piece := read(PIECE):
            yield piece
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise EvidenceError(
            f"could not be read to its end: {reason}", remedy=f"ls -l {shlex.quote(path)}"
        ) from error


def repository_root() -> str | None:
    """The folder of the repository that the working directory is in, or None."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return str(folder)
    return None


def _regular_entries(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.path
                for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False)
                if entry.is_file()
            ]
    except OSError:
        return []
    return sorted(names)
