"""Opens evidence: regular files only, mapped and never read whole; finds the cores meant."""

from __future__ import annotations

import glob
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.errors import EvidenceError

_COMPRESSED: Final = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\xfd7zXZ", "xz", "xz -d"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
    (b"BZh", "bzip2", "bunzip2"),
)
_PLACES: Final = (".", "/var/tmp/forensics", "/tmp", "/var/lib/systemd/coredump", "/var/crash")  # noqa: S108
_MAX_ENTRIES: Final = 100_000
_MAX_SOURCE: Final = 16 << 20


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """Map a regular file for reading.

    A FIFO or device in a glob must not block: the file is opened without waiting and then checked.

    Raises:
        EvidenceError: missing, unreadable, empty, or not a regular file.

    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EvidenceError(
            f"cannot be opened: {reason}",
            remedy=f"ls -l {Path(path)}   (cores belong to their user)",
        ) from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise EvidenceError(
                f"is a {_kind(state.st_mode)}, not a file", remedy="give the core file itself"
            )
        if state.st_size == 0:
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
    finally:
        os.close(descriptor)


def map_core(path: str | os.PathLike[str]) -> memoryview:
    """Map a file that should be a core.

    Raises:
        EvidenceError: also where it is plainly something else: compressed, text, a script.

    """
    data = map_file(path)
    head = bytes(data[:16])
    for magic, name, command in _COMPRESSED:
        if head.startswith(magic):
            raise EvidenceError(f"is compressed with {name}", remedy=f"{command} {Path(path)}")
    if not head.startswith(b"\x7fELF"):
        what = "a text file" if _looks_like_text(bytes(data[:4096])) else "no ELF file"
        raise EvidenceError(
            f"is {what}, not a core dump",
            remedy="for logs: the program's core lies where core_pattern says",
        )
    return data


def is_regular_file(path: str) -> bool:
    """Does the path name a regular file now? Never blocks."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - also for str with surrogates
    except (OSError, ValueError):
        return False


def find_cores(paths: Sequence[str]) -> list[str]:
    """Files as they are, folders and patterns opened up; without a path the newest core found.

    What names nothing is kept, so that its failure is reported.
    """
    if not paths:
        return newest_core()
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 - str with surrogates
            inside = [name for name in _regular_entries(path) if is_core(name)]
            found.extend(inside or [path])
        elif not os.path.lexists(path) and glob.has_magic(path):
            found.extend(sorted(glob.glob(path)) or [path])  # noqa: PTH207 - str with surrogates
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def newest_core() -> list[str]:
    """The youngest core in the usual places and where core_pattern points; empty if none is."""
    candidates = []
    for place in dict.fromkeys((*_pattern_folders(), *_PLACES)):
        for path in _regular_entries(place):
            if "core" in path.rsplit("/", 1)[-1] and is_core(path):
                candidates.append((os.stat(path).st_mtime_ns, path))  # noqa: PTH116
    return [max(candidates)[1]] if candidates else []


def is_core(path: str) -> bool:
    """Does the file start like an ELF core? Unreadable ones do not."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        head = os.read(descriptor, 18)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return head[:4] == b"\x7fELF" and head[16:18] in {b"\x04\x00", b"\x00\x04"}


def cores_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The cores directly inside a folder, by name; none where it cannot be listed."""
    return [Path(path) for path in _regular_entries(os.fspath(folder)) if is_core(path)]


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


def _pattern_folders() -> Iterator[str]:
    try:
        pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    except OSError:
        return
    if pattern.startswith("/") and "%" not in pattern.rsplit("/", 1)[0]:
        yield pattern.rsplit("/", 1)[0] or "/"


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


def _looks_like_text(head: bytes) -> bool:
    return b"\0" not in head


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "folder without a core in it"),
        (stat.S_ISFIFO, "FIFO"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
    )
    return next((name for test, name in kinds if test(mode)), "special file")
