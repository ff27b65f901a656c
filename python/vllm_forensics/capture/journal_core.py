"""The core in a record of journald's own files, as journalctl hands it over."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from typing import Final

from vllm_forensics.capture.process import Limits, run_program
from vllm_forensics.errors import EvidenceError, ToolError

_PIECE: Final = 1 << 20
_KEPT: Final = 1 << 16
_LIMITS: Final = Limits(timeout_s=120, output_bytes=_KEPT)
_LARGEST: Final = 4 << 30
"""Beyond JournalSizeMax= of systemd-coredump, which is 767 MiB."""
_CURSOR: Final = re.compile(r"core\.\d{1,20}@(s=[0-9a-f]{32};i=[0-9a-f]{1,16})")
_FIELD: Final = b"\nCOREDUMP\n"
_SIZE_BYTES: Final = 8


def is_record(member: str) -> bool:
    """Is this how the core in a record is named: `core.PID@CURSOR`?"""
    return _CURSOR.fullmatch(member) is not None


def place_option(place: str) -> str:
    """How journalctl is told of a file or a folder of journals."""
    return "--directory" if os.path.isdir(place) else "--file"  # noqa: PTH112


def journal_core(place: str, member: str) -> Iterator[bytes]:
    """The bytes of the core in one record of a journal file, or of a folder of them.

    Raises:
        EvidenceError: it is not there, or not whole, or journalctl is missing or slow.

    """
    cursor = _CURSOR.fullmatch(member)
    if cursor is None:
        raise EvidenceError("is no record of a journal", remedy="name the journal itself")
    command = [
        *("journalctl", "--no-pager", "--quiet", "--all", "--output=export", "--lines=1"),
        *("--output-fields=COREDUMP", f"--cursor={cursor[1]}", place_option(place), place),
    ]
    with tempfile.TemporaryFile() as printed:

        def keep(chunk: bytes) -> None:
            if printed.tell() < _LARGEST:
                printed.write(chunk)

        try:
            done = run_program(command, limits=_LIMITS, on_output=keep)
        except ToolError as error:
            raise EvidenceError(error.message, remedy=error.remedy) from error
        field, _, rest = done.stdout.partition(_FIELD)
        size = int.from_bytes(rest[:_SIZE_BYTES], "little")
        start = len(field) + len(_FIELD) + _SIZE_BYTES
        # A record that is gone is answered with the one behind it.
        is_it = field.startswith(f"__CURSOR={cursor[1]};".encode())
        if done.stderr or not is_it or not rest or start + size > printed.tell():
            raise EvidenceError(
                "could not be read out of the journal whole",
                remedy="where it was written: coredumpctl dump PID -o core.PID",
            )
        printed.seek(start)
        left = size
        while left and (piece := printed.read(min(left, _PIECE))):
            left -= len(piece)
            yield piece
