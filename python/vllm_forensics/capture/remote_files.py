"""Evidence that lies elsewhere: `s3://…`, `gs://…`, `ssh://…` and what else fsspec opens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vllm_forensics.errors import EvidenceError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{1,31}://")
_PIECE: Final = 1 << 20
_INSTALL: Final = "pip install 'vllm-forensics[fleet]'"


def is_remote(path: str) -> bool:
    """Does the path begin with a scheme?"""
    return _SCHEME.match(path) is not None


def read_remote(path: str) -> Iterator[bytes]:
    """The file's bytes in pieces.

    Raises:
        EvidenceError: it cannot be opened or read, or a package for its scheme is missing.

    """
    system, name = _opened(path)
    try:
        with system.open(name, "rb") as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except (OSError, ValueError) as error:
        raise EvidenceError(
            f"cannot be read: {error}", remedy="check the path and the keys"
        ) from error


def remote_entries(path: str) -> list[str]:
    """A pattern or a folder opened up, by name; the path itself where it is a file.

    Raises:
        EvidenceError: as `read_remote`.

    """
    system, name = _opened(path)
    try:
        if system.isdir(name):
            found = [entry for entry in system.ls(name, detail=False) if not system.isdir(entry)]
        else:
            found = system.glob(name)
    except (OSError, ValueError) as error:
        raise EvidenceError(
            f"cannot be listed: {error}",
            remedy="check the path and the keys",
        ) from error
    return [system.unstrip_protocol(entry) for entry in sorted(found)]


def _opened(path: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs

        system, name = url_to_fs(path)
    except ImportError as error:  # of fsspec itself, or of the package for one scheme
        raise EvidenceError(f"cannot be opened: {error}", remedy=_INSTALL) from error
    except (OSError, ValueError) as error:
        raise EvidenceError(f"cannot be opened: {error}", remedy="check the path") from error
    return system, str(name)
