"""Opens evidence: regular files only, mapped and never read whole."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vllm_forensics.errors import EvidenceError

_MAX_SOURCE: Final = 16 << 20
_LARGE_CORE: Final = 256 << 20


@contextlib.contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of a regular file for the block.

    A FIFO or device in a glob must not block: the file is opened without waiting and then checked.

    Raises:
        EvidenceError: missing, unreadable, or not a regular file.

    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise unopened(path, error) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise EvidenceError(f"is a {_kind(mode)}", remedy="give the file itself")
        yield descriptor
    finally:
        os.close(descriptor)


def unopened(path: str | os.PathLike[str], error: Exception) -> EvidenceError:
    """What to tell of a file that cannot be opened, and what to look at: it, or what is there."""
    name = os.fspath(path)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    number = getattr(error, "errno", None)
    if name == "-":
        remedy = "save it as a file    # forensics log - and forensics asan - read it as it comes"
        return EvidenceError("would be standard input, which is not read here", remedy=remedy)
    if number == errno.EISDIR:
        remedy = f"forensics report {shlex.quote(name)}    # reads all that a folder holds"
        return EvidenceError("is a folder, not a file", remedy=remedy)
    if number in {errno.ENOENT, errno.ENOTDIR}:
        folder = os.path.dirname(name) or "."  # noqa: PTH120 - str with surrogates
        remedy = f"ls -la {shlex.quote(folder)}    # what is there instead"
    elif number in {errno.EACCES, errno.EPERM}:
        remedy = f"ls -l {shlex.quote(name)}    # whose is it? as that user, or as root"
    else:
        remedy = f"ls -l {shlex.quote(name)}"
    return EvidenceError(f"cannot be opened: {reason}", remedy=remedy)


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """Map a regular file for reading.

    Raises:
        EvidenceError: missing, unreadable, empty, or not a regular file.

    """
    with open_regular(path) as descriptor:
        if os.fstat(descriptor).st_size == 0:
            raise EvidenceError(
                "is an empty file",
                remedy="the disk was full, or the limit too low: df -h; ulimit -c",
            )
        try:
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise EvidenceError(
                f"cannot be mapped: {error}", remedy="copy it to a local disk"
            ) from error


def map_core(path: str | os.PathLike[str]) -> memoryview:
    """Map a file that should be a core.

    Raises:
        EvidenceError: also where it is plainly something else: text, a script.

    """
    data = map_file(path)
    head = bytes(data[:16])
    if not head.startswith(b"\x7fELF"):
        is_text = _looks_like_text(bytes(data[:4096]))
        raise EvidenceError(
            f"is {'a text file' if is_text else 'no ELF file'}, not a core dump",
            remedy="forensics log FILE    # the core itself lies where core_pattern says"
            if is_text
            else "forensics report FOLDER    # finds the cores among other files",
        )
    if len(data) > _LARGE_CORE and isinstance(data.obj, mmap.mmap):
        # A few pages of each stack are read. A disk whose read-ahead is 8 MiB brought 1.6 GB of a
        # core of 200 threads in.
        data.obj.madvise(mmap.MADV_RANDOM)
    return data


@contextlib.contextmanager
def mapped_core(path: str | os.PathLike[str]) -> Iterator[memoryview]:
    """The same for the block: a thousand cores are not to wait, mapped, for a garbage collection.

    Raises:
        EvidenceError: as `map_core`.

    """
    data = map_core(path)
    try:
        yield data
    finally:
        mapped = data.obj
        # Where a part of it is still held, the last holder gives it back.
        with contextlib.suppress(BufferError):
            data.release()
            if isinstance(mapped, mmap.mmap):
                mapped.close()


def is_regular_file(path: str) -> bool:
    """Does the path name a regular file now? Never blocks."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - also for str with surrogates
    except (OSError, ValueError):
        return False


def written_s(path: str) -> float | None:
    """When the file was last written, in seconds since the epoch; None where that is not known."""
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 - also for str with surrogates
    except (OSError, ValueError):
        return None


def identity_of(path: str) -> tuple[int, ...] | None:
    """What changes when the file is changed or replaced; None where that cannot be asked."""
    try:
        state = os.stat(path)  # noqa: PTH116 - also for str with surrogates
    except (OSError, ValueError):
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def size_of(path: str) -> int:
    """The file's size in bytes; 0 where it cannot be asked."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - also for str with surrogates
    except (OSError, ValueError):
        return 0


def read_source(path: str, first: int, last: int) -> tuple[str, ...]:
    """Lines `first` to `last` (from 1) of a source file; empty where it cannot be read."""
    if not is_regular_file(path):
        return ()
    try:
        if os.stat(path).st_size > _MAX_SOURCE:  # noqa: PTH116
            return ()
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[max(first - 1, 0) : last])


def _looks_like_text(head: bytes) -> bool:
    return b"\0" not in head


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "folder without a core in it"),
        (stat.S_ISFIFO, "FIFO, not a file"),
        (stat.S_ISSOCK, "socket, not a file"),
        (stat.S_ISCHR, "character device, not a file"),
        (stat.S_ISBLK, "block device, not a file"),
    )
    return next((name for test, name in kinds if test(mode)), "special file, not a regular one")
