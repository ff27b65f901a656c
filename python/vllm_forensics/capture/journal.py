"""systemd's journal: asked through journalctl, or read as somebody exported it."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vllm_forensics.capture.compressed import expand, is_compressed
from vllm_forensics.capture.core_sources import read_pieces
from vllm_forensics.capture.files import map_file, open_regular
from vllm_forensics.capture.journal_core import place_option
from vllm_forensics.capture.process import Limits, find_program, run_program
from vllm_forensics.capture.sparse_copy import copy_sparse
from vllm_forensics.errors import EvidenceError, ToolError

_JOURNAL_FILE: Final = b"LPKSHHRH"
"""The signature of journal files (systemd.io/JOURNAL_FILE_FORMAT)."""
_MACHINE: Final = "[0-9a-f]" * 32
_HEAD: Final = 4096
_LIMITS: Final = Limits(timeout_s=30, output_bytes=64 << 20)
_MAX_RECORDS: Final = 5000
_MAX_NAMES: Final = 200
_ASKED: Final = (
    *("MESSAGE", "MESSAGE_ID", "_HOSTNAME", "COREDUMP_PID", "COREDUMP_UID", "COREDUMP_SIGNAL"),
    *("COREDUMP_SIGNAL_NAME", "COREDUMP_TIMESTAMP", "COREDUMP_RLIMIT", "COREDUMP_HOSTNAME"),
    *("COREDUMP_COMM", "COREDUMP_EXE", "COREDUMP_UNIT", "COREDUMP_USER_UNIT", "COREDUMP_SLICE"),
    *("COREDUMP_CMDLINE", "COREDUMP_CGROUP", "COREDUMP_PROC_CGROUP", "COREDUMP_FILENAME"),
    *("COREDUMP_TRUNCATED", "COREDUMP_PROC_MAPS", "COREDUMP_PACKAGE_JSON", "COREDUMP_STACKTRACE"),
    *("COREDUMP_PACKAGE_NAME", "COREDUMP_PACKAGE_VERSION", "COREDUMP_CONTAINER_CMDLINE"),
)
"""All but the environment, the open files, and a core in the journal itself."""
_HELD: Final = ["--output-fields=MESSAGE_ID,COREDUMP"]


def is_journal_place(path: str) -> bool:
    """Is it a file of journald's own, or a folder of them?"""
    if os.path.isdir(path):  # noqa: PTH112 - str with surrogates
        return _journal_files(path)
    try:
        with open_regular(path) as descriptor:
            return os.read(descriptor, len(_JOURNAL_FILE)) == _JOURNAL_FILE
    except EvidenceError:
        return False


def journal_head(path: str) -> bytes:
    """The first bytes, expanded where the file is compressed.

    Raises:
        EvidenceError: it cannot be read.

    """
    with open_regular(path) as descriptor:
        head = os.read(descriptor, _HEAD)
    return next(expand(read_pieces(path)), b"")[:_HEAD] if is_compressed(head) else head


@contextmanager
def opened_text(path: str) -> Iterator[memoryview]:
    """What was printed of a journal, expanded, mapped for as long as the block runs.

    Raises:
        EvidenceError: it cannot be read.

    """
    with open_regular(path) as descriptor:
        compressed = is_compressed(os.read(descriptor, _HEAD))
    if not compressed:
        yield map_file(path)
        return
    with tempfile.TemporaryFile() as target:
        size, damage = copy_sparse(expand(read_pieces(path)), target.fileno())
        if damage is not None and size == 0:
            raise damage
        yield map_file(f"/proc/self/fd/{target.fileno()}")


def ask_journal(
    *matches: str,
    place: str | None = None,
    since_s: float | None = None,
    newest: int = _MAX_RECORDS,
    whole: bool = True,
) -> bytes:
    """Records as `journalctl -o json`, the newest first; `place` is a journal file or a folder.

    Not `whole`: only whether a core is in the record itself, which is printed as null then.

    Raises:
        ToolError: journalctl is missing, slow, or could not read the journal.

    """
    if find_program("journalctl") is None:
        raise ToolError(
            "journalctl is not installed here, so the journal cannot be read",
            remedy="where it is: journalctl -o export --all > crashes.export, and give that file",
        )
    where = [] if place is None else [place_option(place), place]
    fields = ["--all", f"--output-fields={','.join(_ASKED)}"] if whole else _HELD
    since = [] if since_s is None else [f"--since=@{max(int(since_s), 0)}"]
    done = run_program(
        [
            *("journalctl", "--no-pager", "--quiet", "--reverse", "--output=json"),
            *(f"--lines={newest}", *fields, *where, *since, *matches),
        ],
        limits=_LIMITS,
    )  # fmt: skip
    if done.status != 0 and not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolError(
            f"journalctl could not read the journal: {said[-1] if said else done.status}",
            remedy="as root or in the group systemd-journal: journalctl -o export --all > FILE",
        )
    return done.stdout


def core_matches(paths: Sequence[str]) -> tuple[str, ...]:
    """What to ask for the records of cores by their files' names."""
    return tuple(f"COREDUMP_FILENAME={path}" for path in paths[:_MAX_NAMES])


def has_journal() -> bool:
    """Does this machine keep a journal that journalctl can be asked about?"""
    folders = (Path("/var/log/journal"), Path("/run/log/journal"))
    return any(folder.is_dir() for folder in folders) and find_program("journalctl") is not None


def this_host() -> str:
    """What this machine is called, as systemd notes it with a crash."""
    return socket.gethostname()


def _journal_files(folder: str) -> bool:
    """Journal files in a folder, or in those of single machines below it."""
    try:
        below = Path(folder)
        return any(below.glob("*.journal")) or any(below.glob(f"{_MACHINE}/*.journal"))
    except OSError:
        return False
