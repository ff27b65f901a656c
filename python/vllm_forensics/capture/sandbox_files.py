"""The files of a sandbox run: a load that is read, a recording that is written and read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vllm_forensics.capture.event_table import MAGIC, table_lines
from vllm_forensics.capture.files import map_file, open_regular
from vllm_forensics.capture.logs import STANDARD_INPUT, read_log
from vllm_forensics.errors import EvidenceError, UsageError, naming

_BUFFER: Final = 1 << 20
_MAX_LOAD: Final = 64 << 20
_MAX_LINE: Final = 65 << 20
_MAX_RECORDING: Final = 8 << 30


def read_load(path: str) -> str:
    """The text of a load file.

    Raises:
        EvidenceError: it cannot be read.
        UsageError: it is larger than any load that makes sense.

    """
    with naming(path):
        data = map_file(path)
    if len(data) > _MAX_LOAD:
        raise UsageError(
            f"{path} is larger than 64 MiB", remedy="a load is one short line a request"
        )
    return bytes(data).decode("utf-8", "replace")


def event_lines(path: str, on_gap: Callable[[str], None] | None = None) -> Iterator[bytes]:
    """The lines of a recording or log: as they are, compressed, in Parquet, or from a pipe (`-`).

    A line that is longer than any comes in pieces. `on_gap` is told where it breaks off.

    Raises:
        EvidenceError: nothing of it can be read, or it breaks off and there is no `on_gap`.
        UsageError: it is Parquet, and pyarrow is missing.

    """
    begun = False
    try:
        if path != STANDARD_INPUT and _is_table(path):
            yield from table_lines(path)
            return
        for line in _lines(read_log(path)):
            begun = True
            yield line
    except EvidenceError as error:
        if begun and on_gap is not None:
            on_gap(f"it breaks off: {error.message}")
            return
        raise EvidenceError(f"{path} {error.message}", remedy=error.remedy) from error


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Joined once: a line of many pieces must not be copied for each of them."""
    left, begun, size = _MAX_RECORDING, list[bytes](), 0
    for piece in pieces:
        left -= len(piece)
        first, *whole = piece.split(b"\n")
        begun.append(first)
        size += len(first)
        if whole:
            yield b"".join(begun) + b"\n"
            yield from (line + b"\n" for line in whole[:-1])
            begun, size = [whole[-1]], len(whole[-1])
        if size > _MAX_LINE:
            yield b"".join(begun)
            begun, size = [], 0
        if left < 0:
            return
    if size:
        yield b"".join(begun)


def _is_table(path: str) -> bool:
    try:
        with open_regular(path) as descriptor:
            return os.pread(descriptor, len(MAGIC), 0) == MAGIC
    except EvidenceError:
        return False  # whoever reads it says why it cannot be


@contextmanager
def event_file(path: str, *, at_once: bool = False) -> Iterator[Callable[[bytes], None]]:
    """A function that appends bytes to a new file.

    `at_once`: nothing waits in memory, so that it is there even if the process dies.

    Raises:
        UsageError: it cannot be written.

    """
    try:
        with Path(path).open("wb", buffering=0 if at_once else _BUFFER) as stream:

            def write(line: bytes) -> None:
                stream.write(line)

            yield write
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="give another --events FILE"
        ) from error
