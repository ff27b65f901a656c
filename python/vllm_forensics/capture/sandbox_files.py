"""The files of a sandbox run: a load that is read, events that are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import map_file
from vllm_forensics.errors import UsageError

_MAX_LOAD: Final = 64 << 20


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
