"""Keeps a folder of cores within a budget of disk."""

from __future__ import annotations

import contextlib
import shlex
import stat
from typing import TYPE_CHECKING

from vllm_forensics.capture.core_sources import cores_in
from vllm_forensics.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path


def prune(folder: Path, *, keep: int | None, max_bytes: int | None) -> tuple[Path, ...]:
    """Remove the oldest cores of a folder beyond a number or a size; says which.

    Only files that are cores are counted and removed, and no links. Sizes are those on disk, holes
    left out. A core that is larger than all the room goes, older and smaller ones stay.

    Raises:
        ToolError: a core may not be removed by this user.

    """
    cores = []
    for path in cores_in(folder):
        with contextlib.suppress(FileNotFoundError):
            state = path.lstat()
            if stat.S_ISREG(state.st_mode):
                cores.append((state, path))
    cores.sort(key=lambda entry: entry[0].st_mtime_ns, reverse=True)
    removed, used = [], 0
    for position, (state, path) in enumerate(cores):
        used += state.st_blocks * 512
        too_many = keep is not None and position >= keep
        too_large = max_bytes is not None and used > max_bytes
        if too_many or too_large:
            used -= state.st_blocks * 512
            _remove(path)
            removed.append(path)
    return tuple(removed)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ToolError(
            f"{path} cannot be removed: {error.strerror}",
            remedy=f"sudo forensics prune {shlex.quote(str(path.parent))}",
        ) from error
