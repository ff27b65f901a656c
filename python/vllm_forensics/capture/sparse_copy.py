"""Writes what is expanded with its holes: a sparse core of gigabytes takes what it really holds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from vllm_forensics.errors import EvidenceError

_HOLE: Final = 1 << 14
_LARGEST: Final = 1 << 40
"""No process is larger; a stream that has no end is."""
_KEPT_FREE: Final = 256 << 20
_CHECKED_EACH: Final = 64 << 20


class Copied(NamedTuple):
    """How much there is now, and what the pieces broke off with."""

    size: int
    damage: EvidenceError | None


def copy_sparse(pieces: Iterator[bytes], target: int) -> Copied:
    """Write the pieces to the descriptor `target`; what came before a damage is kept.

    Raises:
        EvidenceError: there is no room, or no end.

    """
    size = written = 0
    damage = None
    try:
        for piece in pieces:
            for at in range(0, len(piece), _HOLE):
                part = piece[at : at + _HOLE]
                if part.count(0) != len(part):
                    _write(target, part, size + at)
                    written += len(part)
            size += len(piece)
            if size > _LARGEST:
                raise _TooLargeError
        os.truncate(target, size)
    except (OSError, _TooLargeError) as error:
        raise EvidenceError(
            f"cannot be expanded: {getattr(error, 'strerror', 'it has no end')} after "
            f"{written / 1e9:.1f} GB",
            remedy="TMPDIR=/a/larger/disk forensics core …",
        ) from error
    except EvidenceError as error:
        os.truncate(target, size)
        damage = error
    return Copied(size=size, damage=damage)


def _write(target: int, data: bytes, at: int) -> None:
    """Write all of it, but leave the disk some room for others.

    Raises:
        OSError: the disk is full, or nearly so.

    """
    if at % _CHECKED_EACH < len(data):
        state = os.fstatvfs(target)
        if state.f_bavail * state.f_frsize < _KEPT_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if os.pwrite(target, data, at) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _TooLargeError(Exception):
    """More than any process holds."""
