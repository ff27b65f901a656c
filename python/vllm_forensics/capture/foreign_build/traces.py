"""What a build left behind that tells how a file came to be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vllm_forensics.capture.foreign_build.tree import files_below, read_text
from vllm_forensics.capture.foreign_build.workspace import Workspace
from vllm_forensics.model.build import SourceLine

_MAX_RECORDS: Final = 100_000
_MAX_RECORD_BYTES: Final = 4 << 20
_MAX_BUILD_FILES: Final = 500
_MAX_LINE: Final = 160
_BUILD_FILES: Final = {
    "setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "meson.build", "Makefile",
    "makefile", "GNUmakefile", "configure.ac", "build.py",
}  # fmt: skip
_BUILD_SUFFIXES: Final = {".cmake", ".mk"}
CHOOSES_COMPILER: Final = re.compile(
    r"CMAKE_C(?:XX)?_COMPILER\b|environ\W{1,3}(?:CC|CXX|LDSHARED)\b|set_executables?\b|"
    r"^\s*(?:CC|CXX)\s*[:?]?=|['\"\s/](?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(?:-\d+)?(?=['\"\s])"
)
STRIPS: Final = re.compile(
    r"(?<![\w.])(?:strip|objcopy|eu-strip)(?=['\"\s])|/(?:strip|objcopy|eu-strip)\b|"
    r"-Wl,-[sS]\b|['\"\s]-s(?=['\"\s])|strip-(?:all|debug)|CMAKE_STRIP"
)


def call_records(workspace: Workspace) -> Iterator[bytes]:
    """What the stand-in wrote, a record a process."""
    for path in sorted(workspace.wrappers.calls.iterdir())[:_MAX_RECORDS]:
        with path.open("rb") as file:
            yield file.read(_MAX_RECORD_BYTES)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build_lines(root: Path, pattern: re.Pattern[str]) -> tuple[SourceLine, ...]:
    """Lines of a tree's build files that match, the top folder's first; no comments."""
    found = []
    names = (path for path in files_below(root) if _is_build_file(path))
    for _, path in zip(range(_MAX_BUILD_FILES), names, strict=False):
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            text = line.strip()
            if not text.startswith("#") and pattern.search(line):
                found.append(
                    SourceLine(file=str(path.relative_to(root)), line=number, text=text[:_MAX_LINE])
                )
    return tuple(found)


def _is_build_file(path: Path) -> bool:
    return path.name in _BUILD_FILES or path.suffix in _BUILD_SUFFIXES
