"""Finds cores wherever they are kept, and makes them readable: expanded into a scratch folder.

A core's holes stay holes, so a sparse core of gigabytes takes what it really holds.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vllm_forensics.capture.bundle import is_bundle, unpack_bundle
from vllm_forensics.capture.compressed import PIECE, expand, is_compressed
from vllm_forensics.capture.core_archive import (
    HEAD,
    archived_core,
    cores_in_archive,
    is_core_archive,
    member_pieces,
)
from vllm_forensics.capture.core_keepers import (
    ApportReport,
    abrt_facts,
    is_apport,
    named_facts,
)
from vllm_forensics.capture.files import open_regular, written_s
from vllm_forensics.capture.private_folder import private_folder
from vllm_forensics.capture.remote_files import is_remote, read_remote, remote_entries
from vllm_forensics.capture.sparse_copy import copy_sparse
from vllm_forensics.errors import EvidenceError
from vllm_forensics.model.answer import Gap
from vllm_forensics.model.kept_core import KeptCore

_PLACES: Final = (
    *(".", "/var/tmp/forensics", "/tmp", "/var/lib/systemd/coredump", "/var/crash"),  # noqa: S108
    *("/var/spool/abrt", "/var/lib/apport/coredump"),
    *("/cores", "/coredumps", "/var/core", "/var/cores", "/mnt/wslg/dumps"),
)
_WSL_CRASHES: Final = "/mnt/*/Users/*/AppData/Local/Temp/wsl-crashes"
_MAX_ENTRIES: Final = 100_000


def find_cores(paths: Sequence[str], since_s: float | None = None) -> list[str]:
    """Files as they are, folders and patterns opened up; without a path the newest core found.

    `since_s` leaves out what was written before, in seconds since the epoch. What names nothing is
    kept, so that its failure is reported.
    """
    if not paths:
        return newest_core()
    found: list[str] = []
    for path in paths:
        if is_remote(path):
            found.extend(_remote_cores(path))
        elif os.path.isdir(path):  # noqa: PTH112 - str with surrogates
            found.extend(cores_below(path) or _locked(path) or [path])
        elif not os.path.lexists(path) and glob.has_magic(path):
            named = sorted(glob.glob(path))  # noqa: PTH207 - str with surrogates
            found.extend(named or [path])
        else:
            found.extend(_archived(path) or [path])
    kept = dict.fromkeys(found)
    return [path for path in kept if since_s is None or _newness(path) >= since_s]


def _remote_cores(path: str) -> list[str]:
    try:
        return remote_entries(path) or [path]
    except EvidenceError:
        return [path]  # its failure is told when it is opened


def _archived(path: str) -> list[str]:
    """The cores of an archive; none where it is no archive, or its failure is yet to be told."""
    if archived_core(path) is not None:
        return []
    try:
        head = _expanded_head(path, _head_of(path))
        if not is_core_archive(head) or is_bundle(head):
            return []
        return cores_in_archive(path, read_pieces(path), _is_core_head)
    except EvidenceError:
        return []


def newest_core() -> list[str]:
    """The youngest core in the usual places and where core_pattern points; empty if none is."""
    windows = sorted(glob.glob(_WSL_CRASHES))  # noqa: PTH207 - str, as everywhere here
    places = tuple(dict.fromkeys((*_pattern_folders(), *_PLACES, *windows)))
    readable = [path for place in places for path in cores_below(place) if _is_named_core(path)]
    # Where all belong to others, the failure of the newest says so.
    found = readable or [path for place in places for path in _locked(place)]
    return [max(found, key=lambda path: (_newness(path), path))] if found else []


def _is_named_core(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return "core" in name or name.endswith(".crash") or name.startswith("wsl-crash-")


def _locked(folder: str) -> list[str]:
    """What is called a core and may not be read: it belongs to another user."""
    return [
        path for path in _entries(folder) if _is_named_core(path) and not os.access(path, os.R_OK)
    ]


def cores_below(folder: str) -> list[str]:
    """The cores of a folder, by name: files, and one in each problem's folder of abrt's."""
    return [path for path in _entries(folder) if is_core(path)]


def cores_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The cores directly inside a folder, by name; none where it cannot be listed."""
    return [Path(path) for path in cores_below(os.fspath(folder))]


def is_core(path: str) -> bool:
    """Is this a core, compressed, in a report of apport's or in a bundle, by its first bytes?"""
    try:
        head = _head_of(path)
        if is_apport(head):
            return True
        head = _expanded_head(path, head)
    except EvidenceError:
        return False
    return is_bundle(head) or _is_core_head(head)


def _is_core_head(head: bytes) -> bool:
    is_elf_core = head[:4] == b"\x7fELF" and head[16:18] in {b"\x04\x00", b"\x00\x04"}
    return is_elf_core or is_apport(head)


@contextlib.contextmanager
def opened_core(path: str, scratch: str | None = None) -> Iterator[KeptCore]:
    """The core that `path` names, as a plain file for as long as the block runs.

    `scratch` is a folder for what must be expanded, by default the system's for temporary files.

    Raises:
        EvidenceError: it cannot be read, or there is no room to expand it.

    """
    folder = path.rsplit("/", 1)[0] if "/" in path else "."
    facts, keeper = named_facts(path)
    if path.rsplit("/", 1)[-1].startswith("coredump") and (Path(folder) / "executable").exists():
        facts, keeper = abrt_facts(Path(folder)), "abrt"
    head = _head_of(path)
    plain = not is_apport(head) and not is_compressed(head) and not is_bundle(head)
    expanded = _expanded_head(path, head)
    if is_core_archive(expanded) and not is_bundle(expanded):
        [first, *_] = cores_in_archive(path, read_pieces(path), _is_core_head)
        raise EvidenceError("is an archive, not a core", remedy=f"name one in it: {first}")
    if plain and not is_remote(path) and archived_core(path) is None:
        yield KeptCore(path=path, file=path, keeper=keeper, facts=facts)
        return
    if is_bundle(expanded):
        with _opened_bundle(path, scratch) as bundled:
            yield bundled
        return
    report = ApportReport(read_pieces(path)) if is_apport(head) else None
    # A file without a name: it is gone with this process, however that ends.
    with tempfile.TemporaryFile(dir=scratch) as target:
        gap = _expand_into(report.core() if report else read_pieces(path), target.fileno())
        if report is not None:
            facts, keeper = report.facts, "apport"
        file = f"/proc/{os.getpid()}/fd/{target.fileno()}"
        yield KeptCore(path=path, file=file, keeper=keeper, facts=facts, gap=gap)


@contextlib.contextmanager
def _opened_bundle(path: str, scratch: str | None) -> Iterator[KeptCore]:
    with private_folder("forensics-bundle-", scratch) as folder:
        found = unpack_bundle(expand(read_pieces(path)), folder)
        yield KeptCore(path=path, file=found.core, gap=found.gap, modules=found.files)


def _expand_into(pieces: Iterator[bytes], target: int) -> Gap | None:
    """Write the expanded core with its holes; what was lost at a damage is a gap.

    Raises:
        EvidenceError: nothing could be expanded, or there is no room.

    """
    size, damage = copy_sparse(expand(pieces), target)
    if damage is None:
        return None
    if size == 0:
        raise damage
    what = f"{damage.message}; {size / 1e6:.1f} MB were expanded"
    return Gap(what=what, remedy=damage.remedy)


def read_pieces(path: str) -> Iterator[bytes]:
    """The file's bytes, wherever it is kept: here, elsewhere, in an archive.

    Raises:
        EvidenceError: it cannot be opened, or not be read to its end.

    """
    if is_remote(path):
        yield from read_remote(path)
        return
    if (inside := archived_core(path)) is not None:
        archive, member = inside
        yield from member_pieces(archive, member, read_pieces(archive))
        return
    with open_regular(path) as descriptor:
        try:
            while piece := os.read(descriptor, PIECE):
                yield piece
        except OSError as error:
            raise EvidenceError(
                f"could not be read to its end: {error.strerror}", remedy="copy it to another disk"
            ) from error


def _head_of(path: str) -> bytes:
    if is_remote(path) or archived_core(path) is not None:
        return next(read_pieces(path), b"")[:HEAD]
    with open_regular(path) as descriptor:
        try:
            return os.read(descriptor, HEAD)
        except OSError as error:
            raise EvidenceError(
                f"could not be read: {error.strerror}", remedy="copy it to another disk"
            ) from error


def _expanded_head(path: str, head: bytes) -> bytes:
    """How the file begins, expanded if `head` says that it is compressed.

    Raises:
        EvidenceError: not even that can be expanded.

    """
    return next(expand(read_pieces(path)), b"") if is_compressed(head) else head


def _newness(path: str) -> float:
    """When it was written; what cannot be asked counts as new, so that its failure is told."""
    found = written_s(path)
    return float("inf") if found is None else found


def _pattern_folders() -> Iterator[str]:
    try:
        pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    except OSError:
        return
    if pattern.startswith("/") and "%" not in pattern.rsplit("/", 1)[0]:
        yield pattern.rsplit("/", 1)[0] or "/"


def _entries(folder: str) -> list[str]:
    """Regular files, and the core that a problem's folder of abrt's holds."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False):
                if entry.is_file():
                    found.append(entry.path)
                elif entry.name.startswith("ccpp-") and entry.is_dir():
                    found += sorted(glob.glob(f"{glob.escape(entry.path)}/coredump*"))  # noqa: PTH207
    except OSError:
        return []
    return sorted(found)
