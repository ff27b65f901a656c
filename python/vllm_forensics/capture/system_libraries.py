"""Where this system's dynamic linker finds a library that is known by name only."""

from __future__ import annotations

import glob
from functools import lru_cache
from pathlib import Path
from typing import Final

_FOLDERS: Final = ("/lib64", "/usr/lib64", "/usr/local/lib", "/lib", "/usr/lib")
_MULTIARCH: Final = "/usr/lib/*-linux-gnu"


@lru_cache(maxsize=1024)
def system_library(name: str) -> str | None:
    """The path of `libx.so.1` in the linker's default folders (ld.so(8)), or None."""
    if "/" in name or "\0" in name or ".so" not in name:
        return None
    for folder in (*_folders(), *_FOLDERS):
        path = Path(folder, name)
        if path.is_file():
            return str(path)
    return None


@lru_cache(maxsize=1)
def _folders() -> tuple[str, ...]:
    return tuple(sorted(glob.glob(_MULTIARCH)))  # noqa: PTH207 - a pattern from the root
