"""Follows .gnu_debuglink: the file with a module's debug information, by name and checksum."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

from vllm_forensics.capture.files import is_regular_file, map_file
from vllm_forensics.capture.packages import DEBUG_FOLDER
from vllm_forensics.errors import EvidenceError

_CHUNK: Final = 1 << 20
_MAX_BYTES: Final = 4 << 30


def linked_debug_file(module: str, name: str, checksum: int) -> str | None:
    """Where gdb would look for it ("Separate Debug Files" in its manual), if the CRC-32 fits."""
    if "/" in name or name in {"", ".", ".."}:
        return None
    folder = Path(module).parent
    system = DEBUG_FOLDER / str(folder).lstrip("/")
    for path in (folder / name, folder / ".debug" / name, system / name):
        if str(path) != module and is_regular_file(str(path)) and _checksum(path) == checksum:
            return str(path)
    return None


def _checksum(path: Path) -> int | None:
    try:
        data = map_file(path)
    except EvidenceError:
        return None
    if len(data) > _MAX_BYTES:
        return None
    value = 0
    for start in range(0, len(data), _CHUNK):
        value = zlib.crc32(data[start : start + _CHUNK], value)
    return value
