"""The files of a sandbox run: a load that is read, a recording that is written and read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vllm_forensics.capture.event_table import MAGIC, table_lines
from vllm_forensics.capture.files import map_file, open_regular
from vllm_forensics.errors import EvidenceError, UsageError

_MAX_LOAD: Final = 64 << 20
_MAX_LINE: Final = 65 << 20
_MAX_RECORDING: Final = 8 << 30


def read_load(path: str) -> str:
    """The text of a load file.

    Raises:
        EvidenceError: it cannot be read.
        UsageError: it is larger than any load that makes sense.

    """
    data = map_file(path)
    if len(data) > _MAX_LOAD:
        raise UsageError(
            f"{path} is larger than 64 MiB", remedy="a load is one short line a request"
        )
    return bytes(data).decode("utf-8", "replace")


def event_lines(path: str) -> Iterator[bytes]:
    """The lines of a recording, also of one in Parquet; a line that none has comes in pieces.

    Raises:
        EvidenceError: it cannot be read.
        UsageError: it is Parquet, and pyarrow is missing.

    """
    try:
        if _is_table(path):
            yield from table_lines(path)
            return
        with open_regular(path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as stream:
            left = _MAX_RECORDING
            while left > 0 and (line := stream.readline(_MAX_LINE)):
                left -= len(line)
                yield line
    except EvidenceError as error:
        raise EvidenceError(f"{path} {error.message}", remedy=error.remedy) from error


def _is_table(path: str) -> bool:
    with open_regular(path) as descriptor:
        return os.pread(descriptor, len(MAGIC), 0) == MAGIC


@contextmanager
def event_file(path: str) -> Iterator[Callable[[bytes], None]]:
    """A function that appends bytes to a new file.

    Raises:
        UsageError: it cannot be written.

    """
    try:
        with Path(path).open("wb", buffering=1 << 20) as stream:

            def write(line: bytes) -> None:
                stream.write(line)

            yield write
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="give another --events FILE"
        ) from error
