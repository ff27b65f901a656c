"""Opens logs: files, pipes, folders, patterns, log_path families, compressed; in pieces, once."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, cast

from vllm_forensics.errors import EvidenceError

STANDARD_INPUT: Final = "-"
_PIECE: Final = 1 << 20
_MAX_ENTRIES: Final = 100_000
_FAMILY: Final = re.compile(r".*\.\d+$")
"""With log_path=asan a runtime writes asan.PID."""
_UNREADABLE: Final = ((b"\x28\xb5\x2f\xfd", "zstd -dc"), (b"\x04\x22\x4d\x18", "lz4 -dc"))


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


def read_log(path: str) -> Iterator[bytes]:
    """The log's bytes in pieces, decompressed; `-` is standard input.

    Raises:
        EvidenceError: it cannot be opened, or what is compressed is damaged; what could be read
            has been yielded by then.

    """
    try:
        with ExitStack() as opened:
            stream = _open(path, opened)
            # One read at a time: of a damaged archive, what came before the damage is kept.
            read = getattr(stream, "read1", stream.read)
            while piece := read(_PIECE):
                yield piece
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise EvidenceError(
            f"could not be read to its end: {reason}", remedy=f"ls -l {Path(path)}"
        ) from error


def _open(path: str, opened: ExitStack) -> IO[bytes]:
    if path == STANDARD_INPUT:
        # Unbuffered: what a pipe holds is read at once, however little it is.
        descriptor = os.dup(sys.stdin.fileno())
        return opened.enter_context(os.fdopen(descriptor, "rb", buffering=0))
    stream = opened.enter_context(Path(path).open("rb"))  # noqa: SIM115 - entered right here
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream  # a pipe: <(kubectl logs …)
    head = stream.peek(6)[:6]
    for magic, command in _UNREADABLE:
        if head.startswith(magic):
            raise EvidenceError(
                "is compressed", remedy=f"{command} {Path(path)} | forensics asan -"
            )
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", opened.enter_context(gzip.open(stream, "rb")))
    if head.startswith(b"BZh"):
        return opened.enter_context(bz2.open(stream, "rb"))
    if head.startswith(b"\xfd7zXZ"):
        return opened.enter_context(lzma.open(stream, "rb"))
    return stream


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
