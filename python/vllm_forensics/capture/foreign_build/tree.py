"""A stranger's source tree: what it says about its build, and a copy of it to build in."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vllm_forensics.capture.process import Limits, find_program, plain_environment, run_program
from vllm_forensics.errors import ToolError, UsageError

_GIT: Final = Limits(timeout_s=120, output_bytes=256 << 20)
_MAX_TEXT: Final = 1 << 20
_NEVER_COPIED: Final = {
    ".forensics", ".git", ".hg", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    "__pycache__", "node_modules",
}  # fmt: skip
# What an earlier build in the tree left: setuptools would take its objects, plain as they are.
_LEFT_BY_SETUPTOOLS: Final = re.compile(r"(?:temp|lib|bdist)\.[\w.-]+")
_BUILD_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg", "CMakeLists.txt", "meson.build")
_OUTSIDE: Final = re.compile(r"""(?<![\w./])\.\.(?:/|["'\\])|\.parent\.parent|dirname\(dirname""")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree:
    """A folder with a project in it."""

    path: Path
    pyproject: dict[str, Any]
    """The contents of pyproject.toml; empty where there is none."""

    def has(self, name: str) -> bool:
        """Is there a file of that name at its top?"""
        return (self.path / name).is_file()

    def text(self, name: str) -> str:
        """A build file at its top, as far as it is reasonable; empty where there is none."""
        return read_text(self.path / name)

    @property
    def build_system(self) -> dict[str, Any]:
        """The table [build-system], which says what builds the project (PEP 518)."""
        table = self.pyproject.get("build-system", {})
        return table if isinstance(table, dict) else {}

    @property
    def backend(self) -> str | None:
        """The build backend's module (PEP 517); setuptools for a project that names none."""
        named = self.build_system.get("build-backend")
        if isinstance(named, str):
            return named
        if self.has("setup.py") or self.build_system or "project" in self.pyproject:
            return "setuptools.build_meta:__legacy__"
        return None

    @property
    def requirements(self) -> tuple[str, ...]:
        """What must be installed before the backend can be asked anything."""
        named = self.build_system.get("requires")
        if isinstance(named, list):
            return tuple(str(one) for one in named)
        return ("setuptools>=64", "wheel")

    @property
    def backend_path(self) -> tuple[str, ...]:
        """Folders of the tree that hold a backend of its own."""
        named = self.build_system.get("backend-path", [])
        return tuple(str(one) for one in named) if isinstance(named, list) else ()


def read_tree(path: Path) -> SourceTree:
    """Look at a folder.

    Raises:
        UsageError: not a folder, no readable path, or a pyproject.toml that cannot be read.

    """
    require_text(path)
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder", remedy="give the folder of the sources")
    pyproject = path / "pyproject.toml"
    try:
        contents = tomllib.loads(pyproject.read_text("utf-8")) if pyproject.is_file() else {}
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{pyproject} cannot be read: {error}", remedy="mend it: pip could not read it either"
        ) from error
    return SourceTree(path=path, pyproject=contents)


def require_text(path: Path) -> None:
    """Scripts, CMake and the manifest hold paths as text.

    Raises:
        UsageError: a path that no text can hold.

    """
    if not str(path).isprintable():
        raise UsageError(
            f"{str(path)!r} is no readable path", remedy="rename it, or move the project"
        )


def read_text(path: Path) -> str:
    """A text file's first megabyte; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""


def files_below(root: Path) -> Iterator[Path]:
    """Every regular file, the top folder's first; links are not followed."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def is_elf(path: Path) -> bool:
    """Does the file begin as an ELF file does?"""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def root_to_copy(tree: SourceTree) -> Path:
    """The folder that the build needs: the tree, or its whole repository if it looks outside.

    A repository that ignores the tree is not its own: it is only unpacked there.
    """
    if not any(_OUTSIDE.search(tree.text(name)) for name in _BUILD_FILES):
        return tree.path
    if _git(tree.path, "check-ignore", str(tree.path)):
        return tree.path
    top = _git(tree.path, "rev-parse", "--show-toplevel")
    root = Path(os.fsdecode(top.strip())) if top else tree.path
    return root if tree.path.is_relative_to(root) else tree.path


def copy_tree(root: Path, target: Path) -> None:
    """Copy what a fresh clone with the user's changes would hold; times are kept.

    Where git knows the tree, ignored files stay behind: an earlier build left them. `.git` becomes
    a pointer, so that a version can still be taken from tags.

    Raises:
        ToolError: a file cannot be copied.

    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        for name in _names(root):
            _copy(root / name, target / name)
        _point_to_git(root, target)
    except OSError as error:
        raise ToolError(
            f"{error.filename or root} cannot be copied: {error.strerror}",
            remedy="free some room, or give another --folder",
        ) from error


def _names(root: Path) -> Iterator[str]:
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed:
        for name in os.fsdecode(listed).split("\0"):
            if name and not _NEVER_COPIED.intersection(Path(name).parts):
                yield name
        return
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        folders[:] = [name for name in folders if not _is_left_out(here / name, root)]
        for name in (*files, *(one for one in folders if (here / one).is_symlink())):
            yield str((here / name).relative_to(root))


def _is_left_out(folder: Path, root: Path) -> bool:
    if folder.name in _NEVER_COPIED or (folder / "pyvenv.cfg").is_file():
        return True
    return folder.parent == root / "build" and bool(_LEFT_BY_SETUPTOOLS.fullmatch(folder.name))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():  # a submodule
        shutil.copytree(
            source,
            target,
            symlinks=True,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(*_NEVER_COPIED),
        )
    elif source.is_file() or source.is_symlink():
        shutil.copy2(source, target, follow_symlinks=False)


def _point_to_git(root: Path, target: Path) -> None:
    folder = _git(root, "rev-parse", "--absolute-git-dir")
    if folder and (root / ".git").exists():
        (target / ".git").write_bytes(b"gitdir: " + folder)


def _git(folder: Path, *arguments: str) -> bytes:
    """What git says; empty where there is no git, no repository, or it does not trust it."""
    if find_program("git") is None:
        return b""
    environment = plain_environment({"GIT_OPTIONAL_LOCKS": "0"})
    done = run_program(["git", "-C", str(folder), *arguments], limits=_GIT, environment=environment)
    return done.stdout if done.status == 0 else b""
